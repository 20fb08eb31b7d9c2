/* backends/cpu/move.h -- copies of elements between strided layouts, bit for bit. */
#ifndef BACKENDS_CPU_MOVE_H
#define BACKENDS_CPU_MOVE_H

#include "weft/op.h"

/* Copies `shape` elements of `size` bytes (1, 2, 4 or 8). Strides are in elements; a stride of 0 in
 * `from` repeats. `to` and `from` do not overlap. */
void weft__cpu_move(const weft_dims *shape, int64_t size, const void *from,
                    const int64_t *from_strides, void *to, const int64_t *to_strides);

/* The same with tensors: copies `part` to the elements of `whole` that begin at `first` on every
 * axis, in steps of steps[d] (NULL: 1). */
void weft__cpu_put(const weft_tensor *part, const weft_tensor *whole, const int64_t *first,
                   const int64_t *steps);

/* Fills n elements of `size` bytes with the one at `value`. */
void weft__cpu_repeat(void *to, int64_t n, int64_t size, const void *value);

#endif
