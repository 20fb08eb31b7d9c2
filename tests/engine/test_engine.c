/* tests/engine/test_engine.c -- engines: which calls may compute at the same time, cancelling,
 * closing, streams, a program's own backend. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/engine/seen.h"
#include "weft/weft.h"

/* ---- a backend of this test ----------------------------------------------------------------- */

/* "counting" gives the ids 0, 1, ... and waits between them until it is cancelled or `gate` lets it
 * go on. */
static struct {
    atomic_int loaded, unloaded, at_once, most, calls;
    atomic_int gate; /* tokens that may be given; -1: any number */
} counting;

static weft_status counting_load(const char *path, const weft_engine_options *options, void **state)
{
    (void)options;
    if (strcmp(path, "nothing") == 0)
        return weft_fail(WEFT_IO, "counting: there is nothing");
    counting.loaded++;
    *state = &counting;
    return WEFT_OK;
}

static void counting_unload(void *state)
{
    CHECK(state == &counting);
    counting.unloaded++;
}

static void counting_info(void *state, weft_engine_info *out)
{
    (void)state;
    out->architecture = "abacus";
    out->context_length = 7;
}

static bool pass_gate(const weft_cancel *cancel)
{
    while (counting.gate == 0 && !weft_cancel_is_set(cancel))
        usleep(200);
    if (counting.gate > 0)
        counting.gate--;
    return !weft_cancel_is_set(cancel);
}

static weft_status counting_generate(void *state, const weft_engine_request *request,
                                     weft_generate_fn *callback, void *context,
                                     weft_generate_stats *stats)
{
    (void)state;
    int now = ++counting.at_once;
    if (now > counting.most)
        counting.most = now;
    counting.calls++;
    stats->reason = WEFT_FINISH_LENGTH;
    for (int i = 0; i < request->options->max_tokens; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%d ", i);
        const weft_generated token = {.id = i, .text = text, .length = (size_t)n};
        if (!pass_gate(request->options->cancel) || !callback(context, &token)) {
            stats->reason = WEFT_FINISH_CANCELLED;
            break;
        }
        stats->tokens++;
    }
    counting.at_once--;
    return request->no_special ? weft_fail(WEFT_DEVICE, "counting: no fingers left") : WEFT_OK;
}

/* Many texts at once, which end when they are cancelled. */
static weft_status counting_batch(void *state, const char *const *texts, size_t n,
                                  const weft_generate_options *options,
                                  const weft_generate_batch_options *batch,
                                  weft_generated_row *results)
{
    (void)state, (void)texts, (void)n, (void)options, (void)results;
    counting.at_once++;
    while (!weft_cancel_is_set(batch->cancel))
        usleep(200);
    counting.at_once--;
    return WEFT_OK;
}

static const weft_engine_backend counting_backend = {
    .name = "counting",
    .load = counting_load,
    .unload = counting_unload,
    .info = counting_info,
    .generate = counting_generate,
};

static const weft_engine_backend batching_backend = {
    .name = "batching",
    .load = counting_load,
    .unload = counting_unload,
    .info = counting_info,
    .generate = counting_generate,
    .batch = counting_batch,
};

static weft_engine *counting_engine(const weft_engine_options *options)
{
    weft_engine_options o = *options;
    weft_engine *engine = NULL;
    o.backend = "counting";
    if (weft_engine_backend_find("counting") == NULL)
        CHECK_OK(weft_engine_register(&counting_backend));
    counting.most = counting.calls = counting.loaded = counting.unloaded = 0;
    counting.gate = -1;
    CHECK_OK(weft_engine_load("here", &o, &engine));
    return engine;
}

