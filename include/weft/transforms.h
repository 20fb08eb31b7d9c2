/* weft/transforms.h -- derivatives of functions of arrays, and checking them.
 *
 * A function is C code that builds a graph; transforms call it once and work on the graph.
 */
#ifndef WEFT_TRANSFORMS_H
#define WEFT_TRANSFORMS_H

#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_RESULT_ROOM = 16 }; /* the least `room` that a weft_function is called with */

/* A function of arrays: computes results from in[0 .. n_in), puts them in out[0], out[1], ... and
 * returns how many there are. `out` has `room` entries, at least WEFT_RESULT_ROOM. A function with
 * more results than `room` returns their number without setting any, and is called again with that
 * much room. */
typedef int weft_function(void *context, weft_array *const *in, int n_in, weft_array **out,
                          int room);
/* A scalar of arguments, or of whatever the slots hold when it is called. */
typedef weft_array *weft_loss_function(void *context, weft_array *const *in, int n_in);
typedef weft_array *weft_slot_loss_function(void *context);

/* Outputs of `fn` at `in`, and for each input the cotangents pulled back: grads[i] has the shape
 * and dtype of in[i]; zeros where nothing flows, NULL for integer and bool inputs. outs may be
 * NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_vjp(weft_function *fn, void *context,
                                             weft_array *const *in, int n_in,
                                             weft_array *const *cotangents, weft_array **outs,
                                             int n_out, weft_array **grads);

/* Outputs of `fn` at `in`, and the tangents pushed forward: the derivative of the outputs along
 * tangents[i], of the shape of in[i] (NULL: zero; those of integer and bool inputs do not count).
 * out_tangents[i] has the shape and dtype of output i; zeros where nothing flows, NULL for integer
 * and bool outputs. outs may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_jvp(weft_function *fn, void *context,
                                             weft_array *const *in, int n_in,
                                             weft_array *const *tangents, weft_array **outs,
                                             int n_out, weft_array **out_tangents);

/* All derivatives of all outputs at `in`: jacobians[o * n_in + i] is that of output o in input i,
 * of shape (output o's dims, input i's dims), NULL where either is integer or bool. `fn` is called
 * once; its graph is gone through for a batch of cotangents, one for each element of an output, or,
 * forward, of tangents, one for each element of an input: the first is for few outputs of many
 * inputs, the second for few inputs. complex64 is WEFT_UNSUPPORTED. outs may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_jacobian(weft_function *fn, void *context,
                                                  weft_array *const *in, int n_in,
                                                  weft_array **outs, int n_out,
                                                  weft_array **jacobians);
WEFT_NODISCARD WEFT_API weft_status weft_jacobian_forward(weft_function *fn, void *context,
                                                          weft_array *const *in, int n_in,
                                                          weft_array **outs, int n_out,
                                                          weft_array **jacobians);
/* Second derivatives of a float scalar: hessians[i * n_in + j] of shape (input i's dims, input j's
 * dims), NULL where either is integer or bool. The gradient's Jacobian, forward. */
WEFT_NODISCARD WEFT_API weft_status weft_hessian(weft_loss_function *fn, void *context,
                                                 weft_array *const *in, int n_in,
                                                 weft_array **hessians);

enum { WEFT_NO_AXIS = INT32_MIN }; /* not mapped */

/* `fn`, a function of one example, over a batch of them: in_axes[i] is the axis of in[i] along
 * which the examples lie, WEFT_NO_AXIS for what all examples share; out_axes[i] where they are to
 * lie in output i, WEFT_NO_AXIS for an output that is the same for all. NULL: axis 0 everywhere.
 * All mapped axes have one length. `fn` is called once, with arrays of one example's shape that
 * have no elements yet: evaluating what depends on them fails. Random numbers from the default key
 * are drawn once, for all examples: for others map over keys. */
