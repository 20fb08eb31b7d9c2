/* weft/optim.h -- optimizers over a module's parameters, schedules, gradient clipping.
 *
 *     weft_nn_trainable(model, &parameters);
 *     weft_optim_group groups[] = {
 *         {.type = &weft_optim_muon, .learning_rate = 0.02, .filter = weft_optim_is_matrix},
 *         {.type = &weft_optim_adamw, .learning_rate = 1e-3},
 *     };
 *     weft_optim_new(&parameters, groups, 2, &optimizer);
 *     ...
 *     status = weft_optim_update(optimizer, gradients);
 *
 * Names, formulas and defaults are MLX's; where PyTorch's differ, the options say so. The state of
 * an optimizer is float32 (float64 for a float64 parameter), whatever the parameter's dtype. A
 * 16-bit parameter is the rounding of a float32 master copy, so small updates are not lost. The
 * exceptions, for less memory, are weft_optim_adamw8bit and weft_optim_adamw16bit.
 *
 * Names, lists and literals that functions return belong to the library or to the optimizer.
 *
 * In the option structs zero means the default. Where the default is not zero, a number below zero
 * means zero.
 */
#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H

#include "weft/nn.h"
#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Rates: numbers that vary with the step ------------------------------------------------- */

/* A function of the step, counted from 0, written as a formula of arrays so that compiled steps can
 * compute it. Functions that return a weft_rate give ownership to the caller, who frees it with
 * weft_rate_free (NULL is accepted). They return NULL, with a message, when an argument is out of
 * range or memory runs out. */
typedef struct weft_rate weft_rate;

/* `value` at every step. */
WEFT_API weft_rate *weft_rate_constant(double value);
/* init rate^step, for a positive rate. Owned by the caller. */
WEFT_API weft_rate *weft_rate_exponential_decay(double init, double rate);
/* init rate^floor(step / step_size) */
WEFT_API weft_rate *weft_rate_step_decay(double init, double rate, int64_t step_size);
/* end + (init - end) (1 + cos(pi s / decay_steps)) / 2 with s = min(step, decay_steps) */
WEFT_API weft_rate *weft_rate_cosine_decay(double init, int64_t decay_steps, double end);
/* From init to end in `steps` steps, then end. */
WEFT_API weft_rate *weft_rate_linear(double init, double end, int64_t steps);
/* n rates, one after the other: rate i + 1 begins at step boundaries[i] (n - 1 of them) and counts
 * from there. Takes ownership of the parts even on failure; a NULL part makes the result NULL. */
WEFT_API weft_rate *weft_rate_join(weft_rate *const *rates, int n, const int64_t *boundaries);
/* a times b. Takes ownership of both even on failure. */
WEFT_API weft_rate *weft_rate_product(weft_rate *a, weft_rate *b);
/* The caller's own formula: step float 0-d -> float 0-d. The context must outlive the rate. */
typedef weft_array *weft_rate_function(void *context, weft_array *step);
WEFT_API weft_rate *weft_rate_custom(weft_rate_function *fn, void *context);
WEFT_API void weft_rate_free(weft_rate *rate);

/* A rate of `steps` steps from text: "constant"; "linear" and "cosine", which end at init END
 * ("cosine:0.1"; 0 without it); "wsd:SHARE", constant and then linear to 0 over the last SHARE of
 * the steps (0.2 without it); "exponential:RATE" and "step:RATE:SIZE" as above. Several are joined
 * as "PART@STEPS,...,PART": each begins with the rate that the one before ended with, and the last
 * takes the steps that are left. WEFT_INVALID for any other text. */
WEFT_NODISCARD WEFT_API weft_status weft_rate_parse(const char *text, double init, int64_t steps,
                                                    weft_rate **out);

/* The rate at step 0-d (integers as float64): 0-d of step's float dtype. */
WEFT_API weft_array *weft_rate_array(const weft_rate *rate, weft_array *step) WEFT_NONNULL(1);
/* The same as a number; NaN after a failure. */
WEFT_API double weft_rate_at(const weft_rate *rate, int64_t step);

/* ---- Optimizers ----------------------------------------------------------------------------- */

typedef struct weft_optim_type weft_optim_type;