static void backends_are_found_by_name(void)
{
    weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 1});
    CHECK_STR(weft_engine_backend_at(0)->name, "native");
    CHECK(weft_engine_backend_at(-1) == NULL && weft_engine_backend_at(1000) == NULL);
    CHECK(weft_engine_backend_find("nobody") == NULL);
    CHECK(weft_engine_backend_find("mlx_lm") == weft_engine_backend_find("mlx-lm"));
    CHECK(weft_engine_backend_find("native") == weft_engine_backend_at(0));
    CHECK_STATUS(weft_engine_register(&counting_backend), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "'counting' already");
    weft_engine_free(engine);
    CHECK_STATUS(weft_engine_load("x", &(weft_engine_options){.backend = "nobody"}, &engine),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "backend 'nobody' is unknown (known: native");
    CHECK(engine == NULL);
    CHECK_STATUS(
        weft_engine_load("nothing", &(weft_engine_options){.backend = "counting"}, &engine),
        WEFT_IO);
    CHECK_STATUS(weft_engine_load("x", &(weft_engine_options){.max_concurrent = -1}, &engine),
                 WEFT_INVALID);
    weft_engine_free(NULL);
}

static const weft_generate_options ten = {.max_tokens = 10};

static void calls_end_with_a_reason(void)
{
    weft_engine *engine = counting_engine(&(weft_engine_options){.context = 5});
    weft_engine_info info = weft_engine_info_of(engine);
    CHECK_STR(info.architecture, "abacus");
    CHECK_STR(info.backend, "counting");
    CHECK_EQ_INT(info.context_length, 5);
    seen all = {.n = 0};
    const weft_engine_request request = {.prompt = "x", .options = &ten};
    CHECK_OK(weft_engine_generate(engine, &request, look, &all));
    CHECK_STR(all.text, "0 1 2 3 4 5 6 7 8 9 ");
    CHECK_EQ_INT(weft_engine_metrics_of(engine).generated_tokens, 10);
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_LENGTH);
    seen some = {.stop_at = 4};
    CHECK_OK(weft_engine_generate(engine, &request, look, &some));
    CHECK_EQ_INT(some.n, 4);
    seen own = {.cancel = engine}; /* from its own callback */
    CHECK_OK(weft_engine_generate(engine, &request, look, &own));
    CHECK_EQ_INT(own.n, 3);
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_CANCELLED);
    weft_cancel *cancel = weft_cancel_new(); /* the caller's own */
    weft_cancel_set(cancel);
    seen none = {.n = 0};
    const weft_generate_options cancelled = {.max_tokens = 10, .cancel = cancel};
    CHECK_OK(
        weft_engine_generate(engine, &(weft_engine_request){.options = &cancelled}, look, &none));
    CHECK_EQ_INT(none.n, 0);
    weft_cancel_free(cancel);
    CHECK_STR(weft_engine_error(engine), "");
    CHECK_STATUS(weft_engine_generate(engine,
                                      &(weft_engine_request){.options = &ten, .no_special = true},
                                      NULL, NULL),
                 WEFT_DEVICE);
    CHECK_STR(weft_engine_error(engine), "counting: no fingers left");
    weft_engine_free(engine);
    CHECK_EQ_INT(counting.unloaded, 1);
}

static void calls_that_a_backend_lacks_are_refused(void)
{
    weft_engine *engine = counting_engine(&(weft_engine_options){.context = 5});
    int32_t *ids;
    size_t n;
    char *text;
    const char *const texts[] = {"a", "b"};
    weft_classified results[2];
    CHECK_STATUS(weft_engine_encode(engine, "x", 1, 0, &ids, &n), WEFT_UNSUPPORTED);
    CHECK(ids == NULL);
    CHECK_STATUS(weft_engine_decode(engine, NULL, 0, 0, &text, NULL), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "the backend 'counting' cannot decode");
    const weft_classify_options logits = {.logits = true};
    CHECK_STATUS(weft_engine_classify(engine, texts, 2, &logits, results), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_engine_error(engine), "the backend 'counting' cannot give logits");
    CHECK(results[1].status == WEFT_UNSUPPORTED && results[1].token == -1);
    /* Texts of one token instead. */
    counting.gate = -1;
    if (CHECK_OK(weft_engine_classify(engine, texts, 2, NULL, results))) {
        for (int i = 0; i < 2; i++) {
            CHECK_OK(results[i].status);
            CHECK_EQ_INT(results[i].token, 0);
            CHECK(results[i].logprob != results[i].logprob); /* NaN */
        }
    }
    weft_generated_row rows[2];
    CHECK_STATUS(weft_engine_batch(engine, texts, 2, NULL, NULL, rows), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_engine_error(engine), "cannot generate from many prompts together");
    CHECK(rows[1].status == WEFT_UNSUPPORTED);
    weft_engine_free(engine);
}

