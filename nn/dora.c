/* nn/dora.c -- the magnitudes of DoRA adapters: row norms, and the factors of rows. */
#include "nn/lora.h"
#include "weft/transforms.h"

/* PART: most elements of a weight that are decoded or squared at a time. */
enum { PART = 1 << 22 };

static weft_array *wide(weft_array *a)
{
    return weft_astype(a, WEFT_FLOAT32);
}

static weft_array *rows_of(weft_array *weight, int64_t from, int64_t to)
{
    if (from == 0 && to == weft_dim(weight, 0))
        return weight;
    if (weft_encoding_of(weight) == NULL)
        return weft_slice_axis(weight, 0, from, to);
    weft_array *rows = weft_arange_int(from, to, 1, WEFT_INT32);
    return weft_take(weight, weft_to(rows, weft_device_of(weight)), 0);
}

/* The squared norms of the rows [from, to) of a matrix: (to - from), float32. No temporary array
 * has the size of a large matrix. */
static weft_array *squared_norms(weft_array *weight, int64_t from, int64_t to)
{
    if (to - from > 1 && (to - from) * weft_dim(weight, 1) > PART) {
        const int64_t middle = from + (to - from) / 2;
        weft_array *halves[] = {squared_norms(weight, from, middle),
                                squared_norms(weight, middle, to)};
        return weft_concatenate(halves, 2, 0);
    }
    return weft_sum(weft_square(wide(rows_of(weight, from, to))), WEFT_DIMS(-1), false);
}

weft_array *weft__dora_norms(weft_array *weight)
{
    return weft_sqrt(squared_norms(weight, 0, weft_dim(weight, 0)));
}

/* |W + s B A| of each row, expanded so that the sum of the matrices is not computed: |w|^2 + 2 s b
 * (A w) + s^2 b (A A^T) b. */
static weft_array *norms_of_sum(weft_array *W, weft_array *A, weft_array *B, double s)
{
    weft_array *cross = weft_swapaxes(weft_linear(A, W, NULL), 0, 1); /* (out, R): W A^T */
    weft_array *square = weft_matmul(B, weft_linear(A, A, NULL));     /* (out, R) */
    weft_array *sum = weft_add(weft_scale(cross, 2 * s), weft_scale(square, s * s));
    weft_array *more = weft_sum(weft_multiply(B, sum), WEFT_DIMS(-1), false); /* (out) */
    return weft_sqrt(weft_add(squared_norms(W, 0, weft_dim(W, 0)), more));
}

weft_array *weft__dora_factor(const weft_nn_lora_linear *m)
{
    if (m->factor && weft__lora_is_kept(m))
        return m->factor;
    weft_array *W = weft__lora_weight(m, m->lora_B);
    weft_array *A = weft_stop_gradient(wide(m->lora_A)), *B = weft_stop_gradient(wide(m->lora_B));
    weft_array *norms = weft_stop_gradient(norms_of_sum(W, A, B, m->scale));
    return weft_divide(wide(m->lora_magnitude_vector), norms);
}
