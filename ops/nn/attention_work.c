/* ops/nn/attention_work.c -- operations and bytes of attention calls, for profiles. Only pairs of a
 * query and a key that it attends to count; a mask counts as if it hid nothing. */
#include "ops/nn/nn.h"

typedef struct extent {
    int64_t L;                 /* queries of a sequence */
    int64_t keys;              /* of the sequence */
    const weft_tensor *firsts; /* the first key of each query; NULL: 0 */
    int64_t at;                /* of the sequence's first query in `firsts` */
} extent;

/* Pairs of one sequence, for one head. */
static double pairs_of(const weft_attention_params *params, const extent *e)
{
    double sum = 0;
    for (int64_t i = 0; i < e->L; i++) {
        const int64_t end = params->causal ? e->keys - e->L + i + 1 : e->keys;
        const int64_t window = params->causal && params->window > 0 ? end - params->window : 0;
        const int64_t given = e->firsts ? weft_tensor_get_int(e->firsts, e->at + i) : 0;
        int64_t first = window > given ? window : given;
        first = first > 0 ? first : 0;
        sum += end > first ? (double)(end - first) : 0;
    }
    return sum;
}

/* The last input, which has lengths or first keys, if the host knows its elements; else NULL, and
 * all keys count. */
static const weft_tensor *last_if(const weft_call *call, bool has_it)
{
    const weft_tensor *last = &call->in[call->n_inputs - 1];
    return has_it && last->data ? last : NULL;
}

/* Pairs of all sequences, for one head. *keys: the keys of all sequences that are read. */
static double visible_pairs(const weft_call *call, double *keys)
{
    const weft_attention_params *params = call->params;
    const weft_tensor *lengths = last_if(call, params->has_lengths);
    const int64_t B = call->in[0].shape.at[0], S = call->in[1].shape.at[1];
    extent e = {.L = call->in[0].shape.at[1], .firsts = last_if(call, params->has_first)};
    double sum = 0;
    *keys = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t n = lengths ? weft_tensor_get_int(lengths, b) : S;
        e.keys = n < 0 ? 0 : n > S ? S : n;
        e.at = b * e.L;
        *keys += (double)e.keys;
        sum += pairs_of(params, &e);
    }
    return sum;
}

static double dense_bytes(const weft_tensor *t)
{
    return (double)weft_tensor_size(t) * (double)weft_dtype_size(t->dtype);
}

void weft__attention_work(const weft_call *call, weft_work *work)
{
    const weft_dims *q = &call->in[0].shape, *k = &call->in[1].shape, *o = &call->out[0].shape;
    const int stored = call->op == &weft_op_attention_codes ? 6 : 2; /* inputs of keys and values */
    const double all = (double)q->at[0] * (double)k->at[1];
    double keys;
    work->flops = 2 * visible_pairs(call, &keys) * (double)q->at[2] * (double)(q->at[3] + o->at[3]);
    /* Keys and values after the lengths are not read. */
    for (int i = 1; i <= stored && all > 0; i++)
        work->bytes -= dense_bytes(&call->in[i]) * (1 - keys / all);
}

/* The scores again, and the gradients of scores, values, queries and keys. */
void weft__attention_vjp_work(const weft_call *call, weft_work *work)
{
    const weft_dims *q = &call->in[0].shape, *v = &call->in[2].shape;
    double keys;
    work->flops =
        2 * visible_pairs(call, &keys) * (double)q->at[2] * (double)(3 * q->at[3] + 2 * v->at[3]);
}
