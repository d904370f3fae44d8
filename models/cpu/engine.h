// The CPU engine's types and its one C interface. Knows tokens, rows and weights; nothing of text, files or Python.
//
// Matrices lie in blocks of 16 output rows, and blocks in groups of 32 columns, one after the other: memory is read in
// one ascending stream. A group is 8 column groups of 16 rows x 4 columns (64 bytes when a weight takes a byte), so that
// a vector lane is an output row and no sum crosses lanes:
//   4 bits: 4 x 64 bytes; run k holds column group k in the low bits of its bytes, column group k + 4 in the upper ones
//   5, 6 bits: the same, whose upper bits hold the lowest 3, 2 of column group k + 4; then 64, 128 bytes with the 2, 4
//   others of column groups 4 to 7, from the low bits on
//   8 bits: 8 x 64 bytes
// then the 16 rows' scales, and where the format has them, their minima: float16, or float16 units and behind them an
// int8 for each scale, its multiple of the unit.
// A weight is scale * (quant - zero) or scale * quant + minimum. Activations are int8 with a scale per 32.
#ifndef GHOSTDRAFT_ENGINE_H
#define GHOSTDRAFT_ENGINE_H

#include <stddef.h>
#include <stdint.h>

enum { BLOCK = 16, GROUP = 32, MAX_ROWS = 64, MAX_THREADS = 64 };

typedef struct {
  const uint8_t *data;   // NULL: absent
  const float *bias;     // [n], or NULL; n is a multiple of 16 then
  int32_t n, k;          // output rows (a multiple of 16 in memory), columns
  int32_t bits;          // 4, 5, 6, 8
  int32_t zero;          // quant that stands for 0, a power of two; 0: the format has minima
  int32_t scale_columns; // 16 or 32
  int32_t multiples;     // whether scales and minima are multiples of a unit
} Matrix;

typedef struct {
  Matrix q, k, v, o, gate, up, down;
  const float *attention_norm, *mlp_norm; // [hidden]
  const float *q_norm, *k_norm;           // [head_dim], of each head by itself; NULL: absent
} Layer;

typedef struct {
  int32_t layers, hidden, heads, kv_heads, head_dim, mlp, vocab, context, threads;
  float rms_eps;
  const float *rope; // [context][cos, sin][head_dim / 2]
  const float *final_norm;
  const Layer *layer;
  Matrix embedding, head; // the former absent: inputs stand for tokens
  Matrix fusion;          // absent, or: makes hidden of a token's embedding, of any width, and the inputs behind it
} Config;

typedef struct Engine Engine;

// The variants compiled in that this machine runs, best first, as a 0-terminated list of names.
const char *const *gd_variants(void);
// NULL: out of memory, or no such variant. `beside`: an engine whose threads run this one too, never both at once, with as
// many threads and the same variant; NULL: it gets its own. They end with the last one that they run.
Engine *gd_open(const Config *config, const char *variant, Engine *beside);
void gd_close(Engine *engine);
// n rows behind the kept ones, through the first `layers`; parents NULL: a line. inputs [n][hidden], or with a fusion
// [n][what it takes beside the embedding], where the model takes any. logits [n_logits][head's rows, rounded up to 16].
// 0; -1 where rows or context do not suffice; -2 where it was interrupted.
int32_t gd_forward(Engine *engine, const int32_t *tokens, const int32_t *parents, const float *inputs, int32_t n,
                   const int32_t *logit_rows, int32_t n_logits, int32_t layers, float *logits);
// [n][hidden]: the first rows of the last pass behind the last layer that it ran.
void gd_hidden(const Engine *engine, int32_t n, float *hidden);
void gd_keep(Engine *engine, const int32_t *rows, int32_t n);
// From any thread: ends the running pass before its next layer. The same tokens in a line behind the same kept ones then
// go on from that layer.
void gd_interrupt(Engine *engine);
void gd_truncate(Engine *engine, int32_t length);
// A copy of what the kept tokens have left in the cache, and back into it, whatever it keeps then.
size_t gd_state_bytes(const Engine *engine);
void gd_save(Engine *engine, void *state);
void gd_restore(Engine *engine, void *state, int32_t length);
int32_t gd_length(const Engine *engine);

#endif
