/* train/objective/embed.c -- objectives that compare the vectors of texts: ranking, triplets,
 * CoSENT and cosines. */
#include <math.h>
#include <string.h>

#include "train/objective/objective.h"
#include "weft/activations.h"
#include "weft/batch.h"
#include "weft/linalg.h"
#include "weft/memory.h"
#include "weft/nn.h"

/* ---- vectors -------------------------------------------------------------------------------- */

/* One vector for each row of hidden states (B, L, E) float32, of the tokens up to the one where the
 * row of `last` (B, L) is true. */
static weft_array *pooled(weft_array *hidden, weft_array *last, weft_array *lengths,
                          weft_pooling pooling)
{
    weft_device *there = weft_device_of(hidden);
    const int64_t L = weft_dim(hidden, 1);
    if (pooling == WEFT_POOLING_CLS)
        return weft_squeeze(weft_slice_axis(hidden, 1, 0, 1), 1); /* (B, E) */
    weft_array *at = weft_to(weft_arange_int(0, L, 1, WEFT_INT32), there);
    weft_array *read =
        pooling == WEFT_POOLING_LAST ? last : weft_less(at, weft_expand_dims(lengths, 1));
    const double other = pooling == WEFT_POOLING_MAX ? -INFINITY : 0;
    weft_array *chosen = weft_where(weft_expand_dims(read, 2), hidden,
                                    weft_to(weft_scalar(other, WEFT_FLOAT32), there));
    if (pooling == WEFT_POOLING_MAX)
        return weft_max(chosen, WEFT_DIMS(1), false);
    weft_array *sum = weft_sum(chosen, WEFT_DIMS(1), false); /* (B, E) */
    weft_array *count = weft_expand_dims(weft_astype(lengths, WEFT_FLOAT32), 1);
    return pooling == WEFT_POOLING_MEAN ? weft_divide(sum, count) : sum;
}

/* Vectors (B, D) divided by their norm, or by 1e-12 where that is larger. */
static weft_array *unit(weft_array *x)
{
    return weft_divide(x, weft_maximum_scalar(weft_norm(x, WEFT_DIMS(-1), true), 1e-12));
}

weft_array *weft__text_vectors(weft_model *model, const weft_batch *batch,
                               const weft_objective_options *o, bool checkpoint)
{
    static const weft_embed_settings plain = {.pooling = WEFT_POOLING_MEAN};
    const weft_embed_settings *s = o->embed ? o->embed : &plain;
    weft_array *last = weft_greater_equal_scalar(batch->targets, 0); /* (B, L) */
    weft_array *lengths = weft__batch_lengths(batch);
    const weft_model_call call = {
        .lengths = lengths, .checkpoint = checkpoint, .embedding_noise = batch->embedding_noise};
    weft_array *hidden = weft_model_hidden(model, batch->tokens, &call); /* (B, L, E) */
    weft_device *there = weft_device_of(hidden);
    weft_array *x = pooled(weft_astype(hidden, WEFT_FLOAT32), weft_to(last, there),
                           weft_to(lengths, there), s->pooling);
    if (s->dense)
        x = weft_nn_call(s->dense, x);
    return s->normalize ? unit(x) : x; /* (B, D) */
}

/* ---- the loss of an objective --------------------------------------------------------------- */

weft_array *weft__objective_compare(const weft_objective *objective, weft_array *vectors,
                                    const weft_batch *batch, const weft_objective_options *o)
{
    weft_array *loss = NULL;
    for (int i = 0; i < o->dimensions.n; i++) {
        const int64_t n = o->dimensions.at[i], D = weft_dim(vectors, 1);
        if (n > D)
            return weft_error_array("objective %s: dimensions: expected at most the %lld of the "
                                    "vectors, got %lld",
                                    objective->name, (long long)D, (long long)n);
        weft_array *one = objective->compare(unit(weft_slice_axis(vectors, 1, 0, n)), batch, o);
        loss = loss ? weft_add(loss, one) : one;
    }
    return loss ? loss : objective->compare(vectors, batch, o);
}

weft_array *weft__objective_loss(const weft_objective *objective, weft_model *model,
                                 const weft_batch *batch, const weft_objective_options *o,
                                 bool checkpoint, weft_array **rewards)
{
    *rewards = NULL;
    if (objective->compare == NULL)
        return objective->loss(model, batch, o, checkpoint, rewards);
    weft_array *vectors = weft__text_vectors(model, batch, o, checkpoint);
    return weft_scale(weft__objective_compare(objective, vectors, batch, o),
                      objective->weight(batch, o));
}

