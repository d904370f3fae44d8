// The operations on V that need no instruction of their own. The includer adds v_fma, v_max, v_min, and v_dot: sum + a's
// int16 times b's, two and two in a lane.
#define v_load NAME(v_load)
#define v_store NAME(v_store)
#define v_set NAME(v_set)
#define v_max NAME(v_max)
#define v_min NAME(v_min)
#define v_abs NAME(v_abs)
#define v_fma NAME(v_fma)
#define v_dot NAME(v_dot)
#define v_float NAME(v_float)
#define v_round NAME(v_round)
#define v_load_pairs NAME(v_load_pairs)
#define v_set_pair NAME(v_set_pair)

static inline INLINE V v_load(const float *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline INLINE void v_store(float *p, V v) { memcpy(p, &v, sizeof v); }
static inline INLINE V v_set(float f) { return f - (V){0}; }
static inline INLINE V v_abs(V a) { return (V)((VI)a & 0x7fffffff); }
static inline INLINE V v_float(VI a) { return __builtin_convertvector(a, V); }
static inline INLINE VI v_load_pairs(const int16_t *p) {
  VI v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline INLINE VI v_set_pair(const int16_t *p) {
  int32_t both;
  memcpy(&both, p, sizeof both);
  return both - (VI){0};
}
static inline INLINE VI v_round(V x) { return (VI)(x + v_set(12582912.0f)) - 0x4B400000; } // 1.5 * 2^23: the low bits are the integer
