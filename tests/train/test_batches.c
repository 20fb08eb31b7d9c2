/* tests/train/test_batches.c -- rows, padding, orders, and batches from a file. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/train.h"

static void rows_are_shifted_masked_and_padded(void)
{
    const int32_t a[] = {5, 6, 7, 8}, b[] = {9, 10};
    const float only_end[] = {0, 0, 1, 1};
    const weft_sample samples[] = {{a, only_end, 4, 0}, {b, NULL, 2, 0}};
    weft_batch batch;
    if (!CHECK_OK(weft_batch_of_samples(samples, 2, &batch)))
        return;
    const int32_t tokens[] = {5, 6, 7, 9, 0, 0}, targets[] = {-1, 7, 8, 10, -1, -1};
    int32_t got[6];
    CHECK_EQ_INT(weft_dim(batch.tokens, 0), 2);
    CHECK_EQ_INT(weft_dim(batch.tokens, 1), 3);
    CHECK_OK(weft_read(batch.tokens, WEFT_INT32, got, 6));
    CHECK_BYTES(got, tokens, sizeof got);
    CHECK_OK(weft_read(batch.targets, WEFT_INT32, got, 6));
    CHECK_BYTES(got, targets, sizeof got);
    CHECK_EQ_INT(batch.n_tokens, 4);
    CHECK_CLOSE(batch.n_targets, 3, 0);
    CHECK(batch.weights == NULL);
    weft_batch_free(&batch);
    CHECK(batch.tokens == NULL);
}

static void weights_are_summed(void)
{
    const int32_t ids[] = {5, 6, 7, 8};
    const float half[] = {9, 0.5f, 0, 1};
    const weft_sample samples[] = {{ids, half, 4, 0}, {ids, NULL, 3, 0}};
    weft_batch batch;
    if (!CHECK_OK(weft_batch_of_samples(samples, 2, &batch)))
        return;
    const int32_t targets[] = {6, -1, 8, 6, 7, -1};
    const float weights[] = {0.5f, 0, 1, 1, 1, 0};
    int32_t got[6];
    float read[6];
    CHECK_OK(weft_read(batch.targets, WEFT_INT32, got, 6));
    CHECK_BYTES(got, targets, sizeof got);
    if (CHECK(batch.weights != NULL)) {
        CHECK_OK(weft_read(batch.weights, WEFT_FLOAT32, read, 6));
        CHECK_BYTES(read, weights, sizeof read);
    }
    CHECK_CLOSE(batch.n_targets, 3.5, 0);
    weft_batch_free(&batch);
}

enum { SAMPLES = 1003, BATCH = 8, MOST = 60 };

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

/* Reads an epoch: sets order[] to the sample of each row, and returns the share of padding. */
static double read_epoch(weft_batches *b, int64_t epoch, int *order)
{
    int n = 0;
    int64_t cells = 0, tokens = 0;
    for (int64_t i = 0; i < weft_batches_count(b); i++) {
        weft_batch batch;
        int32_t ids[BATCH * MOST];
        if (!CHECK_OK(weft_batches_at(b, epoch * weft_batches_count(b) + i, &batch)))
            return 0;
        const int64_t rows = weft_dim(batch.tokens, 0), L = weft_dim(batch.tokens, 1);
        CHECK_OK(weft_read(batch.tokens, WEFT_INT32, ids, rows * L));
        for (int64_t row = 0; row < rows; row++)
            order[n++] = ids[row * L];
        cells += rows * L;
        tokens += batch.n_tokens;
        weft_batch_free(&batch);
    }
    CHECK_EQ_INT(n, SAMPLES);
    return 1 - (double)tokens / (double)cells;
}

