// The CPU engine: the whole forward of a small transformer for one user, in plain C without dependencies.
// This file holds what all variants share, compiles each variant, and picks one at run time.
#include "engine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "threads.h"

#define INLINE __attribute__((always_inline))
enum { ATTEND_ROWS = 4, ATTEND_HEADS = 8 }; // that go through the keys together
enum { MIXED = 128 }; // values that all queries go through before the next ones: what fits the first-level cache
enum { SPAN = 16 }; // groups that a tile goes through before the next rows do: what fits the first-level cache

typedef uint16_t half_t; // float16 bits

// ---- what the variants share

typedef struct { // what goes into a product, quantised: int8 with a scale per 32 columns, four rows beside each other
  int8_t *q;     // [rows / 4][k / 32][4][32]
  float *scale;  // [rows / 4][k / 32][4]
  float *scaled_sum;
  int32_t *sum32, *sum16; // the latter [2][rows / 4][k / 32][4]
  int16_t *pairs;         // [2][rows / 4][k / 32][4][2]: the sums of columns 0 and 1 of each four, and of 2 and 3
  int32_t groups;         // k / 32
} Activations;

#define PLACE(x, row, group) (((size_t)((row) / 4) * (x)->groups + (group)) * 4 + (row) % 4)
#define QUANTS(x, row, group) ((x)->q + PLACE(x, row, group) * GROUP)
#define SCALE(x, row, group) (x)->scale[PLACE(x, row, group)]
#define SCALED_SUM(x, row, group) (x)->scaled_sum[PLACE(x, row, group)]
#define SUM32(x, row, group) (x)->sum32[PLACE(x, row, group)]
#define HALF_PLACE(x, row, group, half) ((size_t)(half) * MAX_ROWS * (x)->groups + PLACE(x, row, group))
#define SUM16(x, row, group, half) (x)->sum16[HALF_PLACE(x, row, group, half)]
#define PAIRS(x, row, group, half) ((x)->pairs + 2 * HALF_PLACE(x, row, group, half))

typedef struct { // 16 output rows of a matrix
  const uint8_t *data;
  int32_t groups, stride, scales_at, minima_at; // of the groups: how many, and in bytes; minima_at 0: none
  int32_t bits, zero, scale_columns, scale_bytes;
} Block;

typedef struct {
  const int32_t *tokens, *parents, *logit_rows;
  int32_t n, n_logits;
  float *logits, *hidden;
} Request;

typedef struct Variant {
  const char *name;
  bool (*runs_here)(void);
  Job run;
} Variant;

struct Engine {
  Config config;
  const Variant *variant;
  Team team;
  Request request;
  int32_t length, parents[MAX_ROWS], depth[MAX_ROWS];
  atomic_bool interrupted, ended; // the running pass: asked to end early; did so
  Activations from_hidden, from_heads, from_mlp;
  float *x, *q, *k, *v, *scratch; // [MAX_ROWS][...]
  float *scores[MAX_THREADS];                 // [ATTEND_ROWS * ATTEND_HEADS][context rounded up + 16]
  half_t *keys, *values;                      // [layers][kv_heads][context rounded up][head_dim]
};

static inline int blocks_of(const Matrix *w) { return (w->n + BLOCK - 1) / BLOCK; }

static inline Block block_of(const Matrix *w, int index) {
  int groups = w->k / GROUP, quants = w->bits == 4 ? 256 : w->bits == 5 ? 320 : 512;
  int scales = GROUP / w->scale_columns * BLOCK * w->scale_bytes, stride = quants + scales + (w->zero ? 0 : scales);
  return (Block){w->data + (size_t)index * groups * stride, groups, stride, quants, w->zero ? 0 : quants + scales,
                 w->bits, w->zero, w->scale_columns, w->scale_bytes};
}

static inline float half_to_float(half_t h) {
  union { uint32_t u; float f; } value = {(uint32_t)(h & 0x7fff) << 13}, magic = {(254 - 15) << 23};
  value.f *= magic.f; // the exponent's bias, subnormals included
  if ((h & 0x7c00) == 0x7c00) value.u |= 255u << 23;
  value.u |= (uint32_t)(h & 0x8000) << 16;
  return value.f;
}

static inline half_t half_of_float(float f) { // rounds to nearest even; saturates to infinity
  union { float f; uint32_t u; } value = {f}, denormal = {.u = ((127 - 15) + (23 - 10) + 1) << 23};
  uint32_t sign = value.u & 0x80000000u, bits;
  value.u ^= sign;
  if (value.u >= 143u << 23) {
    bits = value.u > 255u << 23 ? 0x7e00 : 0x7c00;
  } else if (value.u < 113u << 23) {
    value.f += denormal.f;
    bits = value.u - denormal.u;
  } else {
    bits = (value.u + 0xc8000fffu + (value.u >> 13 & 1)) >> 13;
  }
  return (half_t)(bits | sign >> 16);
}

static inline float scale_at(const Block *w, const uint8_t *scales, int row) {
  return w->scale_bytes == 2 ? half_to_float(((const half_t *)scales)[row]) : ((const float *)scales)[row];
}

