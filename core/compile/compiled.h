/* core/compile/compiled.h -- a compiled function: families of shapes, the traces of each, and their
 * programs. */
#ifndef CORE_COMPILE_COMPILED_H
#define CORE_COMPILE_COMPILED_H

#include "core/compile/trace.h"
#include "core/eval/program.h"
#include "core/transforms/transforms.h"
#include "weft/compile.h"

enum { WEFT__BUCKETS = 64, WEFT__VARIANTS = 8, WEFT__REASONS = 8 };

/* What the function did to a slot. */
typedef enum weft__slot_effect {
    WEFT__SLOT_UNCHANGED,
    WEFT__SLOT_SET,
    WEFT__SLOT_CLEARED
} weft__slot_effect;

/* A parameter of the function: an argument or the array in a slot. */
typedef struct weft__parameter {
    weft_spec spec;
    weft_device *device; /* NULL for an empty slot */
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
    struct weft__combination *chain;         /* next in its bucket */
    struct weft__combination *newer, *older; /* links of its family, most recently used first */
    struct weft__family *family;
    uint64_t hash;
    int n_in, n_out;             /* n_out: number of results, known after tracing */
    weft__parameter *parameters; /* of the arguments, then of the slots */
    weft__trace trace;           /* its inputs: the parameters that are not empty slots */
    int64_t n_inputs;
    bool draws;     /* the function draws random numbers, so the last input is a new key */
    bool *replaced; /* per input: the function replaces the slot that it came from */
    weft__slot_effect *effects;
    int n_set;      /* outputs of the trace after the first n_out: the new values of slots */
    int64_t traced; /* nodes before simplification */
    weft__variant variants[WEFT__VARIANTS];
    int n_variants;
} weft__combination;

/* Combinations that differ only in the lengths of dynamic axes. */
typedef struct weft__family {
    struct weft__family *newer, *older; /* by use */
    weft__combination *newest, *oldest; /* a family in the cache is never empty */
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
    char *reasons[WEFT__REASONS]; /* reasons for recompiles; a ring */
    int64_t n_reasons;
    uint64_t clock;
    int n_results; /* of the latest call */
    /* Buffers for one call. */
    weft_array **inputs, **outputs;
    int input_room, output_room;
};

/* ---- cache.c -------------------------------------------------------------------------------- */

/* The combination for the call's arguments and the slots' contents; NULL when there is none. */
weft__combination *weft__compiled_find(weft_compiled *c, weft_array *const *in, int n_in);
/* A new, empty combination for them, not yet in the cache. NULL: out of memory. */
weft__combination *weft__combination_new(weft_compiled *c, weft_array *const *in, int n_in);
/* Inserts it, evicting the least recently used one, and records why it was needed. On failure the
 * caller still owns the combination. */
weft_status weft__compiled_insert(weft_compiled *c, weft__combination *k);
void weft__combination_free(weft__combination *k);
/* Frees all families. */
void weft__compiled_clear(weft_compiled *c);

/* ---- tracing.c ------------------------------------------------------------------------------ */

/* Calls the function on placeholders for the combination's parameters, and records its trace and
 * what it does to the slots. */
weft_status weft__combination_trace(weft_compiled *c, weft__combination *k);

/* Splits the held key of a call in two: one half replaces it, the other is returned. */
weft_array *weft__split_key(weft_array **key);

/* Writes "state 2 (model.w)" to text. */
void weft__slot_text(const weft_compiled *c, int slot, char *text, size_t size);

/* ---- simplify.c, fold.c, identities.c, append.c --------------------------------------------- */

/* Simplifies a trace: the same function with fewer nodes. with_gradient: one that has the same
 * gradients, too. */
weft_status weft__simplify(const weft__trace *t, bool with_gradient, weft__trace *out);
/* Whether each output of the node equals one of its inputs bit for bit; values[o] says which.
 * with_gradient: and its gradient is that input's. */
bool weft__is_identity(const weft__trace *t, const weft__trace_node *node, bool with_gradient,
                       weft__value *values);
/* Computes small nodes that depend on no argument. folded[i] is a held array for nodes that a
 * remaining node or an output needs; the others stay NULL. All entries are NULL at the start. */
weft_status weft__fold(const weft__trace *t, weft_array **folded);
/* append.c: joins rotations, writes to a cache and the attention that reads it, where the device
 * has a kernel for all of it. After a failure the trace is empty. */
weft_status weft__join_appends(weft__trace *t, bool own_pages);

#endif
