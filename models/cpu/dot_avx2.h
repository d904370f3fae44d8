// One block of 16 output rows against m rows of activations with AVX2: two vectors of 8 output rows, up to 4 rows of
// activations a tile. vpmaddubsw adds two products of a quant and an int8 into int16, and 8 or 4 of those are added up
// there. Of 4 bits that stays below 32768: 15 * 127 * 2 * 8. Of 5 and 6 bits it may wrap around, but begins at -16 or -32
// times x's sum, and what it ends with, products with -16 to 15 or -32 to 31, fits: 16 * 127 * 2 * 8, 32 * 127 * 2 * 4.
// Of 8 bits only two products fit, and only because such neighbours of x stay within 128 together: 255 * 128.

enum { NAME(TILE) = 4, NAME(BYTES) = 8, NAME(PAIRED) = 1 };

// PIN keeps the compiler from regrouping the sums, which would hold every product at once and spill them.
#if defined(ENGINE_EMULATION)
#define PIN(v)
#else
#define PIN(v) __asm__("" : "+x"(v))
#endif

typedef struct { __m256i low[NAME(TILE)], high[NAME(TILE)]; } NAME(Sums); // of output rows 0 to 7 and 8 to 15

static inline INLINE void NAME(add)(NAME(Sums) *sums, __m256i low, __m256i high, const int8_t *q, int column, int R) {
  for (int i = 0; i < R; i++) {
    __m256i x = _mm256_set1_epi32(*(const int32_t *)(q + i * GROUP + column * 4));
    sums->low[i] = _mm256_add_epi16(sums->low[i], _mm256_maddubs_epi16(low, x));
    PIN(sums->low[i]);
    sums->high[i] = _mm256_add_epi16(sums->high[i], _mm256_maddubs_epi16(high, x));
    PIN(sums->high[i]);
  }
}

static inline INLINE NAME(Sums) NAME(no_sums)(int R) {
  NAME(Sums) sums;
  for (int i = 0; i < R; i++) sums.low[i] = sums.high[i] = _mm256_setzero_si256();
  return sums;
}

// Where the int16 sums of a group, or of half of one, begin; `first` is that of the tile's first row.
static inline INLINE NAME(Sums) NAME(first_sums)(const int16_t *first, int R) {
  NAME(Sums) sums;
  for (int i = 0; i < R; i++) {
    int32_t both;
    memcpy(&both, first + 2 * i, sizeof both);
    sums.low[i] = sums.high[i] = _mm256_set1_epi32(both);
  }
  return sums;
}

#include "column.h"

// `sums` and the products of one group, or of its part that has scales of its own; quants as the file has them, or as
// BYTES.
static inline INLINE NAME(Sums) NAME(dot)(const uint8_t *group, const int8_t *q, NAME(Sums) sums, int bits, int form, int part, int R) {
  const int columns = bits == 6 ? 4 : 8;
  UNROLL(8) for (int j = part * columns; j < (part + 1) * columns; j++)
    NAME(add)(&sums, NAME(column)(group, form, j), NAME(column)(group + 32, form, j), q, j, R);
  for (int i = 0; i < R; i++) {
    sums.low[i] = _mm256_madd_epi16(sums.low[i], _mm256_set1_epi16(1));
    sums.high[i] = _mm256_madd_epi16(sums.high[i], _mm256_set1_epi16(1));
  }
  return sums;
}

static inline INLINE __m256i NAME(add8)(__m256i sum, __m256i quants, __m256i x) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(quants, x), _mm256_set1_epi16(1)));
  PIN(sum);
  return sum;
}

// The products of one group of quants of 8 bits.
static inline INLINE NAME(Sums) NAME(dot8)(const uint8_t *group, const int8_t *q, int R) {
  NAME(Sums) sums = NAME(no_sums)(R);
  UNROLL(8) for (int j = 0; j < 8; j++) {
    __m256i low = NAME(column)(group, NAME(BYTES), j), high = NAME(column)(group + 32, NAME(BYTES), j);
    for (int i = 0; i < R; i++) {
      __m256i x = _mm256_set1_epi32(*(const int32_t *)(q + i * GROUP + j * 4));
      sums.low[i] = NAME(add8)(sums.low[i], low, x);
      sums.high[i] = NAME(add8)(sums.high[i], high, x);
    }
  }
  return sums;
}

static inline INLINE __m256 NAME(scales)(const Block *w, const uint8_t *scales, int part, int half) {
  __m256 unit = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + half * 16)));
  if (!w->multiples) return unit;
  __m128i multiples = _mm_loadl_epi64((const __m128i *)(multiples_at(scales, part) + half * 8));
  return _mm256_mul_ps(unit, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(multiples)));
}

typedef struct { __m256 scale[2], minimum[2]; } NAME(Factors); // of output rows 0 to 7 and 8 to 15

static inline INLINE NAME(Factors) NAME(factors)(const Block *w, const uint8_t *group, int part, int minima) {
  NAME(Factors) factors;
  for (int half = 0; half < 2; half++) {
    factors.scale[half] = NAME(scales)(w, group + w->scales_at, part, half);
    factors.minimum[half] = minima ? NAME(scales)(w, group + w->minima_at, 0, half) : _mm256_setzero_ps();
  }
  return factors;
}

// A group unpacked: its quants as bytes, and the factors of its parts.
typedef struct {
  __m256i quants[8][2];
  NAME(Factors) part[2];
} NAME(Unpacked);

