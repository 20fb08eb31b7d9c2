/* tests/train/test_schedule.c -- the learning rate's factor over a run. */
#include <math.h>

#include "tests/check.h"
#include "weft/train.h"

static const double pi = 3.14159265358979323846;

static void constant_is_one(void)
{
    const weft_schedule s = {.kind = WEFT_SCHEDULE_CONSTANT, .steps = 10};
    CHECK_CLOSE(weft_schedule_factor(&s, 0), 1, 0);
    CHECK_CLOSE(weft_schedule_factor(&s, 9), 1, 0);
    CHECK_CLOSE(weft_schedule_factor(&s, 1000), 1, 0);
}

static void linear_and_cosine_fall_to_zero_at_the_end(void)
{
    const weft_schedule line = {.kind = WEFT_SCHEDULE_LINEAR, .steps = 20};
    const weft_schedule wave = {.kind = WEFT_SCHEDULE_COSINE, .steps = 20};
    for (int s = 0; s < 20; s++) {
        CHECK_CLOSE(weft_schedule_factor(&line, s), 1 - s / 20.0, 1e-15);
        CHECK_CLOSE(weft_schedule_factor(&wave, s), (1 + cos(pi * s / 20)) / 2, 1e-15);
    }
    for (int s = 20; s < 50; s++) {
        CHECK_CLOSE(weft_schedule_factor(&line, s), 0, 0);
        CHECK_CLOSE(weft_schedule_factor(&wave, s), 0, 0);
    }
}

static void warmup_multiplies(void)
{
    for (int kind = WEFT_SCHEDULE_CONSTANT; kind <= WEFT_SCHEDULE_COSINE; kind++) {
        const weft_schedule plain = {.kind = kind, .steps = 20};
        const weft_schedule warm = {.kind = kind, .steps = 20, .warmup = 4};
        for (int s = 0; s < 20; s++) {
            const double expected = fmin(1, (s + 1) / 4.0) * weft_schedule_factor(&plain, s);
            CHECK_CLOSE(weft_schedule_factor(&warm, s), expected, 1e-15);
        }
    }
}

static void names_go_both_ways(void)
{
    for (int kind = WEFT_SCHEDULE_CONSTANT; kind <= WEFT_SCHEDULE_COSINE; kind++) {
        weft_schedule_kind parsed;
        if (CHECK(weft_schedule_parse(weft_schedule_name(kind), &parsed)))
            CHECK_EQ_INT(parsed, kind);
    }
    weft_schedule_kind kept = WEFT_SCHEDULE_COSINE;
    CHECK(!weft_schedule_parse("stepwise", &kept));
    CHECK_EQ_INT(kept, WEFT_SCHEDULE_COSINE);
}

CHECK_MAIN("schedule", CHECK_CASE(constant_is_one),
           CHECK_CASE(linear_and_cosine_fall_to_zero_at_the_end), CHECK_CASE(warmup_multiplies),
           CHECK_CASE(names_go_both_ways))
