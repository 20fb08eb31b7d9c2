/* tests/train/test_head_memory.c -- memory of the loss of a large vocabulary: a few rows of logits,
 * whether the head is frozen, encoded, tied and trained, or adapted.
 *
 * WEFT_TEST_HEADS=all, or the name of a head: 4 x 2048 tokens of 1024 numbers, as in a model of
 * 0.6B.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/gguf.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

/* CHUNK_ROWS: of logits, that the loss takes at a time. LENGTH: of two samples, and ROW: of three,
 * for several chunks. Under the sanitizers a smaller vocabulary has the same chunks with fewer
 * weights. */
#ifdef __SANITIZE_ADDRESS__
enum { V = 32768, CHUNK_ROWS = 256, LENGTH = 300, ROW = 100 };
#else
enum { V = 151936, CHUNK_ROWS = 64, LENGTH = 96, ROW = 40 };
#endif

typedef struct head {
    const char *name, *encoding;
    bool trained, adapted, dora;
} head;

static const head heads[] = {
    {"frozen", NULL, false, false, false},
    {"Q4_K", "Q4_K", false, false, false},
    {"affine", "affine-4-64-bfloat16", false, false, false},
    {"trained", NULL, true, false, false},
    {"adapted", NULL, false, true, false},
    {"adapted Q4_K", "Q4_K", false, true, false},
    {"DoRA", NULL, false, true, true},
    {"DoRA Q4_K", "Q4_K", false, true, true},
};

static bool is_full(void)
{
    return getenv("WEFT_TEST_HEADS") != NULL;
}

static weft_status encode(void *context, const char *path, weft_module **field)
{
    weft_array **weight = weft_nn_find(*field, "weight");
    if (strcmp(path, "model.embed_tokens") != 0)
        return WEFT_OK;
    weft_scope_open_lean();
    const weft_encoding *blocks = weft_gguf_encoding(context);
    weft_array *value = weft_encode(blocks ? *weight : weft_astype(*weight, WEFT_BFLOAT16),
                                    blocks ? blocks : weft_encoding_find(context));
    const weft_status status = weft_update(&weight, &value, 1);
    weft_scope_close(NULL);
    return status;
}

/* A tied model of one small layer with the requested head, and dropout in front of the adapters. */
static weft_model *make(const head *h, int64_t E, double dropout)
{
    static const char *const targets[] = {"q_proj", "lm_head"};
    char text[600];
    snprintf(text, sizeof text,
             "{\"model_type\": \"qwen3\", \"hidden_size\": %lld, \"intermediate_size\": 32, "
             "\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, "
             "\"head_dim\": 32, \"vocab_size\": %d, \"rms_norm_eps\": 1e-6, "
             "\"max_position_embeddings\": 4096, \"tie_word_embeddings\": true}",
             (long long)E, V);
    weft_config *config = NULL;
    weft_model *model = NULL;
    const weft_nn_lora_options lora = {
        .targets = targets, .n_targets = h->adapted ? 2 : 1, .dora = h->dora, .dropout = dropout};
    weft_random_seed(5);
    bool ok = CHECK_OK(weft_config_parse(text, "head", &config)) &&
              CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    weft_module *tree = ok ? weft_model_module(model) : NULL;
    ok = ok && CHECK_OK(weft_nn_eval(tree));
    if (ok && h->encoding)
        ok = CHECK_OK(weft_nn_visit_modules(tree, encode, (void *)h->encoding));
    ok = ok && CHECK_OK(weft_nn_lora_inject(tree, &lora));
    if (ok && h->trained)
        weft_nn_unfreeze(weft_nn_find_module(tree, "model.embed_tokens"));
    return ok ? model : NULL;
}

typedef enum what { HIDDEN, LOSS, ALL_LOGITS } what;

typedef struct task {
    weft_model *model;
    weft_batch batch;
    what what;
} task;

/* HIDDEN: hidden states without a head. ALL_LOGITS: the loss by its definition. */
static weft_array *value_of(void *context)
{
    task *t = context;
    if (t->what == LOSS)
        return weft_next_token_loss(t->model, &t->batch, 1e-2, false);
    weft_scope_open();
    weft_array *y = weft_model_hidden(t->model, t->batch.tokens, NULL);
    if (t->what == HIDDEN)
        return weft_scope_close(weft_sum(weft_square(y), WEFT_ALL_AXES, false));
    y = weft_cross_entropy_rows(weft_model_head(t->model, y), t->batch.targets);
    return weft_scope_close(weft_scale(weft_sum(y, WEFT_ALL_AXES, false), 1e-2));
}

/* The value and the norms of the gradients, one for each slot; returns the peak bytes beyond those
 * before. */