/* ---- several threads ------------------------------------------------------------------------ */

typedef struct caller {
    weft_engine *engine;
    weft_cancel *cancel; /* its own; NULL: none */
    seen seen;
    weft_status status;
    char message[200];
    pthread_t thread;
} caller;

static atomic_int ended; /* callers */

static void *call(void *context)
{
    caller *c = context;
    weft_generate_options options = ten;
    options.cancel = c->cancel;
    const weft_engine_request request = {.prompt = "x", .options = &options};
    c->status = weft_engine_generate(c->engine, &request, look, &c->seen);
    if (c->status != WEFT_OK)
        snprintf(c->message, sizeof c->message, "%s", weft_error_message());
    ended++;
    return NULL;
}

static void start(caller *callers, int n, weft_engine *engine)
{
    ended = 0;
    for (int i = 0; i < n; i++) {
        callers[i] = (caller){.engine = engine};
        CHECK(pthread_create(&callers[i].thread, NULL, call, &callers[i]) == 0);
    }
}

static void join(caller *callers, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(callers[i].thread, NULL);
}

static void wait_for(atomic_int *number, int value)
{
    for (int i = 0; i < 600000 && *number != value; i++)
        usleep(200);
    CHECK_EQ_INT(*number, value);
}

static void concurrent_calls_are_limited(void)
{
    caller callers[6];
    for (int most = 1; most <= 3; most++) {
        weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = most});
        counting.gate = 0;
        start(callers, 6, engine);
        wait_for(&counting.at_once, most);
        usleep(2000);
        CHECK_EQ_INT(counting.at_once, most);
        counting.gate = -1;
        join(callers, 6);
        CHECK_EQ_INT(counting.most, most);
        for (int i = 0; i < 6; i++)
            CHECK(callers[i].status == WEFT_OK && callers[i].seen.n == 10);
        weft_engine_free(engine);
    }
}

static void some_calls_do_not_wait(void)
{
    caller first[1];
    weft_engine *engine =
        counting_engine(&(weft_engine_options){.max_concurrent = 1, .no_wait = true});
    counting.gate = 0;
    start(first, 1, engine);
    wait_for(&counting.at_once, 1);
    const weft_engine_request request = {.options = &ten};
    CHECK_STATUS(weft_engine_generate(engine, &request, NULL, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "1 calls are under way, which is max_concurrent");
    counting.gate = -1;
    join(first, 1);
    CHECK_EQ_INT(first[0].seen.n, 10);
    CHECK_OK(weft_engine_generate(engine, &request, NULL, NULL));
    weft_engine_free(engine);
}

static void cancelling_ends_running_and_waiting_calls(void)
{
    caller callers[4];
    weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 1});
    counting.gate = 0;
    start(callers, 4, engine);
    wait_for(&counting.at_once, 1);
    while (ended < 4) { /* a call that starts later is not cancelled */
        weft_engine_cancel(engine);
        usleep(1000);
    }
    join(callers, 4);
    for (int i = 0; i < 4; i++)
        CHECK(callers[i].status == WEFT_OK && callers[i].seen.n == 0);
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_CANCELLED);
    counting.gate = -1; /* later calls are not */
    CHECK_OK(weft_engine_generate(engine, &(weft_engine_request){.options = &ten}, NULL, NULL));
    CHECK_EQ_INT(weft_engine_metrics_of(engine).generated_tokens, 10);
    weft_engine_free(engine);
}

