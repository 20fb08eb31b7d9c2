/* tests/vulkan/test_submissions.c -- submissions of a bounded amount of work: the same bits for
 * every bound, which follows the measured rates, and a submission that the driver drops is noticed;
 * a training run continues from its checkpoint afterwards. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "tests/check.h"
#include "tests/train/runs.h"
#include "weft/weft.h"

static weft_device *vulkan;
static weft__vulkan_device *internals;

static bool prepare(void)
{
    vulkan = weft_device_get("vulkan");
    if (!vulkan) {
        check_skip("%s", weft_error_message());
        return false;
    }
    internals = weft_device_state(vulkan);
    return true;
}

static weft_array *numbers(weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    weft_array *i = weft_arange_int(0, n, 1, WEFT_INT32);
    weft_array *x = weft_sin(weft_astype(i, WEFT_FLOAT32));
    return weft_astype(weft_reshape(x, shape), dtype);
}

/* ---- the same bits for every bound ---------------------------------------------------------- */

static weft_array *tiles(void)
{
    return weft_matmul(numbers(WEFT_DIMS(3, 130, 70), WEFT_FLOAT32),
                       numbers(WEFT_DIMS(3, 70, 150), WEFT_FLOAT32));
}

static weft_array *divided_terms(void)
{
    return weft_matmul(numbers(WEFT_DIMS(40, 3000), WEFT_FLOAT32),
                       numbers(WEFT_DIMS(3000, 50), WEFT_FLOAT32));
}

static weft_array *sixteen_bits(void)
{
    return weft_matmul(numbers(WEFT_DIMS(96, 128), WEFT_BFLOAT16),
                       numbers(WEFT_DIMS(128, 96), WEFT_BFLOAT16));
}

static weft_array *one_row(void)
{
    return weft_linear(numbers(WEFT_DIMS(1, 640), WEFT_FLOAT32),
                       numbers(WEFT_DIMS(900, 640), WEFT_FLOAT32), NULL);
}

static weft_array *rows_by_terms(void)
{
    return weft_matmul(numbers(WEFT_DIMS(2, 640), WEFT_FLOAT32),
                       numbers(WEFT_DIMS(640, 900), WEFT_FLOAT32));
}

static weft_array *attention(void)
{
    return weft_attention(numbers(WEFT_DIMS(2, 150, 4, 32), WEFT_FLOAT32),
                          numbers(WEFT_DIMS(2, 150, 2, 32), WEFT_FLOAT32),
                          numbers(WEFT_DIMS(2, 150, 2, 32), WEFT_FLOAT32),
                          &(weft_attention_options){.causal = true});
}

static weft_array *one_query(void)
{
    return weft_attention(numbers(WEFT_DIMS(2, 1, 8, 32), WEFT_FLOAT32),
                          numbers(WEFT_DIMS(2, 900, 4, 32), WEFT_FLOAT32),
                          numbers(WEFT_DIMS(2, 900, 4, 32), WEFT_FLOAT32), NULL);
}

static weft_array *convolution(void)
{
    return weft_conv2d(numbers(WEFT_DIMS(2, 20, 20, 8), WEFT_FLOAT32),
                       numbers(WEFT_DIMS(24, 3, 3, 8), WEFT_FLOAT32), WEFT_DIMS(1, 1),
                       WEFT_DIMS(1, 1), WEFT_DIMS(1, 1), 1);
}

static weft_array *many_rows(void) /* more workgroups than some devices have along an axis */
{
    return weft_softmax(numbers(WEFT_DIMS(70000, 4), WEFT_FLOAT32), -1);
}

static weft_array *reductions(void)
{
    weft_array *x = numbers(WEFT_DIMS(300, 500), WEFT_FLOAT32);
    return weft_add(weft_sum(x, WEFT_DIMS(0), true), weft_max(x, WEFT_DIMS(1), true));
}

static weft_array *norm(void)
{
    return weft_rms_norm(numbers(WEFT_DIMS(500, 96), WEFT_FLOAT32),
                         numbers(WEFT_DIMS(96), WEFT_FLOAT32), 1e-6, 0);
}

static weft_array *order(void)
{
    return weft_cumsum(weft_sort(numbers(WEFT_DIMS(60, 700), WEFT_FLOAT32), 1), 1, false, true);
}

static weft_array *rows_taken(void)
{
    weft_array *i =
        weft_remainder(weft_arange_int(0, 5000, 1, WEFT_INT32), weft_scalar_int(300, WEFT_INT32));
    return weft_take(numbers(WEFT_DIMS(300, 64), WEFT_FLOAT32), i, 0);
}

