// 16 output rows a vector.
typedef float V_avx512 __attribute__((vector_size(64)));
typedef int32_t VI_avx512 __attribute__((vector_size(64)));
#define V V_avx512
#define VI VI_avx512
#define LANES 16
#include "vector.h"

static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline INLINE V NAME(v_max)(V a, V b) { return (V)_mm512_max_ps((__m512)a, (__m512)b); }
static inline INLINE V NAME(v_min)(V a, V b) { return (V)_mm512_min_ps((__m512)a, (__m512)b); }
static inline INLINE VI NAME(v_dot)(VI sum, VI a, VI b) { return (VI)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }

#define TILE_ROWS 8
#define W __m512i
#define WF __m512
#define w_load(p) _mm512_loadu_si512(p)
#define w_set8(c) _mm512_set1_epi8(c)
#define w_set32(i) _mm512_set1_epi32(i)
#define w_and _mm512_and_si512
#define w_or _mm512_or_si512
#define w_right _mm512_srli_epi16
#define w_left _mm512_slli_epi16
#define w_dot _mm512_dpbusd_epi32
#define w_to_float _mm512_cvtepi32_ps
#define w_half_scales(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define w_bytes(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define w_load_floats(p) _mm512_loadu_ps(p)
#define w_multiply _mm512_mul_ps
#define w_fma _mm512_fmadd_ps
#define w_set _mm512_set1_ps
#define w_store(p, v) _mm512_storeu_ps(p, v)
#include "dot_vnni.h"
#include "forward.h"
#include "vector_end.h"
