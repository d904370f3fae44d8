// The whole forward of a Llama- or Qwen2-shaped transformer, compiled once for each variant: the includer sets NAME, V
// (a vector of LANES floats) and its few operations, and has included the variant's `block_dot`.
//
// Every row is computed in an order that depends on nothing but its own logical position, so its logits are bitwise the
// same alone, among others, in a tree, and however the prompt was cut.

static inline INLINE float NAME(sum_lanes)(const V *sums, int count) {
  float lane[64], total = 0;
  memcpy(lane, sums, sizeof(V) * count);
  for (int i = 0; i < LANES * count; i++) total += lane[i];
  return total;
}

// ---- matrices

typedef struct { const Matrix *w; float *y; int stride, add; } NAME(Product); // y [m][stride] = or += x . w^T

static inline INLINE void NAME(hand_over)(const float *sums, const float *bias, float *y, int rows, int add) {
  for (int j = 0; j < rows; j++) {
    float value = bias ? sums[j] + bias[j] : sums[j];
    y[j] = add ? y[j] + value : value;
  }
}

static void NAME(multiply_block)(const NAME(Product) *p, int b, const Activations *x, int m) {
  float sums[MAX_ROWS * BLOCK];
  Block block = block_of(p->w, b);
  NAME(block_dot)(&block, x, m, sums);
  int rows = p->w->n - b * BLOCK < BLOCK ? p->w->n - b * BLOCK : BLOCK;
  const float *bias = p->w->bias ? p->w->bias + b * BLOCK : NULL;
  for (int i = 0; i < m; i++) {
    float *y = p->y + (size_t)i * p->stride + b * BLOCK;
    if (rows < BLOCK || bias) NAME(hand_over)(sums + i * BLOCK, bias, y, rows, p->add);
    else if (p->add) NAME(hand_over)(sums + i * BLOCK, NULL, y, BLOCK, 1);
    else NAME(hand_over)(sums + i * BLOCK, NULL, y, BLOCK, 0);
  }
}

// The blocks of several products over the same activations.
static void NAME(multiply)(Member *me, const NAME(Product) *products, int count, const Activations *x, int m) {
  int total = 0;
  for (int i = 0; i < count; i++) total += blocks_of(products[i].w);
  int share = total / (me->team->size * 8) > 1 ? total / (me->team->size * 8) : 1;
  PHASE(me, share, total, unit, {
    int i = 0, b = unit;
    for (; b >= blocks_of(products[i].w); i++) b -= blocks_of(products[i].w);
    NAME(multiply_block)(&products[i], b, x, m);
  });
}

// ---- rows

// int8 with a scale per 32, and the sums that take zero points and minima out of a product again.
static inline INLINE void NAME(quantise32)(const float *x, Activations *to, int row, int group) {
  V top = v_set(0);
  for (int i = 0; i < GROUP; i += LANES) top = v_max(top, v_abs(v_load(x + i)));
  float lane[LANES], most = 0;
  v_store(lane, top);
  for (int i = 0; i < LANES; i++) most = lane[i] > most ? lane[i] : most;
  float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
  int8_t *q = QUANTS(to, row, group);
  for (int i = 0; i < GROUP; i++) {
    union { float f; int32_t i; } rounded = {x[i] * inverse + 12582912.0f}; // 1.5 * 2^23: the low bits are the integer
    q[i] = (int8_t)(rounded.i - 0x4B400000);
  }
  int32_t all = 0;
  for (int half = 0; half < 2; half++) {
    int16_t *pair = PAIRS(to, row, group, half), sum[2] = {0, 0};
    for (int i = 0; i < 16; i++) sum[i / 2 % 2] += q[half * 16 + i];
    pair[0] = sum[0], pair[1] = sum[1];
    all += SUM16(to, row, group, half) = sum[0] + sum[1];
  }
  SCALE(to, row, group) = scale;
  SUM32(to, row, group) = all;
  SCALED_SUM(to, row, group) = (float)all * scale;
}