static weft_array *random_numbers(void)
{
    return weft_random_uniform(weft_random_key(3), WEFT_DIMS(300001), 0, 1, WEFT_FLOAT32);
}

static weft_array *attention_loss(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    weft_array *y = weft_attention(in[0], in[1], in[2], &(weft_attention_options){.causal = true});
    return weft_sum(weft_square(y), WEFT_DIMS(0, 1, 2, 3), false);
}

static weft_array *attention_gradients(void)
{
    static const int all[] = {0, 1, 2};
    weft_array *const in[] = {numbers(WEFT_DIMS(2, 150, 4, 32), WEFT_FLOAT32),
                              numbers(WEFT_DIMS(2, 150, 2, 32), WEFT_FLOAT32),
                              numbers(WEFT_DIMS(2, 150, 2, 32), WEFT_FLOAT32)};
    weft_array *out[3];
    CHECK_OK(weft_grad(attention_loss, NULL, in, 3, all, 3, out));
    for (int i = 0; i < 3; i++) {
        out[i] = weft_reshape(out[i], WEFT_DIMS(-1));
    }
    return weft_concatenate(out, 3, 0);
}

static weft_array *sixths(void)
{
    return weft_remainder(weft_arange_int(0, 50, 1, WEFT_INT32), weft_scalar_int(6, WEFT_INT32));
}

static weft_array *experts(void)
{
    return weft_gather_mm(numbers(WEFT_DIMS(50, 3, 64), WEFT_FLOAT32),
                          numbers(WEFT_DIMS(6, 64, 40), WEFT_FLOAT32), NULL, sixths(), false);
}

static weft_array *quantized_experts(void)
{
    const weft_quantize_options options = {.group_size = 32, .bits = 4};
    weft_array *w[3];
    weft_quantize(numbers(WEFT_DIMS(6, 40, 64), WEFT_FLOAT32), &options, w);
    return weft_gather_qmm(numbers(WEFT_DIMS(50, 3, 64), WEFT_FLOAT32), w[0], w[1], w[2], NULL,
                           sixths(), true, &options);
}

static weft_array *delta_rule(void)
{
    weft_array *q = numbers(WEFT_DIMS(2, 20, 2, 16), WEFT_FLOAT32),
               *v = numbers(WEFT_DIMS(2, 20, 4, 40), WEFT_FLOAT32),
               *g = weft_multiply(numbers(WEFT_DIMS(2, 20, 4), WEFT_FLOAT32),
                                  weft_scalar(0.01, WEFT_FLOAT32));
    return weft_gated_delta(q, q, v, g, g, NULL, NULL);
}

static const struct shape {
    const char *name;
    weft_array *(*build)(void);
} shapes[] = {
    {"tiles", tiles},
    {"divided terms", divided_terms},
    {"sixteen bits", sixteen_bits},
    {"one row", one_row},
    {"rows by terms", rows_by_terms},
    {"attention", attention},
    {"one query", one_query},
    {"convolution", convolution},
    {"many rows", many_rows},
    {"reductions", reductions},
    {"norm", norm},
    {"order", order},
    {"rows taken", rows_taken},
    {"random numbers", random_numbers},
    {"attention gradients", attention_gradients},
    {"experts", experts},
    {"quantized experts", quantized_experts},
    {"delta rule", delta_rule},
};

/* Fills memory that the next evaluation takes with NaN, so that elements that no part writes do not
 * have the values of an earlier evaluation. */
static void spoil_memory(int64_t n)
{
    weft_array *all[6];
    for (int i = 0; i < 6; i++) {
        all[i] = weft_full(WEFT_DIMS(n), NAN, WEFT_FLOAT32);
    }
    CHECK_OK(weft_eval_n(all, 6));
}

/* Evaluates with at most `most` work in a submission; the bytes of the result (free). */
static float *run(const struct shape *s, double most, int64_t *n)
{
    weft_set_default_device(vulkan);
    weft_scope_open();
    *n = weft_size(s->build());
    spoil_memory(*n);
    weft_scope_close(NULL);
    weft__vulkan_most_work = most;
    CHECK_OK(weft_device_profile(vulkan, true));
    weft_scope_open();
    weft_array *a = s->build();
    float *out = calloc((size_t)*n, sizeof *out);
    CHECK_OK(weft_read(a, WEFT_FLOAT32, out, *n));
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
    weft__vulkan_most_work = 0;
    return out;
}