/* g <- g + weight_decay p; v <- momentum v + (1 - dampening) g; p <- p - lr v, or with nesterov
 * p - lr (g + momentum v). Without momentum v is g. nesterov needs a momentum and no dampening.
 * PyTorch begins with v = g, even with dampening. */
typedef struct weft_optim_sgd_options {
    double momentum, weight_decay, dampening;
    bool nesterov;
} weft_optim_sgd_options;
extern WEFT_API const weft_optim_type weft_optim_sgd;

/* v <- alpha v + (1 - alpha) g^2; p <- p - lr g / (sqrt(v) + eps) (Tieleman & Hinton 2012) */
typedef struct weft_optim_rmsprop_options {
    double alpha; /* 0: 0.99 */
    double eps;   /* 0: 1e-8 */
} weft_optim_rmsprop_options;
extern WEFT_API const weft_optim_type weft_optim_rmsprop;

/* v <- v + g^2; p <- p - lr g / (sqrt(v) + eps) (Duchi et al. 2011) */
typedef struct weft_optim_adagrad_options {
    double eps; /* 0: 1e-8; PyTorch: 1e-10 */
} weft_optim_adagrad_options;
extern WEFT_API const weft_optim_type weft_optim_adagrad;

/* v <- rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) g; u <- rho u + (1 - rho) d^2;
 * p <- p - lr d (Zeiler 2012) */
typedef struct weft_optim_adadelta_options {
    double rho; /* 0: 0.9 */
    double eps; /* 0: 1e-6 */
} weft_optim_adadelta_options;
extern WEFT_API const weft_optim_type weft_optim_adadelta;

/* m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2; p <- p - lr m / (sqrt(v) + eps)
 * (Kingma & Ba 2015). With bias_correction (PyTorch: always) m and v are divided by 1 - beta^t,
 * t being the step from 1. */
typedef struct weft_optim_adam_options {
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    bool bias_correction;
} weft_optim_adam_options;
extern WEFT_API const weft_optim_type weft_optim_adam;

/* Adam after p <- p (1 - lr weight_decay) (Loshchilov & Hutter 2019). */
typedef struct weft_optim_adamw_options {
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay; /* 0: 0.01 */
    bool bias_correction;
} weft_optim_adamw_options;
extern WEFT_API const weft_optim_type weft_optim_adamw;
/* AdamW with its options, storing m and v with 8 bits per element and a float32 scale per block of
 * 256, a quarter of the memory (Dettmers et al. 2022, as in bitsandbytes). Parameters with fewer
 * than 4096 elements keep AdamW's state. */
extern WEFT_API const weft_optim_type weft_optim_adamw8bit;

/* AdamW with m and v in bfloat16, and without a master copy of a bfloat16 parameter: 6 bytes for
 * each of its elements instead of 14. Stochastic rounding of all three: to the number above or
 * below, so that the expected value is the number itself and changes below half an ulp are not lost
 * (Gupta et al. 2015; Zamirai et al. 2020). An element's random bits are Threefry's and depend on
 * seed, update, the parameter's index and the element's index alone. Numbers beyond bfloat16 become
 * its largest; infinities and NaN stay. float16 parameters keep their master copy. */
typedef struct weft_optim_adamw16bit_options {
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay; /* 0: 0.01 */
    bool bias_correction;
    int64_t seed; /* of the random bits; in a trainer 0 means the trainer's seed */
} weft_optim_adamw16bit_options;
extern WEFT_API const weft_optim_type weft_optim_adamw16bit;

/* m as Adam; v <- max(beta2 v, |g|); p <- p - lr m / (v + eps) (Kingma & Ba 2015). With
 * bias_correction (PyTorch: always) m is divided by 1 - beta1^t. */
typedef weft_optim_adam_options weft_optim_adamax_options;
extern WEFT_API const weft_optim_type weft_optim_adamax;

/* p <- p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g); m <- beta2 m + (1 - beta2) g
 * (Chen et al. 2023). */
typedef struct weft_optim_lion_options {
    double beta1, beta2; /* 0: 0.9, 0.99 */
    double weight_decay;
} weft_optim_lion_options;
extern WEFT_API const weft_optim_type weft_optim_lion;

