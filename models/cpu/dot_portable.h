// One block of 16 output rows against m rows of activations, in plain C: for machines without a variant of their own.

enum { NAME(PAIRED) = 0 };

// A group's quants as bytes: [8 column groups][16 rows x 4 columns].
static void NAME(unpack)(const uint8_t *group, int bits, uint8_t quant[8][64]) {
  for (int j = 0; j < 8; j++)
    for (int byte = 0; byte < 64; byte++) quant[j][byte] = (uint8_t)quant_at(group, bits, j, byte);
}

// sums[row] += the products of column groups [from, to).
static inline void NAME(dot)(const uint8_t quant[8][64], const int8_t *x, int from, int to, int32_t sums[BLOCK]) {
  for (int j = from; j < to; j++)
    for (int row = 0; row < BLOCK; row++) {
      const uint8_t *w = quant[j] + row * 4;
      const int8_t *at = x + j * 4;
      sums[row] += w[0] * at[0] + w[1] * at[1] + w[2] * at[2] + w[3] * at[3];
    }
}

static void NAME(scale_group)(const Block *w, const uint8_t *group, uint8_t quant[8][64], const Activations *x, int i, int g, float *y) {
  int parts = GROUP / w->scale_columns;
  for (int part = 0; part < parts; part++) {
    int offset = w->zero * (parts == 1 ? SUM32(x, i, g) : SUM16(x, i, g, part));
    int32_t sums[BLOCK] = {0};
    NAME(dot)(quant, QUANTS(x, i, g), part * 4, part * 4 + 8 / parts, sums);
    for (int row = 0; row < BLOCK; row++)
      y[row] += (float)(sums[row] - offset) * (scale_at(w, group + w->scales_at, part, row) * SCALE(x, i, g));
  }
  for (int row = 0; w->minima_at && row < BLOCK; row++) y[row] += scale_at(w, group + w->minima_at, 0, row) * SCALED_SUM(x, i, g);
}

static void NAME(block_dot)(const Block *w, const Activations *x, int m, float *y, int stride) {
  uint8_t quant[8][64];
  for (int g = 0; g < w->groups; g++) {
    const uint8_t *group = w->data + (size_t)g * w->stride;
    NAME(unpack)(group, w->bits, quant);
    for (int i = 0; i < m; i++) NAME(scale_group)(w, group, quant, x, i, g, y + (size_t)i * stride);
  }
}
