// 8 output rows a vector; vpdpbusd adds four exact products into int32.
typedef float V_avxvnni __attribute__((vector_size(32)));
typedef int32_t VI_avxvnni __attribute__((vector_size(32)));
#define V V_avxvnni
#define VI VI_avxvnni
#define LANES 8
#include "vector.h"
#include "vector_avx2.h"
static inline INLINE VI NAME(v_dot)(VI sum, VI a, VI b) { return (VI)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b); }

#define TILE_ROWS 4
#define WF __m256
#define w_set32(i) _mm256_set1_epi32(i)
#define w_dot _mm256_dpbusd_avx_epi32
#define w_to_float _mm256_cvtepi32_ps
#define w_half_scales(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define w_bytes(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define w_load_floats(p) _mm256_loadu_ps(p)
#define w_multiply _mm256_mul_ps
#define w_fma _mm256_fmadd_ps
#define w_set _mm256_set1_ps
#define w_store(p, v) _mm256_storeu_ps(p, v)
#include "dot_vnni.h"
#include "forward.h"
#include "vector_end.h"
