/* tests/core/test_streams.c -- streams: overlapping, waiting, where errors are reported, and eight
 * threads that share arrays, streams and compiled functions. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/stream.h"

/* ---- a slow op that counts how many of it run at the same time ------------------------------ */

enum { NAP_MS = 150 };

static atomic_int asleep, most_asleep, awaited;

static void nap(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static bool same_spec(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    const weft_array *x = weft_node_input(node, 0);
    *out = (weft_spec){.dtype = weft_dtype_of(x), .shape = weft_shape(x)};
    return true;
}

/* The next slow ops end once this many have run at the same time. 0: each ends after a while. */
static void await_asleep(int n)
{
    atomic_store(&most_asleep, 0);
    atomic_store(&awaited, n);
}

static void expect_asleep(int n)
{
    CHECK_EQ_INT(atomic_load(&most_asleep), n);
    await_asleep(0);
}

/* y = x + 1, slowly. */
static weft_status sleep_reference(const weft_call *call)
{
    int now = atomic_fetch_add(&asleep, 1) + 1, most = atomic_load(&most_asleep);
    while (now > most && !atomic_compare_exchange_weak(&most_asleep, &most, now)) {
    }
    if (atomic_load(&awaited) == 0)
        nap(NAP_MS);
    for (int i = 0; i < 60000 && atomic_load(&most_asleep) < atomic_load(&awaited); i++)
        nap(1);
    for (int64_t i = 0; i < weft_tensor_size(&call->in[0]); i++) {
        weft_tensor_set(&call->out[0], i, weft_tensor_get(&call->in[0], i) + 1);
    }
    atomic_fetch_sub(&asleep, 1);
    return WEFT_OK;
}

static weft_status failing_reference(const weft_call *call)
{
    (void)call;
    return weft_fail(WEFT_INVALID, "no luck");
}

static const weft_op sleep_op = {
    .name = "test_sleep",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = same_spec,
    .reference = sleep_reference,
};

static const weft_op failing_op = {
    .name = "test_failing",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .infer = same_spec,
    .reference = failing_reference,
};

static weft_array *slow(weft_array *x)
{
    return weft_apply(&sleep_op, &x, 1, NULL);
}

static weft_array *failing(weft_array *x)
{
    return weft_apply(&failing_op, &x, 1, NULL);
}

static weft_array *full(double value)
{
    weft_array *x = weft_full(WEFT_DIMS(64), value, WEFT_FLOAT32);
    CHECK_OK(weft_eval(x));
    return x;
}

static double sum_of(weft_array *x)
{
    return weft_item(weft_sum(x, WEFT_ALL_AXES, false));
}

/* ---- what overlaps -------------------------------------------------------------------------- */

static void two_streams_run_at_the_same_time(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL), *t = weft_stream_new(NULL);
    weft_array *x = full(1); /* both read it */
    await_asleep(2);
    weft_array *a = slow(x), *b = slow(weft_scale(x, 2));
    CHECK_OK(weft_eval_on(s, &a, 1));
    CHECK_OK(weft_eval_on(t, &b, 1));
    CHECK_OK(weft_stream_synchronize(s));
    CHECK_OK(weft_stream_synchronize(t));
    expect_asleep(2);
    CHECK_CLOSE(sum_of(a), 2 * 64, 0);
    CHECK_CLOSE(sum_of(b), 3 * 64, 0);
    weft_stream_free(s);
    weft_stream_free(t);
    weft_scope_close(NULL);
}

static void a_waiting_thread_runs_beside_a_stream(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL);
    weft_array *x = full(1), *a = slow(x), *b = slow(weft_scale(x, 2));
    await_asleep(2);
    CHECK_OK(weft_eval_on(s, &a, 1));
    CHECK_OK(weft_eval(b)); /* does not wait for the stream */
    expect_asleep(2);
    CHECK_OK(weft_eval(a)); /* waits */
    CHECK_CLOSE(sum_of(weft_add(a, b)), 5 * 64, 0);
    weft_stream_free(s);
    weft_scope_close(NULL);
}

