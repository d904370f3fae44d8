// One block of 16 output rows against m rows of activations with AVX2: two vectors of 8 output rows, up to 4 rows of
// activations a tile. vpmaddubsw adds two products of a quant and an int8 into int16, exactly as long as few of them
// are added up there: 15 * 127 * 2 * 8, 31 * 127 * 2 * 4 and 63 * 127 * 2 * 2 stay below 32768. Quants of 8 bits go as
// two nibbles.

enum { NAME(AHEAD) = 4096 }; // bytes: how far ahead of its use the weights' stream is asked for

// PIN keeps the compiler from regrouping the sums, which would hold every product at once and spill them.
#if defined(ENGINE_EMULATION)
#define PIN(v)
#else
#define PIN(v) __asm__("" : "+x"(v))
#endif
#define LOAD(run, half) _mm256_loadu_si256((const __m256i *)(group + (run) * 64 + (half) * 32))
#define LOW(run, half) _mm256_and_si256(LOAD(run, half), nibble)
#define HIGH(run, half) _mm256_and_si256(_mm256_srli_epi16(LOAD(run, half), 4), nibble)
#define FIFTH(shifted) _mm256_and_si256(shifted, _mm256_set1_epi8(16))

typedef struct { __m256i low[4], high[4]; } NAME(Sums); // of output rows 0 to 7 and 8 to 15

static inline INLINE void NAME(add)(NAME(Sums) *sums, __m256i low, __m256i high, const int8_t *const *q, int column, int R) {
  for (int i = 0; i < R; i++) {
    __m256i x = _mm256_set1_epi32(*(const int32_t *)(q[i] + column * 4));
    sums->low[i] = _mm256_add_epi16(sums->low[i], _mm256_maddubs_epi16(low, x));
    PIN(sums->low[i]);
    sums->high[i] = _mm256_add_epi16(sums->high[i], _mm256_maddubs_epi16(high, x));
    PIN(sums->high[i]);
  }
}

static inline INLINE void NAME(flush)(NAME(Sums) *sums, NAME(Sums) *narrow, int16_t times, int R) {
  for (int i = 0; i < R; i++) {
    sums->low[i] = _mm256_add_epi32(sums->low[i], _mm256_madd_epi16(narrow->low[i], _mm256_set1_epi16(times)));
    sums->high[i] = _mm256_add_epi32(sums->high[i], _mm256_madd_epi16(narrow->high[i], _mm256_set1_epi16(times)));
    narrow->low[i] = narrow->high[i] = _mm256_setzero_si256();
  }
}

static inline INLINE NAME(Sums) NAME(no_sums)(int R) {
  NAME(Sums) sums;
  for (int i = 0; i < R; i++) sums.low[i] = sums.high[i] = _mm256_setzero_si256();
  return sums;
}

// The products of one group, or of the half of it that begins at column group `from`.
static inline INLINE NAME(Sums) NAME(dot)(const uint8_t *group, const int8_t *const *q, int bits, int from, int R) {
  const __m256i nibble = _mm256_set1_epi8(15);
  NAME(Sums) sums = NAME(no_sums)(R), narrow = NAME(no_sums)(R);
  if (bits == 4) {
    for (int k = 0; k < 4; k++) NAME(add)(&narrow, LOW(k, 0), LOW(k, 1), q, k, R);
    for (int k = 0; k < 4; k++) NAME(add)(&narrow, HIGH(k, 0), HIGH(k, 1), q, k + 4, R);
  } else if (bits == 5) {
#define FIVE(nibbles, k, shift, by) NAME(add)(&narrow, _mm256_or_si256(nibbles(k & 3, 0), FIFTH(shift(LOAD(4, 0), by))), _mm256_or_si256(nibbles(k & 3, 1), FIFTH(shift(LOAD(4, 1), by))), q, k, R)
    FIVE(LOW, 0, _mm256_slli_epi16, 4);
    FIVE(LOW, 1, _mm256_slli_epi16, 3);
    FIVE(LOW, 2, _mm256_slli_epi16, 2);
    FIVE(LOW, 3, _mm256_slli_epi16, 1);
    NAME(flush)(&sums, &narrow, 1, R);
    FIVE(HIGH, 4, _mm256_srli_epi16, 0);
    FIVE(HIGH, 5, _mm256_srli_epi16, 1);
    FIVE(HIGH, 6, _mm256_srli_epi16, 2);
    FIVE(HIGH, 7, _mm256_srli_epi16, 3);
#undef FIVE
  } else if (bits == 6) {
    for (int j = from; j < from + 4; j++) {
      NAME(add)(&narrow, LOAD(j, 0), LOAD(j, 1), q, j, R);
      if (j % 2) NAME(flush)(&sums, &narrow, 1, R);
    }
    return sums;
  } else {
    for (int j = 0; j < 8; j++) NAME(add)(&narrow, HIGH(j, 0), HIGH(j, 1), q, j, R);
    NAME(flush)(&sums, &narrow, 16, R);
    for (int j = 0; j < 8; j++) NAME(add)(&narrow, LOW(j, 0), LOW(j, 1), q, j, R);
  }
  NAME(flush)(&sums, &narrow, 1, R);
  return sums;
}

