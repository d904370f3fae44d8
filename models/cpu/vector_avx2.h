// 8 floats a vector: what the AVX2 and AVX-VNNI variants share.
static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline INLINE V NAME(v_max)(V a, V b) { return (V)_mm256_max_ps((__m256)a, (__m256)b); }
static inline INLINE V NAME(v_min)(V a, V b) { return (V)_mm256_min_ps((__m256)a, (__m256)b); }

#define W __m256i
#define w_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define w_set8(c) _mm256_set1_epi8(c)
#define w_and _mm256_and_si256
#define w_or _mm256_or_si256
#define w_right _mm256_srli_epi16
#define w_left _mm256_slli_epi16
