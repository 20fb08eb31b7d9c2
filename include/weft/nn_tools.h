/* weft/nn_tools.h -- operations on chosen parts of a module tree: freezing, converting, setting,
 * quantizing, gradients, other file formats.
 */
#ifndef WEFT_NN_TOOLS_H
#define WEFT_NN_TOOLS_H

#include "weft/nn.h"
#include "weft/quantize.h"
#include "weft/transforms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Choosing ------------------------------------------------------------------------------- */

/* A choice of parameters: those for which all of the following hold. Zero: all. */
typedef struct weft_nn_choice {
    const char *path;        /* at or below this path, such as "layers.3"; NULL: anywhere */
    const char *const *keys; /* of one of these names, such as "bias" */
    int n_keys;              /* 0: of any name */
    bool shallow;            /* of the module at the path itself, not of its children */
    bool (*accepts)(void *context, const weft_nn_item *item); /* NULL: accepts all */
    void *context;
    bool strict; /* a path or a key that no parameter has is an error, and nothing changes */
} weft_nn_choice;

/* Freezes or unfreezes the chosen parameters (NULL: all); statistics stay frozen. WEFT_INVALID, and
 * nothing changed, for a path or key without a parameter if the choice is strict. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_freeze_some(weft_module *m,
                                                        const weft_nn_choice *choice);
WEFT_NODISCARD WEFT_API weft_status weft_nn_unfreeze_some(weft_module *m,
                                                          const weft_nn_choice *choice);

/* weft_nn_cast of the chosen parameters. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_cast_some(weft_module *m, weft_dtype dtype,
                                                      const weft_nn_choice *choice);

/* A parameter's new value, a temporary; an error array stops. */
typedef weft_array *weft_nn_map(void *context, const weft_nn_item *item, weft_array *value);
/* Sets every chosen parameter to what `map` makes of it, and evaluates it, one after the other.
 * On a failure the later ones have not changed. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_apply(weft_module *m, weft_nn_map *map, void *context,
                                                  const weft_nn_choice *choice);

/* ---- Modules -------------------------------------------------------------------------------- */

/* Calls `visit` (as weft_nn_visit_modules does, which is also how to apply a function to all
 * modules with their names) for the modules that have no children. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_visit_leaves(weft_module *m,
                                                         weft_nn_module_visitor *visit,
                                                         void *context);

/* weft_nn_call, with the inside computed again for a gradient (weft_checkpoint). */
WEFT_API weft_array *weft_nn_checkpoint(weft_module *m, weft_array *x);

/* ---- Values --------------------------------------------------------------------------------- */

/* Sets parameters by their paths to values, which may be lazy. Shapes must be the parameters', and
 * a path that is no parameter's is an error when `strict`, else it is passed over. Then nothing has
 * changed. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_update(weft_module *m, const char *const *paths,
                                                   weft_array *const *values, int n, bool strict)
    WEFT_NONNULL(1);

/* Evaluates all parameters and statistics; fails as weft_eval does. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_eval(weft_module *m) WEFT_NONNULL(1);

/* weft_nn_load from arrays by name, and from an npz file (WEFT_UNSUPPORTED in a build without
 * libzip). */
WEFT_NODISCARD WEFT_API weft_status weft_nn_load_arrays(weft_module *m,
                                                        const weft_named_arrays *arrays,
                                                        const weft_nn_load_options *options)
    WEFT_NONNULL(2);
WEFT_NODISCARD WEFT_API weft_status weft_nn_load_npz(weft_module *m, const char *path,
                                                     const weft_nn_load_options *options);
/* weft_nn_save to an npz file, which has no metadata. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_save_npz(weft_module *m, const char *path,
                                                     const weft_nn_save_options *options);

/* ---- Gradients ------------------------------------------------------------------------------ */

/* The trainable parameters and their gradients: temporaries, sorted by path. Free the lists with
 * weft_nn_gradients_free. */
typedef struct weft_nn_gradients {
    weft_nn_slots parameters;
    weft_array **arrays;
} weft_nn_gradients;

/* The value of a scalar function that calls the module, and its gradients with respect to the
 * module's trainable parameters. An error array is returned as in weft_value_and_grad_slots. */
WEFT_API weft_array *weft_nn_value_and_grad(weft_module *m, weft_slot_loss_function *fn,
                                            void *context, weft_nn_gradients *out)
    WEFT_NONNULL(1, 4);
WEFT_API void weft_nn_gradients_free(weft_nn_gradients *gradients) WEFT_NONNULL(1);

/* weft_gradcheck of a scalar function that calls the module, with respect to the module's trainable
 * parameters. Parameters of a float dtype are float64 during the check and have their own arrays
 * again when it returns; encoded ones stay as they are. Other arrays that the function uses must be
 * float64, and the function must return the same value in every call: seed the default random
 * generator in it if it draws numbers. WEFT_INVALID when nothing is trainable,
 * when the function's result is not a float scalar, and when a gradient is wrong: the message has
 * the parameter's path. NULL options: all zero; `names` is ignored. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_gradcheck(weft_module *m, weft_slot_loss_function *fn,
                                                      void *context,
                                                      const weft_gradcheck_options *options);

/* ---- Quantizing ----------------------------------------------------------------------------- */

typedef struct weft_nn_quantize_options {
    weft_quantize_options format; /* zero: affine, 4 bits, groups of 64 */
    /* Which linears and embeddings; NULL: all whose rows are whole groups. One whose rows are not
     * is an error when it accepts it. */
    bool (*accepts)(void *context, const char *path, const weft_module *m);
    void *context;
} weft_nn_quantize_options;

/* Stores the weights of linears, embeddings and others that take it in an encoding
 * (weft/quantize.h), in place, and freezes these modules. The layers stay what they are: their
 * forward reads the encoded weights, and gradients reach their inputs. Weights are bfloat16
 * afterwards. WEFT_INVALID for a module that `accepts` chose and whose rows are not whole groups.
 * Options NULL: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_nn_quantize(weft_module *m,
                                                     const weft_nn_quantize_options *options);

#ifdef __cplusplus
}
#endif
#endif