static void NAME(normalise)(const float *x, const float *weight, int n, float eps, float *y) {
  V squares[2] = {v_set(0), v_set(0)};
  for (int i = 0; i < n; i += 2 * LANES)
    for (int j = 0; j < 2; j++) squares[j] = v_fma(v_load(x + i + j * LANES), v_load(x + i + j * LANES), squares[j]);
  float scale = 1 / sqrtf(NAME(sum_lanes)(squares, 2) / n + eps);
  for (int i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
}

static void NAME(normalise_rows)(Engine *e, Member *me, const float *weight, const int32_t *rows, int m) {
  int n = e->config.hidden;
  PHASE(me, 1, m, i, {
    float *y = e->scratch + (size_t)i * n;
    NAME(normalise)(e->x + (size_t)(rows ? rows[i] : i) * n, weight, n, e->config.rms_eps, y);
    for (int g = 0; g < n / GROUP; g++) NAME(quantise32)(y + g * GROUP, &e->from_hidden, i, g);
  });
}

// e^x within 2 ulp or so: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes' coefficients).
static inline INLINE V NAME(exp)(V x) {
  x = v_max(x, v_set(-87));
  V shifted = v_fma(x, v_set(1.44269504f), v_set(12582912.0f)), n = shifted - v_set(12582912.0f);
  V r = v_fma(n, v_set(-0.693359375f), x);
  r = v_fma(n, v_set(2.12194440e-4f), r);
  V p = v_fma(v_set(1.9875691500e-4f), r, v_set(1.3981999507e-3f));
  p = v_fma(p, r, v_set(8.3334519073e-3f));
  p = v_fma(p, r, v_set(4.1665795894e-2f));
  p = v_fma(p, r, v_set(1.6666665459e-1f));
  p = v_fma(p, r, v_set(5.0000001201e-1f));
  p = v_fma(p * r, r, r + v_set(1));
  return (V)((VI)p + (((VI)shifted - 0x4B400000) << 23));
}

// silu(gate) * up of 32 columns of a row, 16 and 16, quantised.
static void NAME(gate_group)(const float *const gate[2], const float *const up[2], Activations *to, int row, int g) {
  float product[GROUP];
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < BLOCK; i += LANES) {
      V x = v_load(gate[half] + i);
      v_store(product + half * BLOCK + i, x / (v_set(1) + NAME(exp)(v_min(v_set(0) - x, v_set(88)))) * v_load(up[half] + i));
    }
  NAME(quantise32)(product, to, row, g);
}

// Gate and up side by side, 32 columns of the MLP at a time, so that nothing in between is ever written to memory.
static void NAME(gate_rows)(Engine *e, Member *me, const Layer *l, int m) {
  int groups = e->config.mlp / GROUP, share = groups / (me->team->size * 8) > 1 ? groups / (me->team->size * 8) : 1;
  PHASE(me, share, groups, g, {
    float sums[4][MAX_ROWS * BLOCK];
    for (int i = 0; i < 4; i++) {
      Block block = block_of(i < 2 ? &l->gate : &l->up, g * 2 + i % 2);
      NAME(block_dot)(&block, &e->from_hidden, m, sums[i]);
    }
    for (int row = 0; row < m; row++) {
      const float *at[4];
      for (int i = 0; i < 4; i++) at[i] = sums[i] + row * BLOCK;
      NAME(gate_group)(at, at + 2, &e->from_mlp, row, g);
    }
  });
}

// ---- attention

typedef struct { // of the rows and heads that go through the keys together
  int count;
  const float *q[ATTEND_ROWS * ATTEND_HEADS];
  float *scores[ATTEND_ROWS * ATTEND_HEADS], *mixed[ATTEND_ROWS * ATTEND_HEADS];
} NAME(Queries);

// Rotates one head, halves paired (GPT-NeoX style).
static inline INLINE void NAME(rotate)(float *x, const float *rope, int head_dim) {
  int half = head_dim / 2;
  for (int i = 0; i < half; i += LANES) {
    V a = v_load(x + i), b = v_load(x + i + half), c = v_load(rope + i), s = v_load(rope + i + half);
    v_store(x + i, v_fma(a, c, v_set(0) - b * s));
    v_store(x + i + half, v_fma(b, c, a * s));
  }
}

