/* tests/optim/states.h -- the states of an optimizer. */
#ifndef TESTS_OPTIM_STATES_H
#define TESTS_OPTIM_STATES_H

#include <string.h>

#include "weft/optim.h"

/* The first state called `name`, or an error array. */
static inline weft_array *state_of(weft_optim *o, const char *name)
{
    int n;
    weft_array ***state = weft_optim_state(o, &n);
    for (int i = 0; i < n; i++) {
        if (strcmp(weft_optim_state_names(o)[i], name) == 0)
            return *state[i];
    }
    return weft_error_array("no state %s", name);
}

#endif
