/* optim/optim.h -- internal interface of the optimizers. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include "weft/optim.h"

/* A group with completed options. */
typedef struct optim_group {
    const weft_optim_type *type;
    void *options;              /* the type's struct */
    int n_fields;               /* of the type */
    const weft_rate **rates;    /* per field; NULL: not scheduled */
    const weft_rate *lr_rate;   /* NULL: not scheduled */
    weft_optim_number *numbers; /* per field, for the current update */
    weft_array *lr;             /* current learning rate, which is part of the state */
    weft_array *lr_now;         /* for the current update */
} optim_group;

/* A parameter and its state. */
typedef struct optim_parameter {
    weft_array **slot; /* the caller's */
    char *path;
    int group;
    int owner; /* the rank that updates it; elsewhere its state is zeros that are never computed */
    weft_array *state[WEFT_OPTIM_STATES];
    weft_array *master; /* NULL: the parameter has more than 16 bits, or its type rounds it */
    weft_array *sum;    /* of gradients; NULL without accumulation */
} optim_parameter;

struct weft_optim {
    int n, n_groups;
    int rank; /* this process */
    optim_parameter *parameters;
    optim_group *groups;
    weft_array *step;        /* int64 0-d */
    int64_t every;           /* calls per update; 0: no accumulation */
    weft_array *seen;        /* int64 0-d: calls since the last update */
    weft_array *loss, *norm; /* of the latest guarded update */
    /* The slots: parameters, then the state (step, learning rates, and the state of each
     * parameter). */
    int n_slots;
    weft_array ***slots;
    char **names;
    int *owners; /* per slot: the rank with the value; WEFT__EVERY_RANK */
};

/* optim/clip.c: a number on each of several devices. */
enum { WEFT__MOST_DEVICES = 16 };
typedef struct weft__per_device {
    weft_array *at[WEFT__MOST_DEVICES];
    int n;
} weft__per_device;

/* The element of the device; NULL until the caller sets it. */
weft_array **weft__number_on(weft__per_device *all, const weft_device *device);

/* optim/optim.c: optimizers of several ranks, of which each updates some of the parameters and has
 * their state. weft__optim_new_share: weft_optim_new where rank owners[i] updates parameter i;
 * NULL: this one all. Updates get NULL for the gradients of other ranks. weft__optim_owners: who
 * has the value of each of weft_optim_slots. weft__optim_release: drops the state of other ranks,
 * which a checkpoint needed. */
enum { WEFT__EVERY_RANK = -1 };
weft_status weft__optim_new_share(const weft_nn_slots *parameters, const weft_optim_group *groups,
                                  int n_groups, const int *owners, int rank, weft_optim **out);
const int *weft__optim_owners(const weft_optim *o);
weft_status weft__optim_release(weft_optim *o);

/* The slots that a call sets, and their new values. */
typedef struct optim_changes {
    weft_array ***slots;
    weft_array **values;
    int n;
} optim_changes;

/* Effects of a guard: a factor of the learning rates, a scale of the gradients (empty: none), and
 * whether the new values are used. */
typedef struct optim_guard {
    weft_array *factor; /* 0-d, on the CPU */
    weft__per_device scale, finite;
} optim_guard;

/* optim/guard.c. weft__optim_scale: the scale on a device; NULL: gradients are not scaled.
 * weft__optim_finite: whether the update is finite, on a device. weft__optim_guarded: `value`, or
 * `old` if the update is not finite; `value` without a guard. */
weft_array *weft__optim_scale(optim_guard *guard, weft_device *device);
weft_array *weft__optim_finite(optim_guard *guard, weft_device *device);
weft_array *weft__optim_guarded(optim_guard *guard, weft_array *value, weft_array *old);

