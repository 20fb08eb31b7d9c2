/* weft/transforms.h -- derivatives of functions of arrays, and checking them.
 *
 * A function is C code that builds a graph; transforms call it once and work on the graph.
 */
#ifndef WEFT_TRANSFORMS_H
#define WEFT_TRANSFORMS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills out[0..n_out) from in[0..n_in). */
typedef void weft_function(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int n_out);
/* A scalar of arguments, or of whatever the slots hold when it is called. */
typedef weft_array *weft_loss_function(void *context, weft_array *const *in, int n_in);
typedef weft_array *weft_slot_loss_function(void *context);

/* Outputs of `fn` at `in`, and for each input the cotangents pulled back: grads[i] has the shape
 * and dtype of in[i]; zeros where nothing flows, NULL for integer and bool inputs. outs may be
 * NULL. */
WEFT_API weft_status weft_vjp(weft_function *fn, void *context, weft_array *const *in, int n_in,
                              weft_array *const *cotangents, weft_array **outs, int n_out,
                              weft_array **grads);

/* Outputs of `fn` at `in`, and the tangents pushed forward: the derivative of the outputs along
 * tangents[i], of the shape of in[i] (NULL: zero; those of integer and bool inputs do not count).
 * out_tangents[i] has the shape and dtype of output i; zeros where nothing flows, NULL for integer
 * and bool outputs. outs may be NULL. */
WEFT_API weft_status weft_jvp(weft_function *fn, void *context, weft_array *const *in, int n_in,
                              weft_array *const *tangents, weft_array **outs, int n_out,
                              weft_array **out_tangents);

enum { WEFT_NO_AXIS = INT32_MIN }; /* not mapped */

/* `fn`, a function of one example, over a batch of them: in_axes[i] is the axis of in[i] along
 * which the examples lie, WEFT_NO_AXIS for what all examples share; out_axes[i] where they are to
 * lie in output i, WEFT_NO_AXIS for an output that is the same for all. NULL: axis 0 everywhere.
 * All mapped axes have one length. `fn` is called once, with arrays of one example's shape that
 * have no elements yet: evaluating what depends on them fails. Random numbers from the default key
 * are drawn once, for all examples: for others map over keys. */
WEFT_API weft_status weft_vmap(weft_function *fn, void *context, weft_array *const *in,
                               const int *in_axes, int n_in, weft_array **outs, const int *out_axes,
                               int n_out);

/* Value of a scalar function and its gradients with respect to its arguments. An error array is
 * returned (and put in every gradient) when the value is not a float scalar. */
WEFT_API weft_array *weft_value_and_grad(weft_loss_function *fn, void *context,
                                         weft_array *const *in, int n_in, weft_array **grads);

/* The same with respect to the arrays that the slots hold: modules' parameters. The slots hold
 * their own arrays again when the call returns. */
WEFT_API weft_array *weft_value_and_grad_slots(weft_slot_loss_function *fn, void *context,
                                               weft_array **const *slots, int n,
                                               weft_array **grads);

/* Calls fn, and when a gradient is taken through the result, computes its inside again instead of
 * keeping it. Values and gradients are the same. */
WEFT_API void weft_checkpoint(weft_function *fn, void *context, weft_array *const *in, int n_in,
                              weft_array **out, int n_out);

/* x, with no gradient through it. */
WEFT_API weft_array *weft_stop_gradient(weft_array *x);

/* Whether the calling thread is inside the function of a gradient: ops may choose a form that
 * saves what its gradient needs. */
WEFT_API bool weft_is_differentiating(void);

typedef struct weft_gradcheck_options {
    double step;      /* relative step of the central difference; 0: 1e-6 */
    double tolerance; /* on |analytic - numeric| / max(1, |numeric|); 0: 1e-6 */
    uint64_t seed;    /* of the random cotangent */
    int max_elements; /* per input, sampled evenly; 0: all */
    bool forward;     /* weft_jvp too: against a difference, and against the gradient */
    bool second;      /* and the gradient of the derivative along a direction */
} weft_gradcheck_options;

/* Compares the gradient of fn at float64 `inputs` with central differences in float64 along every
 * element (all float inputs must be float64). `forward` adds the derivative along a random
 * direction; it must be the gradient's product with the direction to a thousandth of the tolerance.
 * WEFT_OK, or WEFT_INVALID with a message that names the worst input, element, analytic and numeric
 * value, and the op that made the output. NULL options: all zero. Usable from any test framework.
 */
WEFT_API weft_status weft_gradcheck(weft_function *fn, void *context, weft_array *const *inputs,
                                    int n_inputs, int n_outputs,
                                    const weft_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
