// The whole forward of a Llama-, Qwen2- or Qwen3-shaped transformer, compiled once for each variant: the includer sets NAME, V
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

static inline INLINE float NAME(max_lane)(V v) {
  float lane[LANES];
  v_store(lane, v);
  float most = lane[0];
  for (int i = 1; i < LANES; i++) most = lane[i] > most ? lane[i] : most;
  return most;
}

// ---- matrices

// Where the products of block b are added up: y [m][stride] = bias, or += bias.
static inline INLINE void NAME(begin_block)(const Matrix *w, int b, float *y, int stride, int m, int add) {
  const float none[BLOCK] = {0}, *first = w->bias ? w->bias + b * BLOCK : none;
  for (int i = 0; i < m && !(add && first == none); i++)
    for (int j = 0; j < BLOCK; j++) y[(size_t)i * stride + j] = first[j] + (add ? y[(size_t)i * stride + j] : 0);
}

// y [m][stride] of block b = x . w^T + bias, or += x . w^T.
static void NAME(multiply_block)(const Matrix *w, int b, const Activations *x, int m, float *y, int stride, int add) {
  const Block block = block_of(w, b);
  NAME(begin_block)(w, b, y + b * BLOCK, stride, m, add);
  NAME(block_dot)(&block, x, m, y + b * BLOCK, stride);
}

// ---- rows

// Whether what goes into w must be quantised in pairs; see quantise32.
static inline INLINE int NAME(pairs)(const Matrix *w) { return NAME(PAIRED) && w->bits == 8; }

static inline INLINE float NAME(largest)(const float *x, int n) { // in size
  V most = v_set(0);
  for (int i = 0; i < n; i += LANES) most = v_max(most, v_abs(v_load(x + i)));
  return NAME(max_lane)(most);
}

// Of neighbours, both sizes added up.
static inline INLINE float NAME(largest_pair)(const float *x) {
  float most = 0;
  for (int i = 0; i < GROUP; i += 2) {
    float pair = fabsf(x[i]) + fabsf(x[i + 1]);
    most = pair > most ? pair : most;
  }
  return most;
}

// int8 with a scale per 32, and the sums that take zero points and minima out of a product again. Where they are `paired`,
// neighbours stay within 128 together: each may be rounded up by a half.
static inline INLINE void NAME(quantise32)(const float *x, Activations *to, int row, int group, int paired) {
  const float pair = paired ? NAME(largest_pair)(x) : 0, largest = NAME(largest)(x, GROUP), most = pair > largest ? pair : largest;
  const float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
  int8_t *q = QUANTS(to, row, group);
  int32_t all[2] = {0, 0}, integer[16];
  for (int half = 0; half < 2; half++) {
    VI sums = {0};
    for (int i = 0; i < 16; i += LANES) {
      VI rounded = v_round(v_load(x + half * 16 + i) * v_set(inverse));
      memcpy(integer + i, &rounded, sizeof rounded);
      sums += rounded;
    }
    for (int i = 0; i < 16; i++) q[half * 16 + i] = (int8_t)integer[i];
    int32_t lane[LANES], sum[2] = {0, 0};
    memcpy(lane, &sums, sizeof sums);
    for (int i = 0; i < LANES; i++) sum[i / 2 % 2] += lane[i];
    for (int i = 0; i < 2; i++) all[i] += sum[i], FIRST6(to, row, group, half)[i] = (int16_t)(-32 * sum[i]);
    SUM16(to, row, group, half) = sum[0] + sum[1];
  }
  for (int i = 0; i < 2; i++) FIRST5(to, row, group)[i] = (int16_t)(-16 * all[i]);
  SCALE(to, row, group) = scale;
  SUM32(to, row, group) = all[0] + all[1];
  SCALED_SUM(to, row, group) = (float)(all[0] + all[1]) * scale;
}

