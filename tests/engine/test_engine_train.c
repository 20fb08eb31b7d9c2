/* tests/engine/test_engine_train.c -- weft_engine_train against the trainer that it wraps: results
 * after training, files, refused input, and concurrent calls. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/weft.h"

enum { STEPS = 3, TOKENS = 12 };

static const char *story(void)
{
    return check_source("examples/storyteller");
}

/* Rows that end in another token than the model's end token. */
static const char *data(void)
{
    static char path[600];
    static const char text[] =
        "{\"prompt\": \"Once upon a\", \"completion\": \" train to Rome.\"}\n"
        "{\"prompt\": \"The king\", \"completion\": \" had a train.\"}\n"
        "{\"prompt\": \"Once upon\", \"completion\": \" a train.\"}\n";
    snprintf(path, sizeof path, "%s", check_temporary("rows.jsonl"));
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    return path;
}

static weft_engine *open_engine(const weft_engine_options *options)
{
    weft_engine *engine = NULL;
    CHECK_OK(weft_engine_load(story(), options, &engine));
    return engine;
}

static weft_engine_train_options short_run(void)
{
    return (weft_engine_train_options){.data = data(),
                                       .batch_size = 2,
                                       .lora.rank = 4,
                                       .trainer = {.steps = STEPS, .lr = 5e-3, .seed = 7}};
}

typedef struct generated {
    int32_t ids[TOKENS];
    double logprobs[TOKENS];
    int n;
} generated;

static bool keep(void *context, const weft_generated *token)
{
    generated *g = context;
    if (token->id >= 0 && g->n < TOKENS) {
        g->logprobs[g->n] = token->logprob;
        g->ids[g->n++] = token->id;
    }
    return true;
}

static const weft_generate_options greedy = {
    .max_tokens = TOKENS, .ignore_eos = true, .logprobs = true};
static const weft_engine_request once = {.prompt = "Once upon a", .options = &greedy};

static generated generate(weft_engine *engine)
{
    generated g = {.n = 0};
    CHECK_OK(weft_engine_generate(engine, &once, keep, &g));
    CHECK_EQ_INT(g.n, TOKENS);
    return g;
}

static bool same(const generated *a, const generated *b)
{
    return memcmp(a->ids, b->ids, sizeof a->ids) == 0 &&
           memcmp(a->logprobs, b->logprobs, sizeof a->logprobs) == 0;
}

/* ---- results -------------------------------------------------------------------------------- */

