/* tests/cpu/int8_integers.h -- what is exact in products of 8-bit activations, checked for the
 * kernels of one instruction set. Each returns how many values are wrong. */
#ifndef TESTS_CPU_INT8_INTEGERS_H
#define TESTS_CPU_INT8_INTEGERS_H

#include "backends/cpu/kernels.h"

/* int8_block with scales and steps of 1, with the largest bytes too. */
int64_t int8_wrong_sums(const cpu_kernels *kernels, bool with_starts);

/* int8_round: every bit of integers, steps, starts and shifts; halves to even. */
int64_t int8_wrong_roundings(const cpu_kernels *kernels);

#endif
