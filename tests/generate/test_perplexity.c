/* tests/generate/test_perplexity.c -- weft_perplexity_chunks against the same formula in float64
 * from transformers' logits (tests/golden/generate/perplexity.py). */
#include <math.h>
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { LENGTH = 203 };

static void check_golden(weft_model *model, weft_safetensors *golden, const char *family,
                         const int32_t *ids, int64_t context, const weft_batch_options *batch)
{
    static const int32_t bos = 2;
    for (int with = 0; with < 2; with++) {
        char name[64];
        double expected[5];
        weft_perplexity found;
        snprintf(name, sizeof name, "%s/%lld/%s", family, (long long)context, with ? "2" : "none");
        const weft_perplexity_options o = {
            .context = context, .bos = with ? &bos : NULL, .batch = *batch};
        if (!CHECK_OK(weft_read(weft_safetensors_get(golden, name), WEFT_FLOAT64, expected, 5)) ||
            !CHECK_OK(weft_perplexity_chunks(model, ids, LENGTH, &o, &found)))
            continue;
        CHECK_RELATIVE(found.loss, expected[0], 1e-5);
        CHECK_RELATIVE(found.perplexity, expected[1], 1e-5);
        CHECK_RELATIVE(found.uncertainty, expected[2], 1e-4);
        CHECK_EQ_INT(found.chunks, (int64_t)expected[3]);
        CHECK_EQ_INT(found.targets, (int64_t)expected[4]);
    }
}

/* Chunks together, one by one, and each in pieces. */
static void perplexity_is_the_reference(void)
{
    static const char *const families[] = {"llama", "gemma3"};
    static const int64_t contexts[] = {16, 33, 64};
    static const weft_batch_options batches[] = {{0}, {.invariant = true}, {.tokens = 10}};
    weft_safetensors *golden = NULL;
    if (!CHECK_OK(weft_safetensors_open(check_fixture("generate/perplexity.safetensors"), &golden)))
        return;
    for (int f = 0; f < 2; f++) {
        char name[64];
        int32_t ids[LENGTH];
        weft_model *model = fixture_model(families[f]);
        weft_scope_open();
        snprintf(name, sizeof name, "%s/ids", families[f]);
        if (model != NULL &&
            CHECK_OK(weft_read(weft_safetensors_get(golden, name), WEFT_INT32, ids, LENGTH))) {
            for (int i = 0; i < 9; i++)
                check_golden(model, golden, families[f], ids, contexts[i / 3], &batches[i % 3]);
        }
        weft_scope_close(NULL);
        weft_model_free(model);
    }
    weft_safetensors_close(golden);
}

typedef struct calls {
    int n;
    int64_t chunks, total;
} calls;

static bool stop_after_two(void *context, const weft_perplexity *so_far, int64_t chunks)
{
    calls *c = context;
    c->n++;
    c->chunks = so_far->chunks;
    c->total = chunks;
    return so_far->chunks < 2;
}

static void chunks_are_limited(void)
{
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return;
    int32_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = 3 + i % 50;
    calls c = {0};
    weft_perplexity all, three, two;
    weft_perplexity_options o = {.context = 16, .batch.invariant = true};
    CHECK_OK(weft_perplexity_chunks(model, ids, 100, &o, &all));
    CHECK_EQ_INT(all.chunks, 6);
    CHECK_EQ_INT(all.targets, 6 * 7);
    o.chunks = 3;
    CHECK_OK(weft_perplexity_chunks(model, ids, 100, &o, &three));
    CHECK_EQ_INT(three.chunks, 3);
    CHECK_EQ_INT(three.targets, 3 * 7);
    o.callback = stop_after_two;
    o.callback_context = &c;
    CHECK_OK(weft_perplexity_chunks(model, ids, 100, &o, &two));
    CHECK_EQ_INT(c.n, 2);
    CHECK_EQ_INT(c.total, 3);
    CHECK_EQ_INT(two.chunks, 2);
    weft_perplexity direct;
    CHECK_OK(weft_perplexity_chunks(
        model, ids, 32, &(weft_perplexity_options){.context = 16, .batch.invariant = true},
        &direct));
    CHECK_BYTES(&direct.loss, &two.loss, sizeof direct.loss);
    weft_model_free(model);
}

static void bad_options_are_refused(void)
{
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return;
    int32_t ids[64] = {0};
    weft_perplexity out;
    const int64_t positions = weft_model_info_of(model)->max_positions;
    const weft_perplexity_options bad[] = {{.context = 3},
                                           {.context = -1},
                                           {.context = positions + 1},
                                           {.context = 65},
                                           {.context = 16, .chunks = -1},
                                           {.context = 16, .batch.tokens = -1},
                                           {0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(weft_perplexity_chunks(model, ids, 64, &bad[i], &out), WEFT_INVALID);
    ids[63] = 1 << 20;
    CHECK_STATUS(
        weft_perplexity_chunks(model, ids, 64, &(weft_perplexity_options){.context = 16}, &out),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "vocabulary");
    weft_model_free(model);
}

/* ---- 8-bit activations ---------------------------------------------------------------------- */

static const char text[] =
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, \"and what is the use of a book,\" thought Alice, "
    "\"without pictures or conversations?\" So she was considering in her own mind (as well as she "
    "could, for the hot day made her feel very sleepy and stupid), whether the pleasure of making "
    "a "
    "daisy-chain would be worth the trouble of getting up and picking the daisies, when suddenly a "
    "White Rabbit with pink eyes ran close by her.";

static double loss_of(const weft_model_options *o, const int32_t *ids, size_t n)
{
    weft_model *model = NULL;
    weft_perplexity found = {0};
    const weft_perplexity_options options = {.context = 64};
    if (CHECK_OK(weft_model_load(check_source("examples/storyteller"), o, &model)))
        CHECK_OK(weft_perplexity_chunks(model, ids, (int64_t)n, &options, &found));
    weft_model_free(model);
    return found.loss;
}

/* The storyteller with quantized weights: the loss moves by less than a hundredth of a nat. On the
 * CPU it does move, on other devices activations stay exact. */
static void rounded_activations_change_little(void)
{
    weft_tokenizer *tokenizer;
    weft_model *shared;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!storyteller(&shared, &tokenizer) ||
        !CHECK_OK(weft_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &ids, &n)))
        return;
    const bool cpu = weft_default_device() == weft_device_get("cpu");
    for (int bits = 4; bits <= 8; bits += 4) {
        const weft_model_options exact = {.quantize = bits};
        const weft_model_options rounded = {.quantize = bits, .int8_activations = true};
        const double before = loss_of(&exact, ids, n), after = loss_of(&rounded, ids, n);
        printf("  %d-bit weights: loss %.5f exact, %.5f with 8-bit activations\n", bits, before,
               after);
        CHECK(fabs(after - before) < 0.01);
        CHECK((after != before) == cpu);
    }
    weft_free(ids);
}

CHECK_MAIN("perplexity", CHECK_CASE(perplexity_is_the_reference), CHECK_CASE(chunks_are_limited),
           CHECK_CASE(bad_options_are_refused), CHECK_CASE(rounded_activations_change_little))
