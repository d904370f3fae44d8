// `block_dot` over the includer's `rows`, compiled once for each format of weights.

static void NAME(block_dot)(const Block *w, const Activations *x, int m, float *y) {
  switch (w->bits) {
  case 4: w->minima_at ? NAME(rows)(w, x, m, y, 4, 1) : NAME(rows)(w, x, m, y, 4, 0); break;
  case 5: w->minima_at ? NAME(rows)(w, x, m, y, 5, 1) : NAME(rows)(w, x, m, y, 5, 0); break;
  case 6: NAME(rows)(w, x, m, y, 6, 0); break;
  default: NAME(rows)(w, x, m, y, 8, 0);
  }
}
