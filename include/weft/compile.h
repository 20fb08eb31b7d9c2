/* weft/compile.h -- compiled functions: traced once, simplified, planned, and run many times.
 *
 *     static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
 *     {
 *         model *m = context;
 *         ... loss and gradients of m->w at in[0] ...
 *         out[0] = loss;
 *         weft_status set = weft_set(&m->w, weft_subtract(m->w, weft_multiply(in[1], gradient)));
 *         ...
 *         return 1;
 *     }
 *     ...
 *     weft_array **state[] = {&m.w};
 *     status = weft_compile(step, &m, state, 1, NULL, &compiled);
 *     status = weft_compiled_call(compiled, in, 2, out, 1);
 *
 * The function is traced once for each combination of shapes, dtypes and devices of its arguments
 * and state; later calls with such arguments run the traced computation. The C code in it must not
 * depend on elements: reading one there is an error. Numbers that vary from call to call must be
 * arguments, 0-d arrays, or state; an array made from data in the function is a constant. Each call
 * takes one key of the default random generator, from which the keys in the function are split.
 */
#ifndef WEFT_COMPILE_H
#define WEFT_COMPILE_H

#include "weft/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Owned by the caller, used by one thread at a time. */
typedef struct weft_compiled weft_compiled;

typedef struct weft_compile_options {
    const char *name;               /* in messages; NULL: "compiled function" */
    const char *const *state_names; /* per slot, for messages; NULL: numbers */
    int cache; /* combinations that are kept, the most recently used ones; 0: 8 */
    /* Dynamic axes, per argument (n_dynamic of them; NULL: none): bit i says that axis i varies.
     * Combinations that differ in the lengths of dynamic axes alone count as one. Each length, 0
     * and 1 included, gets its own trace and plan when it is first seen, so the function may depend
     * on lengths in any way; kernels and pipelines are shared. A length seen before costs nothing
     * more while it is kept. */
    const uint32_t *dynamic;
    int n_dynamic;
    int lengths;     /* sets of dynamic lengths that are kept per combination; 0: 64 */
    bool async;      /* calls return when the kernels are queued, as weft_eval_async does */
    bool as_written; /* do not simplify the graph */
    /* In attention over pages (weft_op_attention_pages) no row reads a token that another row
     * writes in the same call, so that each row's write can be joined with its attention. */
    bool own_pages;
} weft_compile_options;

/* Creates a compiled function in *out; free it with weft_compiled_free. `state` has the addresses
 * of the n_state slots that the function reads or sets beside its arguments: parameters, moments,
 * caches, a random key. Slots may be NULL. The slots, the context and the names must outlive the
 * compiled function. Nothing is traced yet, so only memory can fail. A function that sets a slot
 * outside the list, or keeps an array that it computed, makes the tracing call fail. */
WEFT_NODISCARD WEFT_API weft_status weft_compile(weft_function *fn, void *context,
                                                 weft_array **const *state, int n_state,
                                                 const weft_compile_options *options,
                                                 weft_compiled **out) WEFT_NONNULL(6);
WEFT_API void weft_compiled_free(weft_compiled *compiled); /* NULL is accepted */

/* Calls the function at in[0 .. n_in). out[0 .. n) are its n results, evaluated, in the innermost
 * scope; entries up to `room` after them are NULL. The slots hold what the function set. Memory of
 * replaced slots is reused where nothing else holds it, and all memory is taken before the first
 * kernel runs. WEFT_INVALID for a failed input and when `room` is less than n; otherwise failures
 * are those of tracing and of weft_update. After a failure out has error arrays and no slot has
 * changed, except as described at weft_update. With the option `async`, a failure of a kernel may
 * be reported when the slots are read. In a function that is being differentiated, mapped or
 * compiled, the call builds the graph of the function itself. */
WEFT_NODISCARD WEFT_API weft_status weft_compiled_call(weft_compiled *compiled,
                                                       weft_array *const *in, int n_in,
                                                       weft_array **out, int room) WEFT_NONNULL(1);

/* The number of results of the latest call that succeeded; 0 before the first. */
WEFT_API int weft_compiled_n_results(const weft_compiled *compiled) WEFT_NONNULL(1);

/* Call statistics. */
typedef struct weft_compile_counts {
    int64_t calls;      /* that ran compiled */
    int64_t inlined;    /* inside a transform */
    int64_t hits;       /* that found their trace and plan in the cache */
    int64_t compiles;   /* combinations that were new, dynamic lengths aside */
    int64_t recompiles; /* of these, all but the first */
    int64_t traces;     /* calls of the function: one for each combination and dynamic length */
    int64_t plans;      /* layouts that were planned */
    int64_t evictions;  /* combinations and lengths that made room for others */
} weft_compile_counts;
WEFT_API weft_compile_counts weft_compiled_counts(const weft_compiled *compiled) WEFT_NONNULL(1);

/* A text that lists the traces, their nodes before and after simplifying, captured arrays, plans
 * and the reasons for recompiling; dynamic lengths are marked with a star. Free with weft_free.
 * NULL: out of memory. */
WEFT_API char *weft_compile_explain(const weft_compiled *compiled) WEFT_NONNULL(1);

/* weft_compile_enable(false), or WEFT_COMPILE=0 in the environment, makes compiled functions call
 * the function and evaluate its graph, for comparison. weft_compile_enabled returns the setting. */
WEFT_API void weft_compile_enable(bool on);
WEFT_API bool weft_compile_enabled(void);

/* The lazy graph of n arrays as Graphviz text: written to the file `path` if it is not NULL
 * (WEFT_IO if that fails), else returned in *text, which is freed with weft_free. */
WEFT_NODISCARD WEFT_API weft_status weft_graph_dot(weft_array *const *arrays, int n,
                                                   const char *path, char **text);

#ifdef __cplusplus
}
#endif
#endif
