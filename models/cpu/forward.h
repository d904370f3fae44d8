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

static void NAME(multiply_block)(const NAME(Product) *p, int b, const Activations *x, int m) {
  float sums[MAX_ROWS * BLOCK];
  Block block = block_of(p->w, b);
  NAME(block_dot)(&block, x, m, sums);
  int rows = p->w->n - b * BLOCK < BLOCK ? p->w->n - b * BLOCK : BLOCK;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < rows; j++) {
      float value = sums[i * BLOCK + j] + (p->w->bias ? p->w->bias[b * BLOCK + j] : 0);
      float *y = p->y + (size_t)i * p->stride + b * BLOCK + j;
      *y = p->add ? *y + value : value;
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
  int8_t *q = to->q + (size_t)row * to->k + group * GROUP;
  int32_t half[2] = {0, 0};
  for (int i = 0; i < GROUP; i++) {
    union { float f; int32_t i; } rounded = {x[i] * inverse + 12582912.0f}; // 1.5 * 2^23: the low bits are the integer
    q[i] = (int8_t)(rounded.i - 0x4B400000);
  }
  for (int i = 0; i < 16; i++) half[0] += q[i], half[1] += q[i + 16];
  SCALE(to, row, group) = scale;
  SUM16(to, row, group * 2) = half[0];
  SUM16(to, row, group * 2 + 1) = half[1];
  SUM32(to, row, group) = half[0] + half[1];
  SCALED_SUM(to, row, group) = (float)(half[0] + half[1]) * scale;
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

// silu(gate) * up, quantised.
static void NAME(gate_group)(Engine *e, int row, int g) {
  float *gate = e->gate + (size_t)row * e->config.mlp + g * GROUP, *up = e->up + (size_t)row * e->config.mlp + g * GROUP;
  float product[GROUP];
  for (int i = 0; i < GROUP; i += LANES) {
    V x = v_load(gate + i);
    v_store(product + i, x / (v_set(1) + NAME(exp)(v_min(v_set(0) - x, v_set(88)))) * v_load(up + i));
  }
  NAME(quantise32)(product, &e->from_mlp, row, g);
}

static void NAME(gate_rows)(Engine *e, Member *me, int m) {
  int groups = e->config.mlp / GROUP;
  PHASE(me, 8, m * groups, unit, NAME(gate_group)(e, unit / groups, unit % groups));
}

// ---- attention

// Rotates one head, halves paired (GPT-NeoX style).
static inline INLINE void NAME(rotate)(float *x, const float *rope, int head_dim) {
  int half = head_dim / 2;
  for (int i = 0; i < half; i++) {
    float a = x[i], b = x[i + half], c = rope[2 * i], s = rope[2 * i + 1];
    x[i] = fma1(a, c, -(b * s));
    x[i + half] = fma1(b, c, a * s);
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

// Scores of up to 4 heads against the 16 keys of a block.
static inline INLINE void NAME(score16)(const half_t *keys, const float *const *q, float *const *scores, int d, int heads) {
  V sum[4][16 / LANES];
  for (int h = 0; h < heads; h++)
    for (int j = 0; j < 16 / LANES; j++) sum[h][j] = v_set(0);
  for (int i = 0; i < d; i++)
    for (int j = 0; j < 16 / LANES; j++) {
      V key = v_load_half(keys + i * 16 + j * LANES);
      for (int h = 0; h < heads; h++) sum[h][j] = v_fma(v_set(q[h][i]), key, sum[h][j]);
    }
  for (int h = 0; h < heads; h++)
    for (int j = 0; j < 16 / LANES; j++) v_store(scores[h] + j * LANES, sum[h][j]);
}

// exp(score - max) in place over n scores, padded with zeros to 16; the sum goes lane by lane of 16.
static float NAME(soften)(float *scores, int n) {
  float top = scores[0], lanes[16], total = 0;
  for (int i = 1; i < n; i++) top = scores[i] > top ? scores[i] : top;
  for (int i = n; i % 16; i++) scores[i] = -INFINITY;
  V sum[16 / LANES];
  for (int j = 0; j < 16 / LANES; j++) sum[j] = v_set(0);
  for (int i = 0; i < n; i += 16)
    for (int j = 0; j < 16 / LANES; j++) {
      V weight = NAME(exp)(v_load(scores + i + j * LANES) - v_set(top));
      v_store(scores + i + j * LANES, weight);
      if (i + 16 > n)
        for (int lane = 0; lane < LANES; lane++)
          if (i + j * LANES + lane >= n) scores[i + j * LANES + lane] = 0;
      sum[j] += v_load(scores + i + j * LANES);
    }
  for (int j = 0; j < 16 / LANES; j++) v_store(lanes + j * LANES, sum[j]);
  for (int i = 0; i < 16; i++) total += lanes[i];
  return total;
}

// out[h][0..32) += sum over keys of weight * value, key by key in logical order.
static inline INLINE void NAME(mix32)(const Engine *e, const half_t *values, int d, const float *const *weights, int kept, const int32_t *path, int tail, float out[3][32], int heads) {
  V sum[3][32 / LANES];
  for (int h = 0; h < heads; h++)
    for (int j = 0; j < 32 / LANES; j++) sum[h][j] = v_set(0);
  for (int key = 0; key < kept + tail; key++) {
    const half_t *row = values + (size_t)(key < kept ? key : e->length + path[key - kept]) * d;
    for (int j = 0; j < 32 / LANES; j++) {
      V value = v_load_half(row + j * LANES);
      for (int h = 0; h < heads; h++) sum[h][j] = v_fma(v_set(weights[h][key]), value, sum[h][j]);
    }
  }
  for (int h = 0; h < heads; h++)
    for (int j = 0; j < 32 / LANES; j++) v_store(out[h] + j * LANES, sum[h][j]);
}

static void NAME(score_heads)(const Engine *e, int layer, int kv, int slots, const float *const *q, float *const *scores, int heads) {
  int d = e->config.head_dim;
  for (int h = 0; h < heads; h += 4)
    for (int slot = 0; slot < slots; slot += 16) {
      const half_t *keys = key_block(e, layer, kv, slot);
      float *at[4] = {0};
      for (int i = 0; i < 4 && h + i < heads; i++) at[i] = scores[h + i] + slot;
      switch (heads - h) {
      case 1: NAME(score16)(keys, q + h, at, d, 1); break;
      case 2: NAME(score16)(keys, q + h, at, d, 2); break;
      case 3: NAME(score16)(keys, q + h, at, d, 3); break;
      default: NAME(score16)(keys, q + h, at, d, 4);
      }
    }
}

static void NAME(mix_heads)(Engine *e, int layer, int kv, int row, int first, const float *const *weights, const float *totals, int kept, const int32_t *path, int tail, int heads) {
  int d = e->config.head_dim, head = kv * (e->config.heads / e->config.kv_heads) + first;
  for (int at = 0; at < d; at += 32) {
    float out[3][32];
    const half_t *values = value_row(e, layer, kv, 0) + at;
    switch (heads) {
    case 1: NAME(mix32)(e, values, d, weights, kept, path, tail, out, 1); break;
    case 2: NAME(mix32)(e, values, d, weights, kept, path, tail, out, 2); break;
    default: NAME(mix32)(e, values, d, weights, kept, path, tail, out, 3);
    }
    for (int h = 0; h < heads; h++) {
      for (int i = 0; i < 32; i++) out[h][i] /= totals[h];
      NAME(quantise32)(out[h], &e->from_heads, row, ((head + h) * d + at) / GROUP);
    }
  }
}

// Softmax attention of one row for up to 8 query heads of one key head; the result goes out quantised.
static void NAME(attend)(Engine *e, float *scratch, int layer, int row, int kv, int first, int heads) {
  const Config *c = &e->config;
  const float *q[8];
  float *scores[8], totals[8];
  int32_t path[MAX_ROWS];
  int tail = e->depth[row] + 1, kept = e->length, stride = (c->context + 15) / 16 * 16 + 16;
  for (int at = row, i = tail; i > 0; at = e->parents[at]) path[--i] = at;
  for (int h = 0; h < heads; h++) {
    q[h] = e->q + ((size_t)row * c->heads + kv * (c->heads / c->kv_heads) + first + h) * c->head_dim;
    scores[h] = scratch + (size_t)h * stride;
  }
  NAME(score_heads)(e, layer, kv, kept + row + 1, q, scores, heads);
  for (int h = 0; h < heads; h++) {
    for (int i = 0; i < tail; i++) scores[h][kept + i] = scores[h][kept + path[i]];
    totals[h] = NAME(soften)(scores[h], kept + tail);
  }
  for (int h = 0; h < heads; h += 3)
    NAME(mix_heads)(e, layer, kv, row, first + h, (const float *const *)scores + h, totals + h, kept, path, tail, heads - h < 3 ? heads - h : 3);
}

// Units: a row and up to `share` heads of a key head, so that every member has work even for one row.
static void NAME(attend_rows)(Engine *e, Member *me, int layer, int m) {
  const Config *c = &e->config;
  int group = c->heads / c->kv_heads, share = group < 8 ? group : 8;
  if (m * c->kv_heads < 2 * me->team->size) share = (group + 1) / 2 < 8 ? (group + 1) / 2 : 8;
  int pieces = (group + share - 1) / share;
  PHASE(me, 1, m * c->kv_heads * pieces, unit, {
    int first = unit % pieces * share, heads = group - first < share ? group - first : share;
    NAME(attend)(e, e->scores[me->index], layer, unit / pieces / c->kv_heads, unit / pieces % c->kv_heads, first, heads);
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
  NAME(multiply)(me, (NAME(Product)[]){{&l->gate, e->gate, c->mlp, 0}, {&l->up, e->up, c->mlp, 0}}, 2, &e->from_hidden, m);
  NAME(gate_rows)(e, me, m);
  NAME(multiply)(me, (NAME(Product)[]){{&l->down, e->x, c->hidden, 1}}, 1, &e->from_mlp, m);
}

// A member that comes late may read a request that is already the next one's: it gets no units then.
static void NAME(run)(void *context, Member *me) {
  Engine *e = context;
  const Config *c = &e->config;
  const Request *r = &e->request;
  PHASE(me, 1, r->n, i, embed(&c->embedding, r->tokens[i], e->x + (size_t)i * c->hidden, c->hidden));
  for (int layer = 0; layer < c->layers; layer++) NAME(run_layer)(e, me, layer, r->n);
  if (!r->n_logits) return;
  NAME(normalise_rows)(e, me, c->final_norm, r->logit_rows, r->n_logits);
  NAME(multiply)(me, (NAME(Product)[]){{&c->head, r->logits, (c->vocab + 15) / 16 * 16, 0}}, 1, &e->from_hidden, r->n_logits);
}
