// Every variant's intrinsics in plain C, by SIMDe, so that the variants of other machines can be held against the
// reference on this one. What SIMDe lacks is written with what it has.
#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_NATIVE
#include <simde/arm/neon.h>
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#define _mm256_dpwssd_avx_epi32 simde_mm256_dpwssd_epi32

static inline simde__m512 _mm512_cvtph_ps(simde__m256i halves) {
  simde__m512 floats = simde_mm512_castps256_ps512(simde_mm256_cvtph_ps(simde_mm256_castsi256_si128(halves)));
  return simde_mm512_insertf32x8(floats, simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(halves, 1)), 1);
}

static inline simde__m512 _mm512_cvtepi32_ps(simde__m512i integers) {
  int32_t from[16];
  float to[16];
  simde_mm512_storeu_si512(from, integers);
  for (int i = 0; i < 16; i++) to[i] = (float)from[i];
  return simde_mm512_loadu_ps(to);
}

static inline simde__m512i _mm512_cvtepi8_epi32(simde__m128i bytes) {
  int8_t from[16];
  int32_t to[16];
  simde_mm_storeu_si128((simde__m128i *)from, bytes);
  for (int i = 0; i < 16; i++) to[i] = from[i];
  return simde_mm512_loadu_si512(to);
}