/* Shazeer & Stern 2018. The second moment of g^2 + eps1, with beta2 = 1 - t^-decay_rate, is stored
 * as means over the rows and the columns of the last two axes (0-d and 1-d parameters: in full).
 * The update is divided by max(1, its root mean square / clip_threshold) and, with beta1, averaged.
 */
typedef struct weft_optim_adafactor_options {
    double eps1, eps2;       /* 0: 1e-30, 1e-3 */
    double clip_threshold;   /* 0: 1 */
    double decay_rate;       /* 0: 0.8, which MLX writes -0.8 */
    double beta1;            /* 0: no first moment */
    double weight_decay;     /* times the scaled learning rate; PyTorch: times the plain one */
    bool no_scale_parameter; /* lr is not multiplied by max(eps2, root mean square of p) */
    /* Use the group's learning rate: otherwise it is min(0.01, 1 / sqrt(t)), or with warmup_init
     * min(1e-6 t, 1 / sqrt(t)). */
    bool no_relative_step;
    bool warmup_init;
} weft_optim_adafactor_options;
extern WEFT_API const weft_optim_type weft_optim_adafactor;

/* g <- g + weight_decay p; v <- momentum v + (1 - momentum) g; with nesterov u = (1 - momentum) g +
 * momentum v, else v; ns_steps Newton-Schulz iterations make u nearly orthogonal (Jordan 2024);
 * p <- p - lr sqrt(max(1, rows / columns)) u.
 *
 * For the iterations, axes after the first are flattened into one; rows and columns are the last
 * two axes. With fewer than two axes u is used unchanged, so another optimizer suits them better.
 * PyTorch decays p itself and iterates in bfloat16. */
typedef struct weft_optim_muon_options {
    double momentum;     /* 0: 0.95 */
    double weight_decay; /* 0: 0.01 */
    bool no_nesterov;
    int64_t ns_steps; /* 0: 5 */
} weft_optim_muon_options;
extern WEFT_API const weft_optim_type weft_optim_muon;

/* The types above by name ("sgd", ...) and by number; NULL for an unknown one. */
WEFT_API const weft_optim_type *weft_optim_type_find(const char *name);
WEFT_API const weft_optim_type *weft_optim_type_at(int i);

/* ---- Parameter groups ----------------------------------------------------------------------- */

typedef bool weft_optim_filter(void *context, const char *path, const weft_array *parameter);

/* Filters: parameters with two axes; those whose path contains the text that is the context. */
WEFT_API bool weft_optim_is_matrix(void *context, const char *path, const weft_array *parameter);
WEFT_API bool weft_optim_path_contains(void *text, const char *path, const weft_array *parameter);

/* Makes a number of the options vary: "learning_rate", or any of the options' doubles. The rate
 * must outlive the optimizer. */
typedef struct weft_optim_schedule {
    const char *name;
    const weft_rate *rate;
} weft_optim_schedule;

typedef struct weft_optim_group {
    const weft_optim_type *type;
    const void *options;       /* the type's struct, copied; NULL: all zero */
    double learning_rate;      /* must be positive unless scheduled or not used (Adafactor) */
    weft_optim_filter *filter; /* NULL: every parameter that no earlier group accepted */
    void *context;             /* of the filter */
    const weft_optim_schedule *schedules;
    int n_schedules;
} weft_optim_group;

typedef struct weft_optim weft_optim;

/* Creates an optimizer for the parameters that weft_nn_trainable found. Each belongs to the first
 * group whose filter accepts it. Paths are copied. The slots must stay at their addresses while the
 * optimizer exists, and only the optimizer may set them, since 16-bit parameters have master
 * copies. WEFT_INVALID for a parameter that no group accepts, an empty slot, a dtype that is not a
 * float and options out of range. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_new(const weft_nn_slots *parameters,
                                                   const weft_optim_group *groups, int n_groups,
                                                   weft_optim **out) WEFT_NONNULL(4);
WEFT_API void weft_optim_free(weft_optim *optimizer);

/* One update from gradients: one per parameter, in the order and shapes of the parameters, any
 * float dtype; NULL leaves that parameter and its state unchanged. Everything is evaluated
 * together, and a failure changes nothing. In a compiled function the update becomes part of the
 * graph. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_update(weft_optim *optimizer,
                                                      weft_array *const *gradients);

typedef struct weft_optim_call {
    double lr_factor;  /* multiplies all learning rates in this update; 0 means 0 */
    double clip;       /* > 0: gradients are scaled so that their norm is at most this */
    weft_array *loss;  /* float 0-d: evaluated together with the update; NULL: none */
    double loss_value; /* out: its value; 0 without a loss */
    double grad_norm;  /* out: weft_global_norm of the gradients, before clipping */
    bool applied;      /* out: both were finite; otherwise nothing changed */
} weft_optim_call;

