/* nn/lora.c -- a linear layer with a low-rank adapter (Hu et al. 2021).
 *
 * Training in 16 bits rounds A and B to the dtype of x, once per update, since forward and gradient
 * read the same rounded array. All products then have one dtype, which matrix cores need. The
 * factors that the optimizer updates stay float32, and so do their gradients: the weight gradient
 * of `linear` has the dtype from which the weight was rounded (weft__gradient_dtype). */
#include "nn/lora.h"

#include <math.h>
#include <stdio.h>

#include "ops/nn/linear_sum.h"

static bool drops_out(const weft_nn_lora_linear *m)
{
    return m->lora_dropout->training && ((weft_nn_dropout *)m->lora_dropout)->p > 0;
}

/* y + (g - 1) W x + g scale (x A^T) B^T, where y = W x + bias, g = m / |w| and x has dropout
 * applied except in y (PEFT's formula). `delta` is scale (x A^T) B^T. */
static weft_array *with_magnitude(weft_nn_lora_linear *m, weft_array *y, weft_array *x,
                                  weft_array *delta)
{
    weft_array *factor = weft__dora_factor(m); /* (out) */
    weft_array *bias = ((weft_nn_linear *)m->base)->bias, *product = y;
    if (drops_out(m))
        product = weft_linear(x, weft__lora_weight(m, x), NULL);
    else if (bias)
        product = weft_subtract(y, bias);
    weft_array *more = weft_multiply(product, weft_add_scalar(factor, -1));
    more = weft_add(more, weft_multiply(delta, factor));
    return weft_add(y, weft_astype(more, weft_dtype_of(y)));
}

weft_array *weft__lora_factor(const weft_nn_lora_linear *m, weft_array *factor, weft_dtype dtype)
{
    const bool narrow = dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
    return narrow && !m->start_A ? weft_astype(factor, dtype) : factor;
}

void weft__lora_ready(const weft_nn_lora_linear *m, weft_dtype dtype, weft_array *out[2])
{
    const bool kept = m->ready[0] && dtype == m->ready_dtype && weft__lora_is_kept(m);
    out[0] = kept ? m->ready[0] : weft__lora_factor(m, weft__lora_A(m), dtype);
    out[1] = kept ? m->ready[1] : weft__lora_factor(m, weft_scale(m->lora_B, m->scale), dtype);
}

/* A product (..., R), and the matrix whose product with it is scale (x A^T) B^T. While training,
 * the scale is applied to the first, which is small, otherwise to lora_B, once for many calls. */
static weft_array *reduced(const weft_nn_lora_linear *m, weft_array *x, weft_array **B)
{
    weft_array *ready[2];
    if (m->module.training || m->start_A) {
        *B = weft__lora_factor(m, m->lora_B, weft_dtype_of(x));
        x = weft_linear(x, weft__lora_factor(m, m->lora_A, weft_dtype_of(x)), NULL);
        return weft_scale(x, m->scale);
    }
    weft__lora_ready(m, weft_dtype_of(x), ready);
    *B = ready[1];
    return weft_linear(x, ready[0], NULL);
}

bool weft__is_lora(const weft_module *m)
{
    return m->type == &weft_nn_lora_linear_type || m->type == &weft_nn_lora_embedding_type ||
           m->type == &weft_nn_lora_stack_type;
}

weft_array *weft__lora_A(const weft_nn_lora_linear *m)
{
    const weft_slot *slot = weft__nn_slot((weft_module *)m, "lora_A");
    return slot && slot->kind == WEFT_SLOT_TIED ? *slot->owner : m->lora_A;
}

int64_t weft__lora_rank(const weft_nn_lora_linear *m)
{
    return weft_dim(m->lora_B, -1);
}

weft_array *weft__lora_weight(const weft_nn_lora_linear *m, const weft_array *x)
{
    return weft__nn_near(*weft_nn_find(m->base, "weight"), x);
}

weft_array *weft__lora_delta(const weft_nn_lora_linear *m, weft_array *x)
{
    weft_array *B, *low = reduced(m, x, &B);
    weft_array *delta = weft_linear(low, B, NULL);
    if (m->start_A == NULL)
        return delta;
    low = weft_scale(weft_linear(x, m->start_A, NULL), m->scale);
    return weft_subtract(delta, weft_linear(low, m->start_B, NULL));
}

