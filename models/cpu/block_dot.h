// `block_dot`, y [m][stride] += x . w^T, over the includer's `rows`, compiled once for each format of weights.

static void NAME(block_dot)(const Block *w, const Activations *x, int m, float *y, int stride) {
  switch (w->bits) {
  case 4: w->minima_at ? NAME(rows)(w, x, m, y, stride, 4, 1) : NAME(rows)(w, x, m, y, stride, 4, 0); break;
  case 5: w->minima_at ? NAME(rows)(w, x, m, y, stride, 5, 1) : NAME(rows)(w, x, m, y, stride, 5, 0); break;
  case 6: NAME(rows)(w, x, m, y, stride, 6, 0); break;
  default: NAME(rows)(w, x, m, y, stride, 8, 0);
  }
}
