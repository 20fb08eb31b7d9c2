/* optim/clip.c -- the global norm of gradients, and clipping. */
#include "core/failure.h"
#include "ops/reduce/sum_squares.h"
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

/* Moves the arrays that are on the device of the first one to the front, in order, and returns
 * their number. */
static int take_device(weft_array **arrays, int n)
{
    int taken = 0;
    for (int i = 0; i < n; i++) {
        weft_array *array = arrays[i];
        if (weft_device_of(array) != weft_device_of(arrays[0]))
            continue;
        for (int k = i; k > taken; k--)
            arrays[k] = arrays[k - 1];
        arrays[taken++] = array;
    }
    return taken;
}

/* The sum of the squares in float32. */
static weft_array *squares(weft_array *const *arrays, int n, weft_array **room)
{
    weft_array *all = NULL;
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i] != NULL && !weft_ok(arrays[i]))
            return arrays[i];
        if (arrays[i] == NULL)
            continue;
        const weft_dtype dtype = weft_dtype_of(arrays[i]);
        const bool direct = weft_dtype_is_float(dtype) && dtype != WEFT_FLOAT64;
        room[left++] = direct ? arrays[i] : weft_astype(arrays[i], WEFT_FLOAT32);
    }
    for (int taken; left > 0; room += taken, left -= taken) {
        taken = take_device(room, left);
        weft_array *sum = weft__sum_squares(room, taken);
        all = all ? weft_add(all, sum) : sum;
    }
    return all ? all : weft_scalar(0, WEFT_FLOAT32);
}

/* Sums on each device separately, so that only one number per device is moved. */
weft_array *weft_global_norm(weft_array *const *arrays, int n)
{
    weft_array **room = weft_malloc(((size_t)n + 1) * sizeof *room);
    if (room == NULL)
        return weft__memory_error("global_norm", "its inputs");
    weft_scope_open();
    weft_array *norm = weft_sqrt(squares(arrays, n, room));
    weft_free(room);
    return weft_scope_close(norm);
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
