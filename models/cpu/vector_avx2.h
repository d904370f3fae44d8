// 8 floats a vector: what the AVX2 and AVX-VNNI variants share.
static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline INLINE V NAME(v_load_half)(const half_t *p) { return (V)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline INLINE void NAME(v_store_half)(half_t *p, V v) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)v, 0)); }
