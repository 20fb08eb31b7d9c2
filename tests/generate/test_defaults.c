/* tests/generate/test_defaults.c -- what generation_config.json says of the sampler. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/generate.h"
#include "weft/io.h"

/* The options of a model whose generation_config.json has this text; NULL: there is none. */
static weft_generate_options defaults_of(const char *text, weft_model **model)
{
    weft_generate_options o = {.max_tokens = 9, .sampler = {.temperature = 0.7, .top_p = 0.8}};
    weft_model *made = NULL;
    weft_config *config = NULL;
    *model = NULL;
    const char *folder = check_temporary("with_defaults");
    CHECK_OK(weft_config_load(check_fixture("models/llama/config.json"), &config));
    weft_random_seed(1); /* the same weights every time */
    CHECK_OK(weft_model_new(config, &made));
    CHECK_OK(weft_model_save(made, folder));
    weft_model_free(made);
    weft_config_free(config);
    char *path = weft_format("%s/generation_config.json", folder);
    if (text != NULL)
        CHECK_OK(weft_file_write(path, text, strlen(text)));
    weft_free(path);
    if (CHECK_OK(weft_model_load(folder, NULL, model)))
        weft_model_generation_defaults(*model, &o);
    return o;
}

static void nothing_said_changes_nothing(void)
{
    weft_model *model;
    weft_generate_options o = defaults_of(NULL, &model);
    CHECK_CLOSE(o.sampler.temperature, 0.7, 0);
    weft_model_free(model);
    o = defaults_of("{\"eos_token_id\": 3, \"temperature\": null}", &model);
    CHECK_CLOSE(o.sampler.temperature, 0.7, 0);
    CHECK_CLOSE(o.sampler.top_p, 0.8, 0);
    CHECK_EQ_INT(o.sampler.n_suppress, 0);
    CHECK_EQ_INT(o.max_tokens, 9);
    weft_model_free(model);
}

static void all_numbers_are_taken(void)
{
    weft_model *model;
    const weft_generate_options o =
        defaults_of("{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20, "
                    "\"min_p\": 0.05,"
                    " \"repetition_penalty\": 1.05, \"suppress_tokens\": [5, 1, 258883], "
                    "\"eos_token_id\": [3, 4]}",
                    &model);
    const weft_sampler_options *s = &o.sampler;
    int n = 0, ends = 0;
    CHECK_CLOSE(s->temperature, 0.6, 0);
    CHECK_CLOSE(s->top_p, 0.95, 0);
    CHECK_EQ_INT(s->top_k, 20);
    CHECK_CLOSE(s->min_p, 0.05, 0);
    CHECK_CLOSE(s->repetition_penalty, 1.05, 0);
    if (CHECK_EQ_INT(s->n_suppress, 2)) /* the third is not in the vocabulary */
        CHECK(s->suppress[0] == 5 && s->suppress[1] == 1);
    const int32_t *eos = model ? weft_model_eos(model, &n) : NULL;
    for (int i = 0; i < n; i++)
        ends += eos[i] == 3 || eos[i] == 4;
    CHECK_EQ_INT(ends, 2);
    weft_model_free(model);
}

static void do_sample_decides(void)
{
    static const struct {
        const char *text;
        double temperature;
    } cases[] = {
        {"{\"do_sample\": false, \"temperature\": 0.6}", 0},
        {"{\"do_sample\": true}", 1},
        {"{\"do_sample\": true, \"temperature\": 0.3}", 0.3},
        {"{\"temperature\": 0.4}", 0.4},
        {"{\"top_k\": 5}", 0.7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *model;
        const weft_generate_options o = defaults_of(cases[i].text, &model);
        CHECK_CLOSE(o.sampler.temperature, cases[i].temperature, 0);
        weft_model_free(model);
    }
}

static void suppressed_tokens_do_not_come(void)
{
    weft_model *model;
    weft_generate_options o = defaults_of("{\"do_sample\": false}", &model);
    const int32_t prompt[] = {5, 6, 7};
    int32_t first = -1, other = -1;
    char text[80];
    weft_generator *g = NULL;
    if (model && CHECK_OK(weft_generator_new(model, prompt, 3, &o, &g)))
        CHECK_OK(weft_generator_next(g, &first, NULL));
    weft_generator_free(g);
    weft_model_free(model);
    snprintf(text, sizeof text, "{\"do_sample\": false, \"suppress_tokens\": [%d]}", (int)first);
    o = defaults_of(text, &model);
    if (model && CHECK_OK(weft_generator_new(model, prompt, 3, &o, &g)))
        CHECK_OK(weft_generator_next(g, &other, NULL));
    weft_generator_free(g);
    CHECK(first >= 0 && other >= 0 && other != first);
    if (model && CHECK_OK(weft_generator_new(model, prompt, 3, NULL, &g)))
        CHECK_OK(weft_generator_next(g, &other, NULL));
    CHECK_EQ_INT(other, first);
    weft_generator_free(g);
    weft_model_free(model);
}

CHECK_MAIN("defaults", CHECK_CASE(nothing_said_changes_nothing), CHECK_CASE(all_numbers_are_taken),
           CHECK_CASE(do_sample_decides), CHECK_CASE(suppressed_tokens_do_not_come))