static void NAME(normalise)(const float *x, const float *weight, int n, float eps, float *y) {
  V squares[2] = {v_set(0), v_set(0)};
  for (int i = 0; i < n; i += 2 * LANES)
    for (int j = 0; j < 2; j++) squares[j] = v_fma(v_load(x + i + j * LANES), v_load(x + i + j * LANES), squares[j]);
  float scale = 1 / sqrtf(NAME(sum_lanes)(squares, 2) / n + eps);
  for (int i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
}

typedef struct { // rows of the residual stream as products take them
  const float *weight;
  int paired;
  int row; // where it is a single one
  const Activations *ready; // NULL: not yet
} NAME(Hidden);

static void NAME(normalise_row)(Engine *e, Member *me, const NAME(Hidden) *hidden, int from, Activations *to, int row) {
  int n = e->config.hidden;
  float *y = e->scratch + me->index * widest_row(&e->config);
  NAME(normalise)(e->x + (size_t)from * n, hidden->weight, n, e->config.rms_eps, y);
  for (int g = 0; g < n / GROUP; g++) NAME(quantise32)(y + g * GROUP, to, row, g, hidden->paired);
}

// Several rows are a phase. A single one takes less time than a phase more, so each member that gets a unit of the next
// phase makes it for itself: see ready.
static NAME(Hidden) NAME(normalise_rows)(Engine *e, Member *me, const float *weight, const int32_t *rows, int m, int paired) {
  NAME(Hidden) hidden = {weight, paired, rows ? rows[0] : 0, NULL};
  if (m > 1) {
    PHASE(me, m, i, NAME(normalise_row)(e, me, &hidden, rows ? rows[i] : i, &e->from_hidden, i));
    hidden.ready = &e->from_hidden;
  }
  return hidden;
}

static const Activations *NAME(ready)(Engine *e, Member *me, NAME(Hidden) *hidden) {
  if (!hidden->ready) {
    Activations *own = &e->from_row[me->index];
    NAME(normalise_row)(e, me, hidden, hidden->row, own, 0);
    hidden->ready = own;
  }
  return hidden->ready;
}

// 2^x: 2^n times a polynomial on [-0.5, 0.5], relatively within 3e-6 (fitted with Remez' algorithm); what becomes of it has
// 14 bits or 8. x below -126 counts as -126; 128 is too much.
static inline INLINE V NAME(exp2)(V x) {
  x = v_max(x, v_set(-126));
  V shifted = x + v_set(12582912.0f), r = x - (shifted - v_set(12582912.0f)); // see v_round
  V p = v_fma(v_set(9.57010221e-3f), r, v_set(5.59178591e-2f));
  p = v_fma(p, r, v_set(2.40247443e-1f));
  p = v_fma(p, r, v_set(6.93121791e-1f));
  p = v_fma(p, r, v_set(9.99999285e-1f));
  return (V)((VI)p + ((VI)shifted << 23));
}

// silu(gate) * up of 32 columns of a row, 16 and 16, quantised.
static void NAME(gate_group)(const float *const gate[2], const float *const up[2], Activations *to, int row, int g, int paired) {
  float product[GROUP];
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < BLOCK; i += LANES) {
      V x = v_load(gate[half] + i);
      v_store(product + half * BLOCK + i, x / (v_set(1) + NAME(exp2)(v_min(x * v_set(-LOG2_E), v_set(126)))) * v_load(up[half] + i));
    }
  NAME(quantise32)(product, to, row, g, paired);
}

// Gate and up side by side, 32 columns of the MLP at a time, so that nothing in between is ever written to memory.
static void NAME(gate_rows)(Engine *e, Member *me, const Layer *l, NAME(Hidden) hidden, int m) {
  PHASE(me, e->config.mlp / GROUP, g, {
    const Activations *x = NAME(ready)(e, me, &hidden);
    float sums[4][MAX_ROWS * BLOCK];
    for (int i = 0; i < 4; i++) {
      const Matrix *w = i < 2 ? &l->gate : &l->up;
      const Block block = block_of(w, g * 2 + i % 2);
      NAME(begin_block)(w, g * 2 + i % 2, sums[i], BLOCK, m, 0);
      NAME(block_dot)(&block, x, m, sums[i], BLOCK);
    }
    for (int row = 0; row < m; row++) {
      const float *at[4];
      for (int i = 0; i < 4; i++) at[i] = sums[i] + row * BLOCK;
      NAME(gate_group)(at, at + 2, &e->from_mlp, row, g, NAME(pairs)(&l->down));
    }
  });
}

// ---- attention

