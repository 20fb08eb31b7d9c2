/* tests/train/test_packed_pairs.c -- preference data in packed rows: every pair is complete and
 * occurs once, with the losses, rewards and gradients of padded batches. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "train/objective/objective.h"
#include "weft/nn_tools.h"
#include "weft/transforms.h"

enum { PAIRS = 9, LONGEST = 20, ROW = 45 };

/* Other devices sum in a different order. */
static bool other_device(void)
{
    return getenv("WEFT_TEST_DEVICE") != NULL;
}

/* Samples with prompts of two lengths; one has fractional weights. */
static void write_sample(int i, int side, int64_t V, int32_t *ids, float *weights, weft_sample *out)
{
    const int prompt = 3 + i % 2, other = side * (17 * i + 5);
    for (int k = 0; k < LONGEST; k++) {
        ids[k] = (int32_t)(1 + (37 * i + 11 * k + k * k + (k < prompt ? 0 : other)) % (V - 1));
        weights[k] = k < prompt ? 0 : i == 4 && k % 2 ? 0.5f : 1;
    }
    *out = (weft_sample){ids, weights, LONGEST - (5 * i + 7 * side) % 13, 0};
}

static weft_dataset *examples_of(const weft_objective *objective, int64_t V)
{
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(LONGEST, &d));
    for (int i = 0; d && i < PAIRS; i++) {
        int32_t ids[2][LONGEST];
        float weights[2][LONGEST];
        weft_sample samples[2];
        for (int side = 0; side < 2; side++)
            write_sample(i, side, V, ids[side], weights[side], &samples[side]);
        if (objective->examples == WEFT_EXAMPLES_LABELED)
            CHECK_OK(weft_dataset_add_labeled(d, &samples[i % 2], i % 3 > 0));
        else
            CHECK_OK(weft_dataset_add_pair(d, &samples[0], &samples[1]));
    }
    return d;
}

/* The only batch of an epoch. */
static bool only_batch(const weft_dataset *d, bool packed, weft_batch *out)
{
    weft_batches *b = NULL;
    const bool made = CHECK_OK(packed ? weft_batches_new_packed(d, PAIRS, ROW, 0, &b)
                                      : weft_batches_new(d, PAIRS, 0, &b)) &&
                      CHECK_EQ_INT(weft_batches_count(b), 1) &&
                      CHECK_OK(weft_batches_at(b, 0, out));
    weft_batches_free(b);
    return made;
}

/* ---- gradients ------------------------------------------------------------------------------ */

typedef struct loss_call {
    weft_model *model;
    const weft_objective *objective;
    const weft_batch *batch;
} loss_call;

static weft_array *loss_of(void *context)
{
    const loss_call *c = context;
    weft_array *rewards;
    const weft_array *loss =
        c->objective->loss(c->model, c->batch, &c->objective->defaults, false, &rewards);
    return weft_scale((weft_array *)loss,
                      1 / c->objective->weight(c->batch, &c->objective->defaults));
}

static double largest(weft_array *a)
{
    return weft_item(weft_max(weft_abs(a), WEFT_ALL_AXES, false));
}

/* The largest difference of gradients, relative to the largest element of each (or a thousandth of
 * the largest of all). */
static double worst_difference(weft_array **one, weft_array **two, int n)
{
    double worst = 0, most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, largest(two[i]));
    CHECK(most > 0 && isfinite(most));
    for (int i = 0; i < n; i++)
        worst = fmax(worst,
                     largest(weft_subtract(one[i], two[i])) / fmax(largest(two[i]), 1e-3 * most));
    return worst;
}

static void compare(weft_model *model, const weft_objective *objective, const weft_batch *packed,
                    const weft_batch *padded)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots)))
        return;
    weft_array **one = calloc((size_t)slots.n, sizeof *one);
    weft_array **two = calloc((size_t)slots.n, sizeof *two);
    weft_scope_open();
    loss_call call = {model, objective, packed};
    weft_array *a = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, one);
    call.batch = padded;
    weft_array *b = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, two);
    const double loss = fabs(weft_item(a) / weft_item(b) - 1);
    const double gradients = worst_difference(one, two, slots.n);
    printf("  %s: loss differs by %.1e, gradients by %.1e\n", objective->name, loss, gradients);
    CHECK(loss < 1e-6 && gradients < (other_device() ? 3e-5 : 5e-6));
    weft_scope_close(NULL);
    free(one);
    free(two);
    weft_nn_slots_free(&slots);
}