static void closing_ends_all_calls_and_may_be_repeated(void)
{
    caller callers[3];
    weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 1});
    counting.gate = 0;
    start(callers, 3, engine);
    wait_for(&counting.at_once, 1);
    weft_engine_close(engine);
    weft_engine_close(engine);
    join(callers, 3);
    CHECK_EQ_INT(counting.unloaded, 1);
    for (int i = 0; i < 3; i++) /* the running call is cancelled, and the waiting ones fail */
        CHECK(callers[i].status == WEFT_OK || strstr(callers[i].message, "closed") != NULL);
    int32_t *ids;
    size_t n;
    CHECK_STATUS(weft_engine_encode(engine, "x", 1, 0, &ids, &n), WEFT_CANCELLED);
    CHECK_STATUS(weft_engine_generate(engine, &(weft_engine_request){.options = &ten}, NULL, NULL),
                 WEFT_CANCELLED);
    CHECK_CONTAINS(weft_error_message(), "engine: it is closed");
    weft_engine_close(engine);
    weft_engine_free(engine);
    CHECK_EQ_INT(counting.unloaded, 1);
}

/* Of two callers the second waits for its turn, and has a request to stop of its own. */
static void callers_stop_their_own_calls(void)
{
    caller callers[2] = {{0}};
    weft_cancel *cancel = weft_cancel_new();
    weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 1});
    counting.gate = 0;
    start(callers, 1, engine);
    wait_for(&counting.at_once, 1);
    callers[1] = (caller){.engine = engine, .cancel = cancel};
    CHECK(pthread_create(&callers[1].thread, NULL, call, &callers[1]) == 0);
    usleep(2000);
    weft_cancel_set(cancel);
    wait_for(&ended, 1);
    CHECK_EQ_INT(counting.at_once, 1); /* the first continues */
    counting.gate = -1;
    join(callers, 2);
    CHECK(callers[1].status == WEFT_OK && callers[1].seen.n == 0);
    CHECK(callers[0].status == WEFT_OK && callers[0].seen.n == 10);
    /* cancelling the engine stops a call that has its own request to stop, and does not set that */
    weft_cancel_clear(cancel);
    counting.gate = 0;
    ended = 0;
    callers[1] = (caller){.engine = engine, .cancel = cancel};
    CHECK(pthread_create(&callers[1].thread, NULL, call, &callers[1]) == 0);
    wait_for(&counting.at_once, 1);
    weft_engine_cancel(engine);
    wait_for(&ended, 1);
    weft_cancel_set(cancel);
    join(callers + 1, 1);
    CHECK(callers[1].status == WEFT_OK && callers[1].seen.n == 0);
    weft_engine_free(engine);
    weft_cancel_free(cancel);
}

typedef struct batch_caller {
    weft_engine *engine;
    weft_cancel *cancel;
    weft_status status;
} batch_caller;

static void *call_batch(void *context)
{
    batch_caller *c = context;
    const char *const texts[] = {"a"};
    weft_generated_row rows[1];
    c->status = weft_engine_batch(c->engine, texts, 1, NULL,
                                  &(weft_generate_batch_options){.cancel = c->cancel}, rows);
    ended++;
    return NULL;
}

static void batches_obey_both_requests_to_stop(void)
{
    weft_engine *engine;
    pthread_t thread;
    if (weft_engine_backend_find("batching") == NULL)
        CHECK_OK(weft_engine_register(&batching_backend));
    if (!CHECK_OK(weft_engine_load("x", &(weft_engine_options){.backend = "batching"}, &engine)))
        return;
    for (int i = 0; i < 2; i++) {
        batch_caller c = {.engine = engine, .cancel = weft_cancel_new()};
        ended = 0;
        CHECK(pthread_create(&thread, NULL, call_batch, &c) == 0);
        wait_for(&counting.at_once, 1);
        if (i == 0)
            weft_engine_cancel(engine);
        else
            weft_cancel_set(c.cancel);
        wait_for(&ended, 1);
        weft_cancel_set(c.cancel);
        pthread_join(thread, NULL);
        CHECK_OK(c.status);
        weft_cancel_free(c.cancel);
    }
    weft_engine_free(engine);
}

/* The sanitizers report a call that uses the engine after that. */
static void freeing_waits_for_calls_of_others(void)
{
    caller callers[3];
    for (int i = 0; i < 20; i++) {
        weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 3});
        counting.gate = 0;
        start(callers, 3, engine);
        wait_for(&counting.at_once, 3);
        weft_engine_free(engine);
        CHECK_EQ_INT(counting.at_once, 0);
        CHECK_EQ_INT(counting.unloaded, 1);
        join(callers, 3);
        for (int k = 0; k < 3; k++)
            CHECK(callers[k].status == WEFT_OK && callers[k].seen.n == 0);
    }
}

