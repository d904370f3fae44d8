// One block of 16 output rows against m rows of activations with vpdpbusd, which adds four exact products into an int32
// lane. The includer sets W (LANES output rows wide), its operations w_..., and TILE_ROWS.

enum { NAME(PAIRED) = 0 };

// Of output rows p * LANES and on, and columns `half`.
static inline INLINE WF NAME(scales)(const Block *w, const uint8_t *scales, int p, int half) {
  WF unit = w_half_scales(scales + p * LANES * 2);
  return w->multiples ? w_multiply(unit, w_to_float(w_bytes(multiples_at(scales, half) + p * LANES))) : unit;
}

#define X(i, j) w_set32(*(const int32_t *)(q[i] + (j) * 4))
#define ADD(quants, j) do { W column_ = quants; for (int i = 0; i < R; i++) sum[i] = w_dot(sum[i], column_, X(i, j)); } while (0)
#define LOW(k) w_and(w_load(group + (k) * 64), w_set8(15))
#define HIGH(k) w_and(w_right(w_load(group + (k) * 64), 4), w_set8(15))
#define FIFTH(shifted) w_and(shifted, w_set8(16))
#define UPPER(shifted) w_and(shifted, w_set8(48))

// sum[i] += the products of one group's column groups [from, to).
static inline INLINE void NAME(dot)(const uint8_t *group, const int8_t *const *q, W *sum, int bits, int from, int to, int R) {
  if (bits == 4) {
    for (int k = 0; k < 4; k++) {
      ADD(LOW(k), k);
      ADD(HIGH(k), k + 4);
    }
  } else if (bits == 5) {
    W fifth = w_load(group + 256);
    ADD(w_or(LOW(0), FIFTH(w_left(fifth, 4))), 0);
    ADD(w_or(LOW(1), FIFTH(w_left(fifth, 3))), 1);
    ADD(w_or(LOW(2), FIFTH(w_left(fifth, 2))), 2);
    ADD(w_or(LOW(3), FIFTH(w_left(fifth, 1))), 3);
    ADD(w_or(HIGH(0), FIFTH(fifth)), 4);
    ADD(w_or(HIGH(1), FIFTH(w_right(fifth, 1))), 5);
    ADD(w_or(HIGH(2), FIFTH(w_right(fifth, 2))), 6);
    ADD(w_or(HIGH(3), FIFTH(w_right(fifth, 3))), 7);
  } else if (bits == 6) {
    W upper = w_load(group + 256 + from / 4 * 64);
    for (int k = 0; k < 4; k++) {
      W two = k < 2 ? w_left(upper, 4 - 2 * k) : w_right(upper, 2 * k - 4);
      ADD(w_or(from ? HIGH(k) : LOW(k), UPPER(two)), from + k);
    }
  } else {
    for (int j = from; j < to; j++) ADD(w_load(group + j * 64), j);
  }
}

static inline INLINE void NAME(tile)(const Block *w, const Activations *x, int row, int from, int to, float *y, int bits, int minima, int R) {
  enum { PARTS = BLOCK / LANES };
  const int halves = bits == 6 ? 2 : 1;
  WF total[PARTS][TILE_ROWS];
  for (int p = 0; p < PARTS; p++)
    for (int i = 0; i < R; i++) total[p][i] = w_load_floats(y + (row + i) * BLOCK + p * LANES);
  for (int g = from; g < to; g++) {
    const uint8_t *group = w->data + (size_t)g * w->stride;
    const int8_t *q[TILE_ROWS];
    for (int i = 0; i < R; i++) q[i] = QUANTS(x, row + i, g);
    for (int p = 0; p < PARTS; p++)
      for (int half = 0; half < halves; half++) {
        W sum[TILE_ROWS];
        for (int i = 0; i < R; i++)
          sum[i] = w_set32(-w->zero * (halves == 1 ? SUM32(x, row + i, g) : SUM16(x, row + i, g, half)));
        NAME(dot)(group + p * LANES * 4, q, sum, bits, half * 4, half * 4 + 8 / halves, R);
        WF scale = NAME(scales)(w, group + w->scales_at, p, half);
        for (int i = 0; i < R; i++)
          total[p][i] = w_fma(w_to_float(sum[i]), w_multiply(scale, w_set(SCALE(x, row + i, g))), total[p][i]);
      }
    if (!minima) continue;
    for (int p = 0; p < PARTS; p++) {
      WF minimum = NAME(scales)(w, group + w->minima_at, p, 0);
      for (int i = 0; i < R; i++) total[p][i] = w_fma(minimum, w_set(SCALED_SUM(x, row + i, g)), total[p][i]);
    }
  }
  for (int p = 0; p < PARTS; p++)
    for (int i = 0; i < R; i++) w_store(y + (row + i) * BLOCK + p * LANES, total[p][i]);
}

#include "rows.h"

#undef X
#undef ADD
#undef LOW
#undef HIGH
#undef FIFTH
#undef UPPER
#undef TILE_ROWS
#undef W
#undef WF
#undef w_load
#undef w_set8
#undef w_set32
#undef w_and
#undef w_or
#undef w_right
#undef w_left
#undef w_dot
#undef w_to_float
#undef w_half_scales
#undef w_bytes
#undef w_load_floats
#undef w_multiply
#undef w_fma
#undef w_set
#undef w_store
