/* ops/nn/attention_work.c -- operations and bytes of attention calls, for profiles. Only pairs of a
 * query and a key that it attends to count; a mask counts as if it hid nothing. */
#include "core/math.h"
#include "ops/nn/nn.h"

typedef struct extent {
    int64_t L;                        /* queries of a sequence */
    int64_t keys, S;                  /* of the sequence, and without lengths */
    const weft_tensor *firsts, *ends; /* of each query; NULL: all keys */
    int64_t at;                       /* of the sequence's first query in them */
} extent;

/* Pairs of one sequence, for one head. */
static double pairs_of(const weft_attention_params *params, const extent *e)
{
    const int64_t window = -weft__larger(-params->window, -(e->S + e->L));
    double sum = 0;
    for (int64_t i = 0; i < e->L; i++) {
        const int64_t own = (params->causal ? e->keys : e->S) - e->L + i;
        int64_t end = params->causal ? own + 1 : e->keys, first = 0;
        if (window > 0) {
            first = weft__larger(own - window + 1, 0);
            end = -weft__larger(-end, -(own + window));
        }
        first = e->firsts ? weft__larger(first, weft_tensor_get_int(e->firsts, e->at + i)) : first;
        end = e->ends ? -weft__larger(-end, -weft_tensor_get_int(e->ends, e->at + i)) : end;
        sum += (double)weft__larger(end - first, 0);
    }
    return sum;
}

/* The last input, or the one before it, which has lengths or bounds, if the host knows its
 * elements; else NULL, and all keys count. */
static const weft_tensor *last_if(const weft_call *call, bool has_it, int before)
{
    const weft_tensor *last = &call->in[call->n_inputs - 1 - before];
    return has_it && last->data ? last : NULL;
}

static bool is_coded(const weft_call *call)
{
    return call->op == &weft_op_attention_codes ||
           (call->op == &weft_op_attention_pages && call->in[1].dtype == WEFT_UINT8);
}

/* The keys of a sequence without lengths. */
static int64_t keys_of(const weft_call *call)
{
    const int64_t n = call->in[1].shape.at[1];
    if (call->op == &weft_op_attention_append) {
        const int64_t page = ((const weft_attention_append_params *)call->params)->page;
        return page > 0 ? page * call->in[APPEND_PAGES].shape.at[1] : n;
    }
    return call->op == &weft_op_attention_pages ? n * call->in[is_coded(call) ? 7 : 3].shape.at[1]
                                                : n;
}

/* Pairs of all sequences, for one head. *keys: the keys of all sequences that are read. */
static double visible_pairs(const weft_call *call, double *keys)
{
    const weft_attention_params *params = call->params;
    const weft_tensor *lengths = last_if(call, params->has_lengths, 0);
    const int64_t B = call->in[0].shape.at[0], S = keys_of(call);
    extent e = {.L = call->in[0].shape.at[1],
                .S = S,
                .firsts = last_if(call, params->has_first, params->has_ends),
                .ends = last_if(call, params->has_ends, 0)};
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
    const int stored = is_coded(call) ? 6 : 2; /* inputs of keys and values */
    const double all = (double)k->at[0] * (double)k->at[1];
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
