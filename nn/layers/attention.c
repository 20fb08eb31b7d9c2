/* nn/layers/attention.c -- multi-head attention between projected sequences. */
#include <stdio.h>

#include "nn/module.h"
#include "weft/layers.h"

static void describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "heads=%lld",
             (long long)((const weft_nn_multi_head_attention *)self)->heads);
}

static const weft_module_type type = {.name = "multi_head_attention", .describe = describe};

weft_module *weft_nn_multi_head_attention_new(int64_t dims, int64_t heads,
                                              const weft_nn_attention_options *options)
{
    weft_nn_attention_options o = options ? *options : (weft_nn_attention_options){0};
    o.query_in = o.query_in ? o.query_in : dims;
    o.key_in = o.key_in ? o.key_in : dims;
    o.value_in = o.value_in ? o.value_in : o.key_in;
    o.value_dims = o.value_dims ? o.value_dims : dims;
    o.out = o.out ? o.out : dims;
    if (heads < 1 || dims % heads != 0 || o.value_dims % heads != 0) {
        weft_fail(WEFT_INVALID, "multi_head_attention: %lld and %lld dims cannot be in %lld heads",
                  (long long)dims, (long long)o.value_dims, (long long)heads);
        return NULL;
    }
    weft_nn_multi_head_attention *m = weft_nn_new(weft_nn_multi_head_attention, &type);
    if (m == NULL)
        return NULL;
    m->heads = heads;
    weft_nn_child(m, query_proj, weft_nn_linear_new(o.query_in, dims, o.bias));
    weft_nn_child(m, key_proj, weft_nn_linear_new(o.key_in, dims, o.bias));
    weft_nn_child(m, value_proj, weft_nn_linear_new(o.value_in, o.value_dims, o.bias));
    weft_nn_child(m, out_proj, weft_nn_linear_new(o.value_dims, o.out, o.bias));
    return weft_nn_finish(m);
}

/* (B, L, H D) -> (B, L, H, D) */
static weft_array *in_heads(weft_module *projection, weft_array *x, int64_t H)
{
    return weft_unflatten(weft_nn_call(projection, x), -1, WEFT_DIMS(H, -1));
}

weft_array *weft_nn_multi_head_attention_call(weft_module *module, weft_array *queries,
                                              weft_array *keys, weft_array *values,
                                              weft_array *mask)
{
    weft_nn_multi_head_attention *m = (weft_nn_multi_head_attention *)module;
    weft_nn_enter(m);
    weft_array *q = in_heads(m->query_proj, queries, m->heads); /* (B, L, H, D) */
    weft_array *k = in_heads(m->key_proj, keys, m->heads);      /* (B, S, H, D) */
    weft_array *v = in_heads(m->value_proj, values, m->heads);  /* (B, S, H, Dv) */
    weft_array *y = weft_attention(q, k, v, &(weft_attention_options){.mask = mask});
    return weft_nn_leave(m, weft_nn_call(m->out_proj, weft_flatten(y, -2, -1)));
}

weft_array *weft_causal_mask(int64_t N, weft_dtype dtype)
{
    const double lowest = dtype == WEFT_FLOAT64    ? -1.7976931348623157e308
                          : dtype == WEFT_FLOAT16  ? -65504
                          : dtype == WEFT_BFLOAT16 ? -3.3895313892515355e38
                                                   : -3.4028234663852886e38;
    weft_scope_open();
    weft_array *i = weft_arange(0, (double)N, 1, WEFT_INT32);
    weft_array *later = weft_less(weft_expand_dims(i, -1), i);
    return weft_scope_close(weft_where(later, weft_scalar(lowest, dtype), weft_scalar(0, dtype)));
}
