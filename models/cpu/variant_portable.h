// Plain vectors of 4 floats, as every machine has them; multiply, then add.
typedef float V_portable __attribute__((vector_size(16)));
typedef int32_t VI_portable __attribute__((vector_size(16)));
#define V V_portable
#define VI VI_portable
#define LANES 4
#include "vector.h"

static inline INLINE V NAME(v_fma)(V a, V b, V c) { return a * b + c; }
static inline INLINE V NAME(v_max)(V a, V b) {
  VI over = (VI)(a > b);
  return (V)(((VI)a & over) | ((VI)b & ~over));
}
static inline INLINE V NAME(v_min)(V a, V b) {
  VI under = (VI)(a < b);
  return (V)(((VI)a & under) | ((VI)b & ~under));
}
static inline INLINE VI NAME(v_dot)(VI sum, VI a, VI b) { return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16); }

#include "dot_portable.h"
#include "forward.h"
#include "vector_end.h"