static inline size_t padded_context(const Engine *e) { return ((size_t)e->config.context + 15) / 16 * 16; }

static inline size_t cache_row(const Engine *e, int layer, int head, int slot) {
  return (((size_t)layer * e->config.kv_heads + head) * padded_context(e) + slot) * e->config.head_dim;
}

static inline half_t *key_block(const Engine *e, int layer, int head, int slot) {
  return e->keys + cache_row(e, layer, head, slot / 16 * 16);
}

static inline half_t *value_row(const Engine *e, int layer, int head, int slot) {
  return e->values + cache_row(e, layer, head, slot);
}

static inline const float *rope_row(const Engine *e, int row) {
  return e->config.rope + (size_t)(e->length + e->depth[row]) * e->config.head_dim;
}

static int quant_at(const uint8_t *group, int bits, int column, int row) {
  int run = column / 4, byte = row * 4 + column % 4;
  if (bits > 5) return group[run * 64 + byte];
  int low = group[(run & 3) * 64 + byte] >> (run & 4) & 15;
  return bits == 4 ? low : low | (group[256 + byte] >> run & 1) << 4;
}

static void embed(const Matrix *w, int token, float *x, int n) {
  Block b = block_of(w, token / BLOCK);
  int row = token % BLOCK;
  for (int c = 0; c < n; c++) {
    const uint8_t *group = b.data + (size_t)(c / GROUP) * b.stride;
    const uint8_t *scales = group + b.scales_at + c % GROUP / b.scale_columns * BLOCK * b.scale_bytes;
    x[c] = (float)(quant_at(group, b.bits, c % GROUP, row) - b.zero) * scale_at(&b, scales, row);
    if (b.minima_at) x[c] += scale_at(&b, group + b.minima_at, row);
  }
}

// ---- the variants

#define PRAGMA(text) _Pragma(#text)
#if defined(ENGINE_EMULATION) // a header that writes every variant's intrinsics in plain C, for tests
#include ENGINE_EMULATION
#define TARGET(isa)
#define TARGET_END
#elif defined(__clang__)
#define TARGET(isa) PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define TARGET_END _Pragma("clang attribute pop")
#else
#define TARGET(isa) _Pragma("GCC push_options") PRAGMA(GCC target(isa))
#define TARGET_END _Pragma("GCC pop_options")
#endif

#if defined(__clang__)
#define UNROLL(times) PRAGMA(clang loop unroll_count(times))
#else
#define UNROLL(times) PRAGMA(GCC unroll times)
#endif

static bool always(void) { return true; }

#define NAME(x) x##_portable
#include "variant_portable.h"
#undef NAME

#if defined(ENGINE_EMULATION)
#define has_avx2 always
#define has_avx512 always
#define has_avxvnni always
#define has_dotprod always
#elif defined(__x86_64__)
#include <immintrin.h>

static bool has_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

static bool has_avxvnni(void) { // leaf 7.1, EAX bit 4: older compilers do not know its name
  uint32_t a = 7, b, c = 1, d;
  if (!has_avx2()) return false;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
}
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
static bool has_dotprod(void) { return getauxval(AT_HWCAP) >> 20 & 1; }
#else
static bool has_dotprod(void) { return true; } // every 64-bit Apple machine that runs macOS
#endif
#endif

#if defined(__x86_64__) || defined(ENGINE_EMULATION)
TARGET("avx2,fma,f16c")
#define NAME(x) x##_avx2
#include "variant_avx2.h"
#undef NAME
TARGET_END

TARGET("avx2,fma,f16c,avxvnni")
#define NAME(x) x##_avxvnni
#include "variant_avxvnni.h"
#undef NAME
TARGET_END

TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#define NAME(x) x##_avx512
#include "variant_avx512.h"
#undef NAME
TARGET_END
#endif

#if defined(__aarch64__) || defined(ENGINE_EMULATION)
TARGET("arch=armv8.2-a+dotprod")
#define NAME(x) x##_neon
#include "variant_neon.h"
#undef NAME
TARGET_END
#endif

static const Variant variants[] = {
#if defined(__x86_64__) || defined(ENGINE_EMULATION)
    {"avx512", has_avx512, run_avx512},
    {"avxvnni", has_avxvnni, run_avxvnni},
    {"avx2", has_avx2, run_avx2},
#endif
#if defined(__aarch64__) || defined(ENGINE_EMULATION)
    {"neon", has_dotprod, run_neon},
#endif
    {"portable", always, run_portable},
    {NULL, NULL, NULL},
};

const char *const *gd_variants(void) {
  static const char *names[sizeof variants / sizeof *variants];
  int count = 0;
  for (const Variant *v = variants; v->name; v++)
    if (v->runs_here()) names[count++] = v->name;
  names[count] = NULL;
  return names;
}

static const Variant *variant_named(const char *name) {
  for (const Variant *v = variants; v->name; v++)
    if (strcmp(v->name, name) == 0 && v->runs_here()) return v;
  return NULL;
}

// ---- the engine

