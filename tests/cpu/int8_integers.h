/* tests/cpu/int8_integers.h -- checks the exact parts of products of 8-bit activations, for the
 * kernels of one instruction set. Each function returns the number of wrong values. */
#ifndef TESTS_CPU_INT8_INTEGERS_H
#define TESTS_CPU_INT8_INTEGERS_H

#include "backends/cpu/kernels.h"

/* int8_block with scales and steps of 1, with the largest bytes too. largest: of the codes, 15 or
 * 255. */
int64_t int8_wrong_sums(const cpu_kernels *kernels, bool with_starts, int largest);

/* int8_round: every bit of integers, steps, starts and shifts; halves to even. */
int64_t int8_wrong_roundings(const cpu_kernels *kernels);

/* int8_rows, with scales of 1 and the largest codes. */
int64_t int8_wrong_rows(const cpu_kernels *kernels);

#endif