/* weft_optim_update with clipping and a guard: if the loss or the norm is not finite, parameters
 * and state keep their exact values. Everything is one evaluation. WEFT_INVALID for a negative
 * clip, a failed loss, and after weft_optim_accumulate. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_apply(weft_optim *optimizer,
                                                     weft_array *const *gradients,
                                                     weft_optim_call *call) WEFT_NONNULL(1, 3);

/* Accumulates gradients in the dtype of the state and updates with their sum in every nth call, so
 * that a batch too large for memory can be computed in n parts. A NULL gradient adds nothing.
 * Divide the loss by n for the gradient of the mean. Steps, rates and weft_optim_step_count count
 * updates. The sums are part of the saved state. Call it once, before weft_optim_slots or
 * weft_optim_state. WEFT_INVALID for n < 1 and for a second call. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_accumulate(weft_optim *optimizer, int64_t n);

/* The state of the optimizer as slots, owned by the optimizer:
 *     step                   int64 0-d: updates so far
 *     learning_rate          of the first group: float64 0-d, on the CPU
 *     learning_rate.1, ...   of the other groups
 *     PATH.m, ...            the state of each parameter
 *     PATH.master            the float32 master copy of a 16-bit parameter, if it has one
 *     accumulated            with weft_optim_accumulate: int64 0-d, calls since the last update
 *     PATH.gradient          with weft_optim_accumulate: the sum */
WEFT_API weft_array ***weft_optim_state(weft_optim *optimizer, int *n) WEFT_NONNULL(1, 2);
WEFT_API const char *const *weft_optim_state_names(const weft_optim *optimizer) WEFT_NONNULL(1);
/* The same after the parameters' slots: the state of a compiled step, and its names. */
WEFT_API weft_array ***weft_optim_slots(weft_optim *optimizer, int *n) WEFT_NONNULL(1, 2);
WEFT_API const char *const *weft_optim_slot_names(const weft_optim *optimizer) WEFT_NONNULL(1);

/* The number of updates so far; -1 after a failure. */
WEFT_API int64_t weft_optim_step_count(const weft_optim *optimizer) WEFT_NONNULL(1);

/* Gets and sets a group's learning rate: of the latest update if it is scheduled, otherwise of the
 * next. Setting it does not recompile a compiled step; a schedule overwrites it in the next update.
 * WEFT_INVALID for a group that does not exist and for a rate that is not positive. */
WEFT_API double weft_optim_learning_rate(const weft_optim *optimizer, int group) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_optim_set_learning_rate(weft_optim *optimizer, int group,
                                                                 double rate) WEFT_NONNULL(1);

/* The group of parameter i. */
WEFT_API int weft_optim_group_of(const weft_optim *optimizer, int i) WEFT_NONNULL(1);

/* Saves and loads the state as a safetensors file with the names above. Loading sets all of it, or
 * nothing when a tensor is missing, unexpected or of another shape or dtype (WEFT_INVALID).
 * Parameters are saved separately (weft_nn_save). With both loaded, training continues exactly. */
WEFT_NODISCARD WEFT_API weft_status weft_optim_save(const weft_optim *optimizer, const char *path)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_optim_load(weft_optim *optimizer, const char *path)
    WEFT_NONNULL(1);

/* ---- Gradients ------------------------------------------------------------------------------ */

/* The square root of the sum of squares over all elements of n arrays: float32 0-d. */
WEFT_API weft_array *weft_global_norm(weft_array *const *arrays, int n);

/* out[i] = gradients[i] min(1, max_norm / (norm + 1e-6)) in its dtype, with the global norm, which
 * is returned. NULL gradients stay NULL. out may be gradients. */
WEFT_API weft_array *weft_clip_grad_norm(weft_array *const *gradients, int n, double max_norm,
                                         weft_array **out);
