// Plain vectors of 4 floats, as every machine has them; multiply, then add.
typedef float V_portable __attribute__((vector_size(16)));
typedef int32_t VI_portable __attribute__((vector_size(16)));
#define V V_portable
#define VI VI_portable
#define LANES 4
#include "vector.h"

static inline INLINE V NAME(v_fma)(V a, V b, V c) { return a * b + c; }
static inline INLINE V NAME(v_load_half)(const half_t *p) {
  float lane[LANES];
  for (int i = 0; i < LANES; i++) lane[i] = half_to_float(p[i]);
  return v_load(lane);
}
static inline INLINE void NAME(v_store_half)(half_t *p, V v) {
  for (int i = 0; i < LANES; i++) p[i] = half_of_float(v[i]);
}

#include "dot_portable.h"
#include "forward.h"
#include "vector_end.h"