static inline INLINE void NAME(turn_query)(Engine *e, int row, int head) {
  int d = e->config.head_dim;
  float *q = e->q + ((size_t)row * e->config.heads + head) * d, scale = 1 / sqrtf((float)d);
  NAME(rotate)(q, rope_row(e, row), d);
  for (int i = 0; i < d; i++) q[i] *= scale;
}

// Keys lie [context / 16][head_dim][16], values [context][head_dim], both as float16.
static inline INLINE void NAME(store_key)(Engine *e, int layer, int row, int head) {
  int d = e->config.head_dim, slot = e->length + row;
  float *k = e->k + ((size_t)row * e->config.kv_heads + head) * d, *v = e->v + ((size_t)row * e->config.kv_heads + head) * d;
  half_t *keys = key_block(e, layer, head, slot) + slot % 16, *values = value_row(e, layer, head, slot), rounded[256];
  NAME(rotate)(k, rope_row(e, row), d);
  for (int i = 0; i < d; i += LANES) v_store_half(rounded + i, v_load(k + i)), v_store_half(values + i, v_load(v + i));
  for (int i = 0; i < d; i++) keys[i * 16] = rounded[i];
}

static void NAME(store_rows)(Engine *e, Member *me, int layer, int m) {
  int queries = e->config.heads, heads = queries + e->config.kv_heads;
  PHASE(me, 2, m * heads, unit, {
    int row = unit / heads, head = unit % heads;
    head < queries ? NAME(turn_query)(e, row, head) : NAME(store_key)(e, layer, row, head - queries);
  });
}

// The 16 keys of a block against up to 4 queries.
static inline INLINE void NAME(score16)(const half_t *keys, const float *const *q, float *const *scores, int slot, int d, int count) {
  V sum[4][16 / LANES];
  for (int h = 0; h < count; h++)
    for (int j = 0; j < 16 / LANES; j++) sum[h][j] = v_set(0);
  for (int i = 0; i < d; i++)
    for (int j = 0; j < 16 / LANES; j++) {
      V key = v_load_half(keys + i * 16 + j * LANES);
      for (int h = 0; h < count; h++) sum[h][j] = v_fma(v_set(q[h][i]), key, sum[h][j]);
    }
  for (int h = 0; h < count; h++)
    for (int j = 0; j < 16 / LANES; j++) v_store(scores[h] + slot + j * LANES, sum[h][j]);
}

static void NAME(score_keys)(const Engine *e, int layer, int kv, int slots, const NAME(Queries) *a) {
  int d = e->config.head_dim;
  for (int slot = 0; slot < slots; slot += 16)
    for (int h = 0; h < a->count; h += 4) {
      const half_t *keys = key_block(e, layer, kv, slot);
      switch (a->count - h) {
      case 1: NAME(score16)(keys, a->q + h, a->scores + h, slot, d, 1); break;
      case 2: NAME(score16)(keys, a->q + h, a->scores + h, slot, d, 2); break;
      case 3: NAME(score16)(keys, a->q + h, a->scores + h, slot, d, 3); break;
      default: NAME(score16)(keys, a->q + h, a->scores + h, slot, d, 4);
      }
    }
}