static weft_array *product(weft_array *B, weft_array *A)
{
    return weft_matmul(weft_astype(B, WEFT_FLOAT32), weft_astype(A, WEFT_FLOAT32));
}

weft_array *weft__lora_matrix(const weft_nn_lora_linear *m)
{
    weft_array *matrix = product(m->lora_B, weft__lora_A(m));
    if (m->start_A)
        matrix = weft_subtract(matrix, product(m->start_B, m->start_A));
    if (m->module.type == &weft_nn_lora_embedding_type)
        matrix = weft_swapaxes(matrix, 0, 1);
    return weft_scale(matrix, m->scale);
}

/* Whether base and adapter are computed as one sum of products: for many rows, as in training and
 * prompts. */
static bool is_sum(const weft_nn_lora_linear *m, const weft_array *x)
{
    return !m->merged && !m->start_A && m->base->type == &weft_nn_linear_type &&
           !((weft_nn_linear *)m->base)->int8 && weft__use_linear_sum(x);
}

/* With DoRA the base's product is scaled too, so both read the x with dropout, and the formula of
 * with_magnitude becomes g (W x + scale (x A^T) B^T) + W (x without dropout - x). */
static weft_array *as_sum(const weft_nn_lora_linear *m, weft_array *x)
{
    const weft_nn_linear *base = (weft_nn_linear *)m->base;
    weft_array *dropped = weft_nn_call(m->lora_dropout, x);
    weft_array *B, *low = reduced(m, dropped, &B);
    weft_array *inputs[] = {m->lora_magnitude_vector ? dropped : x, low};
    weft_array *weights[] = {weft__lora_weight(m, x), B};
    if (m->lora_magnitude_vector == NULL)
        return weft__linear_sum(inputs, weights, 2, base->bias);
    weft_array *y = weft__linear_sum(inputs, weights, 2, NULL);
    weft_array *scaled = weft_multiply(y, weft__dora_factor(m));
    if (drops_out(m))
        scaled = weft_add(scaled, weft_linear(weft_subtract(x, dropped), weights[0], NULL));
    if (base->bias)
        scaled = weft_add(scaled, base->bias);
    return weft_astype(scaled, weft_dtype_of(y));
}

/* y = base(x) + scale (dropout(x) A^T) B^T        x: (..., in) -> (..., out) */
static weft_array *forward(weft_module *self, weft_array *x)
{
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)self;
    if (is_sum(m, x))
        return as_sum(m, x);
    weft_array *y = weft_nn_call(m->base, x);
    if (m->merged)
        return y;
    x = weft_nn_call(m->lora_dropout, x);
    weft_array *delta = weft__lora_delta(m, x);
    if (m->lora_magnitude_vector)
        return with_magnitude(m, y, x, delta);
    return weft_add(y, delta);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)self;
    snprintf(out, size, "scale=%g%s%s%s", m->scale, m->lora_magnitude_vector ? " dora" : "",
             m->start_A ? " pissa" : "", m->merged ? " merged" : "");
}

static void destroy(weft_module *self)
{
    weft__lora_keep_nothing((weft_nn_lora_linear *)self);
}

/* y = base(ids) + scale A^T[ids] B^T        ids: (...) -> (..., E) */
static weft_array *embedding_forward(weft_module *self, weft_array *ids)
{
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)self;
    weft_array *y = weft_nn_call(m->base, ids);
    if (m->merged)
        return y;
    /* Of lora_A only the rows that are read are rounded. */
    weft_array *rows = weft_embedding(weft_swapaxes(m->lora_A, 0, 1), ids); /* (..., R) */
    weft_array *B = m->module.training ? m->lora_B : weft_scale(m->lora_B, m->scale);
    B = weft__lora_factor(m, B, weft_dtype_of(y));
    if (m->module.training)
        rows = weft_scale(rows, m->scale);
    if (weft_dtype_size(weft_dtype_of(B)) < weft_dtype_size(weft_dtype_of(rows)))
        rows = weft_astype(rows, weft_dtype_of(B));
    return weft_add(y, weft_astype(weft_linear(rows, B, NULL), weft_dtype_of(y)));
}

const weft_module_type weft_nn_lora_embedding_type = {
    .name = "lora_embedding",
    .forward = embedding_forward,
    .describe = describe,
};

/* Called by weft__nn_stack_call. */
const weft_module_type weft_nn_lora_stack_type = {
    .name = "lora_stack",
    .describe = describe,
};

