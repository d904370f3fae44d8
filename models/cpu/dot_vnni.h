// One block of 16 output rows against m rows of activations with vpdpbusd, which adds four exact products into an int32
// lane. The includer sets W (LANES output rows wide), its operations w_..., and TILE_ROWS.

enum { NAME(PAIRED) = 0 };

// Of output rows p * LANES and on, and columns `half`.
static inline INLINE WF NAME(scales)(const Block *w, const uint8_t *scales, int p, int half) {
  WF unit = w_half_scales(scales + p * LANES * 2);
  return w->multiples ? w_multiply(unit, w_to_float(w_bytes(multiples_at(scales, half) + p * LANES))) : unit;
}

#include "column.h"

// Of eight values, four beside each other and four more beside each other, the one of row i.
#define OF_ROW(fours, i) (fours)[(i) / 4][(i) % 4]

// sum[i] += the products of one group's column groups [from, to).
static inline INLINE void NAME(dot)(const uint8_t *group, const int8_t *const *q, W *sum, int bits, int from, int to, int R) {
  UNROLL(8) for (int j = from; j < to; j++) {
    W column = NAME(column)(group, bits, j);
    for (int i = 0; i < R; i++) sum[i] = w_dot(sum[i], column, w_set32(*(const int32_t *)(q[i / 4] + i % 4 * GROUP + j * 4)));
  }
}

// Of rows from `row` on, which is a multiple of 4. The first rows' weights are asked for ahead of their use.
static inline INLINE void NAME(tile)(const Block *w, const Activations *x, int row, int from, int to, float *y, int stride, int bits, int minima, int R) {
  enum { PARTS = BLOCK / LANES };
  const int halves = parts_of(bits), zero = minima ? 0 : 1 << (bits - 1);
  WF total[PARTS][TILE_ROWS];
  for (int p = 0; p < PARTS; p++)
    for (int i = 0; i < R; i++) total[p][i] = w_load_floats(y + (size_t)(row + i) * stride + p * LANES);
  for (int g = from; g < to; g++) {
    const uint8_t *group = w->data + (size_t)g * w->stride;
    const size_t at = PLACE(x, row, g), next = at + 4 * (size_t)x->groups;
    const int8_t *const q[2] = {x->q + at * GROUP, x->q + next * GROUP};
    const float *const scale_of[2] = {x->scale + at, x->scale + next}, *const sum_of[2] = {x->scaled_sum + at, x->scaled_sum + next};
    if (row == 0) ask_ahead(w, group, bits);
    for (int p = 0; p < PARTS; p++)
      for (int half = 0; half < halves; half++) {
        const int32_t *all = halves == 1 ? x->sum32 : &SUM16(x, 0, 0, half), *const sums[2] = {all + at, all + next};
        W sum[TILE_ROWS];
        for (int i = 0; i < R; i++) sum[i] = w_set32(zero ? -zero * OF_ROW(sums, i) : 0);
        NAME(dot)(group + p * LANES * 4, q, sum, bits, half * 4, half * 4 + 8 / halves, R);
        WF scale = NAME(scales)(w, group + w->scales_at, p, half);
        for (int i = 0; i < R; i++)
          total[p][i] = w_fma(w_to_float(sum[i]), w_multiply(scale, w_set(OF_ROW(scale_of, i))), total[p][i]);
      }
    if (!minima) continue;
    for (int p = 0; p < PARTS; p++) {
      WF minimum = NAME(scales)(w, group + w->minima_at, p, 0);
      for (int i = 0; i < R; i++) total[p][i] = w_fma(minimum, w_set(OF_ROW(sum_of, i)), total[p][i]);
    }
  }
  for (int p = 0; p < PARTS; p++)
    for (int i = 0; i < R; i++) w_store(y + (size_t)(row + i) * stride + p * LANES, total[p][i]);
}

#include "rows.h"

#undef OF_ROW
#undef TILE_ROWS
#undef WF
#undef w_set32
#undef w_dot
#undef w_to_float
#undef w_half_scales
#undef w_bytes
#undef w_load_floats
#undef w_multiply
#undef w_fma
#undef w_set
#undef w_store
