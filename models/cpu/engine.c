// The CPU engine: the whole forward of a small transformer for one user, in plain C without dependencies.
// This file holds what all variants share, compiles each variant, and picks one at run time.
#include "engine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "threads.h"

#define INLINE __attribute__((always_inline))
#define LOG2_E 1.44269504f
enum { ATTEND_ROWS = 4, ATTEND_HEADS = 8 }; // that go through the keys together
enum { WIDE = 16 };                    // keys, or numbers of values, whose sums are kept in registers
#define ABREAST (LANES == WIDE ? 8 : 5) // for as many queries as there are registers

// `run` for as many queries as are left, up to ABREAST, compiled for each number of them.
#define OF_QUERIES(left, run, ...)             \
  switch ((left) < ABREAST ? (left) : ABREAST) { \
  case 1: run(__VA_ARGS__, 1); break;          \
  case 2: run(__VA_ARGS__, 2); break;          \
  case 3: run(__VA_ARGS__, 3); break;          \
  case 4: run(__VA_ARGS__, 4); break;          \
  case 5: run(__VA_ARGS__, 5); break;          \
  case 6: run(__VA_ARGS__, 6 < ABREAST ? 6 : ABREAST); break; \
  case 7: run(__VA_ARGS__, 7 < ABREAST ? 7 : ABREAST); break; \
  default: run(__VA_ARGS__, ABREAST);          \
  }

// Attention goes in integers of 16 bits, with a scale a head and row. Of this many products the sum always fits 32 bits.
enum { EXACT_DIMS = 32, QUERY_TOP = 8191, KEY_TOP = 8191 };
enum { EXACT_KEYS = 64, WEIGHT_TOP = 16383, VALUE_TOP = 2047 };
_Static_assert((int64_t)EXACT_DIMS * QUERY_TOP * KEY_TOP <= INT32_MAX && (int64_t)EXACT_KEYS * WEIGHT_TOP * VALUE_TOP <= INT32_MAX, "sums fit");
enum { NEAR = EXACT_KEYS + MAX_ROWS }; // slots from the last whole EXACT_KEYS kept ones on
enum { SPAN = 16 }; // groups that a tile goes through before the next rows do: what fits the first-level cache

typedef uint16_t half_t; // float16 bits

// ---- what the variants share

typedef struct { // what goes into a product, quantised: int8 with a scale per 32 columns, four rows beside each other
  int8_t *q;     // [rows / 4][k / 32][4][32]
  float *scale;  // [rows / 4][k / 32][4]
  float *scaled_sum;
  int32_t *sum32, *sum16; // the latter [2][rows / 4][k / 32][4]
  int16_t *first;         // [3][rows / 4][k / 32][4][2]: where int16 sums of the first and the last two of each four columns begin
  int32_t rows, groups;   // room for how many, and k / 32
} Activations;

#define PLACE(x, row, group) (((size_t)((row) / 4) * (x)->groups + (group)) * 4 + (row) % 4)
#define QUANTS(x, row, group) ((x)->q + PLACE(x, row, group) * GROUP)
#define SCALE(x, row, group) (x)->scale[PLACE(x, row, group)]
#define SCALED_SUM(x, row, group) (x)->scaled_sum[PLACE(x, row, group)]
#define SUM32(x, row, group) (x)->sum32[PLACE(x, row, group)]
#define HALF_PLACE(x, row, group, half) ((size_t)(half) * (x)->rows * (x)->groups + PLACE(x, row, group))
#define SUM16(x, row, group, half) (x)->sum16[HALF_PLACE(x, row, group, half)]
#define FIRST6(x, row, group, half) ((x)->first + 2 * HALF_PLACE(x, row, group, half))
#define FIRST5(x, row, group) FIRST6(x, row, group, 2)

