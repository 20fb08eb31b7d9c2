/* core/compile/compiled.h -- a compiled function: families of shapes, the traces of each, and their
 * programs. */
#ifndef CORE_COMPILE_COMPILED_H
#define CORE_COMPILE_COMPILED_H

#include "core/compile/trace.h"
#include "core/eval/program.h"
#include "core/transforms/transforms.h"
#include "weft/compile.h"

enum { WEFT__BUCKETS = 64, WEFT__VARIANTS = 8, WEFT__REASONS = 8 };

/* What a call found in a slot, and what the function did to it. */
typedef enum weft__fate { WEFT__LEFT, WEFT__SET, WEFT__EMPTIED } weft__fate;

/* What the function gets: an argument or a slot's array. */
typedef struct weft__parameter {
    weft_spec spec;
    weft_device *device; /* NULL: the slot was empty */
    uint32_t varying;    /* bit d: axis d is dynamic */
} weft__parameter;

/* A program for one layout of the inputs. */
typedef struct weft__variant {
    weft__program *program; /* NULL: none */
    weft__layout *layouts;  /* per input */
    uint64_t used;
} weft__variant;

/* One combination of shapes, dtypes and devices, with its trace. */
typedef struct weft__combination {
    struct weft__combination *chain;         /* of its bucket */
    struct weft__combination *newer, *older; /* of its family, by use */
    struct weft__family *family;
    uint64_t hash;
    int n_in, n_out; /* n_out: results, known once it is traced */
    weft__parameter *parameters; /* of the arguments, then of the slots */
    weft__trace trace;           /* over the inputs: the parameters that are there */
    int64_t n_inputs;
    bool draws;     /* random numbers: the last input is a fresh key */
    bool *replaced; /* per input: a slot's that the function replaces */
    weft__fate *fates;
    int n_set;      /* outputs of the trace behind n_out */
    int64_t traced; /* nodes before simplifying */
    weft__variant variants[WEFT__VARIANTS];
    int n_variants;
} weft__combination;

/* The combinations that differ in the lengths of dynamic axes alone. */
typedef struct weft__family {
    struct weft__family *newer, *older; /* by use */
    weft__combination *newest, *oldest; /* never empty while it is in the cache */
    int n;
} weft__family;

struct weft_compiled {
    weft_function *fn;
    void *context;
    weft_compile_options options;
    char *name;
    weft_array ***slots;
    int n_slots;
    weft_compile_counts counts;
    weft__combination *buckets[WEFT__BUCKETS];
    weft__family *newest, *oldest;
    int n_families;
    char *reasons[WEFT__REASONS]; /* of recompiles, a ring */
    int64_t n_reasons;
    uint64_t clock;
    int n_results; /* of the latest call */
    /* Room for one call. */
    weft_array **inputs, **outputs;
    int input_room, output_room;
};

/* ---- cache.c -------------------------------------------------------------------------------- */

/* The combination of the call's arguments and of what the slots hold; NULL: it is new. */
weft__combination *weft__compiled_find(weft_compiled *c, weft_array *const *in, int n_in);
/* An empty one for them, not yet in the cache. NULL: no memory. */
weft__combination *weft__combination_new(weft_compiled *c, weft_array *const *in, int n_in);
/* Inserts it, evicting what was not used for longest, and notes why it was needed. After a failure
 * the combination is still the caller's. */
weft_status weft__compiled_insert(weft_compiled *c, weft__combination *k);
void weft__combination_free(weft__combination *k);
/* Frees all families. */
void weft__compiled_clear(weft_compiled *c);

/* ---- tracing.c ------------------------------------------------------------------------------ */

/* Calls the function on placeholders of the combination's parameters and fills in its trace, and
 * what the function does to the slots. */
weft_status weft__combination_trace(weft_compiled *c, weft__combination *k);

/* Splits the held key of a call in two: one replaces it, the other is returned. */
weft_array *weft__split_key(weft_array **key);

/* "state 2 (model.w)" into text. */
void weft__slot_text(const weft_compiled *c, int slot, char *text, size_t size);

/* ---- simplify.c, fold.c, identities.c ------------------------------------------------------- */

/* The same function in fewer nodes. */
weft_status weft__simplify(const weft__trace *t, weft__trace *out);
/* Whether each output of the node is one of its inputs, bit for bit; values[o]: which. */
bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, weft__value *values);
/* Computes nodes that depend on no argument and are small: folded[i] is a held array for those
 * that a node which stays, or an output, needs, NULL for others. All of them are NULL on entry. */
weft_status weft__fold(const weft__trace *t, weft_array **folded);

#endif
