/* tests/train/test_packing.c -- samples packed into rows: each occurs once, with the loss and
 * gradients of padded rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/train.h"
#include "weft/transforms.h"

enum { SAMPLES = 1000, MOST = 60, BATCH = 4 };

/* Sample i has ids i, i, ...: its length is 2 + i % 57. */
static weft_dataset *many_samples(void)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(MOST, &d));
    for (int i = 0; d && i < SAMPLES; i++) {
        int32_t ids[MOST];
        for (int j = 0; j < MOST; j++)
            ids[j] = i;
        if (!CHECK_OK(weft_dataset_add(d, ids, 2 + i % 57, 0)))
            break;
    }
    return d;
}

/* Reads an epoch: counts how often each sample is in it, checks the description of every row, and
 * returns the share of padding. */
static double read_epoch(weft_batches *b, int64_t epoch, int64_t L_most, int *counts)
{
    enum { CELLS = BATCH * 200 };
    int32_t tokens[CELLS], targets[CELLS], first[CELLS], positions[CELLS];
    int64_t cells = 0, read = 0;
    memset(counts, 0, SAMPLES * sizeof *counts);
    for (int64_t i = 0; i < weft_batches_count(b); i++) {
        weft_batch batch;
        if (!CHECK_OK(weft_batches_at(b, epoch * weft_batches_count(b) + i, &batch)))
            return 1;
        const int64_t rows = weft_dim(batch.tokens, 0), L = weft_dim(batch.tokens, 1);
        if (!CHECK(L <= L_most) || !CHECK(rows <= BATCH) || !CHECK(batch.first != NULL))
            return 1;
        CHECK_OK(weft_read(batch.tokens, WEFT_INT32, tokens, rows * L));
        CHECK_OK(weft_read(batch.targets, WEFT_INT32, targets, rows * L));
        CHECK_OK(weft_read(batch.first, WEFT_INT32, first, rows * L));
        CHECK_OK(weft_read(batch.positions, WEFT_INT32, positions, rows * L));
        for (int64_t c = 0; c < rows * L; c++) {
            CHECK_EQ_INT(positions[c], c % L - first[c]);
            if (targets[c] < 0)
                continue;
            counts[targets[c]] += positions[c] == 0;
            CHECK_EQ_INT(tokens[c], targets[c]);
            CHECK_EQ_INT(tokens[c - positions[c]], tokens[c]);
        }
        cells += rows * L;
        read += batch.n_tokens;
        weft_batch_free(&batch);
    }
    return 1 - (double)read / (double)cells;
}

static void every_sample_is_in_one_row(void)
{
    weft_dataset *d = many_samples();
    weft_batches *b, *padded;
    int first[SAMPLES], second[SAMPLES];
    if (!CHECK_OK(weft_batches_new_packed(d, BATCH, 150, 3, &b)))
        return;
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        const double waste = read_epoch(b, epoch, 150, epoch ? second : first);
        printf("  %.2f %% of the rows is padding\n", 100 * waste);
        CHECK(waste < 0.01);
    }
    for (int i = 0; i < SAMPLES; i++) {
        CHECK_EQ_INT(first[i], 1);
        CHECK_EQ_INT(second[i], 1);
    }
    CHECK_OK(weft_batches_new(d, BATCH, 3, &padded));
    CHECK(weft_batches_count(b) < weft_batches_count(padded) / 3);
    weft_batches_free(padded);
    weft_batches_free(b);
    CHECK_STATUS(weft_batches_new_packed(d, BATCH, 20, 3, &b), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "a sample has 58 tokens, more than the 21 of a row");
    weft_dataset_free(d);
}

/* ---- gradients ------------------------------------------------------------------------------ */

typedef struct loss_call {
    weft_model *model;
    const weft_batch *batch;
} loss_call;

static weft_array *loss_of(void *context)
{
    const loss_call *c = context;
    return weft_next_token_loss(c->model, c->batch, 1 / c->batch->n_targets, false);
}

static double largest(weft_array *a)
{
    return weft_item(weft_max(weft_abs(a), WEFT_ALL_AXES, false));
}

/* Largest difference of two arrays, relative to the largest element of the first; `floor` is the
 * least that it is compared with. */
static double difference(weft_array *a, weft_array *b, double floor)
{
    return largest(weft_subtract(a, b)) / fmax(largest(b), floor);
}