// exp(score - max) in place over n scores, padded with zeros to 16; the sum goes lane by lane of 16. What pads the scores
// weighs e^-87 in it, which is nothing beside the largest one's 1.
static float NAME(soften)(float *scores, int n) {
  const int padded = (n + 15) / 16 * 16;
  float lane[LANES], most = -INFINITY;
  V top = v_set(-INFINITY), sum[16 / LANES];
  for (int i = n; i < padded; i++) scores[i] = -INFINITY;
  for (int i = 0; i < padded; i += LANES) top = v_max(top, v_load(scores + i));
  v_store(lane, top);
  for (int i = 0; i < LANES; i++) most = lane[i] > most ? lane[i] : most;
  for (int j = 0; j < 16 / LANES; j++) sum[j] = v_set(0);
  for (int i = 0; i < padded; i += 16)
    for (int j = 0; j < 16 / LANES; j++) {
      V weight = NAME(exp)(v_load(scores + i + j * LANES) - v_set(most));
      v_store(scores + i + j * LANES, weight);
      sum[j] += weight;
    }
  for (int i = n; i < padded; i++) scores[i] = 0;
  return NAME(sum_lanes)(sum, 16 / LANES);
}

// out[h][0..32) += weight * value for `count` keys, key by key; the values of key i at row path[i], or i.
static inline INLINE void NAME(mix32)(const half_t *values, int d, const int32_t *path, int keys, float *const *weights, int from, float *const *out, int at, int count) {
  V sum[3][32 / LANES];
  for (int h = 0; h < count; h++)
    for (int j = 0; j < 32 / LANES; j++) sum[h][j] = v_load(out[h] + at + j * LANES);
  for (int key = 0; key < keys; key++) {
    const half_t *row = values + (size_t)(path ? path[key] : key) * d + at;
    for (int j = 0; j < 32 / LANES; j++) {
      V value = v_load_half(row + j * LANES);
      for (int h = 0; h < count; h++) sum[h][j] = v_fma(v_set(weights[h][from + key]), value, sum[h][j]);
    }
  }
  for (int h = 0; h < count; h++)
    for (int j = 0; j < 32 / LANES; j++) v_store(out[h] + at + j * LANES, sum[h][j]);
}

static void NAME(mix_keys)(const half_t *values, int d, const int32_t *path, int keys, float *const *weights, int from, float *const *out, int count) {
  for (int at = 0; at < d; at += 32)
    for (int h = 0; h < count; h += 3)
      switch (count - h) {
      case 1: NAME(mix32)(values, d, path, keys, weights + h, from, out + h, at, 1); break;
      case 2: NAME(mix32)(values, d, path, keys, weights + h, from, out + h, at, 2); break;
      default: NAME(mix32)(values, d, path, keys, weights + h, from, out + h, at, 3);
      }
}

// Softmax attention of some rows and some query heads of one key head; the result goes out quantised.
// The kept keys are gone through once for all of them; then each row has its own path through the rows of the pass.
static void NAME(attend)(Engine *e, float *scratch, int layer, int kv, int row, int rows, int head, int heads) {
  const Config *c = &e->config;
  int d = c->head_dim, kept = e->length;
  size_t stride = padded_context(e) + 16;
  NAME(Queries) a = {.count = rows * heads};
  float mixed[ATTEND_ROWS * ATTEND_HEADS * 256], totals[ATTEND_ROWS * ATTEND_HEADS];
  memset(mixed, 0, (size_t)a.count * d * sizeof(float));
  for (int i = 0; i < a.count; i++) {
    a.q[i] = e->q + ((size_t)(row + i / heads) * c->heads + head + i % heads) * d;
    a.scores[i] = scratch + i * stride;
    a.mixed[i] = mixed + (size_t)i * d;
  }
  NAME(score_keys)(e, layer, kv, kept + row + rows, &a);
  int32_t path[ATTEND_ROWS][MAX_ROWS];
  for (int r = 0; r < rows; r++)
    for (int at = row + r, i = e->depth[row + r]; i >= 0; at = e->parents[at]) path[r][i--] = at;
  for (int i = 0; i < a.count; i++) {
    int tail = e->depth[row + i / heads] + 1;
    for (int k = 0; k < tail; k++) a.scores[i][kept + k] = a.scores[i][kept + path[i / heads][k]];
    totals[i] = NAME(soften)(a.scores[i], kept + tail);
  }
  for (int key = 0; key < kept; key += MIXED)
    NAME(mix_keys)(value_row(e, layer, kv, key), d, NULL, kept - key < MIXED ? kept - key : MIXED, a.scores, key, a.mixed, a.count);
  for (int r = 0; r < rows; r++)
    NAME(mix_keys)(value_row(e, layer, kv, kept), d, path[r], e->depth[row + r] + 1, a.scores + r * heads, kept, a.mixed + r * heads, heads);
  for (int i = 0; i < a.count; i++) {
    for (int k = 0; k < d; k++) a.mixed[i][k] /= totals[i];
    for (int g = 0; g < d / GROUP; g++) NAME(quantise32)(a.mixed[i] + g * GROUP, &e->from_heads, row + i / heads, (head + i % heads) * (d / GROUP) + g);
  }
}