typedef struct { // of the rows and heads that go through the keys together
  int count;
  const int16_t *q[ATTEND_ROWS * ATTEND_HEADS];
  float scale[ATTEND_ROWS * ATTEND_HEADS]; // of the scores
  float *scores[ATTEND_ROWS * ATTEND_HEADS];
  int16_t *weights[ATTEND_ROWS * ATTEND_HEADS];
  float *outputs[ATTEND_ROWS * ATTEND_HEADS];
} NAME(Queries);

static inline INLINE int16_t NAME(to_integer)(float x) { // the nearest, as v_round's
  union { float f; int32_t i; } rounded = {x + 12582912.0f};
  return (int16_t)(rounded.i - 0x4B400000);
}

// Up to `top` in size; returns the scale.
static inline INLINE float NAME(quantise16)(const float *x, int n, float top, int16_t *q) {
  float most = NAME(largest)(x, n), inverse = most > 0 ? top / most : 0;
  for (int i = 0; i < n; i++) q[i] = NAME(to_integer)(x[i] * inverse);
  return most / top;
}

// Rotates one head, halves paired (GPT-NeoX style).
static inline INLINE void NAME(apply_rope)(float *x, const float *rope, int head_dim) {
  int half = head_dim / 2;
  for (int i = 0; i < half; i += LANES) {
    V a = v_load(x + i), b = v_load(x + i + half), c = v_load(rope + i), s = v_load(rope + i + half);
    v_store(x + i, v_fma(a, c, v_set(0) - b * s));
    v_store(x + i + half, v_fma(b, c, a * s));
  }
}

// A query or key in its place: normalised where the model does that, and rotated.
static inline INLINE void NAME(norm_and_rope)(const Engine *e, float *x, const float *norm, int row) {
  int d = e->config.head_dim;
  if (norm) NAME(normalise)(x, norm, d, e->config.rms_eps, x);
  NAME(apply_rope)(x, rope_row(e, row), d);
}

static void NAME(store_query)(Engine *e, int layer, int row, int head) {
  int d = e->config.head_dim, at = row * e->config.heads + head;
  float *q = e->q + (size_t)at * d;
  NAME(norm_and_rope)(e, q, e->config.layer[layer].q_norm, row);
  e->query_scale[at] = NAME(quantise16)(q, d, QUERY_TOP, e->queries + (size_t)at * d) * LOG2_E / sqrtf((float)d); // for exp2
}

static void NAME(store_key)(Engine *e, int layer, int row, int head) {
  int d = e->config.head_dim, slot = e->length + row;
  float *k = e->k + ((size_t)row * e->config.kv_heads + head) * d;
  int16_t rounded[256];
  NAME(norm_and_rope)(e, k, e->config.layer[layer].k_norm, row);
  e->key_scale[cache_row(e, layer, head, slot)] = NAME(quantise16)(k, d, KEY_TOP, rounded);
  for (int i = 0; i < d; i++) *key_at(e, layer, head, slot, i) = rounded[i];
}

static void NAME(store_value)(Engine *e, int layer, int row, int head) {
  int d = e->config.head_dim, slot = e->length + row;
  int16_t rounded[256];
  const float *v = e->v + ((size_t)row * e->config.kv_heads + head) * d;
  e->value_scale[cache_row(e, layer, head, slot)] = NAME(quantise16)(v, d, VALUE_TOP, rounded);
  for (int i = 0; i < d; i++) *value_at(e, layer, head, slot, i) = rounded[i];
}

typedef struct { // queries, keys or values: what makes them, where, and what then becomes of a row's head
  const Matrix *w;
  float *y;
  int heads;
  void (*store)(Engine *e, int layer, int row, int head);
} NAME(Projection);

static void NAME(project_head)(Engine *e, int layer, const NAME(Projection) *p, int head, const Activations *x, int m) {
  int d = e->config.head_dim, blocks = d / BLOCK;
  for (int b = head * blocks; b < (head + 1) * blocks; b++) NAME(multiply_block)(p->w, b, x, m, p->y, p->heads * d, 0);
  for (int row = 0; row < m; row++) p->store(e, layer, row, head);
}