/* Log-probabilities of packed samples equal the reference computed from padded ones: (2 pairs). */
static void compare_reference(weft_model *model, const weft_batch *packed)
{
    weft_scope_open();
    weft_array *rows = weft__row_log_probabilities(model, packed, false);
    weft_array *off = weft_divide(weft_subtract(rows, packed->reference), packed->reference);
    CHECK_EQ_INT(weft_size(rows), 2 * weft__batch_examples(packed));
    const double worst = largest(off);
    printf("  reference log-probabilities differ by %.1e\n", worst);
    CHECK(worst < 1e-6);
    weft_scope_close(NULL);
}

static void packed_rows_train_as_padded_ones(const char *name)
{
    char path[128];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)))
        return;
    for (int i = 0; weft_objectives[i]; i++) {
        const weft_objective *objective = weft_objectives[i];
        weft_batch packed = {0}, padded = {0};
        if (weft__rows_per_example(objective->examples, 0) == 1 || objective->compare)
            continue; /* they are not packed */
        weft_dataset *d = examples_of(objective, weft_model_info_of(model)->vocab_size);
        CHECK_OK(weft_dataset_add_reference(d, model, &(weft_reference_options){.batch_size = 3}));
        if (only_batch(d, true, &packed) && only_batch(d, false, &padded)) {
            CHECK_EQ_INT(weft__batch_examples(&packed), weft__batch_examples(&padded));
            CHECK_EQ_INT(packed.n_tokens, padded.n_tokens);
            CHECK(weft_dim(packed.pack, 0) > 1 && weft_dim(packed.pack, 0) < PAIRS);
            compare(model, objective, &packed, &padded);
            compare_reference(model, &packed);
        }
        weft_batch_free(&packed);
        weft_batch_free(&padded);
        weft_dataset_free(d);
    }
    weft_model_free(model);
}

static void attention_does_not_see_other_samples(void)
{
    packed_rows_train_as_padded_ones("llama");
}

static void windows_end_at_samples(void)
{
    packed_rows_train_as_padded_ones("gemma3");
}

static void recurrent_layers_start_anew(void)
{
    packed_rows_train_as_padded_ones("qwen3-next");
}

/* ---- updates -------------------------------------------------------------------------------- */

enum { UPDATES = 3 };

typedef struct setting {
    bool packed, compile;
    int64_t micro;
    double dropout;
} setting;

static void make_updates(const weft_objective *objective, setting s, weft_train_report *reports)
{
    weft_model *model = NULL;
    weft_trainer *trainer = NULL;
    weft_batch batch = {0};
    const weft_nn_lora_options lora = {.rank = 4, .dropout = s.dropout};
    const weft_trainer_options o = {
        .objective = objective, .lr = 0.01, .compile = s.compile, .micro_batch = s.micro};
    if (!CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model)))
        return;
    weft_random_seed(3);
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &lora));
    CHECK_OK(weft_nn_eval(weft_model_module(model)));
    weft_dataset *d = examples_of(objective, weft_model_info_of(model)->vocab_size);
    CHECK_OK(weft_dataset_add_reference(d, model, NULL));
    if (only_batch(d, s.packed, &batch) && CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        for (int i = 0; i < UPDATES; i++)
            CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &reports[i]));
    }
    weft_trainer_free(trainer);
    weft_batch_free(&batch);
    weft_dataset_free(d);
    weft_model_free(model);
}

static double off(double a, double b)
{
    return isnan(a) && isnan(b) ? 0 : fabs(a - b);
}