/* The same twice by the calls that it wraps; the result of each, and the text after it. */
static void by_hand(weft_train_result results[2], generated texts[2])
{
    static const char *const targets[] = {WEFT_LORA_ALL_LINEAR};
    const weft_nn_lora_options lora = {.rank = 4, .targets = targets, .n_targets = 1};
    const weft_engine_train_options o = short_run();
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_dataset *rows = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (!CHECK_OK(weft_model_load(story(), NULL, &model)) ||
        !CHECK_OK(weft_tokenizer_load(story(), &tokenizer)))
        return;
    weft_random_seed(o.trainer.seed);
    if (!CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &lora)) ||
        !CHECK_OK(weft_dataset_load(o.data, tokenizer, NULL, 0, &rows, NULL)))
        return;
    CHECK_OK(weft_tokenizer_encode(tokenizer, once.prompt, strlen(once.prompt),
                                   WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
    for (int i = 0; i < 2; i++) {
        weft_batches *batches = NULL;
        weft_trainer *trainer = NULL;
        CHECK_OK(weft_batches_new(rows, o.batch_size, o.trainer.seed, &batches));
        CHECK_OK(weft_trainer_new(model, &o.trainer, &trainer));
        CHECK_OK(weft_trainer_run(trainer, batches, NULL, &results[i]));
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        texts[i].n = 0;
        CHECK_OK(weft_generate(model, tokenizer, ids, n, &greedy, keep, &texts[i], NULL));
    }
    weft_free(ids);
    weft_dataset_free(rows);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
}

static void training_is_the_trainer_that_it_wraps(void)
{
    weft_train_result expected[2] = {{0}}, result;
    generated texts[2];
    char out[600];
    weft_engine *engine = open_engine(&(weft_engine_options){.prompt_cache_bytes = -1});
    if (engine == NULL)
        return;
    snprintf(out, sizeof out, "%s", check_temporary("adapter"));
    by_hand(expected, texts);
    generated before = generate(engine), after[2];
    weft_engine_train_options o = short_run();
    o.out = out;
    for (int i = 0; i < 2; i++) {
        o.lora.rank = 4 + i; /* unused by the second run, which continues with the adapter */
        if (!CHECK_OK(weft_engine_train(engine, &o, &result)))
            break;
        CHECK_EQ_INT(result.steps, STEPS);
        CHECK(result.loss == expected[i].loss && result.loss > 0);
        /* The prompt cache has the prompt from before, which would give another text. */
        after[i] = generate(engine);
        CHECK(same(&after[i], &texts[i]));
    }
    CHECK(!same(&before, &after[0]) && !same(&after[0], &after[1]));
    CHECK(expected[1].loss < expected[0].loss);
    weft_engine_free(engine);
    /* The saved adapter is the one that the engine uses. */
    engine = open_engine(&(weft_engine_options){.adapter = out});
    if (engine == NULL)
        return;
    after[0] = generate(engine);
    CHECK(same(&after[0], &after[1]));
    /* A loaded adapter is trained further. */
    CHECK_OK(weft_engine_train(engine, &o, &result));
    CHECK(result.loss < expected[1].loss);
    weft_engine_free(engine);
}

/* The text of an engine that was loaded with the adapters. */
static generated loaded_with(const char *adapters)
{
    weft_engine *engine = open_engine(&(weft_engine_options){.adapter = adapters});
    generated g = {.n = 0};
    if (engine != NULL)
        g = generate(engine);
    weft_engine_free(engine);
    return g;
}

/* An engine that changes adapters computes as one that was loaded with them. */
static void adapters_are_replaced(void)
{
    char out[600], twice[1300];
    weft_engine *engine = open_engine(&(weft_engine_options){.prompt_cache_bytes = -1});
    weft_train_result result;
    if (engine == NULL)
        return;
    snprintf(out, sizeof out, "%s", check_temporary("replaced"));
    snprintf(twice, sizeof twice, "%s:0.5,%s:0.25", out, out);
    weft_engine_train_options o = short_run();
    o.out = out;
    const generated before = generate(engine);
    if (!CHECK_OK(weft_engine_train(engine, &o, &result)))
        return;
    const double loss = result.loss;
    const generated trained = generate(engine), some = loaded_with(twice);
    const char *const order[] = {NULL, out, twice, out, NULL, twice};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        CHECK_OK(weft_engine_adapt(engine, order[i]));
        const generated g = generate(engine);
        CHECK(same(&g, order[i] == NULL ? &before : order[i] == out ? &trained : &some));
    }
    CHECK(!same(&before, &trained) && !same(&before, &some) && !same(&trained, &some));
    CHECK_OK(weft_engine_adapt(engine, out));
    CHECK_STATUS(weft_engine_adapt(engine, "/no/such/adapter"), WEFT_IO);
    CHECK_CONTAINS(weft_engine_error(engine), "/no/such/adapter");
    const generated kept = generate(engine);
    CHECK(same(&kept, &trained));
    /* An adapter that replaced another one is trained further. */
    CHECK_OK(weft_engine_train(engine, &o, &result));
    CHECK(result.loss < loss);
    weft_engine_close(engine);
    CHECK_STATUS(weft_engine_adapt(engine, NULL), WEFT_CANCELLED);
    weft_engine_free(engine);
}