/* optim/guard.c: weft_optim_apply with the norm of the gradients, those of other ranks included
 * (float32 0-d; NULL: computed here), and in parts, for compiled functions. weft__optim_set sets
 * parameters and state from gradients and the 0-d float64 factor of the learning rates (loss may be
 * NULL). weft__optim_read reads the result. weft__optim_results returns the two slots with loss and
 * norm of the latest update, which weft_optim_state does not include. */
weft_status weft__optim_apply(weft_optim *o, weft_array *const *gradients, weft_array *norm,
                              weft_optim_call *call);
weft_status weft__optim_set(weft_optim *o, weft_array *const *gradients, weft_array *norm,
                            weft_array *loss, weft_array *factor, double clip);
weft_status weft__optim_read(const weft_optim *o, bool with_loss, weft_optim_call *call);
void weft__optim_results(weft_optim *o, weft_array **slots[2]);

/* optim/update.c. weft__optim_change: adds a slot and its new value. weft__optim_dtype: the
 * dtype in which a parameter is updated. weft__optim_gradient: the gradient in this dtype, or an
 * error that names the parameter. weft__optim_collect: adds
 * the changes of an update of all parameters; `shared` comes from weft__optim_new_shared, which the
 * caller frees, and `guard` may be NULL. */
void weft__optim_change(optim_changes *c, weft_array **slot, weft_array *value);
weft_dtype weft__optim_dtype(const optim_parameter *p);
weft_array *weft__optim_gradient(const optim_parameter *p, weft_array *gradient);
weft_array **weft__optim_new_shared(const weft_optim *o);
void weft__optim_collect(weft_optim *o, weft_array *const *gradients, weft_array **shared,
                         optim_guard *guard, optim_changes *c);

/* optim/accumulate.c: `a` if the bool 0-d `due` is true, else `old`; on the device of `old`. */
weft_array *weft__optim_when(weft_array *due, weft_array *a, weft_array *old);

/* optim/accumulate.c: a call of an optimizer with accumulation; `sums` has an element per
 * parameter. */
weft_status weft__optim_accumulate(weft_optim *o, weft_array *const *gradients, weft_array **sums,
                                   weft_array **shared, optim_changes *c);

/* optim/groups.c. weft__optim_group_start: initializes a group with completed options.
 * weft__optim_group_end: frees what it allocated. */
weft_status weft__optim_group_start(optim_group *g, const weft_optim_group *from, int index);
void weft__optim_group_end(optim_group *g);

/* optim/state.c. weft__optim_list: lists and names the slots; call it again after slots were added.
 * weft__optim_unlist: frees the list. */
weft_status weft__optim_list(weft_optim *o);
void weft__optim_unlist(weft_optim *o);

/* optim/state.c: sets parameters and state from a file with weft_optim_slot_names, all or nothing,
 * like weft_optim_load; messages begin with `what`. */
weft_status weft__optim_restore(weft_optim *o, const char *what, const weft_safetensors *file);

/* What the forms of Adam share between parameters: weft_adamw's numbers, and random keys. */
enum { WEFT__SHARED_NUMBERS, WEFT__SHARED_KEYS };

/* optim/adam.c: weft_adamw's five numbers for a step with constant hyper-parameters, in the
 * gradient's dtype and on the parameter's device. */
weft_array *weft__optim_adam_numbers(weft_optim_step *s);

/* optim/adam.c: AdamW's hyper-parameters and defaults, which its 8-bit form shares, and the check
 * of them and of its 16-bit form. */
extern const weft_field weft__optim_adamw_fields[];
extern const weft_optim_adamw_options weft__optim_adamw_defaults;
weft_status weft__optim_check_betas(const char *type, double beta1, double beta2);

/* Checks an option, with messages such as "adamw: beta1: expected a number in [0, 1), got 2".
 * Accepts scheduled numbers (NaN). */
weft_status weft__optim_expect(const char *type, const char *name, double value, bool below_one,
                               bool positive);

/* Makes the CPU the thread's default device until it is restored: 0-d arrays, which can be used
 * with any device, are created there. */
weft_device *weft__optim_on_cpu(void);

#endif
