// 4 floats a vector; the integer dot product of ARMv8.2 adds four exact products of bytes into an int32 lane.
typedef float V_neon __attribute__((vector_size(16)));
typedef int32_t VI_neon __attribute__((vector_size(16)));
#define V V_neon
#define VI VI_neon
#define LANES 4
#include "vector.h"

static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
static inline INLINE V NAME(v_max)(V a, V b) { return (V)vmaxq_f32((float32x4_t)a, (float32x4_t)b); }
static inline INLINE V NAME(v_min)(V a, V b) { return (V)vminq_f32((float32x4_t)a, (float32x4_t)b); }
static inline INLINE int16x4_t NAME(every_second)(VI a, int odd) { return vmovn_s32((int32x4_t)(odd ? a >> 16 : a)); }
static inline INLINE VI NAME(v_dot)(VI sum, VI a, VI b) {
  int32x4_t even = vmlal_s16((int32x4_t)sum, NAME(every_second)(a, 0), NAME(every_second)(b, 0));
  return (VI)vmlal_s16(even, NAME(every_second)(a, 1), NAME(every_second)(b, 1));
}

#include "dot_neon.h"
#include "forward.h"
#include "vector_end.h"
