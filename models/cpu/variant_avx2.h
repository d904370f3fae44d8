typedef float V_avx2 __attribute__((vector_size(32)));
typedef int32_t VI_avx2 __attribute__((vector_size(32)));
#define V V_avx2
#define VI VI_avx2
#define LANES 8
#include "vector.h"
#include "vector_avx2.h"
static inline INLINE VI NAME(v_dot)(VI sum, VI a, VI b) { return sum + (VI)_mm256_madd_epi16((__m256i)a, (__m256i)b); }

#include "dot_avx2.h"
#include "forward.h"
#include "vector_end.h"
