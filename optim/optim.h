/* optim/optim.h -- what the files of optim/ share. */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include "weft/optim.h"

/* A group with its options filled in. */
typedef struct optim_group {
    const weft_optim_type *type;
    void *options;              /* the type's struct */
    int n_fields;               /* of the type */
    const weft_rate **rates;    /* per field; NULL: not scheduled */
    const weft_rate *lr_rate;   /* NULL: not scheduled */
    weft_optim_number *numbers; /* per field, of the update in hand */
    weft_array *lr;             /* a state */
    weft_array *lr_now;         /* of the update in hand */
} optim_group;

/* A parameter and what is remembered of it. */
typedef struct optim_parameter {
    weft_array **slot; /* the caller's */
    char *path;
    int group;
    weft_array *state[WEFT_OPTIM_STATES];
    weft_array *master; /* NULL unless the parameter has 16 bits */
} optim_parameter;

struct weft_optim {
    int n, n_groups;
    optim_parameter *parameters;
    optim_group *groups;
    weft_array *step; /* int64 0-d */
    /* The parameters' slots, then the state: step, learning rates, and each parameter's. */
    int n_slots;
    weft_array ***slots;
    char **names;
};

weft_status weft__optim_no_memory(void);

/* optim/groups.c: fills in one group, and finds each parameter's. */
weft_status weft__optim_group_start(optim_group *g, const weft_optim_group *from, int index);
void weft__optim_group_end(optim_group *g);

/* optim/state.c: lists the slots and names them. */
weft_status weft__optim_list(weft_optim *o);

/* For types' checks: "adamw: beta1: expected a number in [0, 1), got 2". A scheduled number (NaN)
 * passes. */
weft_status weft__optim_expect(const char *type, const char *name, double value, bool below_one,
                               bool positive);

/* One thread's default device is the CPU from here to the call that puts it back: 0-d arrays, which
 * go with any device, are made there. */
weft_device *weft__optim_on_cpu(void);

#endif
