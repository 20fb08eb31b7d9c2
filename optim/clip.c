/* optim/clip.c -- the global norm of gradients, and clipping. */
#include "optim/optim.h"

/* Devices beyond the limit share the last element. */
weft_array **weft__number_on(weft__per_device *all, const weft_device *device)
{
    int i = 0;
    while (i < all->n && i < WEFT__MOST_DEVICES - 1 && weft_device_of(all->at[i]) != device)
        i++;
    all->n = i < all->n ? all->n : i + 1;
    return &all->at[i];
}

/* Sums on each device separately, so that only one number per device is moved. */
weft_array *weft_global_norm(weft_array *const *arrays, int n)
{
    weft__per_device sums = {0};
    weft_scope_open();
    for (int i = 0; i < n; i++) {
        if (arrays[i] == NULL)
            continue;
        weft_array *wide = weft_astype(arrays[i], WEFT_FLOAT32);
        weft_array *square = weft_sum(weft_square(wide), WEFT_ALL_AXES, false);
        weft_array **sum = weft__number_on(&sums, weft_device_of(arrays[i]));
        *sum = *sum ? weft_add(*sum, square) : square;
    }
    weft_array *all = sums.n > 0 ? sums.at[0] : weft_scalar(0, WEFT_FLOAT32);
    for (int i = 1; i < sums.n; i++)
        all = weft_add(all, sums.at[i]);
    return weft_scope_close(weft_sqrt(all));
}

weft_array *weft_clip_grad_norm(weft_array *const *gradients, int n, double max_norm,
                                weft_array **out)
{
    weft_array *norm = weft_global_norm(gradients, n);
    if (!(max_norm >= 0))
        norm = weft_error_array("clip_grad_norm: max_norm: expected at least 0, got %g", max_norm);
    /* The epsilon avoids division by a norm of zero. */
    weft_array *room = weft_scale(weft_reciprocal(weft_add_scalar(norm, 1e-6)), max_norm);
    weft_array *factor = weft_minimum(room, weft_ones_like(room));
    for (int i = 0; i < n; i++) {
        weft_array *g = gradients[i];
        if (g == NULL) {
            out[i] = NULL;
            continue;
        }
        const weft_dtype dtype = weft_dtype_of(g);
        weft_array *wide = dtype == WEFT_FLOAT64 ? g : weft_astype(g, WEFT_FLOAT32);
        out[i] =
            weft_astype(weft_optim_multiply(wide, (weft_optim_number){.array = factor}), dtype);
    }
    return norm;
}

void weft_clip_grad_value(weft_array *const *gradients, int n, double most, weft_array **out)
{
    for (int i = 0; i < n; i++) {
        weft_array *g = gradients[i];
        if (g && !(most >= 0))
            out[i] = weft_error_array("clip_grad_value: expected at least 0, got %g", most);
        else
            out[i] = g ? weft_clip(g, weft_scalar(-most, weft_dtype_of(g)),
                                   weft_scalar(most, weft_dtype_of(g)))
                       : NULL;
    }
}
