// 8 floats a vector: what the AVX2 and AVX-VNNI variants share.
static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline INLINE V NAME(v_max)(V a, V b) { return (V)_mm256_max_ps((__m256)a, (__m256)b); }
static inline INLINE V NAME(v_min)(V a, V b) { return (V)_mm256_min_ps((__m256)a, (__m256)b); }
