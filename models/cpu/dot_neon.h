// One block of 16 output rows against m rows of activations with NEON's dot product: four vectors of 4 output rows, up
// to 4 rows of activations a tile. Quants go as signed bytes; those of 8 bits lose their zero point of 128 on the way.

enum { NAME(PAIRED) = 0 };

#define QUARTERS 4
typedef struct { int32x4_t of[QUARTERS]; } NAME(Sums);

static inline INLINE uint8x16_t NAME(quants)(const uint8_t *group, int bits, int column, int quarter) {
  const uint8_t *run = group + (bits == 8 ? column : column & 3) * 64 + quarter * 16;
  uint8x16_t packed = vld1q_u8(run);
  if (bits == 8) return veorq_u8(packed, vdupq_n_u8(128));
  if (column < 4) return vandq_u8(packed, vdupq_n_u8((uint8_t)mask_of(0, bits)));
  uint8x16_t lower = vshlq_u8(packed, vdupq_n_s8((int8_t)-bits));
  if (bits == 4) return lower;
  const int place = (column - 4) * bits_apart(bits); // see quant_at
  uint8x16_t upper = vshlq_u8(vld1q_u8(group + 256 + place / 8 * 64 + quarter * 16), vdupq_n_s8((int8_t)(8 - bits - place % 8)));
  return vorrq_u8(lower, vandq_u8(upper, vdupq_n_u8((uint8_t)mask_of(8 - bits, bits))));
}

// The products of column groups [from, to) of one group.
static inline INLINE void NAME(dot)(const uint8_t *group, const int8_t *const *q, NAME(Sums) *sums, int bits, int from, int to, int R) {
  UNROLL(8) for (int column = from; column < to; column++)
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
      int8x16_t w = vreinterpretq_s8_u8(NAME(quants)(group, bits, column, quarter));
      for (int i = 0; i < R; i++) {
        int8x16_t x = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(q[i] + column * 4)));
        sums[i].of[quarter] = vdotq_s32(sums[i].of[quarter], w, x);
      }
    }
}

static inline INLINE float32x4_t NAME(scales)(const Block *w, const uint8_t *scales, int part, int quarter) {
  float32x4_t unit = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)scales + quarter * 4)));
  if (!w->multiples) return unit;
  const int8_t *at = multiples_at(scales, part) + quarter * 4;
  const int32_t multiples[4] = {at[0], at[1], at[2], at[3]};
  return vmulq_f32(unit, vcvtq_f32_s32(vld1q_s32(multiples)));
}

static inline INLINE void NAME(scale_add)(float *y, float32x4_t scale, float32x4_t value) {
  vst1q_f32(y, vfmaq_f32(vld1q_f32(y), scale, value));
}

static inline INLINE void NAME(tile)(const Block *w, const Activations *x, int row, int from, int to, float *y, int stride, int bits, int minima, int R) {
  const int parts = parts_of(bits), zero = bits == 8 ? 0 : w->zero;
  for (int g = from; g < to; g++) {
    const uint8_t *group = w->data + (size_t)g * w->stride;
    const int8_t *q[4];
    for (int i = 0; i < R; i++) q[i] = QUANTS(x, row + i, g);
    for (int part = 0; part < parts; part++) {
      NAME(Sums) sums[4];
      for (int i = 0; i < R; i++) {
        int offset = -zero * (parts == 1 ? SUM32(x, row + i, g) : SUM16(x, row + i, g, part));
        for (int quarter = 0; quarter < QUARTERS; quarter++) sums[i].of[quarter] = vdupq_n_s32(offset);
      }
      NAME(dot)(group, q, sums, bits, part * 4, part * 4 + 8 / parts, R);
      for (int quarter = 0; quarter < QUARTERS; quarter++) {
        float32x4_t scale = NAME(scales)(w, group + w->scales_at, part, quarter);
        for (int i = 0; i < R; i++) {
          float32x4_t exact = vcvtq_f32_s32(sums[i].of[quarter]);
          NAME(scale_add)(y + (size_t)(row + i) * stride + quarter * 4, scale, vmulq_n_f32(exact, SCALE(x, row + i, g)));
        }
      }
    }
    if (!minima) continue;
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
      float32x4_t minimum = NAME(scales)(w, group + w->minima_at, 0, quarter);
      for (int i = 0; i < R; i++)
        NAME(scale_add)(y + (size_t)(row + i) * stride + quarter * 4, minimum, vdupq_n_f32(SCALED_SUM(x, row + i, g)));
    }
  }
}

#define TILE_ROWS 4
#include "rows.h"

#undef TILE_ROWS
#undef QUARTERS