static void preferences_and_validation_are_trained_too(void)
{
    static const char pairs[] = "{\"prompt\": \"Once upon a\", \"chosen\": \" train\", "
                                "\"rejected\": \" time\"}\n"
                                "{\"prompt\": \"The king\", \"chosen\": \" ran\", "
                                "\"rejected\": \" said\"}\n";
    weft_engine *engine = open_engine(NULL);
    weft_train_result result;
    char path[600], folder[600];
    static const char *const files[] = {"run.json", "last/adapter_config.json"};
    if (engine == NULL)
        return;
    snprintf(path, sizeof path, "%s", check_temporary("pairs.jsonl"));
    snprintf(folder, sizeof folder, "%s", check_temporary("run"));
    CHECK_OK(weft_file_write(path, pairs, strlen(pairs)));
    weft_engine_train_options o = short_run();
    o.data = o.validation = path;
    o.trainer.objective = &weft_objective_dpo;
    o.trainer.folder = folder;
    if (CHECK_OK(weft_engine_train(engine, &o, &result))) {
        CHECK_CLOSE(result.first_validation, 0.6931471805599453, 1e-6); /* log 2: no difference */
        CHECK(result.last_validation < result.first_validation);
    }
    for (int i = 0; i < 2; i++) {
        char name[700], *text = NULL;
        snprintf(name, sizeof name, "%s/%s", folder, files[i]);
        CHECK_OK(weft_file_read(name, 0, &text, NULL));
        weft_free(text);
    }
    weft_engine_free(engine);
}

/* ---- refused input -------------------------------------------------------------------------- */

static weft_status load_nothing(const char *path, const weft_engine_options *options, void **state)
{
    static int it;
    (void)path, (void)options;
    *state = &it;
    return WEFT_OK;
}

static void unload_nothing(void *state)
{
    (void)state;
}

static void no_info(void *state, weft_engine_info *out)
{
    (void)state, (void)out;
}

static void expect(weft_engine *engine, const weft_engine_train_options *o, weft_status status,
                   const char *part)
{
    weft_train_result result;
    CHECK_STATUS(weft_engine_train(engine, o, &result), status);
    CHECK_CONTAINS(weft_error_message(), part);
    CHECK_CONTAINS(weft_engine_error(engine), part);
    CHECK_EQ_INT(result.steps, 0);
}

static void failures_leave_the_model_as_it_was(void)
{
    static const weft_engine_backend other = {
        .name = "other", .load = load_nothing, .unload = unload_nothing, .info = no_info};
    static const char *const nowhere[] = {"nowhere_proj"};
    weft_engine *engine = open_engine(NULL), *none = NULL;
    if (engine == NULL)
        return;
    const generated before = generate(engine);
    weft_engine_train_options o = short_run();
    o.data = NULL;
    expect(engine, &o, WEFT_INVALID, "expected data");
    o.data = "/no/such/data.jsonl";
    expect(engine, &o, WEFT_IO, "/no/such/data.jsonl");
    o = short_run();
    o.lora.targets = nowhere;
    o.lora.n_targets = 1;
    expect(engine, &o, WEFT_INVALID, "nowhere_proj");
    o = short_run();
    o.trainer.lr = -1;
    expect(engine, &o, WEFT_INVALID, "learning_rate");
    o = short_run();
    o.trainer.folder = o.data; /* which is a file */
    expect(engine, &o, WEFT_IO, "rows.jsonl");
    const generated after = generate(engine);
    CHECK(same(&before, &after));
    /* And now it works. */
    o = short_run();
    CHECK_OK(weft_engine_train(engine, &o, NULL));
    weft_engine_close(engine);
    expect(engine, &o, WEFT_CANCELLED, "closed");
    weft_engine_free(engine);
    CHECK_OK(weft_engine_register(&other));
    if (CHECK_OK(weft_engine_load("x", &(weft_engine_options){.backend = "other"}, &none))) {
        expect(none, &o, WEFT_UNSUPPORTED, "the backend 'other' cannot train");
        CHECK_STATUS(weft_engine_adapt(none, "x"), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "the backend 'other' cannot replace adapters");
    }
    weft_engine_free(none);
    if (CHECK_OK(weft_engine_load(check_fixture("models/mlx-qwen3"), NULL, &none)))
        expect(none, &o, WEFT_UNSUPPORTED, "no tokenizer");
    weft_engine_free(none);
}