static int64_t take(task *t, what part, const weft_nn_slots *slots, double *out)
{
    weft_array **results = calloc((size_t)slots->n + 1, sizeof *results);
    t->what = part;
    weft_memory_clear_cache();
    weft_memory_reset_peak();
    const int64_t before = weft_memory_active();
    weft_scope_open_lean();
    results[0] = weft_value_and_grad_slots(value_of, t, slots->slots, slots->n, results + 1);
    for (int i = 1; i <= slots->n; i++)
        results[i] = weft_sum(weft_square(results[i]), WEFT_ALL_AXES, false);
    CHECK_OK(weft_eval_n(results, slots->n + 1));
    for (int i = 0; i <= slots->n && out; i++)
        out[i] = weft_item(results[i]);
    weft_scope_close(NULL);
    free(results);
    return weft_memory_peak() - before;
}

static void check_head(const head *h, int64_t rows, int64_t length, int64_t E)
{
    double loss[8] = {0}, expected[8] = {0};
    weft_nn_slots slots = {.n = 0};
    task t = {.model = make(h, E, 0)};
    if (!t.model)
        return;
    weft_scope_open();
    const weft_dims shape = WEFT_DIMS(rows, length);
    t.batch.tokens = weft_random_randint(NULL, shape, 0, V, WEFT_INT32);
    t.batch.targets = weft_random_randint(NULL, shape, 0, V, WEFT_INT32);
    CHECK_OK(weft_eval(t.batch.tokens));
    CHECK_OK(weft_eval(t.batch.targets));
    CHECK_OK(weft_nn_trainable(weft_model_module(t.model), &slots));
    if (CHECK(slots.n < 8)) {
        const int64_t without = take(&t, HIDDEN, &slots, NULL);
        const int64_t weight = h->trained ? V * E * 4 : 0; /* its gradient */
        const int64_t extra = take(&t, LOSS, &slots, loss) - without - weight;
        if (getenv("WEFT_TEST_VERBOSE"))
            printf("%s: %.1f MB\n", h->name, 1e-6 * (double)extra);
        /* With DoRA also the logits before they are scaled. Other devices merge fewer ops. */
        const bool on_cpu = weft_default_device() == weft_device_get("cpu");
        const int chunks = 4 + h->dora + !on_cpu;
        const int64_t bound = is_full() ? 300000000 : chunks * CHUNK_ROWS * V * 4;
        if (!CHECK(extra < bound))
            CHECK_FAIL("%s: %lld bytes", h->name, (long long)extra);
        if (!is_full()) {
            take(&t, ALL_LOGITS, &slots, expected);
            for (int i = 0; i <= slots.n; i++)
                if (!CHECK_RELATIVE(loss[i], expected[i], 1e-5))
                    CHECK_FAIL("%s: result %d", h->name, i);
        }
    }
    weft_nn_slots_free(&slots);
    weft_scope_close(NULL);
    weft_model_free(t.model);
}

static void no_head_holds_all_logits(void)
{
    if (check_in_software() && !check_exhaustive()) {
        check_skip("products with so many words take minutes in software");
        return;
    }
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const char *wanted = getenv("WEFT_TEST_HEADS");
        if (wanted && strcmp(wanted, "all") != 0 && strcmp(wanted, heads[i].name) != 0)
            continue;
        if (is_full())
            check_head(&heads[i], 4, 2048, 1024);
        else
            check_head(&heads[i], 2, LENGTH, 256);
    }
}

/* Rows of ROW tokens: together in two chunks of logits, apart in one each. The head's dropout is
 * the same, and so are loss and gradient. */
static void dropout_does_not_depend_on_chunks(void)
{
    enum { ROWS = 3 };
    static const head adapted = {"adapted", NULL, false, true, false};
    if (check_in_software() && !check_exhaustive()) {
        check_skip("products with so many words take minutes in software");
        return;
    }
    weft_train_report reports[3][2] = {{{0}}};
    for (int k = 0; k < 3; k++) { /* whole, a row at a time, without dropout */
        weft_model *model = make(&adapted, 64, k < 2 ? 0.5 : 0);
        weft_trainer *trainer = NULL;
        weft_batch batch = {.n_tokens = ROWS * ROW, .n_targets = ROWS * ROW};
        const weft_trainer_options o = {.lr = 0.1, .micro_batch = k == 1 ? 1 : -1};
        weft_scope_open();
        weft_random_seed(8);
        batch.tokens = weft_random_randint(NULL, WEFT_DIMS(ROWS, ROW), 0, V, WEFT_INT32);
        batch.targets = weft_random_randint(NULL, WEFT_DIMS(ROWS, ROW), 0, V, WEFT_INT32);
        if (model && CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
            for (int s = 0; s < 2; s++)
                CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &reports[k][s]));
        }
        weft_trainer_free(trainer);
        weft_scope_close(NULL);
        weft_model_free(model);
    }
    for (int s = 0; s < 2; s++) {
        CHECK_RELATIVE(reports[1][s].loss, reports[0][s].loss, 1e-6);
        CHECK_RELATIVE(reports[1][s].grad_norm, reports[0][s].grad_norm, 1e-5);
    }
    CHECK(fabs(reports[2][1].grad_norm / reports[0][1].grad_norm - 1) > 1e-3);
}

CHECK_MAIN("head_memory", CHECK_CASE(no_head_holds_all_logits),
           CHECK_CASE(dropout_does_not_depend_on_chunks))