static void expect_same(const weft_objective *objective, setting s, const weft_train_report *than)
{
    weft_train_report reports[UPDATES] = {{0}};
    double loss = 0, norm = 0, rewards = 0;
    make_updates(objective, s, reports);
    for (int i = 0; i < UPDATES; i++) {
        const weft_reward_report *a = &reports[i].rewards, *b = &than[i].rewards;
        loss = fmax(loss, fabs(reports[i].loss / than[i].loss - 1));
        norm = fmax(norm, fabs(reports[i].grad_norm / than[i].grad_norm - 1));
        rewards = fmax(rewards, fmax(off(a->chosen, b->chosen), off(a->rejected, b->rejected)));
        CHECK_EQ_INT(a->pairs, PAIRS);
        /* Before the first update a policy equals its reference: rewards are zero up to rounding,
         * and which of two is larger is chance. */
        const bool equal = fabs(b->chosen) < 1e-5 && fabs(b->rejected) < 1e-5;
        CHECK((i == 0 && equal) || off(a->accuracy, b->accuracy) == 0);
        CHECK_EQ_INT(reports[i].tokens, than[i].tokens);
    }
    printf("  %s%s, %d rows at a time: loss %.1e, norm %.1e, rewards %.1e\n", objective->name,
           s.compile ? ", compiled" : "", (int)s.micro, loss, norm, rewards);
    const double tolerance = other_device() ? 3e-5 : 2e-6;
    CHECK(loss < tolerance && norm < tolerance && rewards < tolerance);
}

static void updates_are_the_same(void)
{
    for (int i = 0; weft_objectives[i]; i++) {
        const weft_objective *o = weft_objectives[i];
        weft_train_report padded[UPDATES] = {{0}}, dropped[UPDATES] = {{0}};
        if (weft__rows_per_example(o->examples, 0) == 1 || o->compare)
            continue;
        make_updates(o, (setting){.micro = -1}, padded);
        CHECK(fabs(padded[2].loss - padded[0].loss) > 1e-3);
        expect_same(o, (setting){.packed = true, .micro = -1}, padded);
        expect_same(o, (setting){.packed = true, .micro = -1, .compile = true}, padded);
        if (o->whole_batch)
            continue;
        expect_same(o, (setting){.packed = true, .micro = 1}, padded);
        expect_same(o, (setting){.packed = true, .micro = 2}, padded);
        /* Every packed row has its own dropout. */
        make_updates(o, (setting){.packed = true, .micro = -1, .dropout = 0.3}, dropped);
        CHECK(fabs(dropped[2].loss / padded[2].loss - 1) > 1e-4);
        expect_same(o, (setting){.packed = true, .micro = 2, .dropout = 0.3}, dropped);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Counts how often the samples of pair i are in a batch, and records the row of each. */
static void count_pairs(const weft_batch *b, const weft_dataset *d, int *counts)
{
    const int64_t L = weft_dim(b->tokens, 1), R = weft_dim(b->pack, 0), C = weft_dim(b->pack, 1);
    int32_t tokens[2 * PAIRS * LONGEST], unpack[2 * PAIRS * LONGEST], pack[PAIRS * ROW];
    const int64_t pairs = weft__batch_examples(b);
    const bool fits = 2 * pairs <= 2 * PAIRS && L < LONGEST && R <= PAIRS && C <= ROW;
    if (!CHECK(fits))
        return;
    CHECK_OK(weft_read(b->tokens, WEFT_INT32, tokens, 2 * pairs * L));
    CHECK_OK(weft_read(b->unpack, WEFT_INT32, unpack, 2 * pairs * L));
    CHECK_OK(weft_read(b->pack, WEFT_INT32, pack, R * C));
    for (int64_t p = 0; p < pairs; p++) {
        for (int i = 0; i < PAIRS; i++) {
            const weft_sample chosen = weft_dataset_at(d, 2 * i),
                              other = weft_dataset_at(d, 2 * i + 1);
            if (memcmp(tokens + p * L, chosen.ids, sizeof(int32_t) * (size_t)(chosen.length - 1)) !=
                0)
                continue;
            counts[i]++;
            CHECK(memcmp(tokens + (pairs + p) * L, other.ids,
                         sizeof(int32_t) * (size_t)(other.length - 1)) == 0);
            CHECK_EQ_INT(unpack[p * L] / C, unpack[(pairs + p) * L] / C);
        }
    }
    for (int64_t i = 0; i < 2 * pairs * L; i++)
        CHECK(unpack[i] < 0 || pack[unpack[i]] == i);
}

/* With a mixture of two sources, the second of which is repeated. */
static void pairs_are_whole_and_weighted(void)
{
    static const char *const texts[] = {"{\"prompt\": \"a\", \"chosen\": \"bc\", "
                                        "\"rejected\": \"def\"}\n{\"prompt\": \"g\", "
                                        "\"chosen\": \"hi\", \"rejected\": \"jkl\"}\n",
                                        "{\"prompt\": \"m\", \"chosen\": \"no\", "
                                        "\"rejected\": \"pqr\"}\n"};
    char paths[2][512];
    weft_data_source sources[2] = {{.path = paths[0], .weight = 1},
                                   {.path = paths[1], .weight = 2}};
    weft_tokenizer *tokenizer = NULL;
    weft_dataset *d = NULL;
    weft_batches *b = NULL;
    int counts[PAIRS] = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", check_temporary(i ? "two.jsonl" : "one.jsonl"));
        FILE *file = fopen(paths[i], "w");
        if (CHECK(file != NULL)) {
            fputs(texts[i], file);
            fclose(file);
        }
    }
    const weft_dataset_options o = {.examples = WEFT_EXAMPLES_PAIRS};
    if (CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer)) &&
        CHECK_OK(weft_dataset_load_mixture(sources, 2, tokenizer, &o, 0, &d, NULL)) &&
        CHECK_OK(weft_batches_new_packed(d, 1, 20, 5, &b))) {
        for (int64_t i = 0; i < weft_batches_count(b); i++) {
            weft_batch batch = {0};
            CHECK_OK(weft_batches_at(b, i, &batch));
            for (int p = 0; p < 3; p++) {
                int32_t first[8] = {0};
                const weft_sample s = weft_dataset_at(d, 2 * p);
                weft_scope_open();
                weft_array *rows =
                    weft_slice_axis(batch.tokens, 0, 0, weft__batch_examples(&batch));
                weft_array *column = weft_slice_axis(rows, 1, 0, 1);
                CHECK_OK(weft_read(column, WEFT_INT32, first, weft__batch_examples(&batch)));
                weft_scope_close(NULL);
                for (int64_t r = 0; r < weft__batch_examples(&batch); r++)
                    counts[p] += first[r] == s.ids[0];
            }
            weft_batch_free(&batch);
        }
        CHECK(counts[0] == 1 && counts[1] == 1 && counts[2] == 2);
    }
    weft_batches_free(b);
    weft_dataset_free(d);
    weft_tokenizer_free(tokenizer);
}

