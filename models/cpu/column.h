// The quants of a group's column groups as bytes, for variants whose W holds LANES output rows of four columns; `group`
// is where the first of those rows begins.

static inline INLINE W NAME(column)(const uint8_t *group, int bits, int j) {
  if (bits == 8) return w_load(group + j * 64);
  W packed = w_load(group + j % 4 * 64);
  if (j < 4) return w_and(packed, w_set8(mask_of(0, bits)));
  W lower = w_and(w_right(packed, bits), w_set8(mask_of(0, 8 - bits)));
  if (bits == 4) return lower;
  const int place = (j - 4) * bits_apart(bits), left = 8 - bits - place % 8; // see quant_at
  W upper = w_load(group + 256 + place / 8 * 64);
  upper = left > 0 ? w_left(upper, left) : w_right(upper, -left);
  return w_or(lower, w_and(upper, w_set8(mask_of(8 - bits, bits))));
}
