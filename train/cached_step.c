/* train/cached_step.c -- gradients of an objective that compares all vectors of a batch, with the
 * activations of a few examples in memory (Gao et al. 2021, "Scaling Deep Contrastive Learning
 * Batch Size under Memory Limited Setup"): the vectors are computed without their intermediates,
 * then the gradient of the loss in them, and then each part again with that gradient. Seeds and row
 * keys are the same both times, so dropout is as well.
 *
 * The ranks of a group have the same batches. Each computes the vectors of its share of the
 * examples, compares those of all ranks, and computes the gradients of its own. The sums over the
 * ranks are the gradients of one process. */
#include <string.h>

#include "core/failure.h"
#include "nn/module.h"
#include "train/parallel/parallel.h"
#include "weft/transforms.h"

typedef struct step {
    weft_trainer *t;
    const weft_batch *batch;
    int b; /* its index in the update */
    double scale;
    int64_t begin, end;    /* this rank's examples */
    int64_t D;             /* elements of a vector; 0: not known yet */
    float *vectors;        /* (M N, D): 0 for examples of other ranks */
    weft_array *loss;      /* of the batch */
    weft_array *gradients; /* (M N, D): of the loss in the vectors */
    bool adding;           /* a failure may have changed the sums */
} step;

typedef weft_status part_function(step *s, const weft_batch *part, int64_t from, int64_t to);

/* ---- parts ---------------------------------------------------------------------------------- */

static weft_status compute_part(step *s, int64_t from, int64_t to, part_function *fn)
{
    weft_trainer *t = s->t;
    weft_batch part;
    weft_scope_open_lean();
    weft__trainer_seed(t, s->b);
    t->row_keys = weft__batch_row_keys(s->batch, from, to);
    weft_status status = weft__batch_part(s->batch, from, to, &part);
    if (status == WEFT_OK)
        status = fn(s, &part, from, to);
    t->row_keys = NULL;
    weft_scope_close(NULL);
    return status;
}

/* Calls the function for all parts of this rank's examples. In a group a part for which memory is
 * short is computed again in smaller ones: the other ranks wait meanwhile. */
static weft_status each_part(step *s, part_function *fn)
{
    weft_trainer *t = s->t;
    const int64_t n = s->end - s->begin;
    weft_status status = WEFT_OK;
    for (int64_t from = s->begin; status == WEFT_OK && from < s->end;) {
        const int64_t size = t->micro > 0 && t->micro < s->end - from ? t->micro : s->end - from;
        status = compute_part(s, from, from + size, fn);
        if (status == WEFT_OK)
            from += size;
        else if (status == WEFT_MEMORY && weft__trainer_shares_batches(t) && !s->adding &&
                 weft__trainer_halve(t, n))
            status = WEFT_OK;
    }
    return status;
}

static weft_array *vectors_of(const weft_trainer *t, const weft_batch *part)
{
    return weft__text_vectors(t->model, part, &t->o.objective_options, t->o.checkpoint);
}

static weft_status make_room(step *s, int64_t D)
{
    s->D = D;
    if (s->vectors == NULL)
        s->vectors = weft_calloc((size_t)weft_dim(s->batch->tokens, 0), (size_t)D * sizeof(float));
    return s->vectors ? WEFT_OK : weft__out_of_memory("trainer", "the vectors of a batch");
}

/* ---- the vectors ---------------------------------------------------------------------------- */

/* Computes the vectors of the examples from .. to. */
static weft_status add_vectors(step *s, const weft_batch *part, int64_t from, int64_t to)
{
    weft_trainer *t = s->t;
    weft_module *tree = weft_model_module(t->model);
    const int64_t N = weft__batch_examples(s->batch), n = to - from;
    weft_nn_train(tree, true);
    weft__nn_root(tree)->row_keys = t->row_keys;
    weft_array *vectors = vectors_of(t, part); /* (M n, D) */
    weft__nn_root(tree)->row_keys = NULL;
    weft_nn_train(tree, false);
    weft_status status = weft_eval(vectors);
    if (status == WEFT_OK)
        status = make_room(s, weft_dim(vectors, 1));
    for (int64_t k = 0; status == WEFT_OK && k < s->batch->texts; k++)
        status = weft_read(weft_slice_axis(vectors, 0, k * n, (k + 1) * n), WEFT_FLOAT32,
                           s->vectors + (k * N + from) * s->D, n * s->D);
    return status;
}

