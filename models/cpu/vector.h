// The operations on V that need no instruction of their own. The includer adds v_fma, v_load_half, v_store_half.
#define v_load NAME(v_load)
#define v_store NAME(v_store)
#define v_set NAME(v_set)
#define v_max NAME(v_max)
#define v_min NAME(v_min)
#define v_abs NAME(v_abs)
#define v_fma NAME(v_fma)
#define v_load_half NAME(v_load_half)
#define v_store_half NAME(v_store_half)

static inline INLINE V v_load(const float *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline INLINE void v_store(float *p, V v) { memcpy(p, &v, sizeof v); }
static inline INLINE V v_set(float f) { return f - (V){0}; }
static inline INLINE V v_max(V a, V b) {
  VI over = (VI)(a > b);
  return (V)(((VI)a & over) | ((VI)b & ~over));
}
static inline INLINE V v_min(V a, V b) {
  VI under = (VI)(a < b);
  return (V)(((VI)a & under) | ((VI)b & ~under));
}
static inline INLINE V v_abs(V a) { return (V)((VI)a & 0x7fffffff); }
