/* backends/cpu/elementwise.h -- between elementwise.c and elementwise_chain.c. */
#ifndef BACKENDS_CPU_ELEMENTWISE_H
#define BACKENDS_CPU_ELEMENTWISE_H

#include "backends/cpu/walk.h"
#include "weft/backend.h"

enum {
    CPU_CHAIN_BLOCK = 128,     /* elements of a block at least */
    CPU_CHAIN_CACHE = 24 << 10 /* bytes that the blocks of a chain take, or few elements each */
};

/* One loop over a block. Values are numbered as in the tape. */
typedef struct cpu_link {
    cpu_map *map;
    const weft_tape_step *step; /* when it is only that */
    unsigned char read[WEFT_MAX_OPERANDS], n_reads;
    unsigned char write;   /* the value that it makes */
    unsigned char slot;    /* where it is kept */
    bool wraps;            /* an integer narrower than its type */
    unsigned char op;      /* cpu_run_op: what it is within a run */
    unsigned char other;   /* the value that a run's step reads beside the one so far */
    unsigned char run;     /* links of the run that begins here, if more than 1 */
    cpu_convert *to, *fro; /* through a narrower float, if not NULL */
} cpu_link;

/* A tape without a kernel of its own, ready to be run step by step over blocks. */
typedef struct cpu_chain {
    const weft_tape *tape;
    cpu_type type;
    int bits;    /* of the integer dtype */
    size_t size; /* of an element of the type */
    int n_slots, n_links, n_constants;
    unsigned char result;                         /* a value */
    cpu_link links[2 * WEFT_TAPE_MAX_STEPS];      /* in order; no constants */
    unsigned char constants[WEFT_TAPE_MAX_STEPS]; /* steps, kept in the first slots */
} cpu_chain;

/* The generated kernel of the tape; NULL when there is none. */
cpu_map *weft__cpu_find_map(const weft_tape *tape, cpu_type type, bool to_bool);

void weft__cpu_chain_prepare(cpu_chain *chain, const weft_tape *tape, cpu_type type, int bits);

/* Filling the slots of constants, of `block` elements each, once for any number of blocks. */
void weft__cpu_chain_constants(const cpu_chain *chain, char *slots, int64_t block);

/* n <= block elements. Nothing is written to `out` before the last reading of `in`. */
void weft__cpu_chain_run(const cpu_chain *chain, const void *const *in, void *out, int64_t n,
                         char *slots, int64_t block);

#endif
