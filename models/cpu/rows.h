// `rows` and `block_dot` over the includer's `tile`: all rows of activations, TILE_ROWS at a time, SPAN groups by SPAN groups.

static inline INLINE void NAME(tile_rows)(const Block *w, const Activations *x, int row, int left, int from, int to, float *y, int stride, int bits, int minima) {
  switch (left) {
  case 1: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 1); break;
  case 2: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 2); break;
  case 3: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 3); break;
#if TILE_ROWS > 4
  case 4: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 4); break;
  case 5: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 5); break;
  case 6: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 6); break;
  case 7: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, 7); break;
#endif
  default: NAME(tile)(w, x, row, from, to, y, stride, bits, minima, TILE_ROWS);
  }
}

static inline INLINE void NAME(rows)(const Block *w, const Activations *x, int m, float *y, int stride, int bits, int minima) {
  for (int from = 0; from < w->groups; from += SPAN)
    for (int row = 0; row < m; row += TILE_ROWS)
      NAME(tile_rows)(w, x, row, m - row, from, from + SPAN < w->groups ? from + SPAN : w->groups, y, stride, bits, minima);
}

#include "block_dot.h"
