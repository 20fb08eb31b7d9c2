/* backends/cpu/elementwise.h -- between elementwise.c, elementwise_chain.c and
 * elementwise_program.c. */
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
    unsigned char write;    /* the value that it makes */
    unsigned char slot;     /* where it is kept */
    bool wraps;             /* an integer narrower than its type */
    cpu_convert *to, *fro;  /* through a narrower float, if not NULL */
    unsigned char rounding; /* the code of that */
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

/* ---- Programs ------------------------------------------------------------------------------- */

enum { CPU_PROGRAM_RECORDS = 256, CPU_PROGRAM_ARGUMENTS = 128, CPU_PROGRAM_SLOTS = 48 };

typedef enum cpu_place { CPU_NOWHERE, CPU_IN_OPERAND, CPU_IN_SLOT, CPU_IN_OUTPUT } cpu_place;

/* A record before it is known where things lie. */
typedef struct cpu_draft {
    unsigned char stage;        /* cpu_stage_name */
    unsigned char place, index; /* of y */
    unsigned char first_argument;
    float number;
    cpu_map *map;
} cpu_draft;

/* A chain of float as one program (elementwise_kernels.h); without records there is none. */
typedef struct cpu_program {
    int n_records, n_arguments, n_slots;
    cpu_draft records[CPU_PROGRAM_RECORDS];
    unsigned char arguments[CPU_PROGRAM_ARGUMENTS]; /* slots */
} cpu_program;

/* A program of one task, with memory for its slots and for the end of a row. */
typedef struct cpu_running {
    const cpu_program *program;
    bool reads[WEFT_TAPE_MAX_OPERANDS]; /* operand k, in memory */
    cpu_record records[CPU_PROGRAM_RECORDS];
    const void *arguments[CPU_PROGRAM_ARGUMENTS];
    _Alignas(64) float slots[CPU_PROGRAM_SLOTS][CPU_CHAIN_BLOCK];
    _Alignas(64) float rest[WEFT_TAPE_MAX_OPERANDS][CPU_CHAIN_BLOCK];
} cpu_running;

/* The stage of a code with operand k of it as x; CPU_STAGE_COUNT when there is none. */
cpu_stage_name weft__cpu_stage_of(unsigned char code, int k);

/* number[k]: operand k, where that is one number; NULL where it is not. */
void weft__cpu_program_write(cpu_program *program, const cpu_chain *chain,
                             const float *const *number);

/* For tests, while nothing runs: how large the last cache is taken to be. */
void weft__cpu_elementwise_cache(int64_t bytes);

void weft__cpu_program_open(cpu_running *r, const cpu_program *program);

/* n elements. Operands are read where `in` says; numbers are not. Nothing is written to `out`
 * before the last reading of `in`, element by element. early: operands come from beyond the
 * caches and are fetched ahead of their time. past: the output goes past the caches. */
void weft__cpu_program_run(cpu_running *r, const void *const *in, void *out, int64_t n, bool early,
                           bool past);

/* ---- Sources -------------------------------------------------------------------------------- */

/* The elements of call->formula as floats, for kernels that compute them as they read. NULL: no
 * memory for it. */
typedef struct cpu_source cpu_source;
cpu_source *weft__cpu_source_open(const weft_call *call);
void weft__cpu_source_close(cpu_source *s);

/* n elements, row-major from `first` on. Any number of threads at a time. */
void weft__cpu_source_read(const cpu_source *s, int64_t first, int64_t n, float *to);

#endif