typedef struct { // 16 output rows of a matrix
  const uint8_t *data;
  int32_t groups, stride, scales_at, minima_at; // of the groups: how many, and in bytes; minima_at 0: none
  int32_t bits, zero, scale_columns, multiples;
} Block;

typedef struct {
  const int32_t *tokens, *parents, *logit_rows;
  const float *inputs; // see gd_forward
  int32_t n, n_logits, layers;
  float *logits;
} Request;

typedef struct { // an interrupted pass over a line of tokens, whose rows stand before `layer`; 0: none
  int32_t layer, n;
  int32_t tokens[MAX_ROWS];
} Paused;

typedef struct Variant {
  const char *name;
  bool (*runs_here)(void);
  Job run;
} Variant;

struct Engine {
  Config config;
  const Variant *variant;
  Team *team;
  Request request;
  int32_t length, parents[MAX_ROWS], depth[MAX_ROWS];
  atomic_bool interrupted, ended; // the running pass: asked to end early; did so
  int32_t first_layer, layer;     // the running pass: where it began, and where it is
  Paused paused;
  Activations from_joined, from_hidden, from_heads, from_mlp, from_row[MAX_THREADS]; // the last: from_hidden of a single row, a member's own
  float *x, *q, *k, *v;           // [MAX_ROWS][...]
  float *scratch;                 // [threads][widest_row]
  int16_t *queries;               // [MAX_ROWS][heads][head_dim]
  float *query_scale;             // [MAX_ROWS][heads]
  float *scores[MAX_THREADS];     // [ATTEND_ROWS * ATTEND_HEADS][room for scores]
  int16_t *weights[MAX_THREADS];  // [ATTEND_ROWS * ATTEND_HEADS][room for scores]
  int16_t *keys, *values;         // [layers][kv_heads][context rounded up, head_dim], in blocks: see key_at, value_at
  float *key_scale, *value_scale; // [layers][kv_heads][context rounded up]
};

// What a member normalises or joins.
static inline size_t widest_row(const Config *c) { return c->fusion.k > c->hidden ? c->fusion.k : c->hidden; }

static inline int blocks_of(const Matrix *w) { return (w->n + BLOCK - 1) / BLOCK; }

static inline Block block_of(const Matrix *w, int index) {
  int groups = w->k / GROUP, quants = w->bits * 64;
  int scales = w->multiples ? BLOCK * (2 + GROUP / w->scale_columns) : BLOCK * 2, stride = quants + scales + (w->zero ? 0 : scales);
  return (Block){w->data + (size_t)index * groups * stride, groups, stride, quants, w->zero ? 0 : quants + scales,
                 w->bits, w->zero, w->scale_columns, w->multiples};
}

// The group that comes SPAN groups later; its scales take less than 128 bytes.
static inline INLINE void ask_ahead(const Block *w, const uint8_t *group, int bits) {
  for (int line = 0; line < bits + 2; line++) __builtin_prefetch(group + SPAN * w->stride + line * 64);
}

static inline float half_to_float(half_t h) {
  union { uint32_t u; float f; } value = {(uint32_t)(h & 0x7fff) << 13}, magic = {(254 - 15) << 23};
  value.f *= magic.f; // the exponent's bias, subnormals included
  if ((h & 0x7c00) == 0x7c00) value.u |= 255u << 23;
  value.u |= (uint32_t)(h & 0x8000) << 16;
  return value.f;
}

static inline const int8_t *multiples_at(const uint8_t *scales, int part) { return (const int8_t *)scales + BLOCK * (2 + part); }

static inline float scale_at(const Block *w, const uint8_t *scales, int part, int row) {
  float unit = half_to_float(((const half_t *)scales)[row]);
  return w->multiples ? unit * multiples_at(scales, part)[row] : unit;
}

static inline size_t padded_context(const Engine *e) {
  return ((size_t)e->config.context + EXACT_KEYS - 1) / EXACT_KEYS * EXACT_KEYS;
}

