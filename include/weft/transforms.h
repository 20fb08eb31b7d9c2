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
/* A scalar function of arguments, and one of the arrays that slots hold when it is called. */
typedef weft_array *weft_loss_function(void *context, weft_array *const *in, int n_in);
typedef weft_array *weft_slot_loss_function(void *context);

/* Computes n_out results of fn at `in` and the gradients of sum(cotangents[o] * outs[o]) with
 * respect to the inputs. cotangents[o] has the shape of result o. grads[i] has the shape and dtype
 * of in[i]: zeros if no result depends on it, NULL for integer and bool inputs. outs may be NULL.
 * WEFT_INVALID for fewer results than n_out and for a cotangent of another shape; a failed result
 * is returned as error arrays. On a failure outs and grads are NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_vjp(weft_function *fn, void *context,
                                             weft_array *const *in, int n_in,
                                             weft_array *const *cotangents, weft_array **outs,
                                             int n_out, weft_array **grads);

/* Computes n_out results of fn at `in` and their derivative along the tangents. tangents[i] has the
 * shape of in[i]; NULL means zero, and those of integer and bool inputs are ignored.
 * out_tangents[o] has the shape and dtype of result o: zeros if it does not depend on the inputs,
 * NULL for integer and bool results. outs may be NULL. Failures are those of weft_vjp. */
WEFT_NODISCARD WEFT_API weft_status weft_jvp(weft_function *fn, void *context,
                                             weft_array *const *in, int n_in,
                                             weft_array *const *tangents, weft_array **outs,
                                             int n_out, weft_array **out_tangents);

/* Sets jacobians[o * n_in + i] to the derivative of result o with respect to input i, of shape
 * (dims of result o, dims of input i); NULL where either is integer or bool. fn is called once.
 * weft_jacobian pulls back a batch of cotangents, one for each element of a result, which suits few
 * outputs; weft_jacobian_forward pushes tangents forward, one for each element of an input, which
 * suits few inputs. complex64 is WEFT_UNSUPPORTED. outs may be NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_jacobian(weft_function *fn, void *context,
                                                  weft_array *const *in, int n_in,
                                                  weft_array **outs, int n_out,
                                                  weft_array **jacobians);
WEFT_NODISCARD WEFT_API weft_status weft_jacobian_forward(weft_function *fn, void *context,
                                                          weft_array *const *in, int n_in,
                                                          weft_array **outs, int n_out,
                                                          weft_array **jacobians);
/* Sets hessians[i * n_in + j] to the second derivatives of a float scalar function, of shape (dims
 * of input i, dims of input j); NULL where either is integer or bool. It is the forward Jacobian of
 * the gradient, and fails as weft_jacobian does. */
WEFT_NODISCARD WEFT_API weft_status weft_hessian(weft_loss_function *fn, void *context,
                                                 weft_array *const *in, int n_in,
                                                 weft_array **hessians);

enum { WEFT_NO_AXIS = INT32_MIN }; /* not mapped */

/* Applies fn, a function of one example, to a batch. in_axes[i] is the batch axis of in[i], and
 * out_axes[o] the batch axis of result o; WEFT_NO_AXIS: all examples share the array. NULL: axis 0
 * everywhere. All mapped axes have the same length. fn is called once with arrays that have the
 * shape of one example and no elements yet: evaluating them in fn fails the call. The default
 * random generator draws once for all examples; map over keys for independent draws. WEFT_INVALID
 * also for fewer results than n_out. */
WEFT_NODISCARD WEFT_API weft_status weft_vmap(weft_function *fn, void *context,
                                              weft_array *const *in, const int *in_axes, int n_in,
                                              weft_array **outs, const int *out_axes, int n_out);

/* Returns the value of a scalar function and sets grads[i] to its gradient with respect to in[i],
 * of the same shape and dtype. If the value is not a float scalar, an error array is returned and
 * put in every gradient. */
WEFT_API weft_array *weft_value_and_grad(weft_loss_function *fn, void *context,
                                         weft_array *const *in, int n_in, weft_array **grads);

