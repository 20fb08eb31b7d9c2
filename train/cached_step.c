/* train/cached_step.c -- gradients of an objective that compares all vectors of a batch, with the
 * activations of a few examples in memory (Gao et al. 2021, "Scaling Deep Contrastive Learning
 * Batch Size under Memory Limited Setup"): the vectors are computed without their intermediates,
 * then the gradient of the loss in them, and then each part again with that gradient. Seeds and row
 * keys are the same both times, so dropout is as well. */
#include "core/failure.h"
#include "nn/module.h"
#include "train/trainer.h"
#include "weft/transforms.h"

/* The vectors (M n, D) of n examples as (M, n, D), and back. */
static weft_array *apart(weft_array *vectors, int64_t texts)
{
    return weft_reshape(vectors, WEFT_DIMS(texts, -1, weft_dim(vectors, 1)));
}

static weft_array *together(weft_array *vectors)
{
    return weft_flatten(vectors, 0, 1);
}

/* ---- the loss in the vectors ---------------------------------------------------------------- */

typedef struct comparison {
    const weft_trainer *trainer;
    const weft_batch *batch;
    double scale;
} comparison;

static weft_array *loss_of_vectors(void *context, weft_array *const *in, int n_in)
{
    const comparison *c = context;
    const weft_trainer_options *o = &c->trainer->o;
    (void)n_in;
    weft_array *mean =
        weft__objective_compare(o->objective, in[0], c->batch, &o->objective_options);
    return weft_scale(mean, c->scale * o->objective->weight(c->batch, &o->objective_options));
}

/* ---- parts ---------------------------------------------------------------------------------- */

typedef struct part_call {
    weft_trainer *trainer;
    const weft_batch *part;
    weft_array *gradient; /* (M n, D): of the loss in the part's vectors */
} part_call;

static weft_array *vectors_of(const weft_trainer *t, const weft_batch *part)
{
    return weft__text_vectors(t->model, part, &t->o.objective_options, t->o.checkpoint);
}

/* Its gradient in the parameters is that of the loss. */
static weft_array *product_of(void *context)
{
    const part_call *c = context;
    weft_scope_open();
    weft_array *vectors = vectors_of(c->trainer, c->part);
    return weft_scope_close(weft_sum(weft_multiply(vectors, c->gradient), WEFT_ALL_AXES, false));
}

/* Computes the vectors of examples from .. to and keeps them in *slot. */
static weft_status keep_vectors(weft_trainer *t, const weft_batch *batch, int64_t from, int64_t to,
                                weft_array **slot)
{
    weft_batch part;
    weft_module *tree = weft_model_module(t->model);
    weft_status status = weft__batch_part(batch, from, to, &part);
    if (status != WEFT_OK)
        return status;
    weft_nn_train(tree, true);
    weft__nn_root(tree)->row_keys = t->row_keys;
    weft_array *vectors = vectors_of(t, &part);
    weft__nn_root(tree)->row_keys = NULL;
    weft_nn_train(tree, false);
    status = weft_eval(vectors);
    return status == WEFT_OK ? weft_set(slot, vectors) : status;
}

static weft_status add_gradients(weft_trainer *t, const weft_batch *batch, int64_t from, int64_t to,
                                 weft_array *gradient, weft_array *loss)
{
    weft_batch part;
    const weft_status status = weft__batch_part(batch, from, to, &part);
    if (status != WEFT_OK)
        return status;
    weft_array *own =
        together(weft_slice_axis(apart(gradient, batch->texts), 1, from, to)); /* (M n, D) */
    part_call call = {t, &part, own};
    weft_array *product = weft__trainer_gradients(t, product_of, &call);
    weft_array *share = from == 0 ? loss : weft_zeros_like(loss);
    return weft_ok(product) ? weft__trainer_add_to_sums(t, share) : weft__report(product);
}

/* ---- the batch ------------------------------------------------------------------------------ */

/* The loss of all vectors, and its gradient in them, kept in two slots. */
static weft_status compare(const weft_trainer *t, const weft_batch *batch, double scale,
                           weft_array *const *parts, int n, weft_array **loss,
                           weft_array **gradient)
{
    comparison c = {t, batch, scale};
    weft_array **shaped = weft_calloc((size_t)n, sizeof(weft_array *)), *grad;
    if (shaped == NULL)
        return weft__out_of_memory("trainer", "the vectors of a batch");
    for (int i = 0; i < n; i++)
        shaped[i] = apart(parts[i], batch->texts);
    weft_array *vectors = together(weft_concatenate(shaped, n, 1)); /* (M N, D) */
    weft_free(shaped);
    weft_array *value = weft_value_and_grad(loss_of_vectors, &c, &vectors, 1, &grad);
    weft_array *const both[] = {value, grad};
    weft_status status = weft_eval_n(both, 2);
    if (status == WEFT_OK)
        status = weft_set(loss, value);
    return status == WEFT_OK ? weft_set(gradient, grad) : status;
}

/* Calls keep_vectors or, with a gradient, add_gradients for each part of the batch. */
static weft_status each_part(weft_trainer *t, const weft_batch *batch, int b, weft_array **parts,
                             weft_array *gradient, weft_array *loss)
{
    const int64_t n = weft__batch_samples(batch);
    weft_status status = WEFT_OK;
    for (int64_t from = 0; status == WEFT_OK && from < n; from += t->micro) {
        const int64_t to = from + t->micro < n ? from + t->micro : n;
        weft_scope_open_lean();
        weft__trainer_seed(t, b);
        t->row_keys = weft__batch_row_keys(batch, from, to);
        status = gradient ? add_gradients(t, batch, from, to, gradient, loss)
                          : keep_vectors(t, batch, from, to, &parts[from / t->micro]);
        t->row_keys = NULL;
        weft_scope_close(NULL);
    }
    return status;
}

weft_status weft__trainer_add_cached(weft_trainer *t, const weft_batch *batch, int b, double scale)
{
    const int n = (int)((weft__batch_samples(batch) + t->micro - 1) / t->micro);
    weft_array **parts = weft_calloc((size_t)n, sizeof(weft_array *));
    weft_array *loss = NULL, *gradient = NULL;
    if (parts == NULL)
        return weft__out_of_memory("trainer", "the vectors of a batch");
    weft_status status = each_part(t, batch, b, parts, NULL, NULL);
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = compare(t, batch, scale, parts, n, &loss, &gradient);
    weft_scope_close(NULL);
    for (int i = 0; i < n; i++)
        weft_drop(parts[i]);
    weft_free(parts);
    if (status == WEFT_OK)
        status = each_part(t, batch, b, NULL, gradient, loss);
    weft_drop(loss);
    weft_drop(gradient);
    return status;
}
