/* tests/generate/test_batch_budget.c -- generate/batch_step.c: how many tokens of prompts a step of
 * a batch processes. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/generate/requests.h"
#include "tests/support/models.h"

enum { N = 10 };

/* The steps of a batch with a latency until its second request has a token. Then or `before`, the
 * first one has had some. */
static int steps_of_second(weft_model *model, double latency, bool before)
{
    static const size_t lengths[] = {40, 100};
    static const int64_t most[] = {30, 3};
    const weft_generate_batch_options o = {.rows = 2, .latency = latency};
    requests s;
    requests_make(&s, model, 2, 140, lengths, most);
    weft_running_batch *b = requests_open(&s, &o);
    int steps = 0;
    requests_add(b, &s, 0, before ? 1 : 2);
    if (before) {
        requests_step(b);
        requests_add(b, &s, 1, 2);
    }
    while (s.results[1].n == 0 && steps < 100) {
        const size_t n = s.results[0].n;
        requests_step(b);
        CHECK(s.results[0].n > n);
        steps++;
    }
    requests_finish(b, &s, 0, 2);
    return steps;
}

/* While a sequence waits for its next token, a step processes prompts only as long as the latency
 * says, but always a few tokens. */
static void prompts_leave_time_for_other_sequences(void)
{
    weft_model *model = fixture_model("llama");
    if (model == NULL)
        return;
    CHECK_EQ_INT(steps_of_second(model, 1e-9, true), 4); /* 32 tokens in each */
    CHECK_EQ_INT(steps_of_second(model, 1e9, true), 1);
    CHECK_EQ_INT(steps_of_second(model, 0, true), 1);
    CHECK_EQ_INT(steps_of_second(model, 1e-9, false), 1); /* no sequence waits */
    weft_running_batch *b = NULL;
    CHECK_STATUS(
        weft_running_batch_new(model, NULL, &(weft_generate_batch_options){.latency = -1}, &b),
        WEFT_INVALID);
    weft_model_free(model);
}

static bool reads(const weft__row *row)
{
    return row->live && row->run.generator->reading;
}

static bool is_reading(const weft_running_batch *b)
{
    bool any = false;
    for (size_t i = 0; i < b->places; i++)
        any = any || reads(&b->rows[i]);
    return any;
}

/* The tokens of prompts that have been processed. */
static int64_t count_read(const weft_running_batch *b, const requests *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->results[i].n > 0 ? (int64_t)s->requests[i].prompt.n : 0;
    for (size_t i = 0; i < b->places; i++)
        n += reads(&b->rows[i]) ? b->rows[i].run.generator->known : 0;
    return n;
}

/* A batch with a time measured before its next step processes as many tokens of a prompt as fit in
 * the latency after the step of the others, in half the latency at least. */
static void the_latency_says_how_much_a_step_reads(void)
{
    static const size_t lengths[] = {10, 130};
    static const int64_t most[] = {20, 3};
    static const struct {
        double latency, rate, step;
        int64_t read;
    } cases[] = {
        {0.05, 2001, 0.01, 80}, {0.05, 2001, 0.02, 60},  {0.05, 2001, 0.04, 50},
        {0.05, 2001, 7, 50},    {0.05, 100, 0.01, 32},   {0.05, 1001, 0, 50},
        {0.2, 401, 0.05, 60},   {0.05, 1e30, 0.01, 130}, {0, 2001, 0.01, 130},
    };
    weft_model *model = fixture_model("llama");
    for (size_t i = 0; model && i < sizeof cases / sizeof *cases; i++) {
        const weft_generate_batch_options o = {.rows = 2, .latency = cases[i].latency};
        requests s;
        requests_make(&s, model, 2, 140, lengths, most);
        weft_running_batch *b = requests_open(&s, &o);
        requests_add(b, &s, 0, 1);
        requests_step(b);
        requests_add(b, &s, 1, 2);
        b->read_rate = cases[i].rate;
        b->step_seconds = cases[i].step;
        const int64_t before = count_read(b, &s);
        requests_step(b);
        if (!CHECK_EQ_INT(count_read(b, &s) - before, cases[i].read))
            printf("  latency %g, rate %g, step %g\n", cases[i].latency, cases[i].rate,
                   cases[i].step);
        requests_finish(b, &s, 0, 2);
    }
    weft_model_free(model);
}

/* No step processes more tokens of prompts than its budget, and none less than half of it while
 * prompts wait. */
static void steps_keep_to_their_budget(void)
{
    static const char *const families[] = {"llama", "qwen3-next"}; /* the latter pads no prompts */
    static const size_t lengths[N] = {7, 30, 1, 13, 13, 2, 29, 21, 5, 17};
    static const int64_t most[N] = {40, 9, 30, 1, 17, 24, 6, 24, 2, 12};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        for (int64_t budget = 1; model && budget <= 64; budget += 1 + budget / 3) {
            requests s;
            requests_make(&s, model, N, 40, lengths, most);
            weft_running_batch *b = requests_open(
                &s, &(weft_generate_batch_options){.rows = 8, .batch.tokens = budget});
            requests_add(b, &s, 0, 4);
            bool more = true;
            for (int step = 0; more && CHECK(step < 500); step++) {
                if (step > 0 && 3 + step < N)
                    requests_add(b, &s, 3 + step, 4 + step);
                const int64_t before = count_read(b, &s);
                more = requests_step(b);
                const int64_t n = count_read(b, &s) - before;
                /* With padding the budget's rest is what a step has not read. */
                if (!CHECK(n <= budget && b->budget >= 0 &&
                           (2 * b->budget <= budget || !is_reading(b))))
                    printf("  %s: %d tokens of %d in step %d, %d left\n", families[f], (int)n,
                           (int)budget, step, (int)b->budget);
            }
            requests_finish(b, &s, 0, N);
        }
        weft_model_free(model);
    }
}

CHECK_MAIN("batch_budget", CHECK_CASE(prompts_leave_time_for_other_sequences),
           CHECK_CASE(the_latency_says_how_much_a_step_reads),
           CHECK_CASE(steps_keep_to_their_budget))