const weft_module_type weft_nn_lora_linear_type = {
    .name = "lora_linear",
    .forward = forward,
    .destroy = destroy,
    .describe = describe,
};

static bool is_embedding(const weft_module *m)
{
    return m->type == &weft__nn_embedding_type;
}

static bool is_stack(const weft_module *m)
{
    return m->type == &weft__nn_stack_type;
}

/* For experts PEFT supports only plain LoRA, so other variants could not be saved in its format. */
static weft_status check_kind(const weft_module *base, const weft__lora_spec *spec)
{
    const char *kind = spec->dora          ? "DoRA"
                       : spec->pissa       ? "PiSSA"
                       : spec->dropout > 0 ? "dropout"
                                           : NULL;
    if (kind == NULL || (!is_embedding(base) && !is_stack(base)))
        return WEFT_OK;
    if (is_stack(base))
        return weft_fail(WEFT_UNSUPPORTED,
                         "lora: %s of experts (%s) is unsupported: choose targets without them",
                         kind, base->name);
    if (spec->dora || spec->pissa)
        return weft_fail(WEFT_UNSUPPORTED, "lora: %s of an embedding (%s) is unsupported", kind,
                         base->name);
    return WEFT_OK;
}

static weft_status check(const weft_module *base, const weft__lora_spec *spec, weft_dtype dtype)
{
    if (base == NULL ||
        (base->type != &weft_nn_linear_type && !is_embedding(base) && !is_stack(base)))
        return weft_fail(WEFT_INVALID, "lora_linear: expected a linear module, got %s",
                         base ? base->type->name : "none");
    const weft_status kind = check_kind(base, spec);
    if (kind != WEFT_OK)
        return kind;
    if (spec->rank < 1)
        return weft_fail(WEFT_INVALID, "lora_linear: expected a rank of at least 1, got %lld",
                         (long long)spec->rank);
    if (!(spec->dropout >= 0 && spec->dropout < 1))
        return weft_fail(WEFT_INVALID, "lora_linear: expected a dropout in [0, 1), got %g",
                         spec->dropout);
    if (spec->pissa && spec->dora)
        return weft_fail(WEFT_UNSUPPORTED, "lora_linear: PiSSA and DoRA exclude each other");
    const weft_array *weight = *weft_nn_find((weft_module *)base, "weight");
    const int64_t F = weft_dim(weight, 0), E = weft_dim(weight, 1), least = F < E ? F : E;
    if (spec->pissa && spec->rank > least)
        return weft_fail(WEFT_INVALID,
                         "lora_linear: PiSSA: expected a rank of at most %lld, the singular values "
                         "of a matrix (%lld, %lld), got %lld",
                         (long long)least, (long long)F, (long long)E, (long long)spec->rank);
    if (dtype != WEFT_FLOAT32 && dtype != WEFT_BFLOAT16)
        return weft_fail(WEFT_INVALID, "lora_linear: expected float32 or bfloat16, got %s",
                         weft_dtype_name(dtype));
    return WEFT_OK;
}

static void start_embedding(weft_nn_lora_linear *m, int64_t rank, int64_t V, int64_t E,
                            weft_dtype dtype)
{
    weft_nn_add_slot(&m->module, "lora_embedding_A", &m->lora_A,
                     weft_zeros(WEFT_DIMS(rank, V), dtype), WEFT_SLOT_PARAMETER);
    weft_nn_add_slot(&m->module, "lora_embedding_B", &m->lora_B,
                     weft_random_normal(NULL, WEFT_DIMS(E, rank), 0, 1, dtype),
                     WEFT_SLOT_PARAMETER);
}

static void start_at_random(weft_nn_lora_linear *m, int64_t rank, int64_t E, int64_t F,
                            weft_dtype dtype)
{
    const double bound = E > 0 ? 1.0 / sqrt((double)E) : 0;
    weft_nn_param(m, lora_A, weft_random_uniform(NULL, WEFT_DIMS(rank, E), -bound, bound, dtype));
    weft_nn_param(m, lora_B, weft_zeros(WEFT_DIMS(F, rank), dtype));
}

/* Creates A and B for each of n experts. */
static void start_stack(weft_nn_lora_linear *m, int64_t n, int64_t rank, int64_t E, int64_t F,
                        weft_dtype dtype)
{
    const double bound = E > 0 ? 1.0 / sqrt((double)E) : 0;
    const weft_dims shape = WEFT_DIMS(n, rank, E);
    weft_nn_param(m, lora_A, weft_random_uniform(NULL, shape, -bound, bound, dtype));
    weft_nn_param(m, lora_B, weft_zeros(WEFT_DIMS(n, F, rank), dtype));
}