/* out[i] = gradients[i] clipped to [-most, most]. out may be gradients. */
WEFT_API void weft_clip_grad_value(weft_array *const *gradients, int n, double most,
                                   weft_array **out);

/* ---- Writing an optimizer ------------------------------------------------------------------- */

enum { WEFT_OPTIM_STATES = 4, WEFT_OPTIM_SHARED = 2 };

/* A hyper-parameter: `array` (float64 0-d) when it varies, else `value`. */
typedef struct weft_optim_number {
    double value;
    weft_array *array;
} weft_optim_number;

/* One parameter's update, as a type sees it. */
typedef struct weft_optim_step {
    const weft_optim_type *type;
    const void *options;              /* defaults filled in; NaN for a scheduled number */
    const weft_optim_number *numbers; /* one a field; see weft_optim_hyper */
    weft_optim_number learning_rate;
    weft_array *count;     /* this update's number, from 1: float64 0-d */
    int index;             /* of the parameter, below n_parameters */
    int n_parameters;      /* of the optimizer */
    weft_array *parameter; /* float32 or float64, the master copy where there is one; a type that
                              rounds gets bfloat16 parameters as they are */
    weft_array *gradient;  /* in parameter's shape; float64 for float64, else float32 */
    weft_array *raw;       /* the same in its own dtype, not scaled, for ops that take it so */
    weft_array **state;    /* the state, to be replaced; NULL entries: unused */
    weft_array **shared;   /* (WEFT_OPTIM_SHARED) by the parameters of a group; NULL at first */
    /* For a type that guards, on the parameter's device: the factor of the gradient (float32 0-d,
     * NULL: 1) and whether anything may change (bool 0-d, NULL: yes). */
    weft_array *scale, *finite;
} weft_optim_step;

/* An optimizer: a literal of this in a file of its own. */
struct weft_optim_type {
    const char *name;
    const weft_field *fields; /* of the options: doubles, integers, bools */
    size_t options_size;
    const void *defaults;                  /* an options struct; NULL: all zero */
    const char *states[WEFT_OPTIM_STATES]; /* names of the state of a parameter */
    /* Replaces *shape, the parameter's, by the shape of state i; false: state i is not used. State
     * starts as zeros. NULL: all used, in the parameter's shape. */
    bool (*state_shape)(const void *options, int i, weft_dims *shape);
    /* The dtype of state i of a parameter of that shape; 0, as for NULL: float64 for float64
     * parameters, else float32. */
    weft_dtype (*state_dtype)(const void *options, int i, const weft_dims *parameter);
    bool rounds; /* bfloat16 parameters have no master copy: `update` rounds them */
    weft_status (*check)(const void *options); /* NULL: numbers >= 0 suffice */
    bool (*own_rate)(const void *options);     /* whether it needs no learning rate; NULL: no */
    /* Whether `update` itself uses s->scale and s->finite; NULL: no, and weft_optim_apply
     * scales the gradient before and drops the result after it. */
    bool (*guards)(const weft_optim_step *s);
    /* The new parameter; s->state[i] is replaced by the new state. */
    weft_array *(*update)(weft_optim_step *s);
};

/* The hyper-parameter of that name; a bool or an integer as its number. */
WEFT_API weft_optim_number weft_optim_hyper(const weft_optim_step *s, const char *name)
    WEFT_NONNULL(1);
/* Formulas that accept both forms of a number. Arrays keep the shape and dtype of x.
 * multiply: x a. add: x + a. one_minus: 1 - a. bias_correction: 1 - a^t for update t, accurate for
 * an a near 1. */
WEFT_API weft_array *weft_optim_multiply(weft_array *x, weft_optim_number a);
WEFT_API weft_array *weft_optim_add(weft_array *x, weft_optim_number a);
WEFT_API weft_optim_number weft_optim_one_minus(weft_optim_number a);
WEFT_API weft_optim_number weft_optim_bias_correction(weft_optim_number a, weft_array *t);
/* The exponential moving average decay old + (1 - decay) recent, in the shape and dtype of old. */
WEFT_API weft_array *weft_optim_ema(weft_array *old, weft_array *recent, weft_optim_number decay);
/* Whether the number is the constant 0. */
WEFT_API bool weft_optim_is_zero(weft_optim_number a);

#ifdef __cplusplus
}
#endif
#endif
