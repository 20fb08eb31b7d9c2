/* weft/compile.h -- compiled functions: traced once, simplified, planned, and run again and again.
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
 * The function is called once for each combination of shapes, dtypes and devices of its arguments
 * and state; what it computes from them is what every later call with such arguments computes. So
 * the C code in it must not depend on elements (reading one there is an error), and numbers that
 * vary from call to call must be arguments, 0-d arrays, or state: an array made from data inside is
 * a constant. Of the default random generator each call takes one key, from which those inside are
 * split.
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
    int cache; /* how many combinations are kept, the most recently used; 0: 8 */
    /* Dynamic axes, per argument (n_dynamic of them; NULL: none): bit i says that axis i varies.
     * Combinations that differ in the lengths of dynamic axes alone count as one. Each length, 0
     * and 1 included, gets its own trace and plan when it is first seen, so the function may depend
     * on lengths in any way; kernels and pipelines are shared. A length seen before costs nothing
     * more while it is kept. */
    const uint32_t *dynamic;
    int n_dynamic;
    int lengths;     /* per combination, how many sets of dynamic lengths are kept; 0: 64 */
    bool async;      /* calls return when the kernels are queued, as weft_eval_async does */
    bool as_written; /* leave the graph as the function builds it */
} weft_compile_options;

/* `state` has the addresses of the slots that the function reads or sets beside its arguments:
 * parameters, moments, caches, a random key. A slot may be NULL at first, and be emptied. The
 * slots, the context and the names must outlive the compiled function; nothing is traced yet.
 * Setting a slot that is not in the list, or keeping an array that was computed inside, is an
 * error of the call that traces. */
WEFT_NODISCARD WEFT_API weft_status weft_compile(weft_function *fn, void *context,
                                                 weft_array **const *state, int n_state,
                                                 const weft_compile_options *options,
                                                 weft_compiled **out) WEFT_NONNULL(6);
WEFT_API void weft_compiled_free(weft_compiled *compiled); /* NULL is accepted */

/* Calls it: out[] are evaluated temporaries, the slots have what the function left in them. The
 * memory of slots that are replaced is overwritten where nothing else holds it. All memory is taken
 * before the first kernel runs. After a failure no slot has changed, except as after one of
 * weft_update, and out[] is an error array. With the option `async` a call may return before its
 * kernels fail: whoever reads the slots then gets the failure. Inside the function of a gradient,
 * of vmap, jvp or of another compiled function the graph is built as if the function itself had
 * been called. */
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

/* What was traced, how many nodes are left after simplifying, what was captured, what is planned,
 * and why the function was compiled again, as text; dynamic lengths have a star. NULL: out of
 * memory. Free with weft_free. */
WEFT_API char *weft_compile_explain(const weft_compiled *compiled) WEFT_NONNULL(1);

/* false: compiled functions call the function and evaluate what it builds, for comparison. Also
 * WEFT_COMPILE=0 in the environment. */
WEFT_API void weft_compile_enable(bool on);
WEFT_API bool weft_compile_enabled(void);

/* The lazy graph of n arrays as Graphviz text, in *text (weft_free) or, if `path` is not NULL,
 * written to that file. */
WEFT_NODISCARD WEFT_API weft_status weft_graph_dot(weft_array *const *arrays, int n,
                                                   const char *path, char **text);

#ifdef __cplusplus
}
#endif
#endif