WEFT_NODISCARD WEFT_API weft_status weft_vmap(weft_function *fn, void *context,
                                              weft_array *const *in, const int *in_axes, int n_in,
                                              weft_array **outs, const int *out_axes, int n_out);

/* Value of a scalar function and its gradients with respect to its arguments. An error array is
 * returned (and put in every gradient) when the value is not a float scalar. */
WEFT_API weft_array *weft_value_and_grad(weft_loss_function *fn, void *context,
                                         weft_array *const *in, int n_in, weft_array **grads);

/* The same for a function with more results: outs[0] is the value, the others come along without
 * being differentiated. Gradients are those of the inputs `argnums` names, in its order; NULL: of
 * all. Nothing is computed for the other inputs. */
WEFT_NODISCARD WEFT_API weft_status weft_value_and_grad_aux(weft_function *fn, void *context,
                                                            weft_array *const *in, int n_in,
                                                            const int *argnums, int n_argnums,
                                                            weft_array **outs, int n_out,
                                                            weft_array **grads);

/* Only the gradients, with respect to the inputs that argnums names (NULL: all). */
WEFT_NODISCARD WEFT_API weft_status weft_grad(weft_loss_function *fn, void *context,
                                              weft_array *const *in, int n_in, const int *argnums,
                                              int n_argnums, weft_array **grads);

/* The same with respect to the arrays that the slots hold: modules' parameters. The slots hold
 * their own arrays again when the call returns. */
WEFT_API weft_array *weft_value_and_grad_slots(weft_slot_loss_function *fn, void *context,
                                               weft_array **const *slots, int n,
                                               weft_array **grads);

/* Calls fn, and when a gradient is taken through the result, computes its inside again instead of
 * keeping it. Values and gradients are the same. */
WEFT_API int weft_checkpoint(weft_function *fn, void *context, weft_array *const *in, int n_in,
                             weft_array **out, int room);

/* Whether a node's results inside a checkpoint are kept: with its op, parameters and inputs
 * (weft/op.h) a rule can tell. */
typedef bool weft_keep_rule(void *context, const weft_array *node);

typedef struct weft_checkpoint_options {
    weft_keep_rule *keep; /* NULL: nothing inside is kept */
    void *context;        /* of keep; there as long as a gradient may be taken */
} weft_checkpoint_options;

/* weft_checkpoint that keeps some of the inside: the rest is computed again from there. NULL
 * options: all zero. */
WEFT_API int weft_checkpoint_with(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  weft_array **out, int room,
                                  const weft_checkpoint_options *options);

/* Rules whose context is a list of names that ends with NULL: to keep the results of these ops
 * ("matmul", "linear", "attention": what is dear to compute again and small to keep), and to keep
 * what weft_checkpoint_name gave one of these names. */
WEFT_API bool weft_keep_ops(void *names, const weft_array *node);
WEFT_API bool weft_keep_named(void *names, const weft_array *node);

/* x, with a name for weft_keep_named; the text must outlive the graph. */
WEFT_API weft_array *weft_checkpoint_name(weft_array *x, const char *name);

/* A function's own derivatives and batches. `context` is that of the function and, like the rules'
 * code, must be there as long as the results or anything derived from them can be differentiated.
 * Cotangents and tangents are zeros where there are none and NULL for integer and bool arrays; what
 * a rule leaves NULL is zero. Rules are written with public functions, so that what they make can
 * be differentiated and mapped again. With a vjp only, tangents come from it, and with a jvp only,
 * gradients. With neither, and without a vmap, the transform goes through the function. */
