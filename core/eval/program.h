/* core/eval/program.h -- a program: a plan made once for inputs of given layouts, and run many
 * times on different memory.
 *
 * It is planned over stand-ins, arrays with a layout but without memory, as an evaluation would be.
 * A run allocates the memory, writes the addresses into the steps, and runs them. Nothing is looked
 * up, inferred or selected again.
 */
#ifndef CORE_EVAL_PROGRAM_H
#define CORE_EVAL_PROGRAM_H

#include "core/eval/plan.h"

/* The properties of an input that the plan depends on. */
typedef struct weft__layout {
    weft_spec spec;
    weft_device *device;
    int64_t strides[WEFT_MAX_DIMS]; /* in elements */
    bool lent; /* its memory may be overwritten; requires a row-major layout without gaps */
} weft__layout;

typedef struct weft__program weft__program;

/* Builds the graph over in[] into out[]; the numbers of arrays are those given to
 * weft__program_new. */
typedef weft_status weft__graph_builder(void *context, weft_array *const *in, weft_array **out);

weft_status weft__program_new(const weft__layout *inputs, int n_in, weft__graph_builder *build,
                              void *context, int n_out, weft__program **out);
void weft__program_free(weft__program *p); /* waits for a run in progress */

/* Runs the program on evaluated inputs of those layouts; out[] are new arrays of the innermost
 * scope. All memory is allocated before the first kernel runs. An input with replaced[i] (a subset
 * of the lent ones) may be overwritten and is then spent, but only if nothing else can see its
 * memory (`owners` slots hold it, and no other input shares it); otherwise a copy is overwritten.
 * Without `wait` the steps are queued. */
typedef struct weft__program_call {
    weft_array *const *in;
    const bool *replaced; /* NULL: none */
    weft_array **out;
    bool wait;
} weft__program_call;
weft_status weft__program_run(weft__program *p, const weft__program_call *call);

/* Whether no run is in progress, so that the next one need not wait. */
bool weft__program_idle(const weft__program *p);

/* Figures about a program. */
typedef struct weft__program_facts {
    int64_t steps;     /* kernels per run */
    int64_t fused;     /* nodes fused into other nodes' kernels */
    int64_t buffers;   /* memory blocks that a run allocates, */
    int64_t bytes;     /* and their bytes: outputs and intermediates */
    int64_t donations; /* inputs whose memory is overwritten */
} weft__program_facts;
weft__program_facts weft__program_facts_of(const weft__program *p);

#endif