static void NAME(project_rows)(Engine *e, Member *me, int layer, NAME(Hidden) hidden, int m) {
  const Config *c = &e->config;
  const Layer *l = &c->layer[layer];
  const NAME(Projection) all[] = {{&l->q, e->q, c->heads, NAME(store_query)}, {&l->k, e->k, c->kv_heads, NAME(store_key)}, {&l->v, e->v, c->kv_heads, NAME(store_value)}};
  PHASE(me, c->heads + 2 * c->kv_heads, unit, {
    int i = 0, head = unit;
    for (; head >= all[i].heads; i++) head -= all[i].heads;
    NAME(project_head)(e, layer, &all[i], head, NAME(ready)(e, me, &hidden), m);
  });
}

typedef struct { VI of[ABREAST][WIDE / LANES]; } NAME(Dots);

static inline INLINE NAME(Dots) NAME(no_dots)(int count) {
  NAME(Dots) sum;
  for (int h = 0; h < count; h++)
    for (int j = 0; j < WIDE / LANES; j++) sum.of[h][j] = (VI){0};
  return sum;
}

// `steps` times the pairs of WIDE lanes at `wide` with one pair of each of `narrow`; `ahead` is asked for.
static inline INLINE void NAME(add_dots)(NAME(Dots) *sum, const int16_t *wide, const int16_t *const *narrow, int steps, const int16_t *ahead, int count) {
  UNROLL(2) for (int step = 0; step < steps; step++, wide += 2 * WIDE) {
    if (ahead) __builtin_prefetch(ahead + step * 2 * WIDE);
    for (int h = 0; h < count; h++) {
      VI pair = v_set_pair(narrow[h] + 2 * step);
      for (int j = 0; j < WIDE / LANES; j++) sum->of[h][j] = v_dot(sum->of[h][j], v_load_pairs(wide + j * LANES * 2), pair);
    }
  }
}

// The keys of a block against up to ABREAST queries.
static inline INLINE void NAME(score)(const int16_t *keys, const float *key_scale, const NAME(Queries) *a, int first, int slot, int d, int count) {
  V total[ABREAST][WIDE / LANES];
  const int16_t *q[ABREAST];
  for (int h = 0; h < count; h++)
    for (int j = 0; j < WIDE / LANES; j++) total[h][j] = v_set(0);
  for (int from = 0; from < d; from += EXACT_DIMS) {
    NAME(Dots) sum = NAME(no_dots)(count);
    for (int h = 0; h < count; h++) q[h] = a->q[first + h] + from;
    NAME(add_dots)(&sum, keys + from * WIDE, q, EXACT_DIMS / 2, first == 0 ? keys + (from + 2 * d) * WIDE : NULL, count);
    for (int h = 0; h < count; h++)
      for (int j = 0; j < WIDE / LANES; j++) total[h][j] += v_float(sum.of[h][j]);
  }
  for (int h = 0; h < count; h++)
    for (int j = 0; j < WIDE / LANES; j++)
      v_store(a->scores[first + h] + slot + j * LANES, total[h][j] * (v_load(key_scale + j * LANES) * v_set(a->scale[first + h])));
}

static void NAME(score_keys)(const Engine *e, int layer, int kv, int slots, const NAME(Queries) *a) {
  int d = e->config.head_dim;
  for (int slot = 0; slot < slots; slot += WIDE)
    for (int h = 0; h < a->count; h += ABREAST) {
      const int16_t *keys = key_block(e, layer, kv, slot);
      const float *scale = e->key_scale + cache_row(e, layer, kv, slot);
      OF_QUERIES(a->count - h, NAME(score), keys, scale, a, h, slot, d);
    }
}

static inline INLINE float NAME(most)(const float *x, int n) { // n a multiple of 16
  V top[16 / LANES];
  for (int j = 0; j < 16 / LANES; j++) top[j] = v_load(x + j * LANES);
  for (int i = 16; i < n; i += 16)
    for (int j = 0; j < 16 / LANES; j++) top[j] = v_max(top[j], v_load(x + i + j * LANES));
  for (int j = 1; j < 16 / LANES; j++) top[0] = v_max(top[0], top[j]);
  return NAME(max_lane)(top[0]);
}

typedef struct { // of the values: kept ones in whole groups of EXACT_KEYS, then a row's path from there on
  const float *kept, *near;
  int from; // where the latter begin
} NAME(Scales);