// Units: a few rows and a few heads of a key head, as many of each as leave work for every member.
static void NAME(attend_rows)(Engine *e, Member *me, int layer, int m) {
  const Config *c = &e->config;
  int group = c->heads / c->kv_heads, heads = group < ATTEND_HEADS ? group : ATTEND_HEADS, rows = m < ATTEND_ROWS ? m : ATTEND_ROWS;
  while (rows > 1 && (m + rows - 1) / rows * c->kv_heads < 2 * me->team->size) rows = (rows + 1) / 2;
  if (m * c->kv_heads < 2 * me->team->size) heads = (heads + 1) / 2;
  int pieces = (group + heads - 1) / heads, tiles = (m + rows - 1) / rows;
  PHASE(me, 1, tiles * c->kv_heads * pieces, unit, {
    int row = unit / pieces / c->kv_heads * rows, kv = unit / pieces % c->kv_heads, first = unit % pieces * heads;
    NAME(attend)(e, e->scores[me->index], layer, kv, row, m - row < rows ? m - row : rows, kv * group + first, group - first < heads ? group - first : heads);
  });
}

// ---- the forward

static void NAME(run_layer)(Engine *e, Member *me, int index, int m) {
  const Config *c = &e->config;
  const Layer *l = &c->layer[index];
  int qn = c->heads * c->head_dim, kn = c->kv_heads * c->head_dim;
  NAME(normalise_rows)(e, me, l->attention_norm, NULL, m);
  NAME(multiply)(me, (NAME(Product)[]){{&l->q, e->q, qn, 0}, {&l->k, e->k, kn, 0}, {&l->v, e->v, kn, 0}}, 3, &e->from_hidden, m);
  NAME(store_rows)(e, me, index, m);
  NAME(attend_rows)(e, me, index, m);
  NAME(multiply)(me, (NAME(Product)[]){{&l->o, e->x, c->hidden, 1}}, 1, &e->from_heads, m);
  NAME(normalise_rows)(e, me, l->mlp_norm, NULL, m);
  NAME(gate_rows)(e, me, l, m);
  NAME(multiply)(me, (NAME(Product)[]){{&l->down, e->x, c->hidden, 1}}, 1, &e->from_mlp, m);
}

// All members see the same, as whoever has the one unit decides.
static bool NAME(is_over)(Engine *e, Member *me) {
  PHASE(me, 1, 1, unit, atomic_store(&e->ended, atomic_load(&e->interrupted)));
  return atomic_load(&e->ended);
}

// A member that comes late may read the next pass's request and flags: `team_open` came before them, so it gets no units.
static void NAME(run)(void *context, Member *me) {
  Engine *e = context;
  const Config *c = &e->config;
  const Request *r = &e->request;
  PHASE(me, 1, r->n, i, embed(&c->embedding, r->tokens[i], e->x + (size_t)i * c->hidden, c->hidden));
  for (int layer = 0; layer < c->layers; layer++) {
    if (NAME(is_over)(e, me)) return;
    NAME(run_layer)(e, me, layer, r->n);
  }
  if (!r->n_logits) return;
  NAME(normalise_rows)(e, me, c->final_norm, r->logit_rows, r->n_logits);
  NAME(multiply)(me, (NAME(Product)[]){{&c->head, r->logits, (c->vocab + 15) / 16 * 16, 0}}, 1, &e->from_hidden, r->n_logits);
}