/* The same for a function with n_out results: outs[0] is the value, the others are returned without
 * being differentiated. grads has the gradients of the inputs argnums[0 .. n_argnums), in this
 * order; argnums NULL: of all inputs. Nothing is computed for other inputs. WEFT_INVALID for an
 * argument that does not exist, for n_out < 1 and as weft_vjp. */
WEFT_NODISCARD WEFT_API weft_status weft_value_and_grad_aux(weft_function *fn, void *context,
                                                            weft_array *const *in, int n_in,
                                                            const int *argnums, int n_argnums,
                                                            weft_array **outs, int n_out,
                                                            weft_array **grads);

/* The gradients alone; argnums and failures as in weft_value_and_grad_aux. */
WEFT_NODISCARD WEFT_API weft_status weft_grad(weft_loss_function *fn, void *context,
                                              weft_array *const *in, int n_in, const int *argnums,
                                              int n_argnums, weft_array **grads);

/* The value, and its gradients with respect to the arrays in n slots, such as the parameters of a
 * module: grads[i] has the shape and dtype of slot i's array. The slots hold their own arrays again
 * when the call returns. Errors as in weft_value_and_grad. */
WEFT_API weft_array *weft_value_and_grad_slots(weft_slot_loss_function *fn, void *context,
                                               weft_array **const *slots, int n,
                                               weft_array **grads);

/* Calls fn, sets out[0 .. n) to its n results and returns n; entries after them are NULL. If `room`
 * is less than n, or fn fails, out has error arrays. When a gradient is taken through the results,
 * the intermediates of fn are computed again instead of being kept; values and gradients are the
 * same. At most WEFT_MAX_OUTPUTS results. */
WEFT_API int weft_checkpoint(weft_function *fn, void *context, weft_array *const *in, int n_in,
                             weft_array **out, int room);

/* Decides whether the results of a node inside a checkpoint are kept, from its op, parameters and
 * inputs (weft/op.h). */
typedef bool weft_keep_rule(void *context, const weft_array *node);

typedef struct weft_checkpoint_options {
    weft_keep_rule *keep; /* NULL: nothing inside is kept */
    void *context;        /* of keep; must live as long as a gradient may be taken */
} weft_checkpoint_options;

/* weft_checkpoint that keeps some intermediates; the others are computed again from them. NULL
 * options: all zero. */
WEFT_API int weft_checkpoint_with(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  weft_array **out, int room,
                                  const weft_checkpoint_options *options);

/* Rules whose context is a list of names that ends with NULL. weft_keep_ops keeps the results of
 * ops with these names ("matmul", "linear", "attention": expensive to compute and small to keep);
 * weft_keep_named keeps arrays that weft_checkpoint_name gave one of these names. */
WEFT_API bool weft_keep_ops(void *names, const weft_array *node);
WEFT_API bool weft_keep_named(void *names, const weft_array *node);

/* x, of the same shape and dtype, with a name for weft_keep_named. The name must outlive the graph.
 */
WEFT_API weft_array *weft_checkpoint_name(weft_array *x, const char *name);

/* A program's own transform rules for a function. `context` is that of the function; it and the
 * code of the rules must live as long as results can be differentiated. Cotangents and tangents are
 * zeros where there are none and NULL for integer and bool arrays; entries that a rule leaves NULL
 * are zero. Rules call public functions, so their results can be differentiated and mapped again.
 * If only vjp or only jvp is given, the other is derived from it. Without a rule a transform goes
 * through the function itself. */
