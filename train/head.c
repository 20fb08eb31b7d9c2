/* train/head.c -- losses of the head's logits, for some rows at a time. */
#include "train/head.h"

#include "nn/lora.h"
#include "nn/module.h"
#include "weft/transforms.h"

/* Limits of the logits in memory at a time. */
enum { CHUNK_ELEMENTS = 1 << 23, CHUNK_ROWS = 64, PARTS = 4 };

/* A call, and which inputs it has. */
typedef struct head_context {
    const weft__head_call *call;
    bool has[WEFT__HEAD_INPUTS];
} head_context;

/* The losses (1, n) and entropies (1, n) of n rows, from the inputs that are there, (1, n, ...);
 * keys are (n, 2). */
static int head_losses(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const head_context *c = context;
    const weft__head_call *h = c->call;
    weft_array *at[WEFT__HEAD_INPUTS] = {NULL};
    (void)room;
    for (int i = 0, k = 0; i < WEFT__HEAD_INPUTS && k < n_in; i++)
        at[i] = c->has[i] ? in[k++] : NULL;
    weft_module *root = weft__nn_root(weft_model_module(h->model));
    root->vector_keys = at[WEFT__HEAD_KEYS];
    weft_array *logits = weft_model_head(h->model, at[WEFT__HEAD_HIDDEN]); /* (1, n, V) */
    root->vector_keys = NULL;
    if (h->temperature != 1) /* as the sampler does: without another rounding */
        logits = weft_scale(weft_dtype_size(weft_dtype_of(logits)) < sizeof(float)
                                ? weft_astype(logits, WEFT_FLOAT32)
                                : logits,
                            1 / h->temperature);
    weft_array *targets = weft_to(at[WEFT__HEAD_TARGETS], weft_device_of(logits));
    out[0] = h->losses ? h->losses(h, logits, at) : weft_cross_entropy_rows(logits, targets);
    if (h->with_entropy) {
        weft_array *log_p = weft_log_softmax(weft_astype(logits, weft_dtype_of(out[0])), -1);
        weft_array *sums = weft_sum(weft_multiply(weft_exp(log_p), log_p), WEFT_DIMS(-1), false);
        out[1] = weft_where(weft_greater_equal_scalar(targets, 0), weft_negative(sums),
                            weft_zeros_like(sums));
    }
    return 1 + h->with_entropy;
}

/* Lists the inputs that are there for head_losses; returns their number. */
static int listed(weft_array *const *in, weft_array **out)
{
    int n = 0;
    for (int i = 0; i < WEFT__HEAD_INPUTS; i++) {
        if (in[i])
            out[n++] = i == WEFT__HEAD_KEYS ? in[i] : weft_expand_dims(in[i], 0);
    }
    return n;
}

/* Splits x (N, E) into parts of `size` rows; the last may have fewer. The gradient concatenates the
 * gradients of the parts; for slices it would be a sum of arrays of N rows. */
static int split(void *size, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const int64_t rows = (int64_t)(intptr_t)size, N = weft_dim(in[0], 0);
    const int n_out = (int)((N + rows - 1) / rows); /* at most PARTS */
    (void)n_in;
    (void)room;
    for (int i = 0; i < n_out; i++)
        out[i] = weft_slice_axis(in[0], 0, i * rows, i + 1 < n_out ? (i + 1) * rows : INT64_MAX);
    return n_out;
}

static void join(void *size, weft_array *const *in, int n_in, weft_array *const *outs, int n_out,
                 weft_array *const *cotangents, weft_array **grads)
{
    (void)size;
    (void)in;
    (void)n_in;
    (void)outs;
    grads[0] = weft_concatenate(cotangents, n_out, 0);
}

/* Computes the losses (N) and entropies (N), `rows` rows at a time. */
static void losses_by_chunks(const head_context *c, weft_array *const *in, int64_t rows,
                             weft_array *out[2])
{
    static const weft_custom_rules rules = {.vjp = join};
    const int64_t N = weft_dim(in[WEFT__HEAD_TARGETS], 0), chunks = (N + rows - 1) / rows;
    const int n_out = 1 + c->call->with_entropy;
    weft_array *parts[PARTS], *made[2][PARTS], *both[2], *own[WEFT__HEAD_INPUTS];
    if (chunks <= 1) {
        const int n = listed(in, own);
        weft_checkpoint(head_losses, (void *)(uintptr_t)c, own, n, both, n_out);
        for (int o = 0; o < n_out; o++)
            out[o] = weft_squeeze(both[o], 0);
        return;
    }
    const int64_t size = (chunks + PARTS - 1) / PARTS * rows;
    const int n = (int)((N + size - 1) / size);
    weft_custom(split, (void *)(intptr_t)size, &rules, &in[WEFT__HEAD_HIDDEN], 1, parts, n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < WEFT__HEAD_INPUTS; k++)
            own[k] = k == WEFT__HEAD_HIDDEN ? parts[i]
                     : in[k]                ? weft_slice_axis(in[k], 0, i * size, (i + 1) * size)
                                            : NULL;
        losses_by_chunks(c, own, rows, both);
        for (int o = 0; o < n_out; o++)
            made[o][i] = both[o];
    }
    for (int o = 0; o < n_out; o++)
        out[o] = weft_concatenate(made[o], n, 0);
}

void weft__head_losses(const weft__head_call *call, weft_array *const in[WEFT__HEAD_INPUTS],
                       weft_array *out[2])
{
    weft_model *model = call->model;
    const int64_t V = weft_model_info_of(model)->vocab_size,
                  N = weft_dim(in[WEFT__HEAD_TARGETS], 0);
    head_context c = {.call = call};
    int64_t rows = CHUNK_ELEMENTS / (V > 0 ? V : 1);
    rows = rows > CHUNK_ROWS ? rows : CHUNK_ROWS;
    for (int i = 0; i < WEFT__HEAD_INPUTS; i++)
        c.has[i] = in[i] != NULL;
    if (N > rows) {
        weft_module *head = weft_nn_find_module(weft_model_module(model), "lm_head");
        weft_nn_lora_linear *dora = head ? weft__dora_share(head) : NULL;
        losses_by_chunks(&c, in, rows, out);
        if (dora)
            weft__lora_keep_nothing(dora);
        return;
    }
    weft_array *all[WEFT__HEAD_INPUTS], *both[2];
    const int n_in = listed(in, all), n = head_losses(&c, all, n_in, both, 2);
    for (int o = 0; o < n; o++)
        out[o] = weft_squeeze(both[o], 0);
}