static void compare_gradients(weft_model *model, const weft_batch *packed, const weft_batch *padded)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots)))
        return;
    weft_array **one = calloc((size_t)slots.n, sizeof *one);
    weft_array **two = calloc((size_t)slots.n, sizeof *two);
    double worst = 0, most = 0;
    weft_scope_open();
    loss_call call = {model, packed};
    weft_array *a = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, one);
    call.batch = padded;
    weft_array *b = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, two);
    CHECK_RELATIVE(weft_item(a), weft_item(b), 1e-6);
    for (int i = 0; i < slots.n; i++)
        most = fmax(most, largest(two[i]));
    for (int i = 0; i < slots.n; i++)
        worst = fmax(worst, difference(one[i], two[i], 1e-3 * most));
    printf("  gradients differ by %.1e\n", worst);
    /* Other devices sum in a different order. */
    const double tolerance = getenv("WEFT_TEST_DEVICE") ? 3e-5 : 1e-5;
    CHECK(most > 0 && isfinite(most) && worst < tolerance);
    weft_scope_close(NULL);
    free(one);
    free(two);
    weft_nn_slots_free(&slots);
}

static void packed_rows_train_as_padded_ones(const char *name)
{
    enum { N = 5, LONGEST = 20 };
    static const int lengths[N] = {20, 7, 2, 12, 9};
    char path[128];
    int32_t ids[N][LONGEST];
    float weights[LONGEST] = {0};
    weft_model *model = NULL;
    weft_dataset *d = NULL;
    weft_batches *b = NULL;
    weft_batch packed, padded;
    weft_sample samples[N];
    snprintf(path, sizeof path, "models/%s", name);
    if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)) ||
        !CHECK_OK(weft_dataset_new(LONGEST, &d)))
        return;
    const int64_t V = weft_model_info_of(model)->vocab_size;
    for (int i = 3; i < LONGEST; i++)
        weights[i] = i % 2 ? 1 : 0.5f;
    /* Id 0 is Gemma's padding, whose embedding is 0: gradients overflow in every norm. */
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < LONGEST; k++)
            ids[i][k] = (int32_t)(1 + (37 * i + 11 * k + k * k) % (V - 1));
        samples[i] = (weft_sample){ids[i], i == 3 ? weights : NULL, lengths[i], 0};
        CHECK_OK(weft_dataset_add_sample(d, &samples[i]));
    }
    if (CHECK_OK(weft_batches_new_packed(d, 2, 25, 0, &b)) &&
        CHECK_EQ_INT(weft_batches_count(b), 1) && CHECK_OK(weft_batches_at(b, 0, &packed)) &&
        CHECK_OK(weft_batch_of_samples(samples, N, &padded))) {
        CHECK_EQ_INT(weft_dim(packed.tokens, 0), 2);
        CHECK_CLOSE(packed.n_targets, padded.n_targets, 1e-6);
        CHECK_EQ_INT(packed.n_tokens, padded.n_tokens);
        compare_gradients(model, &packed, &padded);
        weft_batch_free(&packed);
        weft_batch_free(&padded);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
    weft_model_free(model);
}

static void attention_does_not_see_other_samples(void)
{
    packed_rows_train_as_padded_ones("llama");
    packed_rows_train_as_padded_ones("qwen3-moe");
}

static void windows_end_at_samples(void)
{
    packed_rows_train_as_padded_ones("gemma3");
    packed_rows_train_as_padded_ones("gemma4-dense");
    packed_rows_train_as_padded_ones("gpt-oss");
}

static void recurrent_layers_start_anew(void)
{
    packed_rows_train_as_padded_ones("qwen3-next");
    packed_rows_train_as_padded_ones("lfm2-bias");
    packed_rows_train_as_padded_ones("lfm3");
    packed_rows_train_as_padded_ones("granite4-moe");
    packed_rows_train_as_padded_ones("falcon-h1");
    packed_rows_train_as_padded_ones("nemotron-h");
}

static void families_that_do_not_take_packed_rows_are_refused(void)
{
    weft_model *model = NULL;
    if (!CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model)))
        return;
    weft_scope_open();
    weft_array *tokens = weft_zeros(WEFT_DIMS(1, 4), WEFT_INT32);
    weft_cache *caches[8] = {NULL};
    const weft_model_call call = {.first = tokens, .caches = caches};
    weft_array *y = weft_model_hidden(model, tokens, &call);
    CHECK(!weft_ok(y));
    CHECK_CONTAINS(weft_error(y), "several sequences in a row are not for caches");
    weft_scope_close(NULL);
    weft_model_free(model);
}

CHECK_MAIN("packing", CHECK_CASE(every_sample_is_in_one_row),
           CHECK_CASE(attention_does_not_see_other_samples), CHECK_CASE(windows_end_at_samples),
           CHECK_CASE(recurrent_layers_start_anew),
           CHECK_CASE(families_that_do_not_take_packed_rows_are_refused))