// 2^(score - max) in place over n scores, padded to 16; the sum goes lane by lane of 16. What pads them weighs 2^-126 in
// it, which is nothing beside the largest one's 1. Each is then multiplied with its value's scale; *top is the largest.
static inline INLINE float NAME(softmax)(float *scores, int n, const NAME(Scales) *scales, float *top) {
  const int padded = (n + 15) / 16 * 16;
  for (int i = n; i < padded; i++) scores[i] = -INFINITY;
  const float most = NAME(most)(scores, padded);
  V sum[16 / LANES], largest[16 / LANES];
  for (int j = 0; j < 16 / LANES; j++) sum[j] = largest[j] = v_set(0);
  for (int i = 0; i < padded; i += 16) {
    const float *scale = i < scales->from ? scales->kept + i : scales->near + (i - scales->from);
    for (int j = 0; j < 16 / LANES; j++) {
      V weight = NAME(exp2)(v_load(scores + i + j * LANES) - v_set(most));
      sum[j] += weight;
      weight *= v_load(scale + j * LANES);
      largest[j] = v_max(largest[j], weight);
      v_store(scores + i + j * LANES, weight);
    }
  }
  for (int j = 1; j < 16 / LANES; j++) largest[0] = v_max(largest[0], largest[j]);
  *top = NAME(max_lane)(largest[0]);
  return NAME(sum_lanes)(sum, 16 / LANES);
}

// Of a row's weights, those of the keys behind `kept` stand where its path's rows do, and are 0 where others' do. As only
// EXACT_KEYS go into a sum, they stand at `near` twice: first those that belong to the first sum, then the rest.
static inline INLINE void NAME(place_weights)(const float *scores, float times, const int32_t *path, int kept, int n, int16_t *weights) {
  const int near = kept / EXACT_KEYS * EXACT_KEYS;
  memset(weights + near, 0, 2 * NEAR * sizeof *weights);
  for (int i = 0; i < kept; i++) weights[i] = NAME(to_integer)(scores[i] * times);
  for (int i = kept; i < n; i++)
    weights[(i < near + EXACT_KEYS ? 0 : NEAR) + kept + path[i - kept]] = NAME(to_integer)(scores[i] * times);
}

// outputs[h][at..at + WIDE) += weight * value of 2 * pairs keys.
static inline INLINE void NAME(sum_block)(const int16_t *values, int d, const NAME(Queries) *a, int first, int from, int pairs, int at, int count) {
  NAME(Dots) sum = NAME(no_dots)(count);
  const int16_t *weights[ABREAST];
  for (int pair = 0; pair < pairs; pair += EXACT_KEYS / 2, values += EXACT_KEYS * d) {
    for (int h = 0; h < count; h++) weights[h] = a->weights[first + h] + from + 2 * pair;
    NAME(add_dots)(&sum, values, weights, pairs - pair < EXACT_KEYS / 2 ? pairs - pair : EXACT_KEYS / 2, first == 0 ? values + EXACT_KEYS * WIDE : NULL, count);
  }
  for (int h = 0; h < count; h++)
    for (int j = 0; j < WIDE / LANES; j++) {
      float *to = a->outputs[first + h] + at + j * LANES;
      v_store(to, v_load(to) + v_float(sum.of[h][j]));
    }
}

// The keys of slots [slot, end), whose weights stand at `from`.
static void NAME(sum_slots)(const Engine *e, int layer, int kv, int slot, int end, int from, const NAME(Queries) *a) {
  const int d = e->config.head_dim, pairs = (end - slot + 1) / 2;
  for (int at = 0; at < d; at += WIDE) {
    const int16_t *values = value_block(e, layer, kv, slot, at);
    for (int h = 0; h < a->count; h += ABREAST)
      OF_QUERIES(a->count - h, NAME(sum_block), values, d, a, h, from, pairs, at);
  }
}

static void NAME(sum_values)(const Engine *e, int layer, int kv, int end, const NAME(Queries) *a) {
  const int near = e->length / EXACT_KEYS * EXACT_KEYS, next = near + EXACT_KEYS;
  for (int slot = 0; slot < near; slot += EXACT_KEYS) NAME(sum_slots)(e, layer, kv, slot, slot + EXACT_KEYS, slot, a);
  NAME(sum_slots)(e, layer, kv, near, end, near, a);
  if (end > next) NAME(sum_slots)(e, layer, kv, next, end, next + NEAR, a);
}