static inline INLINE void NAME(unpack)(const Block *w, const uint8_t *group, NAME(Unpacked) *to, int bits, int minima) {
  UNROLL(8) for (int j = 0; j < 8; j++)
    UNROLL(2) for (int half = 0; half < 2; half++) to->quants[j][half] = NAME(column)(group + half * 32, bits, j);
  for (int part = 0; part < parts_of(bits); part++) to->part[part] = NAME(factors)(w, group, part, minima);
}

// total + scale * (x's scale * sum - zero * x_sum) + minimum * x_sum; zero is what the sum still counts too much.
static inline INLINE __m256 NAME(scaled)(__m256 total, __m256i sum, __m256 scale, __m256 x_scale, __m256 x_sum, __m256 minimum, int zero, int minima) {
  __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), x_scale);
  if (zero) value = _mm256_fnmadd_ps(_mm256_set1_ps((float)zero), x_sum, value);
  if (minima) total = _mm256_fmadd_ps(minimum, x_sum, total);
  return _mm256_fmadd_ps(value, scale, total);
}

typedef struct { // what a tile of rows is multiplied with: some groups of a block
  const Block *block;
  const NAME(Unpacked) *unpacked; // the same groups, where the form is BYTES
  int from, to;
} NAME(Span);

static inline INLINE NAME(Sums) NAME(products)(const uint8_t *quants, const Activations *x, int row, int g, int bits, int form, int part, int R) {
  const int8_t *q = QUANTS(x, row, g);
  if (bits == 8) return NAME(dot8)(quants, q, R);
  NAME(Sums) sums = bits == 4 ? NAME(no_sums)(R) : NAME(first_sums)(bits == 5 ? FIRST5(x, row, g) : FIRST6(x, row, g, part), R);
  return NAME(dot)(quants, q, sums, bits, form, part, R);
}

typedef struct { __m256 low[NAME(TILE)], high[NAME(TILE)]; } NAME(Totals);

static inline INLINE void NAME(tile)(const NAME(Span) *span, const Activations *x, int row, int m, float *y, int stride, int bits, int form, int minima, int R) {
  const Block *w = span->block;
  const int zero = bits == 8 ? 128 : minima ? (bits == 5 ? -16 : 0) : bits == 4 ? 8 : 0;
  const int first = span->from + row * SPAN / m, last = span->from + (row + R) * SPAN / m; // groups of its share
  NAME(Totals) totals;
  y += (size_t)row * stride;
  for (int i = 0; i < R; i++) totals.low[i] = _mm256_loadu_ps(y + i * stride), totals.high[i] = _mm256_loadu_ps(y + i * stride + 8);
  for (int g = span->from; g < span->to; g++) {
    const NAME(Unpacked) *unpacked = span->unpacked + (g - span->from);
    const uint8_t *group = w->data + (size_t)g * w->stride, *quants = form == bits ? group : (const uint8_t *)unpacked->quants;
    const float *x_scale = &SCALE(x, row, g), *x_sum = &SCALED_SUM(x, row, g);
    if (g >= first && g < last) ask_ahead(w, group, bits);
    for (int part = 0; part < parts_of(bits); part++) {
      NAME(Sums) sums = NAME(products)(quants, x, row, g, bits, form, part, R);
      const NAME(Factors) factors = form == bits ? NAME(factors)(w, group, part, minima) : unpacked->part[part];
      for (int i = 0; i < R; i++) {
        __m256 of_x = _mm256_set1_ps(x_scale[i]), sum_of_x = _mm256_set1_ps(x_sum[i]);
        totals.low[i] = NAME(scaled)(totals.low[i], sums.low[i], factors.scale[0], of_x, sum_of_x, factors.minimum[0], zero, minima);
        totals.high[i] = NAME(scaled)(totals.high[i], sums.high[i], factors.scale[1], of_x, sum_of_x, factors.minimum[1], zero, minima);
      }
    }
  }
  for (int i = 0; i < R; i++) _mm256_storeu_ps(y + i * stride, totals.low[i]), _mm256_storeu_ps(y + i * stride + 8, totals.high[i]);
}

static inline INLINE void NAME(tiles)(const NAME(Span) *span, const Activations *x, int m, float *y, int stride, int bits, int form, int minima) {
  int row = 0;
  for (; row + NAME(TILE) <= m; row += NAME(TILE)) NAME(tile)(span, x, row, m, y, stride, bits, form, minima, NAME(TILE));
  switch (m - row) {
  case 1: NAME(tile)(span, x, row, m, y, stride, bits, form, minima, 1); break;
  case 2: NAME(tile)(span, x, row, m, y, stride, bits, form, minima, 2); break;
  case 3: NAME(tile)(span, x, row, m, y, stride, bits, form, minima, 3); break;
  }
}

static inline INLINE void NAME(rows)(const Block *w, const Activations *x, int m, float *y, int stride, int bits, int minima) {
  const int unpacks = bits < 8 && m > (bits == 4 ? 2 : 1) * NAME(TILE); // pays from so many rows on
  NAME(Unpacked) unpacked[SPAN];
  for (int from = 0; from < w->groups; from += SPAN) {
    const uint8_t *groups = w->data + (size_t)from * w->stride;
    NAME(Span) span = {w, unpacked, from, from + SPAN < w->groups ? from + SPAN : w->groups};
    for (int g = 0; unpacks && g < span.to - from; g++) NAME(unpack)(w, groups + g * w->stride, unpacked + g, bits, minima);
    if (unpacks) NAME(tiles)(&span, x, m, y, stride, bits, NAME(BYTES), minima);
    else NAME(tiles)(&span, x, m, y, stride, bits, bits, minima);
  }
}

#include "block_dot.h"

#undef PIN
