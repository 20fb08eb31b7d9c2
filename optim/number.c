/* optim/number.c -- hyper-parameters in formulas: constants, or 0-d arrays if they vary. */
#include <math.h>
#include <string.h>

#include "optim/optim.h"

weft_optim_number weft_optim_hyper(const weft_optim_step *s, const char *name)
{
    for (int i = 0; s->type->fields && s->type->fields[i].type != WEFT_FIELD_END; i++) {
        if (strcmp(s->type->fields[i].name, name) == 0)
            return s->numbers[i];
    }
    return (weft_optim_number){
        .array = weft_error_array("%s: it has no hyper-parameter %s", s->type->name, name)};
}

weft_array *weft_optim_multiply(weft_array *x, weft_optim_number a)
{
    if (a.array == NULL)
        return weft_scale(x, a.value);
    return weft_multiply(x, weft_astype(a.array, weft_dtype_of(x)));
}

weft_array *weft_optim_add(weft_array *x, weft_optim_number a)
{
    if (a.array == NULL)
        return weft_add_scalar(x, a.value);
    return weft_add(x, weft_astype(a.array, weft_dtype_of(x)));
}

weft_optim_number weft_optim_one_minus(weft_optim_number a)
{
    if (a.array == NULL)
        return (weft_optim_number){.value = 1 - a.value};
    return (weft_optim_number){.array = weft_add_scalar(weft_negative(a.array), 1)};
}

weft_optim_number weft_optim_bias_correction(weft_optim_number a, weft_array *t)
{
    if (weft_optim_is_zero(a))
        return (weft_optim_number){.value = 1};
    weft_array *exponent =
        a.array ? weft_multiply(t, weft_log(a.array)) : weft_scale(t, log(a.value));
    return (weft_optim_number){.array = weft_negative(weft_expm1(exponent))};
}

weft_array *weft_optim_ema(weft_array *old, weft_array *recent, weft_optim_number decay)
{
    return weft_add(weft_optim_multiply(old, decay),
                    weft_optim_multiply(recent, weft_optim_one_minus(decay)));
}

bool weft_optim_is_zero(weft_optim_number a)
{
    return a.array == NULL && a.value == 0;
}