static void *room(size_t bytes) { // zeroed on first touch, on a cache line
  void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  return memory ? memset(memory, 0, bytes) : NULL;
}

static bool make_activations(Activations *a, size_t k) {
  a->q = room(MAX_ROWS * k);
  a->scale = room(MAX_ROWS * k / GROUP * sizeof(float));
  a->scaled_sum = room(MAX_ROWS * k / GROUP * sizeof(float));
  a->sum32 = room(MAX_ROWS * k / GROUP * sizeof(int32_t));
  a->sum16 = room(MAX_ROWS * k / 16 * sizeof(int32_t));
  a->pairs = room(MAX_ROWS * k / 8 * sizeof(int16_t));
  a->groups = (int32_t)k / GROUP;
  return a->q && a->scale && a->scaled_sum && a->sum32 && a->sum16 && a->pairs;
}

static float *rows_of(size_t width) { return room(MAX_ROWS * width * sizeof(float)); }

static bool make_buffers(Engine *e) {
  const Config *c = &e->config;
  size_t q = (size_t)c->heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
  size_t cache = cache_row(e, c->layers, 0, 0) * sizeof(half_t);
  e->x = rows_of(c->hidden), e->scratch = rows_of(c->hidden);
  e->q = rows_of(q), e->k = rows_of(kv), e->v = rows_of(kv);
  e->keys = calloc(1, cache + 64), e->values = calloc(1, cache + 64);
  bool made = make_activations(&e->from_hidden, c->hidden) & make_activations(&e->from_heads, q) & make_activations(&e->from_mlp, c->mlp);
  for (int i = 0; i < c->threads; i++)
    made &= (e->scores[i] = room(ATTEND_ROWS * ATTEND_HEADS * (padded_context(e) + 16) * sizeof(float))) != NULL;
  return made && e->x && e->q && e->k && e->v && e->scratch && e->keys && e->values;
}

static void free_all(void **all, size_t count) {
  for (size_t i = 0; i < count; i++) free(all[i]);
}

static void free_activations(const Activations *a) {
  free_all((void *[]){a->q, a->scale, a->scaled_sum, a->sum32, a->sum16, a->pairs}, 6);
}

static void free_buffers(Engine *e) {
  free_activations(&e->from_hidden), free_activations(&e->from_heads), free_activations(&e->from_mlp);
  free_all((void *[]){e->x, e->q, e->k, e->v, e->scratch, e->keys, e->values}, 7);
  for (int i = 0; i < MAX_THREADS; i++) free(e->scores[i]);
  free(e);
}

Engine *gd_open(const Config *config, const char *variant) {
  Engine *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->config = *config;
  e->variant = variant_named(variant);
  if (!e->variant || !make_buffers(e)) return free_buffers(e), NULL;
  team_start(&e->team, config->threads, e->variant->run, e);
  return e;
}

void gd_close(Engine *e) {
  team_end(&e->team);
  free_buffers(e);
}

static bool place_rows(Engine *e, const int32_t *parents, int n) { // parents and depths; false: a parent out of order
  for (int i = 0; i < n; i++) {
    int parent = parents ? parents[i] : i - 1;
    if (parent < -1 || parent >= i) return false;
    e->parents[i] = parent;
    e->depth[i] = parent < 0 ? 0 : e->depth[parent] + 1;
  }
  return true;
}

int32_t gd_forward(Engine *e, const int32_t *tokens, const int32_t *parents, int32_t n, const int32_t *logit_rows,
                   int32_t n_logits, float *logits, float *hidden) {
  if (n < 1 || n > MAX_ROWS || n_logits > n || e->length + n > e->config.context || !place_rows(e, parents, n)) return -1;
  unsigned generation = team_open(&e->team);
  e->request = (Request){tokens, parents, logit_rows, n, n_logits, logits, hidden};
  atomic_store(&e->ended, false);
  atomic_store(&e->interrupted, false);
  team_run(&e->team, generation);
  if (atomic_load(&e->ended)) return -2;
  if (hidden) memcpy(hidden, e->x, (size_t)n * e->config.hidden * sizeof(float));
  return 0;
}

static void move_row(Engine *e, int from, int to) {
  int d = e->config.head_dim;
  for (int layer = 0; layer < e->config.layers; layer++)
    for (int head = 0; head < e->config.kv_heads; head++) {
      half_t *source = key_block(e, layer, head, from) + from % 16, *target = key_block(e, layer, head, to) + to % 16;
      for (int i = 0; i < d; i++) target[i * 16] = source[i * 16];
      memcpy(value_row(e, layer, head, to), value_row(e, layer, head, from), d * sizeof(half_t));
    }
}

void gd_keep(Engine *e, const int32_t *rows, int32_t n) {
  for (int i = 0; i < n; i++)
    if (rows[i] != i) move_row(e, e->length + rows[i], e->length + i);
  e->length += n;
}

void gd_interrupt(Engine *e) { atomic_store(&e->interrupted, true); }

void gd_truncate(Engine *e, int32_t length) { e->length = length; }

int32_t gd_length(const Engine *e) { return e->length; }