/* The vectors (N, D) of the k-th texts of all examples. */
static weft_array *texts_at(weft_array *vectors, const weft_batch *batch, int64_t k)
{
    const int64_t n = weft__batch_examples(batch);
    return weft_slice_axis(vectors, 0, k * n, (k + 1) * n);
}

/* The cosine of the first and the second text of each example: (N). */
static weft_array *cosines(weft_array *vectors, const weft_batch *batch)
{
    weft_array *u = unit(vectors);
    return weft_sum(weft_multiply(texts_at(u, batch, 0), texts_at(u, batch, 1)), WEFT_DIMS(-1),
                    false);
}

static weft_array *scores_of(const weft_batch *batch, const weft_array *like)
{
    return weft_to(batch->labels, weft_device_of(like)); /* (N) */
}

/* ---- ranking -------------------------------------------------------------------------------- */

/* Numbers rows (B, L) of tokens, whose rows end at the target: equal texts have equal numbers. */
static weft_status number_texts(const weft_batch *batch, int32_t *tokens, int32_t *targets,
                                int32_t *out)
{
    const int64_t B = weft_dim(batch->tokens, 0), L = weft_dim(batch->tokens, 1);
    weft_status status = weft_read(batch->tokens, WEFT_INT32, tokens, B * L);
    if (status == WEFT_OK)
        status = weft_read(batch->targets, WEFT_INT32, targets, B * L);
    for (int64_t i = 0; status == WEFT_OK && i < B; i++) {
        int32_t n = 0;
        while (n < L && targets[i * L + n] < 0)
            n++;
        targets[i * L] = n; /* from now on the index of the last token */
        out[i] = (int32_t)i;
        for (int64_t k = 0; k < i && out[i] == i; k++) {
            if (targets[k * L] == n &&
                memcmp(tokens + k * L, tokens + i * L, ((size_t)n + 1) * sizeof *tokens) == 0)
                out[i] = (int32_t)k;
        }
    }
    return status;
}

/* The numbers (B) int32 of the texts, on the device of `like`. */
static weft_array *numbers_of(const weft_batch *batch, const weft_array *like)
{
    const int64_t B = weft_dim(batch->tokens, 0), L = weft_dim(batch->tokens, 1);
    int32_t *room = weft_malloc(((size_t)(2 * L + 1) * (size_t)B + 1) * sizeof *room);
    if (room == NULL)
        return weft_error_array("objective: out of memory for %lld texts", (long long)B);
    int32_t *numbers = room + 2 * B * L;
    weft_array *out =
        number_texts(batch, room, room + B * L, numbers) == WEFT_OK
            ? weft_to(weft_from_data(numbers, WEFT_INT32, WEFT_DIMS(B)), weft_device_of(like))
            : weft_error_array("%s", weft_error_message());
    weft_free(room);
    return out;
}

/* -log of the softmax of the anchor's own positive among the positives and negatives of all
 * examples, without those that are the same text as the positive. */
static weft_array *compare_ranking(weft_array *vectors, const weft_batch *batch,
                                   const weft_objective_options *o)
{
    const int64_t n = weft__batch_examples(batch), B = weft_dim(vectors, 0);
    weft_array *u = unit(vectors), *numbers = numbers_of(batch, vectors);
    weft_array *candidates = weft_slice_axis(u, 0, n, B); /* (B - n, D) */
    weft_array *scores =
        weft_scale(weft_matmul(texts_at(u, batch, 0), weft_swapaxes(candidates, 0, 1)), o->scale);
    weft_array *own = weft_expand_dims(weft_slice_axis(numbers, 0, n, 2 * n), 1); /* (n, 1) */
    weft_device *there = weft_device_of(vectors);
    weft_array *rows = weft_to(weft_arange_int(0, n, 1, WEFT_INT32), there);
    weft_array *columns = weft_to(weft_arange_int(0, B - n, 1, WEFT_INT32), there);
    weft_array *same =
        weft_logical_and(weft_equal(own, weft_slice_axis(numbers, 0, n, B)),
                         weft_not_equal(weft_expand_dims(rows, 1), columns)); /* (n, B - n) */
    scores = weft_where(same, weft_to(weft_scalar(-INFINITY, WEFT_FLOAT32), there), scores);
    weft_array *right = weft_scale(cosines(vectors, batch), o->scale); /* (n) */
    weft_array *losses = weft_subtract(weft_logsumexp(scores, WEFT_DIMS(-1), false), right);
    return weft_mean(losses, WEFT_ALL_AXES, false);
}