static void every_bound_has_the_same_bits(void)
{
    static const double parts[] = {2.5, 50, 1e6};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && prepare(); i++) {
        int64_t n, m, most = 0;
        float *whole = run(&shapes[i], 1e18, &n);
        const double work = internals->stream.pace.largest;
        const int64_t few = internals->stream.counts.submissions;
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            float *other = run(&shapes[i], work / parts[k], &m);
            check_that(n == m && memcmp(whole, other, (size_t)n * sizeof *whole) == 0, __FILE__,
                       __LINE__, "%s: other bits in %g parts", shapes[i].name, parts[k]);
            most = internals->stream.counts.submissions;
            free(other);
        }
        check_that(most > few, __FILE__, __LINE__, "%s: no more submissions", shapes[i].name);
        CHECK_OK(weft_device_profile(vulkan, false));
        free(whole);
    }
}

enum { STEPS = 6 };

static weft_status train(const char *folder, bool resume, int steps, weft_train_result *result)
{
    history l = {.n = 0};
    weft_set_default_device(vulkan);
    weft_random_seed(3);
    const weft_status status = run_recipe(
        (weft_trainer_options){
            .steps = steps, .lr = 1e-2, .save_every = 1, .folder = folder, .resume = resume},
        false, &l, result);
    weft_set_default_device(weft_device_get("cpu"));
    return status;
}

static void check_same_adapter(const char *folder_a, const char *folder_b)
{
    static const char name[] = "last/adapter_model.safetensors";
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    if (CHECK_OK(weft_file_read(run_file(folder_a, name), 0, &a, &n)) &&
        CHECK_OK(weft_file_read(run_file(folder_b, name), 0, &b, &m)) && CHECK_EQ_INT(n, m)) {
        CHECK(n == m && memcmp(a, b, n) == 0);
    }
    weft_free(a);
    weft_free(b);
}

static char *folder_of(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s", check_temporary(name));
    return out;
}

/* The gradients of attention, of the loss and of the linear layers. */
static void training_with_a_bound_has_the_same_bits(void)
{
    char whole[512], parted[512];
    if (!prepare()) {
        return;
    }
    weft__vulkan_most_work = 1e18;
    const uint64_t first = internals->stream.submitted;
    CHECK_OK(train(folder_of("whole", whole, sizeof whole), false, STEPS, NULL));
    weft__vulkan_most_work = 2e5;
    const uint64_t second = internals->stream.submitted;
    CHECK_OK(train(folder_of("parted", parted, sizeof parted), false, STEPS, NULL));
    weft__vulkan_most_work = 0;
    CHECK(internals->stream.submitted - second > 2 * (second - first));
    check_same_adapter(whole, parted);
}

/* ---- the bound follows the rates ------------------------------------------------------------ */

enum { PIPELINES = 4, LAUNCHES = 3000, IN_FLIGHT = 6 };

/* A device that computes `rate` operations per second, in other pipelines a part of them, and takes
 * some time to start a launch. */
typedef struct machine {
    double rate;
    weft__vulkan_pipeline all[PIPELINES];
    weft__vulkan_pace pace;
    weft__vulkan_load loads[IN_FLIGHT]; /* submitted and not measured, the oldest first */
    double took[IN_FLIGHT];
    int in_flight;
    weft__vulkan_load load; /* recorded */
    int launches;
    double longest, late_seconds; /* of the second half */
    int late;
    bool second_half;
} machine;

static const double efficiency[PIPELINES] = {1, 0.5, 0.1, 0.03};

static void measure_oldest(machine *m)
{
    weft__vulkan_pace_measured(&m->pace, &m->loads[0], m->took[0]);
    m->in_flight--;
    memmove(m->loads, m->loads + 1, (size_t)m->in_flight * sizeof *m->loads);
    memmove(m->took, m->took + 1, (size_t)m->in_flight * sizeof *m->took);
}

static void submit(machine *m)
{
    double seconds = 5e-6 * m->launches;
    for (int i = 0; i < m->load.n; i++) {
        const long at = m->load.all[i].pipeline - m->all;
        seconds += m->load.all[i].work / (m->rate * efficiency[at]);
    }
    if (m->load.n > 0) {
        if (m->in_flight == IN_FLIGHT) {
            measure_oldest(m);
        }
        m->loads[m->in_flight] = m->load;
        m->took[m->in_flight++] = seconds;
        m->longest = seconds > m->longest ? seconds : m->longest;
        m->late += m->second_half;
        m->late_seconds += m->second_half ? seconds : 0;
    }
    m->load = (weft__vulkan_load){.n = 0};
    m->launches = 0;
}

static void settle(machine *m)
{
    submit(m);
    while (m->in_flight > 0) {
        measure_oldest(m);
    }
}

