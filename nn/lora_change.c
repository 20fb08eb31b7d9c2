/* nn/lora_change.c -- what adapters change: norms, and the singular values of B A.
 *
 * The singular values are computed from the factors: with B = Q1 R1 and A^T = Q2 R2, those of B A
 * are those of R1 R2^T, a matrix of the size of the rank. */
#include <math.h>

#include "core/failure.h"
#include "core/list.h"
#include "nn/lora.h"

typedef struct listing {
    weft_nn_lora_change *at;
    size_t n;
} listing;

/* The factor on the CPU, float64; LAPACK has no other device. */
static weft_array *exact(weft_array *factor)
{
    return weft_astype(weft_to(factor, weft_device_get("cpu")), WEFT_FLOAT64);
}

/* Factors whose product is the change without its scale: B (..., out, R) and A (..., R, in). PiSSA
 * subtracts the product of its initial factors. */
static void factors_of(const weft_nn_lora_linear *m, weft_array **B, weft_array **A)
{
    *B = exact(m->lora_B);
    *A = exact(weft__lora_A(m));
    if (m->start_A == NULL)
        return;
    *B = weft_concatenate((weft_array *[]){*B, weft_negative(exact(m->start_B))}, 2, -1);
    *A = weft_concatenate((weft_array *[]){*A, exact(m->start_A)}, 2, -2);
}

/* (..., min(out, R)) float64, in descending order. */
static weft_array *singular_values(weft_array *B, weft_array *A, double scale)
{
    weft_array *q, *left, *right;
    weft_qr(B, false, &q, &left);
    weft_qr(weft_swapaxes(A, -1, -2), false, &q, &right);
    weft_array *core = weft_matmul(left, weft_swapaxes(right, -1, -2));
    return weft_scale(weft_svdvals(core), fabs(scale));
}

/* Of DoRA the change is g (W + scale B A) - W, with the rows' factors g. Computed in float32 with a
 * temporary array of the weight's size. */
static weft_array *norm_with_magnitude(weft_nn_lora_linear *m)
{
    weft_array *W = weft_astype(weft__lora_weight(m, m->lora_B), WEFT_FLOAT32);
    weft_array *factor = weft_expand_dims(weft__dora_factor(m), 1);
    weft_array *sum = weft_multiply(factor, weft_add(W, weft__lora_matrix(m)));
    return weft_sqrt(weft_sum(weft_square(weft_subtract(sum, W)), WEFT_ALL_AXES, false));
}

static double effective_rank(const double *s, int64_t rank)
{
    double sum = 0, entropy = 0;
    for (int64_t i = 0; i < rank; i++)
        sum += s[i];
    for (int64_t i = 0; i < rank; i++) {
        if (s[i] > 0)
            entropy -= s[i] / sum * log(s[i] / sum);
    }
    return sum > 0 ? exp(entropy) : 0;
}

/* Reads the values; a matrix with fewer rows or columns than the rank has fewer, the rest is 0. */
static weft_status read_values(weft_nn_lora_change *c, weft_array *values)
{
    const int64_t found = weft_dim(values, -1);
    double square = 0, *all = weft_malloc((size_t)(c->n * found + 1) * sizeof *all);
    weft_status status = all ? weft_read(values, WEFT_FLOAT64, all, c->n * found)
                             : weft__out_of_memory("lora", NULL);
    for (int64_t i = 0; status == WEFT_OK && i < c->n * found; i++) {
        c->singular[i / found * c->rank + i % found] = all[i];
        square += all[i] * all[i];
    }
    for (int64_t k = 0; status == WEFT_OK && k < c->n; k++)
        c->effective_rank += effective_rank(c->singular + k * c->rank, c->rank) / (double)c->n;
    c->norm = sqrt(square);
    weft_free(all);
    return status;
}

static weft_status measure(weft_nn_lora_linear *m, weft_nn_lora_change *c)
{
    weft_array *A, *B, *weight = *weft_nn_find(m->base, "weight");
    factors_of(m, &B, &A);
    weft_array *values = singular_values(B, A, m->scale);
    weft_array *norms = weft__dora_norms(weight);
    weft_array *total = weft_sqrt(weft_sum(weft_square(norms), WEFT_ALL_AXES, false));
    c->n = weft_ndim(B) == 3 ? weft_dim(B, 0) : 1;
    c->rank = weft_dim(B, -1);
    c->singular = weft_calloc((size_t)(c->n * c->rank) + 1, sizeof *c->singular);
    if (c->singular == NULL)
        return weft__out_of_memory("lora", NULL);
    weft_status status = weft_eval_n((weft_array *[]){values, total}, 2);
    if (status == WEFT_OK)
        status = read_values(c, values);
    c->weight_norm = weft_item(total);
    if (status == WEFT_OK && m->lora_magnitude_vector) {
        weft_array *norm = norm_with_magnitude(m);
        status = weft_eval(norm);
        c->norm = weft_item(norm);
    }
    return status;
}

static weft_status add(void *context, const char *path, weft_module **field)
{
    listing *l = context;
    if (!weft__is_lora(*field))
        return WEFT_OK;
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    if (m->merged)
        return weft_fail(WEFT_INVALID, "lora: %s is merged: its change is part of the weight",
                         path);
    char *copy = weft__list_more(l->at, l->n) ? weft_strdup(path) : NULL;
    if (copy == NULL)
        return weft__out_of_memory("lora", NULL);
    const weft_array *weight = *weft_nn_find(m->base, "weight");
    weft_nn_lora_change *c = &l->at[l->n++];
    *c = (weft_nn_lora_change){.path = copy,
                               .out_features = weft_dim(weight, -2),
                               .in_features = weft_dim(weight, -1),
                               .scale = m->scale,
                               .dora = m->lora_magnitude_vector != NULL};
    weft_device *before = weft_default_device();
    weft_set_default_device(weft__nn_device(m->base));
    weft_scope_open();
    const weft_status status = measure(m, c);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

weft_status weft_nn_lora_changes(weft_module *m, weft_nn_lora_change **out, size_t *count)
{
    listing l = {0};
    const weft_status status = weft_nn_visit_modules(m, add, &l);
    *out = NULL;
    *count = 0;
    if (status != WEFT_OK) {
        weft_nn_lora_changes_free(l.at, l.n);
        return status;
    }
    *out = l.at;
    *count = l.n;
    return WEFT_OK;
}

void weft_nn_lora_changes_free(weft_nn_lora_change *changes, size_t count)
{
    for (size_t i = 0; changes && i < count; i++) {
        weft_free(changes[i].path);
        weft_free(changes[i].singular);
    }
    weft_free(changes);
}