typedef struct weft_custom_rules {
    /* Sets grads[0 .. n_in) to the gradients of the arguments from the cotangents of the results.
     */
    void (*vjp)(void *context, weft_array *const *in, int n_in, weft_array *const *outs, int n_out,
                weft_array *const *cotangents, weft_array **grads);
    /* Sets out_tangents[0 .. n_out) to the tangents of the results from those of the arguments. */
    void (*jvp)(void *context, weft_array *const *in, int n_in, weft_array *const *outs, int n_out,
                weft_array *const *tangents, weft_array **out_tangents);
    /* Sets outs[0 .. n_out) to the results for `size` examples. The examples are on axis 0 of in[i]
     * where batched[i] is true, and on axis 0 of every result. Derivatives go through the arrays
     * that this rule makes, unless it calls weft_custom again. NULL: the function and its rules are
     * mapped. */
    void (*vmap)(void *context, weft_array *const *in, int n_in, const bool *batched, int64_t size,
                 weft_array **outs, int n_out);
} weft_custom_rules;

/* Calls fn, sets out[0 .. n) to its n results and returns n, as weft_checkpoint does. Transforms of
 * the results use the rules. Derivatives are with respect to `in`: arrays that fn captures are
 * constants for a vjp or jvp rule. At most 62 arguments and WEFT_MAX_OUTPUTS results, all results
 * on one device; otherwise out has error arrays. */
WEFT_API int weft_custom(weft_function *fn, void *context, const weft_custom_rules *rules,
                         weft_array *const *in, int n_in, weft_array **out, int room);

/* Sets outs[i], i < n, to arrays[i], available only after all m dependencies have been computed.
 * Values and gradients are those of arrays[i]; the dependencies get no gradient. */
WEFT_API void weft_depends(weft_array *const *arrays, int n, weft_array *const *dependencies, int m,
                           weft_array **outs);

/* x, of the same shape and dtype, without a gradient. */
WEFT_API weft_array *weft_stop_gradient(weft_array *x);

/* Whether the calling thread is inside a function that is being differentiated. Ops may then choose
 * a form that saves what their gradient needs. */
WEFT_API bool weft_is_differentiating(void);

/* Which rule a transform uses for an op, by the fields of its literal. */
typedef enum weft_rule {
    WEFT_RULE_NONE,    /* the transform is not supported */
    WEFT_RULE_ZERO,    /* nothing to do: no gradient by definition, or no inputs */
    WEFT_RULE_OWN,     /* the op's own vjp, jvp or vmap; a vmap may leave cases to the next rule */
    WEFT_RULE_LINEAR,  /* jvp: the op on the tangents */
    WEFT_RULE_PARTIAL, /* the slopes of an elementwise op */
    WEFT_RULE_EXPANSION,    /* through the smaller ops */
    WEFT_RULE_TWICE,        /* jvp from vjp, or vjp from jvp: the derivative of the other rule */
    WEFT_RULE_LEADING_AXIS, /* vmap: the same op with one more axis in front */
    WEFT_RULE_ONE_BY_ONE    /* vmap: every example by itself */
} weft_rule;

typedef struct weft_op_rules {
    weft_rule vjp, jvp, vmap;
} weft_op_rules;

/* The rules of an op. */
WEFT_API weft_op_rules weft_op_rules_of(const weft_op *op);
/* The name of a rule, such as "own" or "one by one"; a literal. */
WEFT_API const char *weft_rule_name(weft_rule rule);

typedef struct weft_gradcheck_options {
    double step;      /* relative step of the central difference; 0: 1e-6 */
    double tolerance; /* on |analytic - numeric| / max(1, |numeric|); 0: 1e-6; below 0: zero */
    uint64_t seed;    /* of the random cotangent */
    int max_elements; /* per input, sampled evenly; 0: all */
    bool forward;     /* weft_jvp too: against a difference, and against the gradient */
    bool second;      /* and the gradient of the derivative along a direction */
    const char *const *names; /* of the inputs, for messages; NULL: numbers */
} weft_gradcheck_options;

/* Compares the gradients of fn, of all its results, with central differences in float64 along every
 * element of the inputs. Float inputs must be float64. `forward` also checks the derivative along a
 * random direction; it must agree with the gradient to a thousandth of the tolerance. WEFT_INVALID
 * when a difference exceeds the tolerance: the message names the worst input and element, both
 * values and the op that made the last result. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_gradcheck(weft_function *fn, void *context,
                                                   weft_array *const *inputs, int n_inputs,
                                                   const weft_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
