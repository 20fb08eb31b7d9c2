/* backends/cpu/walk.h -- reads strided operands in the order of a row-major output.
 *
 * Axes that are contiguous with each other in every operand are merged, so most walks have one or
 * two axes. Operands are then read in blocks.
 */
#ifndef BACKENDS_CPU_WALK_H
#define BACKENDS_CPU_WALK_H

#include "backends/cpu/elementwise_kernels.h"
#include "weft/op.h"

enum {
    CPU_BLOCK = 1024,    /* elements processed at a time: a few blocks fit the L1 cache */
    CPU_GRAIN = 32 << 10 /* elements per task */
};

typedef struct cpu_walk {
    int n_dims; /* at least 1 */
    int64_t size;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t strides[WEFT_TAPE_MAX_OPERANDS][WEFT_MAX_DIMS];
} cpu_walk;

/* Prepares the walk over `n` inputs of the output's shape. */
void weft__cpu_walk(const weft_tensor *out, const weft_tensor *in, int n, cpu_walk *walk);

/* The element offset in operand k of position `at` of the output. */
int64_t weft__cpu_walk_offset(const cpu_walk *walk, int k, int64_t at);

/* Whether operand k is a single element, and whether it has the output's layout. */
bool weft__cpu_walk_is_scalar(const cpu_walk *walk, int k);
bool weft__cpu_walk_is_dense(const cpu_walk *walk, int k);

/* Copies n elements of operand k, from position `at` on, to `to`, without conversion. */
void weft__cpu_gather(const cpu_walk *walk, int k, const weft_tensor *tensor, int64_t at, int64_t n,
                      void *to);

/* n copies of one element of `size` bytes. */
void weft__cpu_walk_splat(void *to, const void *element, size_t size, int64_t n);

/* The conversion and map functions for this machine. */
const cpu_elementwise_table *weft__cpu_elementwise_table(void);

/* For tests: switches to the functions of another instruction set, which the machine must support.
 */
void weft__cpu_elementwise_use(cpu_isa isa);

#endif