static void record(machine *m, weft__vulkan_pipeline *p, double work)
{
    if (weft__vulkan_pace_is_full(&m->pace, &m->load, p, work) || m->launches == 128) {
        submit(m);
    }
    weft__vulkan_pace_add(&m->pace, &m->load, p, work);
    m->launches++;
}

static void submissions_take_the_allowed_time(void)
{
    static const double rates[] = {1.3e11, 2e12, 3e13, 5e14};
    for (int r = 0; r < 4; r++) {
        machine *m = calloc(1, sizeof *m);
        m->rate = rates[r];
        uint32_t state = 7;
        for (int i = 0; i < LAUNCHES; i++) {
            state = state * 1664525u + 1013904223u;
            const int which = i < 40 ? i / 10 : (int)(state >> 10) % PIPELINES;
            /* From 10 microseconds to 50 ms. */
            const double seconds = 1e-5 * pow(5e3, (double)(state >> 8) / (1 << 24));
            m->second_half = i > LAUNCHES / 2;
            record(m, &m->all[which], seconds * m->rate * efficiency[which]);
        }
        settle(m);
        check_that(m->longest < 0.5, __FILE__, __LINE__, "rate %g: a submission of %g s", m->rate,
                   m->longest);
        check_that(
            m->late > 0 && m->late_seconds / m->late > 0.02 && m->late_seconds / m->late < 0.08,
            __FILE__, __LINE__, "rate %g: submissions of %g s", m->rate, m->late_seconds / m->late);
        free(m);
    }
}

/* Attention starts with the rows that see most keys: the cost of the workgroups falls to 0. Layers
 * follow each other, and each launch takes `seconds` in all. */
static void uneven_launches_stay_within_the_bound(void)
{
    static const double all[] = {0.3, 1, 3, 10};
    enum { GROUPS = 20000, LAYERS = 6 };
    for (int i = 0; i < 4; i++) {
        machine *m = calloc(1, sizeof *m);
        m->rate = 1e12;
        const double each = all[i] * m->rate / GROUPS;
        for (int layer = 0; layer < LAYERS; layer++) {
            uint64_t n;
            double slowest = 0;
            for (uint64_t first = 0; first < GROUPS; first += n) {
                const uint64_t rest = GROUPS - first;
                n = weft__vulkan_pace_groups(&m->pace, &m->all[0], each * (double)rest, rest);
                const double middle = (double)first + 0.5 * (double)n,
                             seconds =
                                 each / m->rate * (double)n * 2 * (1 - middle / GROUPS) + 5e-6;
                weft__vulkan_pace_add(&m->pace, &m->load, &m->all[0], each * (double)n);
                weft__vulkan_pace_measured(&m->pace, &m->load, seconds);
                m->load = (weft__vulkan_load){.n = 0};
                weft__vulkan_pace_piece(&m->all[0], &slowest);
                m->longest = seconds > m->longest ? seconds : m->longest;
            }
        }
        check_that(m->longest < 0.11, __FILE__, __LINE__, "%g s: a submission of %g s", all[i],
                   m->longest);
        free(m);
    }
}

/* On a fast device small work is not divided: the bound on commands ends submissions. */
static void small_work_is_not_divided(void)
{
    machine *m = calloc(1, sizeof *m);
    m->rate = 1e14;
    int submissions = 0;
    for (int i = 0; i < 1280; i++) {
        const int before = m->launches;
        record(m, &m->all[i % 2], 3e8);
        submissions += i >= 640 && m->launches <= before;
    }
    CHECK_EQ_INT(submissions, 5);
    free(m);
}

/* The time of a submission is measured even if a thread waits for earlier ones meanwhile. */
static void waits_leave_what_is_recorded_alone(void)
{
    if (!prepare()) {
        return;
    }
    weft__vulkan_device *d = internals;
    pthread_mutex_lock(&d->stream.lock);
    weft__vulkan_slot *slot = weft__vulkan_slot_open(d);
    const int stamps = d->physical.timestamp_bits > 0 ? 1 : 0;
    if (CHECK(slot != NULL)) {
        CHECK_EQ_INT(slot->stamps.n, 0);
        weft__vulkan_profile_start(d, slot);
        CHECK_EQ_INT(slot->stamps.n, stamps);
        CHECK_OK(weft__vulkan_wait_for(d, d->stream.submitted));
        CHECK_EQ_INT(slot->stamps.n, stamps);
        CHECK_OK(weft__vulkan_submit(d));
        CHECK_EQ_INT(slot->stamps.n, 2 * stamps);
        CHECK_OK(weft__vulkan_wait_for(d, d->stream.submitted));
        CHECK_EQ_INT(slot->stamps.n, 0);
    }
    pthread_mutex_unlock(&d->stream.lock);
}