// The scores of one row's heads, from number `first` on, become weights and what they are to be multiplied with.
static void NAME(softmax_row)(const Engine *e, int layer, int kv, int row, int heads, int first, NAME(Queries) *a) {
  const float *value_scale = e->value_scale + cache_row(e, layer, kv, 0);
  const int kept = e->length, near = kept / EXACT_KEYS * EXACT_KEYS, tail = e->depth[row] + 1;
  int32_t path[MAX_ROWS];
  float near_scale[NEAR + 16] = {0};
  for (int at = row, i = tail - 1; i >= 0; at = e->parents[at]) path[i--] = at;
  for (int i = near; i < kept + tail; i++) near_scale[i - near] = value_scale[i < kept ? i : kept + path[i - kept]];
  for (int i = first; i < first + heads; i++) {
    float *scores = a->scores[i], top;
    for (int k = 0; k < tail; k++) scores[kept + k] = scores[kept + path[k]];
    float total = NAME(softmax)(scores, kept + tail, &(NAME(Scales)){value_scale, near_scale, near}, &top);
    NAME(place_weights)(scores, top > 0 ? WEIGHT_TOP / top : 0, path, kept, kept + tail, a->weights[i]);
    a->scale[i] = top / WEIGHT_TOP / total;
  }
}

// Softmax attention of some rows and some query heads of one key head; the result goes out quantised.
// The keys are gone through once for all of them; what a row does not see has no weight.
static void NAME(attend)(Engine *e, int member, int layer, int kv, int row, int rows, int head, int heads) {
  const Config *c = &e->config;
  int d = c->head_dim, kept = e->length, end = kept + row + rows, paired = NAME(pairs)(&c->layer[layer].o);
  NAME(Queries) a = {.count = rows * heads};
  float outputs[ATTEND_ROWS * ATTEND_HEADS * 256];
  memset(outputs, 0, (size_t)a.count * d * sizeof(float));
  for (int i = 0; i < a.count; i++) {
    size_t at = (size_t)(row + i / heads) * c->heads + head + i % heads;
    a.q[i] = e->queries + at * d;
    a.scale[i] = e->query_scale[at];
    a.scores[i] = e->scores[member] + i * room_for_scores(e);
    a.weights[i] = e->weights[member] + i * room_for_scores(e);
    a.outputs[i] = outputs + (size_t)i * d;
  }
  NAME(score_keys)(e, layer, kv, end, &a);
  for (int r = 0; r < rows; r++) NAME(softmax_row)(e, layer, kv, row + r, heads, r * heads, &a);
  NAME(sum_values)(e, layer, kv, end, &a);
  for (int i = 0; i < a.count; i++) {
    for (int k = 0; k < d; k++) a.outputs[i][k] *= a.scale[i];
    for (int g = 0; g < d / GROUP; g++) NAME(quantise32)(a.outputs[i] + g * GROUP, &e->from_heads, row + i / heads, (head + i % heads) * (d / GROUP) + g, paired);
  }
}

// Units: a few rows and the heads of a key head, whose keys are then read once for all. At the end, where not every member
// would get one, the first half of the heads is a unit and the rest another.
static void NAME(attend_rows)(Engine *e, Member *me, int layer, int m) {
  const Config *c = &e->config;
  int group = c->heads / c->kv_heads, heads = group < ATTEND_HEADS ? group : ATTEND_HEADS, rows = m < ATTEND_ROWS ? m : ATTEND_ROWS;
  while (rows > 1 && (m + rows - 1) / rows * c->kv_heads < me->team->size) rows = (rows + 1) / 2;
  int pieces = (group + heads - 1) / heads, units = (m + rows - 1) / rows * c->kv_heads * pieces, whole = units - units % me->team->size;
  PHASE(me, 2 * units - whole, unit, {
    int index = unit < whole ? unit : (whole + unit) / 2, row = index / pieces / c->kv_heads * rows, kv = index / pieces % c->kv_heads;
    int first = index % pieces * heads, count = group - first < heads ? group - first : heads, half = unit < whole ? count : (count + 1) / 2;
    int before = unit >= whole && (unit - whole) % 2 ? half : 0, taken = before ? count - half : half;
    if (taken) NAME(attend)(e, me->index, layer, kv, row, m - row < rows ? m - row : rows, kv * group + first + before, taken);
  });
}

