/* backends/cpu/elementwise.h -- interface between elementwise.c, elementwise_chain.c and
 * elementwise_program.c. */
#ifndef BACKENDS_CPU_ELEMENTWISE_H
#define BACKENDS_CPU_ELEMENTWISE_H

#include "backends/cpu/walk.h"
#include "weft/backend.h"

enum {
    CPU_CHAIN_BLOCK = 128, /* minimum elements per block */
    CPU_CHAIN_CACHE =
        24 << 10 /* bytes for the blocks of a chain, unless that makes them too small */
};

/* One loop over a block. Values are numbered as in the tape. */
typedef struct cpu_link {
    cpu_map *map;
    const weft_tape_step *step; /* if the link is a single step */
    unsigned char read[WEFT_MAX_OPERANDS], n_reads;
    unsigned char write;    /* the value that it computes */
    unsigned char slot;     /* slot of that value */
    bool wraps;             /* the integer dtype is narrower than the compute type */
    cpu_convert *to, *fro;  /* if not NULL, rounds through a narrower float */
    unsigned char rounding; /* code of that rounding */
} cpu_link;

/* A tape without a generated kernel, to be run step by step over blocks. */
typedef struct cpu_chain {
    const weft_tape *tape;
    cpu_type type;
    int bits;    /* of the integer dtype */
    size_t size; /* of an element of the compute type */
    int n_slots, n_links, n_constants;
    unsigned char result;                         /* a value */
    cpu_link links[2 * WEFT_TAPE_MAX_STEPS];      /* in order, without constants */
    unsigned char constants[WEFT_TAPE_MAX_STEPS]; /* steps that are constants; they are in the first
                                                   * slots */
} cpu_chain;

/* The generated kernel for the tape; NULL: none. */
cpu_map *weft__cpu_find_map(const weft_tape *tape, cpu_type type, bool to_bool);

void weft__cpu_chain_prepare(cpu_chain *chain, const weft_tape *tape, cpu_type type, int bits);

/* Fills the slots of constants, with `block` elements each; done once for any number of blocks. */
void weft__cpu_chain_constants(const cpu_chain *chain, char *slots, int64_t block);

/* n <= block elements. All of `in` is read before `out` is written. */
void weft__cpu_chain_run(const cpu_chain *chain, const void *const *in, void *out, int64_t n,
                         char *slots, int64_t block);

/* ---- Programs ------------------------------------------------------------------------------- */

enum { CPU_PROGRAM_RECORDS = 256, CPU_PROGRAM_ARGUMENTS = 128, CPU_PROGRAM_SLOTS = 48 };

typedef enum cpu_place { CPU_NOWHERE, CPU_IN_OPERAND, CPU_IN_SLOT, CPU_IN_OUTPUT } cpu_place;

/* A record before addresses are known. */
typedef struct cpu_draft {
    unsigned char stage;        /* cpu_stage_name */
    unsigned char place, index; /* of y */
    unsigned char first_argument;
    float number;
    cpu_map *map;
} cpu_draft;

/* A float chain as a program (elementwise_kernels.h). n_records 0: the chain has no program. */
typedef struct cpu_program {
    int n_records, n_arguments, n_slots;
    cpu_draft records[CPU_PROGRAM_RECORDS];
    unsigned char arguments[CPU_PROGRAM_ARGUMENTS]; /* slots */
} cpu_program;

/* A program of one task, with memory for its slots and for the remainder of a row. */
typedef struct cpu_running {
    const cpu_program *program;
    bool reads[WEFT_TAPE_MAX_OPERANDS]; /* whether operand k is read from memory */
    cpu_record records[CPU_PROGRAM_RECORDS];
    const void *arguments[CPU_PROGRAM_ARGUMENTS];
    _Alignas(64) float slots[CPU_PROGRAM_SLOTS][CPU_CHAIN_BLOCK];
    _Alignas(64) float rest[WEFT_TAPE_MAX_OPERANDS][CPU_CHAIN_BLOCK];
} cpu_running;

/* The stage for a code whose x is operand k; CPU_STAGE_COUNT: none. */
cpu_stage_name weft__cpu_stage_of(unsigned char code, int k);

/* number[k]: operand k if it is a scalar, else NULL. */
void weft__cpu_program_write(cpu_program *program, const cpu_chain *chain,
                             const float *const *number);

/* For tests, while nothing runs: sets the assumed size of the last-level cache. */
void weft__cpu_elementwise_cache(int64_t bytes);

void weft__cpu_program_open(cpu_running *r, const cpu_program *program);

/* Runs n elements. Operands are read from `in`, except scalars. Each element of `in` is read before
 * that of `out` is written. early: operands are not cached and are prefetched. past: output
 * bypasses the caches. */
void weft__cpu_program_run(cpu_running *r, const void *const *in, void *out, int64_t n, bool early,
                           bool past);

/* ---- Sources -------------------------------------------------------------------------------- */

/* Computes the elements of call->formula as floats, for kernels that compute their input while
 * reading. NULL: out of memory. */
typedef struct cpu_source cpu_source;
cpu_source *weft__cpu_source_open(const weft_call *call);
void weft__cpu_source_close(cpu_source *s);

/* n elements in row-major order from `first` on. May be called by several threads. */
void weft__cpu_source_read(const cpu_source *s, int64_t first, int64_t n, float *to);

#endif