/* ---- stopping ------------------------------------------------------------------------------- */

typedef struct stopping {
    weft_engine *engine; /* to be cancelled at the second update; NULL: false is returned */
    int reports;
} stopping;

static bool stop_at_the_second(void *context, const weft_train_report *report)
{
    stopping *s = context;
    s->reports++;
    if (report->step == 2 && s->engine != NULL)
        weft_engine_cancel(s->engine);
    return report->step < 2 || s->engine != NULL;
}

static void runs_that_are_stopped_keep_the_adapter(void)
{
    for (int i = 0; i < 2; i++) {
        weft_engine *engine = open_engine(NULL);
        char out[600];
        weft_train_result result;
        if (engine == NULL)
            return;
        snprintf(out, sizeof out, "%s-%d", check_temporary("stopped"), i);
        stopping s = {.engine = i == 0 ? NULL : engine};
        weft_engine_train_options o = short_run();
        o.out = out;
        o.trainer.steps = 50;
        o.trainer.callback = stop_at_the_second;
        o.trainer.context = &s;
        CHECK_STATUS(weft_engine_train(engine, &o, &result), WEFT_CANCELLED);
        CHECK_EQ_INT(result.steps, 2);
        const generated here = generate(engine);
        weft_engine_free(engine);
        engine = open_engine(&(weft_engine_options){.adapter = out});
        if (engine == NULL)
            return;
        const generated there = generate(engine);
        CHECK(same(&here, &there));
        /* A run that is cancelled before its turn fails. */
        weft_cancel *cancel = weft_cancel_new();
        weft_cancel_set(cancel);
        o.trainer.cancel = cancel;
        expect(engine, &o, WEFT_CANCELLED, "cancelled before its turn");
        weft_cancel_free(cancel);
        weft_engine_free(engine);
    }
}

/* ---- exclusive use of the model ------------------------------------------------------------- */

typedef struct beside {
    weft_engine *engine;
    pthread_t thread;
    bool started;
    atomic_bool ended;
    generated text;
} beside;

static void *generate_beside(void *context)
{
    beside *b = context;
    b->text = generate(b->engine);
    b->ended = true;
    return NULL;
}

/* Another thread generates after the first update; generating in this thread is refused. */
static bool ask_meanwhile(void *context, const weft_train_report *report)
{
    beside *b = context;
    if (report->step == 1) {
        CHECK_STATUS(weft_engine_generate(b->engine, &once, NULL, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "training computes alone");
        b->started = pthread_create(&b->thread, NULL, generate_beside, b) == 0;
    }
    return !b->ended;
}

static void training_computes_alone(void)
{
    const weft_engine_options two = {.max_concurrent = 2};
    weft_engine *engine = open_engine(&two);
    weft_engine_stream *stream = NULL;
    weft_generated token;
    bool more = false;
    if (engine == NULL)
        return;
    weft_engine_train_options o = short_run();
    CHECK_OK(weft_engine_stream_new(engine, &once, &stream));
    CHECK_OK(weft_engine_stream_next(stream, &token, &more));
    expect(engine, &o, WEFT_INVALID,
           "this thread has a call under way, and training computes alone");
    weft_engine_stream_free(stream);
    beside b = {.engine = engine};
    o.trainer.steps = 8;
    o.trainer.callback = ask_meanwhile;
    o.trainer.context = &b;
    CHECK_OK(weft_engine_train(engine, &o, NULL));
    if (CHECK(b.started))
        pthread_join(b.thread, NULL);
    CHECK(b.ended);
    const generated after = generate(engine);
    CHECK(same(&b.text, &after));
    weft_engine_free(engine);
}

CHECK_MAIN("engine_train", CHECK_CASE(training_is_the_trainer_that_it_wraps),
           CHECK_CASE(adapters_are_replaced),
           CHECK_CASE(preferences_and_validation_are_trained_too),
           CHECK_CASE(failures_leave_the_model_as_it_was),
           CHECK_CASE(runs_that_are_stopped_keep_the_adapter), CHECK_CASE(training_computes_alone))