// ---- the forward

// Whoever has the phase's first unit decides for all.
static void NAME(look_for_end)(Engine *e, int next) {
  e->layer = next;
  if (next < e->request.layers) atomic_store(&e->ended, atomic_load(&e->interrupted));
}

static void NAME(run_layer)(Engine *e, Member *me, int index, int m) {
  const Layer *l = &e->config.layer[index];
  int hidden = e->config.hidden;
  NAME(project_rows)(e, me, index, NAME(normalise_rows)(e, me, l->attention_norm, NULL, m, NAME(pairs)(&l->q) | NAME(pairs)(&l->k) | NAME(pairs)(&l->v)), m);
  NAME(attend_rows)(e, me, index, m);
  PHASE(me, blocks_of(&l->o), b, NAME(multiply_block)(&l->o, b, &e->from_heads, m, e->x, hidden, 1));
  NAME(gate_rows)(e, me, l, NAME(normalise_rows)(e, me, l->mlp_norm, NULL, m, NAME(pairs)(&l->gate) | NAME(pairs)(&l->up)), m);
  PHASE(me, blocks_of(&l->down), b, {
    if (b == 0) NAME(look_for_end)(e, index + 1);
    NAME(multiply_block)(&l->down, b, &e->from_mlp, m, e->x, hidden, 1);
  });
}

// A token's embedding, and its inputs behind it.
static void NAME(join_row)(Engine *e, Member *me, int row) {
  const Matrix *fusion = &e->config.fusion, *embedding = &e->config.embedding;
  const int width = embedding->k, inputs = fusion->k - width;
  float *joined = e->scratch + me->index * widest_row(&e->config);
  embed(embedding, e->request.tokens[row], joined, width);
  if (inputs) memcpy(joined + width, e->request.inputs + (size_t)row * inputs, inputs * sizeof *joined);
  for (int g = 0; g < fusion->k / GROUP; g++) NAME(quantise32)(joined + g * GROUP, &e->from_joined, row, g, NAME(pairs)(fusion));
}

static void NAME(begin_row)(Engine *e, int row) {
  const Config *c = &e->config;
  float *x = e->x + (size_t)row * c->hidden;
  if (c->embedding.data) embed(&c->embedding, e->request.tokens[row], x, c->hidden);
  else memcpy(x, e->request.inputs + (size_t)row * c->hidden, c->hidden * sizeof *x);
}

// The residual stream, as the first layer takes it.
static void NAME(begin_rows)(Engine *e, Member *me, int m) {
  const Matrix *fusion = &e->config.fusion;
  if (!fusion->data) {
    PHASE(me, m, i, NAME(begin_row)(e, i));
    return;
  }
  PHASE(me, m, i, NAME(join_row)(e, me, i));
  PHASE(me, blocks_of(fusion), b, NAME(multiply_block)(fusion, b, &e->from_joined, m, e->x, e->config.hidden, 0));
}

// A member that comes late may read the next pass's request and flags: `team_open` came before them, so it gets no units.
static void NAME(run)(void *context, Member *me) {
  Engine *e = context;
  const Config *c = &e->config;
  const Request *r = &e->request;
  if (e->first_layer == 0) NAME(begin_rows)(e, me, r->n);
  for (int layer = e->first_layer; layer < r->layers; layer++) {
    NAME(run_layer)(e, me, layer, r->n);
    if (atomic_load(&e->ended)) return;
  }
  if (!r->n_logits) return;
  NAME(Hidden) last = NAME(normalise_rows)(e, me, c->final_norm, r->logit_rows, r->n_logits, NAME(pairs)(&c->head));
  PHASE(me, blocks_of(&c->head), b, NAME(multiply_block)(&c->head, b, NAME(ready)(e, me, &last), r->n_logits, r->logits, blocks_of(&c->head) * BLOCK, 0));
}