static void an_epoch_has_every_sample_once(void)
{
    weft_dataset *d = many_samples();
    weft_batches *b;
    if (!CHECK_OK(weft_batches_new(d, BATCH, 7, &b)))
        return;
    CHECK_EQ_INT(weft_batches_count(b), (SAMPLES + BATCH - 1) / BATCH);
    int first[SAMPLES] = {0}, second[SAMPLES] = {0}, again[SAMPLES];
    const double waste = read_epoch(b, 0, first);
    printf("  %.1f %% of the batches is padding\n", 100 * waste);
    CHECK(waste < 0.06);
    bool seen[SAMPLES] = {false};
    for (int i = 0; i < SAMPLES; i++) {
        CHECK(!seen[first[i]]);
        seen[first[i]] = true;
    }
    read_epoch(b, 1, second);
    CHECK(memcmp(first, second, sizeof first) != 0);
    read_epoch(b, 0, again);
    CHECK_BYTES(again, first, sizeof first);
    weft_batches_free(b);
    if (CHECK_OK(weft_batches_new(d, BATCH, 8, &b))) {
        read_epoch(b, 0, again);
        CHECK(memcmp(first, again, sizeof first) != 0);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
}

static void a_small_dataset_is_one_batch(void)
{
    weft_dataset *d;
    weft_batches *b;
    const int32_t ids[] = {1, 2, 3};
    CHECK_OK(weft_dataset_new(0, &d));
    CHECK_OK(weft_dataset_add(d, ids, 3, 0));
    if (CHECK_OK(weft_batches_new(d, 32, 0, &b))) {
        weft_batch batch;
        CHECK_EQ_INT(weft_batches_count(b), 1);
        CHECK_OK(weft_batches_at(b, 5, &batch));
        CHECK_EQ_INT(weft_dim(batch.tokens, 0), 1);
        weft_batch_free(&batch);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
    CHECK_OK(weft_dataset_new(0, &d));
    CHECK_STATUS(weft_batches_new(d, 4, 0, &b), WEFT_INVALID);
    CHECK(b == NULL);
    weft_dataset_free(d);
}

/* Writes a file of `batches` and `prompt_lengths`; returns the status of opening it. */
static weft_status open_file(weft_array *batches, weft_array *prompts, weft_batches **out)
{
    const char *names[] = {"batches", "prompt_lengths"};
    weft_array *arrays[] = {batches, prompts};
    const char *path = check_temporary("batches.safetensors");
    CHECK_OK(weft_safetensors_save(path, names, arrays, prompts ? 2 : 1, NULL, 0));
    return weft_batches_open(path, out);
}

static void files_give_exactly_their_batches(void)
{
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, lengths[] = {1, 2, 3, 0};
    weft_batches *b;
    weft_scope_open();
    weft_array *batches = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, 2, 3));
    weft_array *prompts = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(2, 2));
    if (CHECK_OK(open_file(batches, prompts, &b))) {
        weft_batch batch;
        int32_t got[4];
        const int32_t tokens[] = {7, 8, 10, 11}, targets[] = {-1, -1, 11, 12};
        CHECK_EQ_INT(weft_batches_count(b), 2);
        CHECK_OK(weft_batches_at(b, 3, &batch)); /* the second step of the second epoch */
        CHECK_OK(weft_read(batch.tokens, WEFT_INT32, got, 4));
        CHECK_BYTES(got, tokens, sizeof got);
        CHECK_OK(weft_read(batch.targets, WEFT_INT32, got, 4));
        CHECK_BYTES(got, targets, sizeof got);
        weft_batch_free(&batch);
    }
    weft_batches_free(b);
    weft_scope_close(NULL);
}

static void bad_files_are_refused(void)
{
    const int32_t ids[] = {1, 2, 3, 4, 5, -6}, lengths[] = {0, 0}, full[] = {3, 3};
    const int32_t good[] = {1, 2, 3, 4, 5, 6};
    weft_batches *b;
    weft_scope_open();
    weft_array *batches = weft_from_data(good, WEFT_INT32, WEFT_DIMS(1, 2, 3));
    weft_array *prompts = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(1, 2));
    CHECK_STATUS(open_file(batches, NULL, &b), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "prompt_lengths");
    CHECK_STATUS(open_file(weft_astype(batches, WEFT_FLOAT32), prompts, &b), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "float32");
    CHECK_STATUS(open_file(weft_reshape(batches, WEFT_DIMS(2, 3)), prompts, &b), WEFT_INVALID);
    CHECK_STATUS(open_file(batches, weft_reshape(prompts, WEFT_DIMS(2, 1)), &b), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected int32 (1, 2)");
    CHECK_STATUS(open_file(weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 2, 3)), prompts, &b),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "-6");
    CHECK_STATUS(open_file(batches, weft_from_data(full, WEFT_INT32, WEFT_DIMS(1, 2)), &b),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "step 1 has nothing to learn");
    CHECK(b == NULL);
    CHECK_STATUS(weft_batches_open(check_temporary("absent.safetensors"), &b), WEFT_IO);
    weft_scope_close(NULL);
}

CHECK_MAIN("batches", CHECK_CASE(rows_are_shifted_masked_and_padded),
           CHECK_CASE(weights_are_summed), CHECK_CASE(an_epoch_has_every_sample_once),
           CHECK_CASE(a_small_dataset_is_one_batch), CHECK_CASE(files_give_exactly_their_batches),
           CHECK_CASE(bad_files_are_refused))
