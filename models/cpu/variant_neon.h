// 4 floats a vector; the integer dot product of ARMv8.2 adds four exact products of bytes into an int32 lane.
typedef float V_neon __attribute__((vector_size(16)));
typedef int32_t VI_neon __attribute__((vector_size(16)));
#define V V_neon
#define VI VI_neon
#define LANES 4
#include "vector.h"

static inline INLINE V NAME(v_fma)(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
static inline INLINE V NAME(v_load_half)(const half_t *p) { return (V)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline INLINE void NAME(v_store_half)(half_t *p, V v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v))); }

#include "dot_neon.h"
#include "forward.h"
#include "vector_end.h"
