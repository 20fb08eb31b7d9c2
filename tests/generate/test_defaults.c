/* tests/generate/test_defaults.c -- sampler defaults in generation_config.json and GGUF files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/convert.h"
#include "weft/generate.h"
#include "weft/gguf.h"
#include "weft/io.h"

/* The options of a model whose generation_config.json has this text; NULL: no such file. */
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

static void absent_settings_change_nothing(void)
{
    weft_model *model;
    weft_generate_options o = defaults_of(NULL, &model);
    CHECK_CLOSE(o.sampler.temperature, 0.7, 0);
    weft_model_free(model);
    o = defaults_of("{\"eos_token_id\": 3, \"temperature\": null}", &model);
    CHECK_CLOSE(o.sampler.temperature, 0.7, 0);
    CHECK_CLOSE(o.sampler.top_p, 0.8, 0);
    CHECK_EQ_INT(o.sampler.order, WEFT_SAMPLER_TOP_P_FIRST);
    CHECK_EQ_INT(o.sampler.n_suppress, 0);
    CHECK_EQ_INT(o.max_tokens, 9);
    weft_model_free(model);
}

/* The message names the file and the key, not the sampler that the value would reach. */
static void numbers_without_a_meaning_are_refused(void)
{
    static const char *const cases[][2] = {
        {"{\"temperature\": -1}", "temperature: expected a number of at least 0, got -1"},
        {"{\"temperature\": \"x\"}", "temperature: expected a number, got string"},
        {"{\"top_p\": 2}", "top_p: expected a number from 0 to 1, got 2"},
        {"{\"min_p\": -0.5}", "min_p: expected a number from 0 to 1, got -0.5"},
        {"{\"top_k\": 2.5}", "top_k: expected an integer, got number"},
        {"{\"top_k\": -1}", "top_k: expected a number of at least 0, got -1"},
        {"{\"do_sample\": \"x\"}", "do_sample: expected true or false, got string"},
    };
    weft_model *model;
    (void)defaults_of(NULL, &model);
    weft_model_free(model);
    char folder[600], path[700];
    snprintf(folder, sizeof folder, "%s", check_temporary("with_defaults"));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(weft_file_write(path, cases[i][0], strlen(cases[i][0])));
        CHECK_STATUS(weft_model_load(folder, NULL, &model), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "with_defaults/generation_config.json: ");
        CHECK_CONTAINS(weft_error_message(), cases[i][1]);
    }
    CHECK(remove(path) == 0);
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
    CHECK_EQ_INT(s->order, WEFT_SAMPLER_TOP_K_FIRST);
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

static void suppressed_tokens_are_not_drawn(void)
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

static bool same(const weft_sampler_options *a, const weft_sampler_options *b)
{
    return a->temperature == b->temperature && a->top_p == b->top_p && a->top_k == b->top_k &&
           a->min_p == b->min_p && a->order == b->order &&
           a->repetition_penalty == b->repetition_penalty &&
           a->xtc_probability == b->xtc_probability && a->xtc_threshold == b->xtc_threshold &&
           a->n_suppress == b->n_suppress &&
           (a->n_suppress == 0 ||
            memcmp(a->suppress, b->suppress, (size_t)a->n_suppress * sizeof *a->suppress) == 0);
}