static const weft_field ranking_fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, scale),
    WEFT_FIELD(DIMS, weft_objective_options, dimensions),
    WEFT_FIELDS_END,
};

const weft_objective weft_objective_ranking = {
    .name = "ranking",
    .summary = "the vector of the positive among those of all texts of the batch",
    .examples = WEFT_EXAMPLES_TEXTS,
    .fields = ranking_fields,
    .defaults = {.scale = 20},
    .weight = weft__pair_weight,
    .compare = compare_ranking,
};

/* ---- triplets ------------------------------------------------------------------------------- */

static weft_array *distances(weft_array *vectors, const weft_batch *batch, int64_t k)
{
    return weft_norm(weft_subtract(texts_at(vectors, batch, 0), texts_at(vectors, batch, k)),
                     WEFT_DIMS(-1), false);
}

static weft_array *compare_triplets(weft_array *vectors, const weft_batch *batch,
                                    const weft_objective_options *o)
{
    weft_array *closer =
        weft_subtract(distances(vectors, batch, 1), distances(vectors, batch, 2)); /* (N) */
    return weft_mean(weft_relu(weft_add_scalar(closer, o->margin)), WEFT_ALL_AXES, false);
}

static const weft_field triplet_fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, margin),
    WEFT_FIELD(DIMS, weft_objective_options, dimensions),
    WEFT_FIELDS_END,
};

const weft_objective weft_objective_triplet = {
    .name = "triplet",
    .summary = "the anchor nearer to the positive than to the negative by a margin",
    .examples = WEFT_EXAMPLES_TEXTS,
    .texts = 3,
    .fields = triplet_fields,
    .defaults = {.margin = 5},
    .weight = weft__pair_weight,
    .compare = compare_triplets,
};

/* ---- scores --------------------------------------------------------------------------------- */

static weft_array *compare_order(weft_array *vectors, const weft_batch *batch,
                                 const weft_objective_options *o)
{
    const int64_t n = weft__batch_examples(batch);
    weft_device *there = weft_device_of(vectors);
    weft_array *s = weft_scale(cosines(vectors, batch), o->scale), *score = scores_of(batch, s);
    weft_array *less = weft_less(weft_expand_dims(score, 1), score);                /* (n, n) */
    weft_array *by = weft_subtract(weft_expand_dims(s, 1), weft_expand_dims(s, 0)); /* (n, n) */
    by = weft_where(less, by, weft_to(weft_scalar(-INFINITY, WEFT_FLOAT32), there));
    weft_array *all[] = {weft_to(weft_zeros(WEFT_DIMS(1), WEFT_FLOAT32), there),
                         weft_reshape(by, WEFT_DIMS(n * n))};
    return weft_logsumexp(weft_concatenate(all, 2, 0), WEFT_ALL_AXES, false);
}

const weft_objective weft_objective_cosent = {
    .name = "cosent",
    .summary = "cosines of pairs in the order of their scores",
    .examples = WEFT_EXAMPLES_TEXTS,
    .texts = 2,
    .columns = WEFT_COLUMN_LABELS,
    .fields = ranking_fields,
    .defaults = {.scale = 20},
    .weight = weft__pair_weight,
    .compare = compare_order,
};

static weft_array *compare_cosines(weft_array *vectors, const weft_batch *batch,
                                   const weft_objective_options *o)
{
    (void)o;
    weft_array *by = cosines(vectors, batch);
    by = weft_subtract(by, scores_of(batch, by)); /* (N) */
    return weft_mean(weft_multiply(by, by), WEFT_ALL_AXES, false);
}

static const weft_field cosine_fields[] = {
    WEFT_FIELD(DIMS, weft_objective_options, dimensions),
    WEFT_FIELDS_END,
};

const weft_objective weft_objective_cosine = {
    .name = "cosine",
    .summary = "cosines of pairs equal to their scores",
    .examples = WEFT_EXAMPLES_TEXTS,
    .texts = 2,
    .columns = WEFT_COLUMN_LABELS,
    .fields = cosine_fields,
    .weight = weft__pair_weight,
    .compare = compare_cosines,
};