/* ---- streams -------------------------------------------------------------------------------- */

static void streams_return_tokens_on_demand(void)
{
    weft_engine *engine = counting_engine(&(weft_engine_options){.max_concurrent = 1});
    weft_engine_stream *stream, *second;
    weft_generated token;
    bool more;
    char prompt[] = "x";
    const weft_engine_request request = {.prompt = prompt, .options = &ten};
    if (!CHECK_OK(weft_engine_stream_new(engine, &request, &stream)))
        return;
    for (int i = 0; i < 10; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%d ", i);
        CHECK_OK(weft_engine_stream_next(stream, &token, &more));
        CHECK(more);
        CHECK_EQ_INT(token.id, i);
        CHECK_STR(token.text, expected);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_engine_stream_next(stream, &token, &more));
        CHECK(!more && token.id == -1);
    }
    weft_engine_stream_free(stream);
    /* While a stream is unfinished, other calls of its thread are refused: they would wait for it.
     */
    CHECK_OK(weft_engine_stream_new(engine, &request, &stream));
    CHECK_OK(weft_engine_stream_next(stream, &token, &more));
    CHECK_STATUS(weft_engine_generate(engine, &request, NULL, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "free its streams first");
    CHECK_OK(weft_engine_stream_new(engine, &request, &second));
    CHECK_STATUS(weft_engine_stream_next(second, &token, &more), WEFT_INVALID);
    weft_engine_stream_free(second);
    weft_engine_stream_free(stream);
    weft_engine_stream_free(NULL);
    CHECK_OK(weft_engine_generate(engine, &request, NULL, NULL));
    /* a failure is reported after the tokens */
    const weft_engine_request failing = {.options = &ten, .no_special = true};
    CHECK_OK(weft_engine_stream_new(engine, &failing, &stream));
    for (int i = 0; i < 10; i++)
        CHECK_OK(weft_engine_stream_next(stream, &token, &more));
    CHECK_STATUS(weft_engine_stream_next(stream, &token, &more), WEFT_DEVICE);
    CHECK_CONTAINS(weft_error_message(), "no fingers left");
    weft_engine_stream_free(stream);
    /* a stream keeps a closed engine's model until it ends */
    CHECK_OK(weft_engine_stream_new(engine, &request, &stream));
    CHECK_OK(weft_engine_stream_next(stream, &token, &more));
    weft_engine_close(engine);
    weft_engine_stream_free(stream);
    CHECK_EQ_INT(counting.unloaded, 1);
    weft_engine_free(engine);
}

static void threads_share_a_native_engine(void)
{
    caller callers[4];
    weft_engine *engine;
    if (!CHECK_OK(weft_engine_load(check_source("examples/storyteller"),
                                   &(weft_engine_options){.max_concurrent = 2}, &engine)))
        return;
    start(callers, 4, engine);
    join(callers, 4);
    for (int i = 0; i < 4; i++) {
        CHECK(callers[i].status == WEFT_OK && callers[i].seen.n == 10);
        CHECK(memcmp(callers[i].seen.ids, callers[0].seen.ids, sizeof callers[0].seen.ids) == 0);
    }
    weft_engine_free(engine);
}

CHECK_MAIN("engine", CHECK_CASE(backends_are_found_by_name), CHECK_CASE(calls_end_with_a_reason),
           CHECK_CASE(calls_that_a_backend_lacks_are_refused),
           CHECK_CASE(concurrent_calls_are_limited), CHECK_CASE(some_calls_do_not_wait),
           CHECK_CASE(cancelling_ends_running_and_waiting_calls),
           CHECK_CASE(closing_ends_all_calls_and_may_be_repeated),
           CHECK_CASE(callers_stop_their_own_calls), CHECK_CASE(batches_obey_both_requests_to_stop),
           CHECK_CASE(freeing_waits_for_calls_of_others),
           CHECK_CASE(streams_return_tokens_on_demand), CHECK_CASE(threads_share_a_native_engine))
