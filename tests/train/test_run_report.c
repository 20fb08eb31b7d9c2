/* tests/train/test_run_report.c -- report.html, samples in metrics.jsonl, and early stopping. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/runs.h"
#include "train/run/number.h"
#include "weft/tool/run.h"

enum { STEPS = 12 };

static weft_status sample(void *context, int64_t step, const weft_train_sample **samples, int *n)
{
    (void)context;
    (void)step;
    static const weft_train_sample made[] = {
        {.prompt = "<script>", .text = "a \"quote\" & \x01 <b>"}, {.prompt = "two", .text = ""}};
    *samples = made;
    *n = 2;
    return WEFT_OK;
}

static weft_status refuse(void *context, int64_t step, const weft_train_sample **samples, int *n)
{
    (void)context, (void)samples, (void)n;
    return step == 0 ? WEFT_OK : weft_fail(WEFT_INVALID, "no sample");
}

static weft_trainer_options options(const char *folder)
{
    static const weft_dataset_info data = {.samples = 7, .tokens = 50, .targets = 40, .longest = 9};
    return (weft_trainer_options){.steps = STEPS,
                                  .lr = 1e-2,
                                  .folder = folder,
                                  .validate_every = 2,
                                  .base_name = "a<b>&'base'",
                                  .data = &data,
                                  .sampler = sample};
}

static void the_report_has_curves_tables_and_escaped_samples(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("reported"));
    history l = {.n = 0};
    CHECK_OK(run_recipe(options(folder), true, &l, NULL));
    char *text = run_text(folder, "metrics.jsonl");
    CHECK_CONTAINS(text, "\"samples\": [{\"prompt\": \"<script>\", \"text\": ");
    weft_free(text);
    text = run_text(folder, "report.html");
    static const char *const parts[] = {"<!DOCTYPE html>",
                                        "training, smoothed",
                                        "validation",
                                        "Learning rate",
                                        "Gradient norm",
                                        "Tokens per second",
                                        "<h3>After update 12</h3>",
                                        "<th>lowest validation loss</th>",
                                        "<th>updates</th><td>12</td>",
                                        "<th>time of the updates alone</th><td>0.",
                                        "<th>save every</th><td>0</td>",
                                        "<th>schedule</th><td>constant</td>",
                                        "a&#60;b&#62;&#38;&#39;base&#39;",
                                        "<p class=\"meta\">finished",
                                        "<th>samples</th><td>7</td>",
                                        "<th>longest sample, in tokens</th><td>9</td>",
                                        "<b>&#60;script&#62;</b>a &#34;quote&#34; &#38; ",
                                        "</html>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK_CONTAINS(text, parts[i]);
    const char *script = strstr(text, "<script");
    CHECK(script && strstr(script + 1, "<script") == NULL && strchr(text, '\x01') == NULL);
    const char *memory = strstr(text, "<th>peak memory</th><td>");
    double size = 0;
    char unit[3] = "";
    if (CHECK(memory != NULL))
        CHECK(sscanf(memory, "<th>peak memory</th><td>%lf %2[kMGB]<", &size, unit) == 2);
    CHECK(size > 0 && size < 1000);
    CHECK(strstr(text, "src=") == NULL && strstr(text, "href=") == NULL);
    weft_free(text);
}

/* Counts of bytes and tokens are written without an exponent. */
static void whole_numbers_have_all_their_digits(void)
{
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{54085760, "54085760"}, {1e6, "1000000"}, {-20, "-20"},    {0, "0"},
                   {1e15, "1e+15"},        {0.1, "0.1"},     {2e-4, "0.0002"}};
    char text[WEFT__NUMBER_TEXT];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        CHECK_STR(weft__number(numbers[i].value, text), numbers[i].text);
}

static void a_report_needs_the_files_of_a_run(void)
{
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("broken"));
    CHECK_STATUS(weft_run_report(folder), WEFT_IO);
    history l = {.n = 0};
    CHECK_OK(run_recipe(options(folder), true, &l, NULL));
    CHECK_OK(weft_run_report(folder));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    /* A line that is not complete yet is left out. */
    CHECK_OK(weft_file_write(path, "{\"step\": 1, \"loss\": 2}\n{\"st", 28));
    CHECK_OK(weft_run_report(folder));
    CHECK_OK(weft_file_write(path, "{\"step\": \"x\"}\n", 14));
    CHECK_STATUS(weft_run_report(folder), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "step");
    snprintf(path, sizeof path, "%s/run.json", folder);
    CHECK_OK(weft_file_write(path, "[]", 2));
    CHECK_STATUS(weft_run_report(folder), WEFT_INVALID);
}

/* A rate that makes the model worse: the run ends `patience` validations after the best one. */
static void a_run_ends_without_patience(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("impatient"));
    history l = {.n = 0};
    weft_train_result result;
    weft_trainer_options o = options(folder);
    o.steps = 60;
    o.lr = 0.3;
    o.patience = 3;
    CHECK_OK(run_recipe(o, true, &l, &result));
    CHECK(result.best_step > 0 && result.steps < 60);
    CHECK_EQ_INT(result.steps, result.best_step + 3 * 2);
    CHECK(run_has(folder, "last/adapter_model.safetensors"));
    /* Resumed, it ends at once. */
    history again = {.n = 0};
    o.resume = true;
    weft_train_result resumed;
    CHECK_OK(run_recipe(o, true, &again, &resumed));
    CHECK_EQ_INT(resumed.steps, result.steps);
    CHECK_EQ_INT(again.n, 0);
}

static void a_sampler_that_fails_ends_the_run(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", check_temporary("refused"));
    history l = {.n = 0};
    weft_trainer_options o = options(folder);
    o.sampler = refuse;
    CHECK_STATUS(run_recipe(o, true, &l, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no sample");
    CHECK(run_has(folder, "report.html"));
}

CHECK_MAIN("run_report", CHECK_CASE(the_report_has_curves_tables_and_escaped_samples),
           CHECK_CASE(whole_numbers_have_all_their_digits),
           CHECK_CASE(a_report_needs_the_files_of_a_run), CHECK_CASE(a_run_ends_without_patience),
           CHECK_CASE(a_sampler_that_fails_ends_the_run))