static inline size_t room_for_scores(const Engine *e) { return padded_context(e) + 2 * NEAR; }

static inline size_t cache_row(const Engine *e, int layer, int head, int slot) {
  return ((size_t)layer * e->config.kv_heads + head) * padded_context(e) + slot;
}

// Of WIDE keys, number 2 i and 2 i + 1 of each beside each other: [head_dim / 2][WIDE][2].
static inline int16_t *key_block(const Engine *e, int layer, int head, int slot) {
  return e->keys + cache_row(e, layer, head, slot / WIDE * WIDE) * e->config.head_dim;
}

static inline int16_t *key_at(const Engine *e, int layer, int head, int slot, int i) {
  return key_block(e, layer, head, slot) + (i / 2 * WIDE + slot % WIDE) * 2 + i % 2;
}

// Of EXACT_KEYS values WIDE numbers from `at` on, those of two values beside each other: [EXACT_KEYS / 2][WIDE][2].
static inline int16_t *value_block(const Engine *e, int layer, int head, int slot, int at) {
  return e->values + cache_row(e, layer, head, slot / EXACT_KEYS * EXACT_KEYS) * e->config.head_dim + at / WIDE * WIDE * EXACT_KEYS;
}

static inline int16_t *value_at(const Engine *e, int layer, int head, int slot, int i) {
  return value_block(e, layer, head, slot, i) + (slot % EXACT_KEYS / 2 * WIDE + i % WIDE) * 2 + slot % 2;
}

static inline const float *rope_row(const Engine *e, int row) {
  return e->config.rope + (size_t)(e->length + e->depth[row]) * e->config.head_dim;
}

// How many bits of a quant find no room in a byte beside another quant.
static inline int bits_apart(int bits) { return 2 * bits - 8; }

// How many parts of a group have scales of their own.
static inline int parts_of(int bits) { return bits == 6 ? 2 : 1; }

// Bits [from, to).
static inline int mask_of(int from, int to) { return (1 << to) - (1 << from); }

// Quant number `byte` of column group j.
static int quant_at(const uint8_t *group, int bits, int j, int byte) {
  if (bits == 8) return group[j * 64 + byte];
  int packed = group[j % 4 * 64 + byte];
  if (j < 4) return packed & mask_of(0, bits);
  int apart = bits_apart(bits), at = (j - 4) * apart;
  int upper = apart ? group[256 + at / 8 * 64 + byte] >> at % 8 & mask_of(0, apart) : 0;
  return packed >> bits | upper << (8 - bits);
}

