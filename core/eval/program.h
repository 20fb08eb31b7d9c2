/* core/eval/program.h -- a plan that is kept: made once for inputs of given layouts, run again and
 * again with other memory.
 *
 * It is planned over stand-ins, arrays with a layout and no memory, exactly as an evaluation would
 * be. A run takes all memory that the plan found missing, puts the addresses where the steps have
 * them, and runs the steps: nothing is looked up, inferred or chosen again.
 */
#ifndef CORE_EVAL_PROGRAM_H
#define CORE_EVAL_PROGRAM_H

#include "core/eval/plan.h"

/* What the plan depends on of an input. */
typedef struct weft__layout {
    weft_spec spec;
    weft_device *device;
    int64_t strides[WEFT_MAX_DIMS]; /* in elements */
    bool lent; /* its memory may be overwritten; only if it is row-major without gaps */
} weft__layout;

typedef struct weft__program weft__program;

/* Fills out[] with the graph over in[]; both have as many arrays as weft__program_new was told. */
typedef weft_status weft__graph_builder(void *context, weft_array *const *in, weft_array **out);

weft_status weft__program_new(const weft__layout *inputs, int n_in, weft__graph_builder *build,
                              void *context, int n_out, weft__program **out);
void weft__program_free(weft__program *p); /* waits for a run that is under way */

/* Runs it on evaluated inputs of those layouts: out[] are new arrays of the innermost scope. All
 * memory is there before the first kernel runs. An input with replaced[i] (a subset of the lent
 * ones) is given up: it is spent if its memory was overwritten, which is only done where nothing
 * else can see that memory (`owners` slots hold it, and no other array of the inputs has it); else
 * a copy is overwritten. Without `wait` the steps are queued. */
typedef struct weft__program_call {
    weft_array *const *in;
    const bool *replaced; /* NULL: none */
    weft_array **out;
    bool wait;
} weft__program_call;
weft_status weft__program_run(weft__program *p, const weft__program_call *call);

/* Whether no run is under way, for whose end the next one would wait. */
bool weft__program_idle(const weft__program *p);

/* What it is made of. */
typedef struct weft__program_facts {
    int64_t steps;     /* kernels a run calls */
    int64_t fused;     /* nodes that became part of another node's kernel */
    int64_t buffers;   /* blocks of memory a run takes, */
    int64_t bytes;     /* and their bytes: outputs and everything between */
    int64_t donations; /* inputs whose memory is overwritten */
} weft__program_facts;
weft__program_facts weft__program_facts_of(const weft__program *p);

#endif
