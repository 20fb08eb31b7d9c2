/* tests/optim/test_rate_text.c -- learning rates and options parsed from text. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "weft/optim.h"
#include "weft/tool/options.h"

static const double pi = 3.14159265358979323846;

enum { S = 20 };

static weft_rate *parsed(const char *text)
{
    weft_rate *rate = NULL;
    CHECK_OK(weft_rate_parse(text, 2, S, &rate));
    return rate;
}

static void check_rate(const char *text, double (*expected)(int s), int until)
{
    weft_rate *rate = parsed(text);
    for (int s = 0; rate && s < until; s++) {
        if (!CHECK_CLOSE(weft_rate_at(rate, s), expected(s), 1e-12))
            CHECK_FAIL("%s at %d", text, s);
    }
    weft_rate_free(rate);
}

static double two(int s)
{
    (void)s;
    return 2;
}

static double line(int s)
{
    return s < S ? 2 * (1 - s / (double)S) : 0;
}

static double wave(int s)
{
    return s < S ? 1 + cos(pi * s / S) : 0;
}

static double wave_to_half(int s)
{
    return s < S ? 1 + (1 + cos(pi * s / S)) / 2 : 1;
}

static double wsd(int s)
{
    return s < 15 ? 2 : s < S ? 2 * (1 - (s - 15) / 5.0) : 0;
}

static double power(int s)
{
    return 2 * pow(0.9, s);
}

static double stairs(int s)
{
    return 2 * pow(0.5, s / 4);
}

/* linear:0.5@4, constant@6, cosine over the ten that are left */
static double three(int s)
{
    if (s < 4)
        return 2 - s / 4.0;
    if (s < 10)
        return 1;
    return s < S ? (1 + cos(pi * (s - 10) / 10)) / 2 : 0;
}

static double stairs_then_line(int s)
{
    return s < 8 ? stairs(s) : 0.5 * (1 - (s - 8) / 12.0);
}

static void texts_are_formulas(void)
{
    check_rate("constant", two, 50);
    check_rate("linear", line, 50);
    check_rate("cosine", wave, 50);
    check_rate("cosine:0.5", wave_to_half, 50);
    check_rate("wsd:0.25", wsd, 50);
    check_rate("exponential:0.9", power, 50);
    check_rate("step:0.5:4", stairs, 50);
    check_rate("linear:0.5@4,constant@6,cosine", three, 50);
    check_rate("step:0.5:4@8,linear", stairs_then_line, S);
}

static void a_run_may_be_of_one_step(void)
{
    static const char *const texts[] = {"linear", "cosine", "wsd", "constant@5,linear"};
    for (int i = 0; i < 4; i++) {
        weft_rate *rate = NULL;
        if (CHECK_OK(weft_rate_parse(texts[i], 1, 1, &rate)))
            CHECK_CLOSE(weft_rate_at(rate, 0), 1, 0);
        weft_rate_free(rate);
    }
}

static void bad_texts_are_refused(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"steep", "unknown name"},
        {"", "unknown name"},
        {"a_name_that_is_longer_than_any", "unknown name"},
        {"linear:x", "not a number"},
        {"linear:-1", "not a number"},
        {"linear:1:2", "too many numbers"},
        {"step:1:2:3", "too many numbers"},
        {"exponential", "too few numbers"},
        {"step:0.5:0", "step size"},
        {"exponential:0", "positive"},
        {"wsd:0", "share above 0"},
        {"wsd:2", "share above 0"},
        {"linear@10", "without @STEPS"},
        {"linear,cosine", "needs @STEPS"},
        {"linear@0,cosine", "not a number of steps"},
        {"linear@x,cosine", "not a number of steps"},
        {"linear@4x,cosine", "malformed"},
        {"linear@4,", "unknown name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_rate *rate;
        CHECK_STATUS(weft_rate_parse(bad[i].text, 1, S, &rate), WEFT_INVALID);
        CHECK(rate == NULL);
        CHECK_CONTAINS(weft_error_message(), bad[i].says);
    }
    char many[256] = "constant@1";
    for (int i = 0; i < 20; i++)
        strcat(many, ",constant@1");
    weft_rate *rate;
    CHECK_STATUS(weft_rate_parse(many, 1, S, &rate), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "too many parts");
}

static void options_are_set_by_name(void)
{
    weft_optim_adamw_options a = {.beta1 = 0.5};
    CHECK_OK(weft_optim_options_parse(&weft_optim_adamw, "", &a));
    CHECK_OK(weft_optim_options_parse(&weft_optim_adamw,
                                      "beta2=0.95,bias_correction=true,weight_decay=0", &a));
    CHECK_CLOSE(a.beta1, 0.5, 0);
    CHECK_CLOSE(a.beta2, 0.95, 0);
    CHECK(a.bias_correction);
    CHECK(a.weight_decay < 0); /* none, although zero is the default */
    weft_optim_muon_options m = {0};
    CHECK_OK(weft_optim_options_parse(&weft_optim_muon, "ns_steps=7,no_nesterov=false", &m));
    CHECK_EQ_INT(m.ns_steps, 7);
    weft_optim_sgd_options s = {.momentum = 1};
    CHECK_OK(weft_optim_options_parse(&weft_optim_sgd, "momentum=0", &s));
    CHECK_CLOSE(s.momentum, 0, 0);
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"beta3=1", "there is no option 'beta3'; it has beta1, beta2, eps"},
        {"beta1", "expected 'beta1=' and a number"},
        {"beta1=x", "a number of at least 0"},
        {"beta1=-1", "a number of at least 0"},
        {"beta1=0.5x", "a number of at least 0"},
        {"bias_correction=1", "true or false"},
        {"beta1=0.5,,", "there is no option ''"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(weft_optim_options_parse(&weft_optim_adamw, bad[i].text, &a), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), bad[i].says);
    }
    CHECK_STATUS(weft_optim_options_parse(&weft_optim_muon, "ns_steps=0", &m), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "a whole number of at least 1");
}

CHECK_MAIN("rate_text", CHECK_CASE(texts_are_formulas), CHECK_CASE(a_run_may_be_of_one_step),
           CHECK_CASE(bad_texts_are_refused), CHECK_CASE(options_are_set_by_name))