typedef struct weft_custom_rules {
    /* Gradients of the arguments from the results' cotangents. */
    void (*vjp)(void *context, weft_array *const *in, int n_in, weft_array *const *outs, int n_out,
                weft_array *const *cotangents, weft_array **grads);
    /* Tangents of the results from the arguments'. */
    void (*jvp)(void *context, weft_array *const *in, int n_in, weft_array *const *outs, int n_out,
                weft_array *const *tangents, weft_array **out_tangents);
    /* The results for `size` examples, which lie on axis 0 of in[i] where batched[i] and are to lie
     * on axis 0 of all results. Derivatives of these are those of what this makes, unless it calls
     * weft_custom again. Without it vmap maps the function, and the other two over the batch. */
    void (*vmap)(void *context, weft_array *const *in, int n_in, const bool *batched, int64_t size,
                 weft_array **outs, int n_out);
} weft_custom_rules;

/* Calls fn; transforms of the results go by the rules. Derivatives are with respect to `in`: arrays
 * that fn captures are constants to a vjp or jvp rule. At most 62 arguments and WEFT_MAX_OUTPUTS
 * results, on one device. Values are fn's. */
WEFT_API int weft_custom(weft_function *fn, void *context, const weft_custom_rules *rules,
                         weft_array *const *in, int n_in, weft_array **out, int room);

/* The arrays' values, but none before all the dependencies have been computed: outs[i] is arrays[i]
 * in value and gradient. The dependencies get no gradient. */
WEFT_API void weft_depends(weft_array *const *arrays, int n, weft_array *const *dependencies, int m,
                           weft_array **outs);

/* x, with no gradient through it. */
WEFT_API weft_array *weft_stop_gradient(weft_array *x);

/* Whether the calling thread is inside the function of a gradient: ops may choose a form that
 * saves what its gradient needs. */
WEFT_API bool weft_is_differentiating(void);

/* How a transform goes through an op, by what its literal has. */
typedef enum weft_rule {
    WEFT_RULE_NONE,      /* not at all */
    WEFT_RULE_ZERO,      /* there is nothing to do: no gradient by definition, no inputs */
    WEFT_RULE_OWN,       /* vjp, jvp or vmap of its own; a vmap may leave cases to the next rule */
    WEFT_RULE_LINEAR,    /* jvp: the op on the tangents */
    WEFT_RULE_PARTIAL,   /* the slopes of an elementwise op */
    WEFT_RULE_EXPANSION, /* through the smaller ops */
    WEFT_RULE_TWICE,     /* jvp from vjp, or vjp from jvp: the derivative of the other rule */
    WEFT_RULE_LEADS,     /* vmap: the same op with one more axis in front */
    WEFT_RULE_ONE_BY_ONE /* vmap: every example by itself */
} weft_rule;

typedef struct weft_op_rules {
    weft_rule vjp, jvp, vmap;
} weft_op_rules;

WEFT_API weft_op_rules weft_op_rules_of(const weft_op *op);
WEFT_API const char *weft_rule_name(weft_rule rule); /* "own", "one by one", ... */

typedef struct weft_gradcheck_options {
    double step;              /* relative step of the central difference; 0: 1e-6 */
    double tolerance;         /* on |analytic - numeric| / max(1, |numeric|); 0: 1e-6 */
    uint64_t seed;            /* of the random cotangent */
    int max_elements;         /* per input, sampled evenly; 0: all */
    bool forward;             /* weft_jvp too: against a difference, and against the gradient */
    bool second;              /* and the gradient of the derivative along a direction */
    const char *const *names; /* of the inputs, for messages; NULL: numbers */
} weft_gradcheck_options;

/* Compares the gradient of fn at float64 `inputs` with central differences in float64 along every
 * element (all float inputs must be float64). `forward` adds the derivative along a random
 * direction; it must be the gradient's product with the direction to a thousandth of the tolerance.
 * WEFT_OK, or WEFT_INVALID with a message that names the worst input, element, analytic and numeric
 * value, and the op that made the output. NULL options: all zero. Usable from any test framework.
 */
WEFT_NODISCARD WEFT_API weft_status weft_gradcheck(weft_function *fn, void *context,
                                                   weft_array *const *inputs, int n_inputs,
                                                   const weft_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
