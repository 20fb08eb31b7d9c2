/* core/compile/compiled.h -- a compiled function: its cache of traces, and the programs of each. */
#ifndef CORE_COMPILE_COMPILED_H
#define CORE_COMPILE_COMPILED_H

#include "core/compile/trace.h"
#include "core/eval/program.h"
#include "weft/compile.h"

enum { WEFT__BUCKETS = 64, WEFT__VARIANTS = 8, WEFT__REASONS = 8, WEFT__SYMBOLS = 3 };

/* What a call found in a slot, and what the function did to it. */
typedef enum weft__fate { WEFT__LEFT, WEFT__SET, WEFT__EMPTIED } weft__fate;

/* What the function gets: an argument or a slot's array. */
typedef struct weft__parameter {
    weft_spec spec;
    weft_device *device; /* NULL: the slot was empty */
    /* Per axis: 0, or 1 + the symbol that its length is. */
    unsigned char symbols[WEFT_MAX_DIMS];
} weft__parameter;

/* A program for one layout of the inputs, and one length of each symbol. */
typedef struct weft__variant {
    weft__program *program; /* NULL: none */
    weft__layout *layouts;  /* per input */
    int64_t sizes[WEFT__SYMBOLS];
    int64_t nodes; /* left after simplifying */
    uint64_t used;
} weft__variant;

typedef struct weft__forms weft__forms; /* dynamic.h */

/* One combination of shapes, dtypes and devices. */
typedef struct weft__combination {
    struct weft__combination *chain;         /* of its bucket */
    struct weft__combination *newer, *older; /* by use */
    uint64_t hash;
    int n_in, n_out;
    weft__parameter *parameters; /* of the arguments, then of the slots */
    weft__trace trace;           /* over the inputs: the parameters that are there */
    weft__forms *forms;          /* of the dynamic axes, or NULL */
    int n_symbols;
    int64_t n_inputs;
    bool draws;     /* random numbers: the last input is a fresh key */
    bool *replaced; /* per input: a slot's that the function replaces */
    weft__fate *fates;
    int n_set;             /* outputs of the trace behind n_out */
    int64_t traced, nodes; /* before and after simplifying */
    weft__variant variants[WEFT__VARIANTS];
    int n_variants;
} weft__combination;

struct weft_compiled {
    weft_function *fn;
    void *context;
    weft_compile_options options;
    char *name;
    weft_array ***slots;
    int n_slots;
    weft_compile_counts counts;
    weft__combination *buckets[WEFT__BUCKETS];
    weft__combination *newest, *oldest;
    int n_combinations;
    char *reasons[WEFT__REASONS]; /* of recompiles, a ring */
    int64_t n_reasons;
    uint64_t clock;
    /* Room for one call. */
    weft_array **inputs, **outputs;
    int input_room, output_room;
};

/* ---- cache.c -------------------------------------------------------------------------------- */

/* The combination of the call's arguments and of what the slots hold; NULL: it is new. */
weft__combination *weft__compiled_find(weft_compiled *c, weft_array *const *in, int n_in,
                                       int n_out);
/* An empty one for them, not yet in the cache. NULL: no memory. */
weft__combination *weft__combination_new(weft_compiled *c, weft_array *const *in, int n_in,
                                         int n_out);
/* Puts it in, and the least used one out if there are too many; notes why it was needed. */
void weft__compiled_insert(weft_compiled *c, weft__combination *k);
void weft__combination_free(weft__combination *k);
void weft__compiled_note(weft_compiled *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* The lengths of its symbols in a call. */
void weft__combination_sizes(const weft_compiled *c, const weft__combination *k,
                             weft_array *const *in, int64_t *sizes);

/* ---- tracing.c ------------------------------------------------------------------------------ */

/* Calls the function on placeholders of these parameters: the trace, what became of the slots. */
weft_status weft__trace_function(weft_compiled *c, const weft__combination *k,
                                 const weft__parameter *parameters, weft__trace *trace,
                                 weft__fate *fates);
/* Fills the combination's trace, and its forms if it has symbols. */
weft_status weft__combination_trace(weft_compiled *c, weft__combination *k);

/* "state 2 (model.w)" into text. */
void weft__slot_text(const weft_compiled *c, int slot, char *text, size_t size);

/* ---- simplify.c, fold.c, identities.c ------------------------------------------------------- */

/* The same function in fewer nodes. */
weft_status weft__simplify(const weft__trace *t, weft__trace *out);
/* Whether the node is one of its inputs for all elements; *value: which. */
bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, weft__value *value);
/* Whether the order of the two inputs has no meaning. */
bool weft__is_commutative(const weft_op *op);
/* Computes nodes that depend on no argument and are small: folded[i] is a held array for those
 * that a node which stays, or an output, needs, NULL for others. All of them are NULL on entry. */
weft_status weft__fold(const weft__trace *t, weft_array **folded);

#endif