/* Adds the vectors of all ranks. A rank without examples learns the size of a vector here. */
static weft_status share_vectors(step *s, weft_status status)
{
    weft_group *group = s->t->o.group;
    if (!weft__trainer_shares_batches(s->t))
        return status;
    double values[WEFT__EXCHANGED] = {(double)s->D};
    status = weft__group_exchange(group, status, NULL, values, NULL);
    for (int r = 0; status == WEFT_OK && r < weft_group_info_of(group).size; r++)
        s->D = s->D > 0 ? s->D : (int64_t)weft__group_value(group, r, 0);
    if (status == WEFT_OK)
        status = weft_group_agree(group, make_room(s, s->D), NULL);
    const int64_t rows = weft_dim(s->batch->tokens, 0);
    return status == WEFT_OK ? weft_group_sum(group, s->vectors, rows * s->D) : status;
}

/* ---- the loss in the vectors ---------------------------------------------------------------- */

static weft_array *loss_of_vectors(void *context, weft_array *const *in, int n_in)
{
    const step *s = context;
    const weft_trainer_options *o = &s->t->o;
    (void)n_in;
    weft_array *mean =
        weft__objective_compare(o->objective, in[0], s->batch, &o->objective_options);
    return weft_scale(mean, s->scale * o->objective->weight(s->batch, &o->objective_options));
}

/* The loss of all vectors, and its gradient in them. */
static weft_status compare(step *s)
{
    const weft_dims shape = WEFT_DIMS(weft_dim(s->batch->tokens, 0), s->D);
    weft_array *grad;
    weft_array *vectors = weft_to(weft_from_data(s->vectors, WEFT_FLOAT32, shape),
                                  weft_device_of(*s->t->slots.slots[0]));
    weft_array *value = weft_value_and_grad(loss_of_vectors, s, &vectors, 1, &grad);
    weft_array *const both[] = {value, grad};
    weft_status status = weft_eval_n(both, 2);
    if (status == WEFT_OK)
        status = weft_set(&s->loss, value);
    return status == WEFT_OK ? weft_set(&s->gradients, grad) : status;
}

/* ---- the gradients -------------------------------------------------------------------------- */

typedef struct part_call {
    const weft_trainer *trainer;
    const weft_batch *part;
    weft_array *gradient; /* (M n, D): of the loss in the part's vectors */
} part_call;

/* Its gradient in the parameters is that of the loss. */
static weft_array *product_of(void *context)
{
    const part_call *c = context;
    weft_scope_open();
    weft_array *vectors = vectors_of(c->trainer, c->part);
    weft_array *gradient = weft_to(c->gradient, weft_device_of(vectors));
    return weft_scope_close(weft_sum(weft_multiply(vectors, gradient), WEFT_ALL_AXES, false));
}

static weft_status add_to_sums(step *s, weft_array *loss)
{
    s->adding = true;
    const weft_status status = weft__trainer_add_to_sums(s->t, loss);
    s->adding = status != WEFT_OK;
    return status;
}

static weft_status add_gradients(step *s, const weft_batch *part, int64_t from, int64_t to)
{
    weft_trainer *t = s->t;
    weft_array *whole = weft_reshape(s->gradients, WEFT_DIMS(s->batch->texts, -1, s->D));
    weft_array *own = weft_flatten(weft_slice_axis(whole, 1, from, to), 0, 1); /* (M n, D) */
    part_call call = {t, part, own};
    weft_array *product = weft__trainer_gradients(t, product_of, &call);
    if (!weft_ok(product))
        return weft__report(product);
    /* evaluated first, so that a failure for lack of memory leaves the sums */
    const weft_status status =
        weft__trainer_shares_batches(t) ? weft_eval_n(t->gradients, t->slots.n) : WEFT_OK;
    return status == WEFT_OK ? add_to_sums(s, from == 0 ? s->loss : weft_zeros_like(s->loss))
                             : status;
}

/* The sums of a rank without examples. */
static weft_status add_nothing(step *s)
{
    weft_scope_open_lean();
    for (int i = 0; i < s->t->slots.n; i++)
        s->t->gradients[i] = weft_zeros_like(*s->t->slots.slots[i]);
    const weft_status status = add_to_sums(s, weft_zeros_like(s->loss));
    weft_scope_close(NULL);
    return status;
}

weft_status weft__trainer_add_cached(weft_trainer *t, const weft_batch *batch, int b, double scale)
{
    const weft_group_info place = weft_group_info_of(t->o.group);
    const int64_t N = weft__batch_samples(batch);
    step s = {.t = t, .batch = batch, .b = b, .scale = scale};
    s.begin = N * place.rank / place.size;
    s.end = N * (place.rank + 1) / place.size;
    weft_status status = share_vectors(&s, each_part(&s, add_vectors));
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = compare(&s);
    weft_scope_close(NULL);
    weft_free(s.vectors);
    if (status == WEFT_OK)
        status = s.begin < s.end ? each_part(&s, add_gradients) : add_nothing(&s);
    weft_drop(s.loss);
    weft_drop(s.gradients);
    return status;
}