/* W ~ scale B A: A = diag(sqrt(s / scale)) vh, B = u diag(sqrt(s / scale)) of the largest singular
 * values s (PEFT's pissa). */
static weft_status start_at_singular_values(weft_nn_lora_linear *m, weft_array *weight,
                                            int64_t rank, weft_dtype dtype)
{
    weft_array *u, *s, *vh;
    weft_svd(weft_astype(weight, WEFT_FLOAT32), false, &u, &s, &vh);
    weft_array *root = weft_sqrt(weft_scale(weft_slice_axis(s, 0, 0, rank), 1 / m->scale));
    weft_array *A = weft_multiply(weft_expand_dims(root, 1), weft_slice_axis(vh, 0, 0, rank));
    weft_array *B = weft_multiply(weft_slice_axis(u, 1, 0, rank), root);
    A = weft_copy(weft_astype(A, dtype));
    B = weft_copy(weft_astype(B, dtype));
    weft_array *all[] = {A, B, weft_copy(A), weft_copy(B)};
    const weft_status status = weft_eval_n(all, 4);
    if (status != WEFT_OK)
        return status;
    weft_nn_param(m, lora_A, all[0]);
    weft_nn_param(m, lora_B, all[1]);
    weft_nn_buffer(m, start_A, all[2]);
    weft_nn_buffer(m, start_B, all[3]);
    return WEFT_OK;
}

static const weft_module_type *type_around(const weft_module *base)
{
    return is_embedding(base) ? &weft_nn_lora_embedding_type
           : is_stack(base)   ? &weft_nn_lora_stack_type
                              : &weft_nn_lora_linear_type;
}

weft_status weft__lora_new(const weft_module *base, const weft__lora_spec *spec,
                           weft_nn_lora_linear **out)
{
    *out = NULL;
    const weft_dtype dtype = spec->dtype ? spec->dtype : WEFT_FLOAT32;
    weft_status status = check(base, spec, dtype);
    if (status != WEFT_OK)
        return status;
    weft_array *weight = *weft_nn_find((weft_module *)base, "weight");
    const int64_t F = weft_dim(weight, -2), E = weft_dim(weight, -1), rank = spec->rank;
    weft_nn_lora_linear *m = weft_nn_new(weft_nn_lora_linear, type_around(base));
    if (m == NULL)
        return WEFT_MEMORY;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft__nn_device((weft_module *)base));
    m->scale = spec->scale;
    weft_scope_open();
    weight = weft_to(weight, weft_default_device());
    if (is_embedding(base))
        start_embedding(m, rank, F, E, dtype);
    else if (is_stack(base))
        start_stack(m, weft_dim(weight, 0), rank, E, F, dtype);
    else if (spec->pissa)
        status = start_at_singular_values(m, weight, rank, dtype);
    else
        start_at_random(m, rank, E, F, dtype);
    if (spec->dora)
        weft_nn_param(m, lora_magnitude_vector, weft_astype(weft__dora_norms(weight), dtype));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    weft_nn_child(m, lora_dropout, weft_nn_dropout_new(spec->dropout));
    weft__nn_reserve_child(&m->module, "", &m->base);
    if (weft_nn_finish(m) == NULL)
        return WEFT_MEMORY; /* the only failure left, since all else was checked */
    if (status != WEFT_OK) {
        weft_nn_free(&m->module);
        return status;
    }
    m->module.training = m->lora_dropout->training = base->training;
    *out = m;
    return WEFT_OK;
}

void weft__lora_attach(weft_nn_lora_linear *m, weft_module *base)
{
    weft__nn_put_child(&m->module, "", &m->base, base);
}

weft_module *weft_nn_lora_linear_new(weft_module *base, int64_t rank, double scale, double dropout,
                                     weft_dtype dtype)
{
    weft_nn_lora_linear *m;
    const weft__lora_spec spec = {.rank = rank, .scale = scale, .dropout = dropout, .dtype = dtype};
    if (weft__lora_new(base, &spec, &m) != WEFT_OK) {
        weft_nn_free(base);
        return NULL;
    }
    weft__lora_attach(m, base);
    return &m->module;
}
