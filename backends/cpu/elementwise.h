/* backends/cpu/elementwise.h -- between elementwise.c and elementwise_chain.c. */
#ifndef BACKENDS_CPU_ELEMENTWISE_H
#define BACKENDS_CPU_ELEMENTWISE_H

#include "backends/cpu/walk.h"
#include "weft/backend.h"

enum { CPU_CHAIN_BLOCK = 256 };

/* A tape without a kernel of its own, ready to be run step by step over blocks. */
typedef struct cpu_chain {
    const weft_tape *tape;
    cpu_type type;
    int bits;    /* of the integer dtype */
    size_t size; /* of an element of the type */
    int n_slots;
    unsigned char slot[WEFT_TAPE_MAX_STEPS]; /* where each step's result is kept */
} cpu_chain;

void weft__cpu_chain_prepare(cpu_chain *chain, const weft_tape *tape, cpu_type type, int bits);

/* Bytes of the slots, and filling those of the constants, once for any number of blocks. */
size_t weft__cpu_chain_slot_bytes(const cpu_chain *chain);
void weft__cpu_chain_constants(const cpu_chain *chain, char *slots);

/* One block of n <= CPU_CHAIN_BLOCK elements. */
void weft__cpu_chain_run(const cpu_chain *chain, const void *const *in, void *out, int64_t n,
                         char *slots);

#endif
