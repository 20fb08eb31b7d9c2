/* backends/cpu/elementwise_kernels.h -- types shared by elementwise.c and the generated files.
 *
 * tools/generate_elementwise.c writes two files from the ops' formulas: elementwise_keys.c lists
 * the tapes that have a kernel; elementwise_loops.c, compiled once per instruction set, has those
 * kernels, and one for every code of the vocabulary, from which all other tapes are composed.
 */
#ifndef BACKENDS_CPU_ELEMENTWISE_KERNELS_H
#define BACKENDS_CPU_ELEMENTWISE_KERNELS_H

#include "backends/cpu/isa.h"
#include "weft/tape.h"

/* Compute types, in the order of the classes. Integers below 32 bits are computed in 32. */
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

enum { CPU_VARIANTS = 4 }; /* maximum number of types per class */

/* out[i] = f(in[0][i], ...) for n elements of one type; `bits` is the width of an integer dtype.
 * The output may be one of the inputs. */
typedef void cpu_map(const void *const *in, void *out, int64_t n, int bits);

/* to[i] = from[i], converted as by weft_astype. */
typedef void cpu_convert(const void *from, void *to, int64_t n);

/* ---- Programs ------------------------------------------------------------------------------- */

/* The stages of programs for several ops. A stage processes one group of floats in registers, x,
 * and jumps to the stage of the next record. Each rounds as the op's own kernel does. Stages up to
 * CPU_STAGE_LE_OF take y from memory, and are followed by a version that takes a number for y: x op
 * y, or y op x if the name ends in OF. */
typedef enum cpu_stage_name {
    CPU_STAGE_LOAD, /* x = y */
    CPU_STAGE_LOAD_NUMBER,
    CPU_STAGE_ADD,
    CPU_STAGE_ADD_NUMBER,
    CPU_STAGE_SUB,
    CPU_STAGE_SUB_NUMBER,
    CPU_STAGE_SUB_OF,
    CPU_STAGE_SUB_OF_NUMBER,
    CPU_STAGE_MUL,
    CPU_STAGE_MUL_NUMBER,
    CPU_STAGE_DIV,
    CPU_STAGE_DIV_NUMBER,
    CPU_STAGE_DIV_OF,
    CPU_STAGE_DIV_OF_NUMBER,
    CPU_STAGE_MIN,
    CPU_STAGE_MIN_NUMBER,
    CPU_STAGE_MIN_OF,
    CPU_STAGE_MIN_OF_NUMBER,
    CPU_STAGE_MAX,
    CPU_STAGE_MAX_NUMBER,
    CPU_STAGE_MAX_OF,
    CPU_STAGE_MAX_OF_NUMBER,
    CPU_STAGE_LT,
    CPU_STAGE_LT_NUMBER,
    CPU_STAGE_LT_OF,
    CPU_STAGE_LT_OF_NUMBER,
    CPU_STAGE_LE,
    CPU_STAGE_LE_NUMBER,
    CPU_STAGE_LE_OF,
    CPU_STAGE_LE_OF_NUMBER,
    CPU_STAGE_EQ,
    CPU_STAGE_EQ_NUMBER,
    CPU_STAGE_NE,
    CPU_STAGE_NE_NUMBER,
    CPU_STAGE_AND,
    CPU_STAGE_AND_NUMBER,
    CPU_STAGE_OR,
    CPU_STAGE_OR_NUMBER,
    CPU_STAGE_MIN_PLAIN, /* y is a number other than NaN and 0 */
    CPU_STAGE_MAX_PLAIN,
    CPU_STAGE_NEG,
    CPU_STAGE_ABS,
    CPU_STAGE_SQRT,
    CPU_STAGE_NOT,
    CPU_STAGE_SQUARE,
    CPU_STAGE_ROUND16, /* rounds to float16 */
    CPU_STAGE_ROUNDB,
    CPU_STAGE_SELECT,        /* x ? y : the next record's y; takes two records */
    CPU_STAGE_SELECT_FIRST,  /* y ? x : the next record's y */
    CPU_STAGE_SELECT_SECOND, /* y ? the next record's y : x */
    CPU_STAGE_CALL,          /* calls map(in, y), then x = y */
    CPU_STAGE_STORE,         /* y = x */
    CPU_STAGE_STREAM,        /* bypassing the caches; y is aligned to 64 bytes */
    CPU_STAGE_END,           /* the last record */
    CPU_STAGE_COUNT
} cpu_stage_name;

/* A function of isa/elementwise_run.c. Its arguments are vectors, so only that file can call it. */
typedef void cpu_stage(void);

typedef struct cpu_record {
    cpu_stage *stage;
    char *y;
    int64_t mask; /* -1: y advances from group to group; 0: y is one group used for all */
    float number;
    cpu_map *map;
    const void *const *in; /* inputs of `map`: one group each */
} cpu_record;

/* Memory that a program reads in order and that is not cached, to be prefetched. */
typedef struct cpu_ahead {
    int n;
    const char *at[WEFT_TAPE_MAX_OPERANDS];
} cpu_ahead;

typedef struct cpu_elementwise_table {
    cpu_map *const (*fused)[CPU_VARIANTS];   /* by key, and by type within the key's class */
    cpu_map *const (*steps)[CPU_TYPE_COUNT]; /* by code; NULL if undefined for the type */
    cpu_convert *const (*convert)[WEFT_DTYPE_COUNT]; /* from, to */
    cpu_stage *const *stages;                        /* by cpu_stage_name */
    /* Runs a program on n floats, a multiple of `group`. ahead: NULL for no prefetching. */
    void (*run)(const cpu_record *program, int64_t n, const cpu_ahead *ahead);
    int64_t group;
} cpu_elementwise_table;

CPU_DECLARE_FILL(weft__fill_elementwise, cpu_elementwise_table);
CPU_DECLARE_FILL(weft__fill_convert, cpu_elementwise_table);
CPU_DECLARE_FILL(weft__fill_elementwise_run, cpu_elementwise_table);

/* A tape that has kernels. Keys are sorted by hash. */
typedef struct cpu_key {
    uint64_t hash;
    weft_class klass;
    bool to_bool; /* the output is bool, whatever the compute type */
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