static void every_pair_is_complete_and_occurs_once(void)
{
    weft_dataset *d = examples_of(&weft_objective_dpo, 300);
    weft_batches *b = NULL;
    int counts[PAIRS] = {0};
    if (CHECK_OK(weft_batches_new_packed(d, 2, ROW, 5, &b))) {
        CHECK(weft_batches_count(b) < (PAIRS + 1) / 2); /* as many as without packing */
        for (int64_t i = 0; i < weft_batches_count(b); i++) {
            weft_batch batch = {0};
            if (CHECK_OK(weft_batches_at(b, i, &batch)))
                count_pairs(&batch, d, counts);
            weft_batch_free(&batch);
        }
    }
    for (int i = 0; i < PAIRS; i++)
        CHECK_EQ_INT(counts[i], 1);
    weft_batches_free(b);
    b = NULL;
    CHECK_STATUS(weft_batches_new_packed(d, 2, 20, 5, &b), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(),
                   "packing: a pair has 33 tokens, more than the 22 of a row");
    weft_dataset_free(d);
}

CHECK_MAIN("packed_pairs", CHECK_CASE(every_pair_is_complete_and_occurs_once),
           CHECK_CASE(pairs_are_whole_and_weighted),
           CHECK_CASE(attention_does_not_see_other_samples), CHECK_CASE(windows_end_at_samples),
           CHECK_CASE(recurrent_layers_start_anew), CHECK_CASE(updates_are_the_same))
