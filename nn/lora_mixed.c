/* nn/lora_mixed.c -- a linear or an embedding with the adapters of several members of a bank, of
 * which each row of a batch uses one.
 *
 * The members' A are concatenated along the ranks, and so are their B. All rows are multiplied with
 * all of A, the ranks that are not of the row's own member are set to zero, and the rest is
 * multiplied with all of B: two products for a batch, whatever its members. The base's product is
 * that of rows without adapters. */
#include "core/failure.h"
#include "nn/lora_bank.h"

typedef struct mixed {
    weft_module module;
    weft_module *base;
    const weft_nn_lora_bank *bank;
    weft_array *A,
        *B; /* (R, in) and (out, R), scaled, R being the sum of all ranks; buffers, as all here */
    weft_array *owners;  /* (R) int32, the number of each rank's member */
    weft_array *factors; /* (members + 1, out), of DoRA; 1 for the others; NULL: no DoRA */
} mixed;

/* The number of each row's member with the leading axes of an input: (..., 1). */
static weft_array *numbers_of(const mixed *m, weft_dims lead, weft_array *like)
{
    lead.at[lead.n++] = 1;
    return weft_reshape(weft_to(m->bank->rows, weft_device_of(like)), lead);
}

/* The low-rank product `low` (..., R) of all members -> (..., out). */
static weft_array *expand(const mixed *m, weft_array *low, weft_array *numbers)
{
    low = weft_where_scalar(weft_equal(numbers, m->owners), low, 0);
    return weft_linear(low, m->B, NULL);
}

/* The formula of DoRA as in lora.c, with the factor of each row's member. */
static weft_array *with_magnitudes(const mixed *m, weft_array *y, weft_array *delta,
                                   weft_array *numbers)
{
    weft_array *bias = ((weft_nn_linear *)m->base)->bias;
    weft_array *factor = weft_take(m->factors, weft_squeeze(numbers, -1), 0); /* (..., out) */
    weft_array *more = bias ? weft_subtract(y, bias) : y;
    more = weft_multiply(more, weft_add_scalar(factor, -1));
    more = weft_add(more, weft_multiply(delta, factor));
    return weft_add(y, weft_astype(more, weft_dtype_of(y)));
}

static weft_array *forward(weft_module *self, weft_array *x)
{
    const mixed *m = (const mixed *)self;
    weft_dims lead = weft_shape(x);
    weft_array *y = weft_nn_call(m->base, x);
    lead.n--;
    weft_array *numbers = numbers_of(m, lead, x);
    weft_array *delta = expand(m, weft_linear(x, m->A, NULL), numbers);
    return m->factors ? with_magnitudes(m, y, delta, numbers) : weft_add(y, delta);
}

static weft_array *embedding_forward(weft_module *self, weft_array *ids)
{
    const mixed *m = (const mixed *)self;
    weft_array *y = weft_nn_call(m->base, ids);
    weft_array *low = weft_embedding(weft_swapaxes(m->A, 0, 1), ids); /* (..., R) */
    weft_array *delta = expand(m, low, numbers_of(m, weft_shape(ids), y));
    return weft_add(y, weft_astype(delta, weft_dtype_of(y)));
}

static const weft_module_type mixed_type = {.name = "lora_mixed", .forward = forward};
static const weft_module_type mixed_embedding_type = {.name = "lora_mixed_embedding",
                                                      .forward = embedding_forward};

weft_module **weft__lora_mixed_base(weft_module *m)
{
    return &((mixed *)m)->base;
}

/* ---- creating ------------------------------------------------------------------------------- */

/* The arrays of the members that have an adapter here. */
typedef struct lists {
    weft_array **A, **B, **factors; /* factors: also of the members without one, and of no member */
    int32_t *owners;
    int n;
    int64_t R;
    bool dora;
} lists;

static weft_status collect(weft_nn_lora_linear *const *at, int members, weft_dtype dtype,
                           lists *out)
{
    for (int i = 0; i < members; i++)
        out->R += at[i] ? weft__lora_rank(at[i]) : 0;
    out->owners = weft_malloc((size_t)out->R * sizeof *out->owners);
    out->A = weft_malloc((size_t)members * sizeof(weft_array *));
    out->B = weft_malloc((size_t)members * sizeof(weft_array *));
    out->factors = weft_malloc(((size_t)members + 1) * sizeof(weft_array *));
    if (!out->owners || !out->A || !out->B || !out->factors)
        return weft__out_of_memory("lora", "the adapters of a batch");
    int64_t r = 0;
    for (int i = 0; i < members; i++) {
        if (at[i] == NULL)
            continue;
        weft_array *ready[2];
        weft__lora_ready(at[i], dtype, ready);
        out->A[out->n] = ready[0];
        out->B[out->n++] = ready[1];
        out->dora = out->dora || at[i]->lora_magnitude_vector;
        for (const int64_t end = r + weft__lora_rank(at[i]); r < end; r++)
            out->owners[r] = i + 1;
    }
    return WEFT_OK;
}

static weft_array *factors_of(weft_nn_lora_linear *const *at, int members, const lists *l)
{
    const int64_t out = weft_dim(l->B[0], 0);
    weft_array *one = weft_ones(WEFT_DIMS(out), WEFT_FLOAT32);
    l->factors[0] = one;
    for (int i = 0; i < members; i++)
        l->factors[i + 1] = at[i] && at[i]->lora_magnitude_vector ? weft__dora_factor(at[i]) : one;
    return weft_stack(l->factors, members + 1, 0);
}

static weft_status fill(mixed *m, weft_nn_lora_linear *const *at, const lists *l)
{
    const weft_dims R = WEFT_DIMS(l->R);
    weft_nn_buffer(m, A, weft_concatenate(l->A, l->n, 0));
    weft_nn_buffer(m, B, weft_concatenate(l->B, l->n, 1));
    weft_nn_buffer(m, owners, weft_from_data(l->owners, WEFT_INT32, R));
    if (l->dora)
        weft_nn_buffer(m, factors, factors_of(at, m->bank->n, l));
    weft_array *all[] = {m->A, m->B, m->owners, m->factors};
    return m->module.failed ? WEFT_MEMORY : weft_eval_n(all, l->dora ? 4 : 3);
}

weft_status weft__lora_mixed_new(const weft_nn_lora_bank *bank, weft_nn_lora_linear *const *at,
                                 weft_module *base, weft_module **out)
{
    const bool embedding = base->type == &weft__nn_embedding_type;
    mixed *m = weft_nn_new(mixed, embedding ? &mixed_embedding_type : &mixed_type);
    if (m == NULL)
        return WEFT_MEMORY;
    lists l = {0};
    m->bank = bank;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft__nn_device(base));
    weft_scope_open();
    weft_status status = collect(at, bank->n, weft__lora_rows_dtype(bank->tree, base), &l);
    if (status == WEFT_OK)
        status = fill(m, at, &l);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    if (status == WEFT_OK && !weft__nn_reserve_child(&m->module, "", &m->base))
        status = WEFT_MEMORY;
    weft_free(l.owners);
    weft_free(l.A);
    weft_free(l.B);
    weft_free(l.factors);
    if (status == WEFT_OK)
        *out = &m->module;
    else
        weft_nn_free(&m->module);
    return status;
}