/* Memory that one stream has released but still uses is not reused by another. */
static void a_stream_does_not_wait_for_anothers_memory(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL), *t = weft_stream_new(NULL);
    weft_array *x = full(1);
    await_asleep(2);
    weft_array *a = weft_scale(slow(weft_scale(x, 3)), 2); /* with two temporaries */
    weft_array *b = weft_scale(slow(weft_scale(x, 5)), 2);
    CHECK_OK(weft_eval_on(s, &a, 1));
    CHECK_OK(weft_eval_on(t, &b, 1));
    CHECK_CLOSE(sum_of(a), 8 * 64, 0);
    CHECK_CLOSE(sum_of(b), 12 * 64, 0);
    expect_asleep(2);
    weft_stream_free(s);
    weft_stream_free(t);
    weft_scope_close(NULL);
}

/* ---- what waits ----------------------------------------------------------------------------- */

static void dependent_plans_wait_across_streams(void)
{
    weft_scope_open();
    weft_stream *streams[3];
    for (int i = 0; i < 3; i++) {
        streams[i] = weft_stream_new(weft_default_device());
        CHECK(weft_stream_device(streams[i]) == weft_default_device());
    }
    weft_array *x = slow(full(0)), *held = weft_keep(x);
    CHECK_OK(weft_eval_on(streams[0], &x, 1));
    double expected = 64;
    for (int i = 1; i < 60; i++) {
        x = weft_add(weft_scale(x, 0.5), held);
        expected = 0.5 * expected + 64;
        CHECK_OK(weft_eval_on(streams[i % 3], &x, 1));
    }
    CHECK_CLOSE(sum_of(x), expected, 1e-4);
    weft_drop(held);
    for (int i = 0; i < 3; i++) {
        weft_stream_free(streams[i]);
    }
    weft_scope_close(NULL);
}

/* The reader on one stream is slow; the next work of the other overwrites its input. */
static void memory_is_not_overwritten_under_a_reader(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL), *t = weft_stream_new(NULL);
    weft_array *slot = NULL, **slots[] = {&slot};
    CHECK_OK(weft_set(&slot, full(1)));
    weft_array *read = slow(slot);
    CHECK_OK(weft_eval_on(s, &read, 1));
    weft_array *next = weft_add_scalar(slot, 41);
    CHECK_OK(weft_update(slots, &next, 1));
    weft_array *later = weft_scale(slot, 2);
    CHECK_OK(weft_eval_on(t, &later, 1));
    CHECK_CLOSE(sum_of(read), 2 * 64, 0);
    CHECK_CLOSE(sum_of(later), 84 * 64, 0);
    CHECK_OK(weft_set(&slot, NULL));
    weft_stream_free(s);
    weft_stream_free(t);
    weft_scope_close(NULL);
}