/* ---- lost submissions ----------------------------------------------------------------------- */

/* Makes the device usable again after a lost submission, as a restart of the program does. */
static void repair(void)
{
    weft__vulkan_stream *s = &internals->stream;
    uint32_t *ends = (uint32_t *)(void *)s->fault.host + 4;
    weft__vulkan_dropped = 0;
    s->lost = false;
    for (int i = 0; i < WEFT__VULKAN_SLOTS; i++) {
        ends[i] = (uint32_t)s->slots[i].value;
    }
}

/* Several submissions; every way in which a program waits for one. */
static weft_status compute(int way)
{
    float out[64];
    weft_status status = WEFT_OK;
    weft_scope_open();
    weft_array *x = numbers(WEFT_DIMS(64), WEFT_FLOAT32);
    for (int i = 0; i < 60; i++) {
        x = weft_cumsum(weft_softmax(x, 0), 0, i % 2 == 0, true);
    }
    if (way == 0) {
        status = weft_eval(x);
    } else if (way == 1) {
        status = weft_read(x, WEFT_FLOAT32, out, 64);
    } else {
        status = weft_eval_async(&x, 1);
        status = status == WEFT_OK ? weft_synchronize(vulkan) : status;
    }
    weft_scope_close(NULL);
    return status;
}

static void each_of_100_lost_submissions_is_reported(void)
{
    int noticed = 0, named = 0;
    if (!prepare()) {
        return;
    }
    weft__vulkan_most_work = 1e18; /* the same submissions every time */
    weft_set_default_device(vulkan);
    CHECK_OK(compute(0));
    for (int i = 0; i < 100; i++) {
        char expected[64];
        const uint64_t first = internals->stream.submitted + 1;
        CHECK_OK(compute(i % 3));
        const uint64_t n = internals->stream.submitted + 1 - first;
        weft__vulkan_dropped = internals->stream.submitted + 1 + (uint64_t)i % n;
        snprintf(expected, sizeof expected, "submission %llu was lost",
                 (unsigned long long)weft__vulkan_dropped);
        noticed += compute(i % 3) == WEFT_DEVICE;
        named += strstr(weft_error_message(), expected) != NULL;
        CHECK_STATUS(compute(0), WEFT_DEVICE); /* the device stays unusable */
        repair();
        CHECK_OK(compute(i % 3));
    }
    weft_set_default_device(weft_device_get("cpu"));
    weft__vulkan_most_work = 0;
    CHECK_EQ_INT(noticed, 100);
    CHECK_EQ_INT(named, 100);
}

/* The number of submissions of a run. */
static uint64_t submissions_of(const char *folder, int steps)
{
    const uint64_t before = internals->stream.submitted;
    CHECK_OK(train(folder, false, steps, NULL));
    return internals->stream.submitted - before;
}

static void training_continues_from_its_checkpoint(void)
{
    char whole[512], broken[512];
    weft_train_result result = {0};
    if (!prepare()) {
        return;
    }
    weft__vulkan_most_work = 1e18;
    const uint64_t first = submissions_of(folder_of("first", broken, sizeof broken), 1),
                   all = submissions_of(folder_of("undisturbed", whole, sizeof whole), STEPS);
    folder_of("broken", broken, sizeof broken);
    for (int i = 0; i < 3; i++) { /* each in the second update of the rest of the run */
        weft__vulkan_dropped =
            internals->stream.submitted + first + (all - first) / (STEPS - 1) / 2;
        CHECK_STATUS(train(broken, true, STEPS, &result), WEFT_DEVICE);
        CHECK_CONTAINS(weft_error_message(), "was lost");
        repair();
    }
    CHECK_OK(train(broken, true, STEPS, &result));
    weft__vulkan_most_work = 0;
    CHECK_EQ_INT(result.steps, STEPS);
    check_same_adapter(whole, broken);
}

CHECK_MAIN("vulkan_submissions", CHECK_CASE(every_bound_has_the_same_bits),
           CHECK_CASE(training_with_a_bound_has_the_same_bits),
           CHECK_CASE(submissions_take_the_allowed_time),
           CHECK_CASE(uneven_launches_stay_within_the_bound), CHECK_CASE(small_work_is_not_divided),
           CHECK_CASE(waits_leave_what_is_recorded_alone),
           CHECK_CASE(each_of_100_lost_submissions_is_reported),
           CHECK_CASE(training_continues_from_its_checkpoint))