static void embed(const Matrix *w, int token, float *x, int n) {
  Block b = block_of(w, token / BLOCK);
  int row = token % BLOCK;
  for (int c = 0; c < n; c++) {
    const uint8_t *group = b.data + (size_t)(c / GROUP) * b.stride;
    float scale = scale_at(&b, group + b.scales_at, c % GROUP / b.scale_columns, row);
    x[c] = (float)(quant_at(group, b.bits, c % GROUP / 4, row * 4 + c % 4) - b.zero) * scale;
    if (b.minima_at) x[c] += scale_at(&b, group + b.minima_at, 0, row);
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

// On a cache line.
static void *untouched(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

static void *room(size_t bytes) { // zeroed
  void *memory = untouched(bytes);
  return memory ? memset(memory, 0, bytes) : NULL;
}

static bool make_activations(Activations *a, size_t k, size_t rows) {
  a->q = room(rows * k);
  a->scale = room(rows * k / GROUP * sizeof(float));
  a->scaled_sum = room(rows * k / GROUP * sizeof(float));
  a->sum32 = room(rows * k / GROUP * sizeof(int32_t));
  a->sum16 = room(rows * k / 16 * sizeof(int32_t));
  a->first = room(rows * k / GROUP * 6 * sizeof(int16_t));
  a->rows = (int32_t)rows, a->groups = (int32_t)k / GROUP;
  return a->q && a->scale && a->scaled_sum && a->sum32 && a->sum16 && a->first;
}

static float *rows_of(size_t width) { return room(MAX_ROWS * width * sizeof(float)); }

static bool make_buffers(Engine *e) {
  const Config *c = &e->config;
  size_t q = (size_t)c->heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
  size_t cache = cache_row(e, c->layers, 0, 0);
  e->x = rows_of(c->hidden), e->scratch = room(c->threads * widest_row(c) * sizeof(float));
  e->q = rows_of(q), e->k = rows_of(kv), e->v = rows_of(kv);
  e->queries = room(MAX_ROWS * q * sizeof(int16_t)), e->query_scale = rows_of(c->heads);
  // attention may read slots that were never written, but gives them no weight
  e->keys = untouched(cache * c->head_dim * sizeof(int16_t)), e->values = untouched(cache * c->head_dim * sizeof(int16_t));
  e->key_scale = untouched(cache * sizeof(float)), e->value_scale = untouched(cache * sizeof(float));
  bool made = make_activations(&e->from_joined, c->fusion.k, MAX_ROWS) & make_activations(&e->from_hidden, c->hidden, MAX_ROWS) & make_activations(&e->from_heads, q, MAX_ROWS) & make_activations(&e->from_mlp, c->mlp, MAX_ROWS);
  size_t scores = ATTEND_ROWS * ATTEND_HEADS * room_for_scores(e);
  for (int i = 0; i < c->threads; i++) {
    e->scores[i] = room(scores * sizeof(float)), e->weights[i] = room(scores * sizeof(int16_t));
    made &= e->scores[i] && e->weights[i] && make_activations(&e->from_row[i], c->hidden, 4);
  }
  return made && e->x && e->q && e->k && e->v && e->scratch && e->queries && e->query_scale && e->keys && e->values && e->key_scale && e->value_scale;
}

static void free_all(void **all, size_t count) {
  for (size_t i = 0; i < count; i++) free(all[i]);
}

static void free_activations(const Activations *a) {
  free_all((void *[]){a->q, a->scale, a->scaled_sum, a->sum32, a->sum16, a->first}, 6);
}

static void free_buffers(Engine *e) {
  free_activations(&e->from_joined), free_activations(&e->from_hidden), free_activations(&e->from_heads), free_activations(&e->from_mlp);
  free_all((void *[]){e->x, e->q, e->k, e->v, e->scratch, e->queries, e->query_scale}, 7);
  free_all((void *[]){e->keys, e->values, e->key_scale, e->value_scale}, 4);
  for (int i = 0; i < MAX_THREADS; i++) free(e->scores[i]), free(e->weights[i]), free_activations(&e->from_row[i]);
  free(e);
}

Engine *gd_open(const Config *config, const char *variant, Engine *beside) {
  Engine *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->config = *config;
  e->variant = variant_named(variant);
  if (!e->variant || !make_buffers(e)) return free_buffers(e), NULL;
  e->team = beside ? beside->team : team_start(config->threads, e->variant->run);
  if (!e->team) return free_buffers(e), NULL;
  e->team->users++;
  return e;
}

void gd_close(Engine *e) {
  team_leave(e->team, e);
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

static bool goes_on(const Engine *e, const int32_t *tokens, const int32_t *parents, int n) {
  return e->paused.layer && !parents && n == e->paused.n && memcmp(tokens, e->paused.tokens, n * sizeof *tokens) == 0;
}

static void pause(Engine *e, const int32_t *tokens, const int32_t *parents, const float *inputs, int n) {
  e->paused.layer = parents || inputs ? 0 : e->layer;
  e->paused.n = n;
  memcpy(e->paused.tokens, tokens, n * sizeof *tokens);
}

int32_t gd_forward(Engine *e, const int32_t *tokens, const int32_t *parents, const float *inputs, int32_t n,
                   const int32_t *logit_rows, int32_t n_logits, int32_t layers, float *logits) {
  if (n < 1 || n > MAX_ROWS || n_logits > n || e->length + n > e->config.context || !place_rows(e, parents, n)) return -1;
  unsigned generation = team_open(e->team);
  e->request = (Request){tokens, parents, logit_rows, inputs, n, n_logits, layers, logits};
  e->first_layer = !inputs && goes_on(e, tokens, parents, n) && e->paused.layer < layers ? e->paused.layer : 0;
  atomic_store(&e->ended, false);
  atomic_store(&e->interrupted, false);
  team_run(e->team, generation, e);
  if (atomic_load(&e->ended)) return pause(e, tokens, parents, inputs, n), -2;
  e->paused.layer = 0;
  return 0;
}

void gd_hidden(const Engine *e, int32_t n, float *hidden) { memcpy(hidden, e->x, (size_t)n * e->config.hidden * sizeof(float)); }

static void move_head(Engine *e, int layer, int head, int from, int to) {
  for (int i = 0; i < e->config.head_dim; i++) {
    *key_at(e, layer, head, to, i) = *key_at(e, layer, head, from, i);
    *value_at(e, layer, head, to, i) = *value_at(e, layer, head, from, i);
  }
  e->key_scale[cache_row(e, layer, head, to)] = e->key_scale[cache_row(e, layer, head, from)];
  e->value_scale[cache_row(e, layer, head, to)] = e->value_scale[cache_row(e, layer, head, from)];
}

static void move_row(Engine *e, int from, int to) {
  for (int layer = 0; layer < e->config.layers; layer++)
    for (int head = 0; head < e->config.kv_heads; head++) move_head(e, layer, head, from, to);
}

void gd_keep(Engine *e, const int32_t *rows, int32_t n) {
  e->paused.layer = 0;
  for (int i = 0; i < n; i++)
    if (rows[i] != i) move_row(e, e->length + rows[i], e->length + i);
  e->length += n;
}

// Of each key head, whole groups of EXACT_KEYS.
static size_t state_rows(const Engine *e) { return ((size_t)e->length + EXACT_KEYS - 1) / EXACT_KEYS * EXACT_KEYS; }

size_t gd_state_bytes(const Engine *e) {
  const Config *c = &e->config;
  return state_rows(e) * c->layers * c->kv_heads * 2 * (c->head_dim * sizeof *e->keys + sizeof *e->key_scale);
}

// `rows` of one array of the cache, of each layer and key head; returns where the state goes on.
static char *copy_rows(const Engine *e, void *cache, size_t row, char *state, bool restores) {
  size_t bytes = state_rows(e) * row;
  for (int layer = 0; layer < e->config.layers; layer++)
    for (int head = 0; head < e->config.kv_heads; head++, state += bytes) {
      char *kept = (char *)cache + cache_row(e, layer, head, 0) * row;
      restores ? memcpy(kept, state, bytes) : memcpy(state, kept, bytes);
    }
  return state;
}

static void copy_state(const Engine *e, char *state, bool restores) {
  size_t row = e->config.head_dim * sizeof *e->keys;
  state = copy_rows(e, e->keys, row, state, restores);
  state = copy_rows(e, e->values, row, state, restores);
  state = copy_rows(e, e->key_scale, sizeof *e->key_scale, state, restores);
  copy_rows(e, e->value_scale, sizeof *e->value_scale, state, restores);
}

void gd_save(Engine *e, void *state) { copy_state(e, state, false); }

void gd_restore(Engine *e, void *state, int32_t length) {
  e->length = length;
  e->paused.layer = 0;
  copy_state(e, state, true);
}

void gd_interrupt(Engine *e) { atomic_store(&e->interrupted, true); }

void gd_truncate(Engine *e, int32_t length) {
  if (length != e->length) e->paused.layer = 0;
  e->length = length;
}

int32_t gd_length(const Engine *e) { return e->length; }