/* In a GGUF file, and in a folder made of that. Numbers that float32 has exactly. */
static void through_gguf_files(void)
{
    static const char *const texts[] = {
        "{\"do_sample\": true, \"temperature\": 0.75, \"top_p\": 0.875, \"top_k\": 20, "
        "\"min_p\": 0.0625, \"repetition_penalty\": 1.25, \"suppress_tokens\": [5, 1], "
        "\"xtc_probability\": 0.5, \"xtc_threshold\": 0.125, \"eos_token_id\": [3, 4]}",
        "{\"do_sample\": false, \"top_k\": 3, \"eos_token_id\": [3, 4]}",
        "{\"top_p\": 0.25, \"eos_token_id\": [3, 4]}",
        "{\"eos_token_id\": [3, 4]}",
    };
    char file[512], folder[512];
    snprintf(file, sizeof file, "%s", check_temporary("defaults.gguf"));
    snprintf(folder, sizeof folder, "%s", check_temporary("defaults_again"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        weft_model *model, *again;
        const weft_generate_options o = defaults_of(texts[i], &model);
        if (!model || !CHECK_OK(weft_model_save_gguf(model, file, NULL)) ||
            !CHECK_OK(weft_convert(file, folder, &(weft_convert_options){.replace = true}, NULL)))
            return;
        for (int f = 0; f < 2; f++) {
            int n = 0, ends = 0;
            weft_generate_options other = {.sampler = {.temperature = 0.7, .top_p = 0.8}};
            if (!CHECK_OK(weft_model_load(f ? folder : file, NULL, &again)))
                continue;
            weft_model_generation_defaults(again, &other);
            CHECK(same(&o.sampler, &other.sampler));
            const int32_t *eos = weft_model_eos(again, &n);
            for (int e = 0; e < n; e++)
                ends += eos[e] == 3 || eos[e] == 4;
            CHECK_EQ_INT(ends, 2);
            weft_model_free(again);
        }
        weft_model_free(model);
    }
}

/* Files of other programs: a penalty over the last 0 tokens, no sampling at all, values that are
 * not numbers. */
static void gguf_files_of_other_programs(void)
{
    const float temperature = -1, penalty = 1.5F, top_p = (float)INFINITY;
    const int32_t last = 0, k = -1, types[] = {1, 3, 3, 1, 3};
    const uint32_t eos = 1;
    const weft_gguf_string tokens[] = {
        {"a", 1}, {"</s>", 4}, {"<|im_end|>", 10}, {"<|eot_id|>", 10}, {"<tool>", 6}};
    const weft_gguf_value more[] = {
        {"general.sampling.temp", WEFT_GGUF_FLOAT32, false, 1, &temperature, NULL},
        {"general.sampling.penalty_repeat", WEFT_GGUF_FLOAT32, false, 1, &penalty, NULL},
        {"general.sampling.penalty_last_n", WEFT_GGUF_INT32, false, 1, &last, NULL},
        {"general.sampling.top_k", WEFT_GGUF_INT32, false, 1, &k, NULL},
        {"general.sampling.top_p", WEFT_GGUF_FLOAT32, false, 1, &top_p, NULL},
        {"tokenizer.ggml.tokens", WEFT_GGUF_STRING, true, 5, NULL, tokens},
        {"tokenizer.ggml.token_type", WEFT_GGUF_INT32, true, 5, types, NULL},
        {"tokenizer.ggml.eos_token_id", WEFT_GGUF_UINT32, false, 1, &eos, NULL},
    };
    enum { MORE = sizeof more / sizeof *more, MOST = 64 };
    char plain[512], path[512];
    const char *names[MOST];
    weft_array *arrays[MOST];
    weft_gguf_value values[MOST];
    weft_gguf *file;
    weft_model *model;
    int n = 0, n_values = MORE, n_eos;
    weft_generate_options o = defaults_of(NULL, &model);
    snprintf(plain, sizeof plain, "%s", check_temporary("plain.gguf"));
    snprintf(path, sizeof path, "%s", check_temporary("others.gguf"));
    if (!model || !CHECK_OK(weft_model_save_gguf(model, plain, NULL)) ||
        !CHECK_OK(weft_gguf_open(plain, &file)))
        return;
    weft_model_free(model);
    weft_scope_open();
    memcpy(values, more, sizeof more);
    for (int i = 0; i < weft_gguf_value_count(file) && n_values < MOST; i++) {
        const weft_gguf_value *v = weft_gguf_value_at(file, i);
        if (strncmp(v->key, "tokenizer.", 10) != 0)
            values[n_values++] = *v;
    }
    for (; n < weft_gguf_count(file) && n < MOST; n++) {
        names[n] = weft_gguf_at(file, n)->name;
        arrays[n] = weft_gguf_get_at(file, n);
    }
    CHECK_OK(weft_gguf_save(path, names, arrays, n, values, n_values));
    weft_scope_close(NULL);
    weft_gguf_close(file);
    if (!CHECK_OK(weft_model_load(path, NULL, &model)))
        return;
    weft_model_generation_defaults(model, &o);
    CHECK_CLOSE(o.sampler.temperature, 0, 0);
    CHECK_CLOSE(o.sampler.repetition_penalty, 0, 0);
    CHECK_CLOSE(o.sampler.top_p, 0.8, 0);
    CHECK_EQ_INT(o.sampler.top_k, 0);
    /* Its end token, and the control token whose text ends turns. */
    const int32_t *ends = weft_model_eos(model, &n_eos);
    if (CHECK_EQ_INT(n_eos, 2))
        CHECK(ends[0] == 1 && ends[1] == 2);
    weft_model_free(model);
}

CHECK_MAIN("defaults", CHECK_CASE(absent_settings_change_nothing),
           CHECK_CASE(numbers_without_a_meaning_are_refused), CHECK_CASE(all_numbers_are_taken),
           CHECK_CASE(do_sample_decides), CHECK_CASE(through_gguf_files),
           CHECK_CASE(gguf_files_of_other_programs), CHECK_CASE(suppressed_tokens_are_not_drawn))