static void freeing_a_stream_finishes_its_work(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL);
    weft_set_default_stream(s);
    CHECK(weft_default_stream() == s);
    weft_array *x = slow(full(1));
    CHECK_OK(weft_eval_async(&x, 1));
    weft_stream_free(s);
    CHECK(weft_default_stream() != s);
    CHECK_EQ_INT(atomic_load(&asleep), 0);
    CHECK_CLOSE(sum_of(x), 2 * 64, 0);
    weft_stream_free(NULL);
    weft_scope_close(NULL);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void errors_arrive_at_the_wait(void)
{
    weft_scope_open();
    weft_stream *s = weft_stream_new(NULL), *t = weft_stream_new(NULL);
    weft_array *x = full(1), *bad = failing(x), *good = weft_scale(x, 2);
    CHECK_OK(weft_eval_on(s, &bad, 1));
    CHECK_OK(weft_eval_on(t, &good, 1));
    CHECK_OK(weft_stream_synchronize(t)); /* not its own */
    CHECK_STATUS(weft_stream_synchronize(s), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no luck");
    CHECK_OK(weft_stream_synchronize(s)); /* reported once */
    CHECK(weft_eval(bad) != WEFT_OK);     /* reading the array reports it again */
    CHECK_CONTAINS(weft_error_message(), "no luck");
    weft_array *depends = weft_add_scalar(bad, 1);
    CHECK_OK(weft_eval_on(t, &depends, 1));
    CHECK(weft_stream_synchronize(t) != WEFT_OK); /* and so does its user */
    CHECK_CONTAINS(weft_error_message(), "no luck");
    CHECK_CLOSE(sum_of(good), 2 * 64, 0);
    weft_stream_free(s);
    weft_stream_free(t);
    CHECK_OK(weft_synchronize(weft_default_device()));
    weft_scope_close(NULL);
}

/* ---- eight threads -------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 40, STREAMS = 3 };

static weft_array *common;
static weft_array *given[THREADS]; /* each thread's latest, for all to read */
static pthread_mutex_t giving = PTHREAD_MUTEX_INITIALIZER;
static weft_stream *all_streams[STREAMS];
static atomic_int wrong;

static int doubled(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_add(weft_scale(in[0], 2), in[1]);
    return 1;
}

/* Takes what another thread has computed, or is about to. */
static weft_array *take_from(int id)
{
    pthread_mutex_lock(&giving);
    weft_array *a = weft_keep(given[id]);
    pthread_mutex_unlock(&giving);
    return a;
}

static void give(int id, weft_array *a)
{
    pthread_mutex_lock(&giving);
    weft_array *old = given[id];
    given[id] = weft_keep(a);
    pthread_mutex_unlock(&giving);
    weft_drop(old);
}

/* `x` is 64 (11 + id); evaluated in one of three ways, handed to the others, doubled. */
static bool one_round(int id, int round, weft_compiled *compiled)
{
    weft_array *x = weft_add_scalar(common, id);
    for (int i = 0; i < 10; i++) {
        x = weft_add(x, common);
    }
    weft_status status = round % 3 == 0 ? weft_eval(x)
                         : round % 3 == 1
                             ? weft_eval_async(&x, 1)
                             : weft_eval_on(all_streams[(id + round) % STREAMS], &x, 1);
    bool ok = status == WEFT_OK;
    give(id, x);
    int other = (id + round) % THREADS;
    weft_array *theirs = take_from(other), *out = NULL;
    weft_array *mixed = weft_add(x, theirs);
    ok = ok && sum_of(mixed) == 64.0 * (22 + id + other);
    ok = ok && weft_compiled_call(compiled, (weft_array *[]){x, theirs}, 2, &out, 1) == WEFT_OK;
    ok = ok && sum_of(out) == 64.0 * (3 * 11 + 2 * id + other);
    weft_drop(theirs);
    return ok;
}

static void *work(void *argument)
{
    int id = *(int *)argument;
    weft_compiled *compiled = NULL;
    weft_compile_options options = {.async = id % 2 == 0};
    weft_stream *own = weft_stream_new(NULL);
    weft_set_default_stream(id < THREADS / 2 ? own : NULL);
    bool ok = weft_compile(doubled, NULL, NULL, 0, &options, &compiled) == WEFT_OK;
    for (int round = 0; round < ROUNDS && ok; round++) {
        weft_scope_open();
        ok = one_round(id, round, compiled);
        weft_scope_close(NULL);
    }
    atomic_fetch_add(&wrong, !ok);
    weft_compiled_free(compiled);
    weft_stream_free(own);
    return NULL;
}

static void eight_threads_share_arrays_and_streams(void)
{
    pthread_t threads[THREADS];
    int ids[THREADS];
    weft_scope_open();
    common = weft_keep(full(1));
    for (int i = 0; i < STREAMS; i++) {
        all_streams[i] = weft_stream_new(NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        weft_array *first = full(11 + i);
        given[i] = weft_keep(first);
    }
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, work, &ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        weft_drop(given[i]);
    }
    for (int i = 0; i < STREAMS; i++) {
        CHECK_OK(weft_stream_synchronize(all_streams[i]));
        weft_stream_free(all_streams[i]);
    }
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    weft_drop(common);
    weft_scope_close(NULL);
}

CHECK_MAIN("streams", CHECK_CASE(two_streams_run_at_the_same_time),
           CHECK_CASE(a_waiting_thread_runs_beside_a_stream),
           CHECK_CASE(a_stream_does_not_wait_for_anothers_memory),
           CHECK_CASE(dependent_plans_wait_across_streams),
           CHECK_CASE(memory_is_not_overwritten_under_a_reader),
           CHECK_CASE(freeing_a_stream_finishes_its_work), CHECK_CASE(errors_arrive_at_the_wait),
           CHECK_CASE(eight_threads_share_arrays_and_streams))