static inline INLINE __m256 NAME(scales)(const Block *w, const uint8_t *scales, int half) {
  return w->scale_bytes == 2 ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + half * 16)))
                             : _mm256_loadu_ps((const float *)(scales + half * 32));
}

// y += scale * (x's scale * sum - zero * x's scaled sum).
static inline INLINE void NAME(scale_add)(float *y, __m256i sum, __m256 scale, __m256 x_scale, __m256 x_offset) {
  __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), x_scale, x_offset);
  _mm256_storeu_ps(y, _mm256_fmadd_ps(value, scale, _mm256_loadu_ps(y)));
}

static inline INLINE void NAME(tile)(const Block *w, const Activations *x, int row, int from, int to, float *y, int bits, int R) {
  const int parts = bits == 6 ? 2 : 1;
  const __m256 zero = _mm256_set1_ps(-(float)w->zero);
  for (int g = from; g < to; g++) {
    const uint8_t *group = w->data + (size_t)g * w->stride;
    const int8_t *q[4];
    for (int i = 0; i < R; i++) q[i] = x->q + (size_t)(row + i) * x->k + g * GROUP;
    if (row == 0)
      for (int line = 0; line < w->stride; line += 64) _mm_prefetch((const char *)group + line + NAME(AHEAD), _MM_HINT_T0);
    for (int part = 0; part < parts; part++) {
      NAME(Sums) sums = NAME(dot)(group, q, bits, part * 4, R);
      const uint8_t *scales = group + w->scales_at + part * BLOCK * 4;
      __m256 low = NAME(scales)(w, scales, 0), high = NAME(scales)(w, scales, 1);
      for (int i = 0; i < R; i++) {
        float *to_row = y + (row + i) * BLOCK, half_sum = SCALE(x, row + i, g) * (float)SUM16(x, row + i, g * 2 + part);
        __m256 scale = _mm256_set1_ps(SCALE(x, row + i, g));
        __m256 offset = _mm256_mul_ps(zero, _mm256_set1_ps(parts == 1 ? SCALED_SUM(x, row + i, g) : half_sum));
        NAME(scale_add)(to_row, sums.low[i], low, scale, offset);
        NAME(scale_add)(to_row + 8, sums.high[i], high, scale, offset);
      }
    }
    if (bits > 5 || !w->minima_at) continue;
    __m256 low = NAME(scales)(w, group + w->minima_at, 0), high = NAME(scales)(w, group + w->minima_at, 1);
    for (int i = 0; i < R; i++) {
      float *to_row = y + (row + i) * BLOCK;
      __m256 sum = _mm256_set1_ps(SCALED_SUM(x, row + i, g));
      _mm256_storeu_ps(to_row, _mm256_fmadd_ps(low, sum, _mm256_loadu_ps(to_row)));
      _mm256_storeu_ps(to_row + 8, _mm256_fmadd_ps(high, sum, _mm256_loadu_ps(to_row + 8)));
    }
  }
}

#define TILE_ROWS 4
#include "rows.h"

#undef TILE_ROWS
#undef PIN
#undef LOAD
#undef LOW
#undef HIGH
#undef FIFTH
