/* backends/cpu/elementwise_kernels.h -- what the generated files and elementwise.c agree on.
 *
 * tools/generate_elementwise.c writes two files from the ops' formulas: elementwise_keys.c says
 * which tapes have a kernel of their own; elementwise_loops.c, compiled once per instruction set,
 * has those kernels and one for every code of the vocabulary, from which any other tape is put
 * together.
 */
#ifndef BACKENDS_CPU_ELEMENTWISE_KERNELS_H
#define BACKENDS_CPU_ELEMENTWISE_KERNELS_H

#include "backends/cpu/isa.h"
#include "weft/tape.h"

/* What is computed in, in the order of the classes. Integers below 32 bits are computed in 32. */
typedef enum cpu_type {
    CPU_F32,
    CPU_F64,
    CPU_I32,
    CPU_U32,
    CPU_I64,
    CPU_U64,
    CPU_B8,
    CPU_C64,
    CPU_TYPE_COUNT
} cpu_type;

enum { CPU_VARIANTS = 4 }; /* the most types of a class */

/* out[i] = f(in[0][i], ...) for n elements of one type; `bits` is the width of an integer dtype.
 * The output may be one of the inputs. */
typedef void cpu_map(const void *const *in, void *out, int64_t n, int bits);

/* to[i] = from[i], converted as weft_astype says. */
typedef void cpu_convert(const void *from, void *to, int64_t n);

/* One op of a run: the value so far, x, becomes x op y. The _OF are those with y first. */
typedef enum cpu_run_op {
    CPU_RUN_NONE,
    CPU_RUN_ADD,
    CPU_RUN_SUB,
    CPU_RUN_SUB_FROM, /* y - x */
    CPU_RUN_MUL,
    CPU_RUN_MIN,
    CPU_RUN_MIN_OF,
    CPU_RUN_MAX,
    CPU_RUN_MAX_OF
} cpu_run_op;

typedef struct cpu_run_step {
    cpu_run_op op;
    const float *y;
} cpu_run_step;

typedef struct cpu_elementwise_table {
    cpu_map *const (*fused)[CPU_VARIANTS];           /* by key, and by the type within its class */
    cpu_map *const (*steps)[CPU_TYPE_COUNT];         /* by code; NULL where it has no meaning */
    cpu_convert *const (*convert)[WEFT_DTYPE_COUNT]; /* from, to */
    /* Several ops on n floats, a multiple of run_elements. */
    void (*run)(const cpu_run_step *steps, int n_steps, const float *x, float *out, int64_t n);
    int64_t run_elements;
} cpu_elementwise_table;

CPU_DECLARE_FILL(weft__fill_elementwise, cpu_elementwise_table);
CPU_DECLARE_FILL(weft__fill_convert, cpu_elementwise_table);
CPU_DECLARE_FILL(weft__fill_elementwise_run, cpu_elementwise_table);

/* A tape that has kernels. They are sorted by hash. */
typedef struct cpu_key {
    uint64_t hash;
    weft_class klass;
    bool to_bool; /* the kernel's output is bool, whatever its type */
    int n_operands, n_steps;
    const weft_tape_step *steps;
} cpu_key;

extern const cpu_key weft__cpu_keys[];
extern const int weft__cpu_key_count;

static inline uint64_t cpu_tape_hash(const weft_tape *tape, bool to_bool)
{
    const uint64_t prime = UINT64_C(0x100000001b3);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = (hash ^ (uint64_t)tape->klass) * prime;
    hash = (hash ^ (uint64_t)tape->n_operands << 1 ^ (uint64_t)to_bool) * prime;
    for (int i = 0; i < tape->n_steps; i++) {
        const weft_tape_step *s = &tape->steps[i];
        uint64_t word;
        __builtin_memcpy(&word, &s->constant, sizeof word);
        hash = (hash ^ word ^ word >> 32) * prime;
        hash = (hash ^ s->code) * prime;
        hash = (hash ^ s->value[0] ^ s->value[1] << 8 ^ s->value[2] << 16) * prime;
    }
    return hash;
}

#endif
