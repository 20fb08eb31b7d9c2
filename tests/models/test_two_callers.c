/* tests/models/test_two_callers.c -- one model used by two threads, each with its own sequence. */
#include <pthread.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/generate.h"

enum { CALLERS = 2, TOKENS = 24, TIMES = 3, PROMPT = 5 };

typedef struct caller {
    weft_model *model;
    const weft_generate_options *options;
    int32_t prompt[PROMPT];
    generated got;
    weft_status status;
} caller;

static void *call(void *argument)
{
    caller *c = argument;
    c->got = (generated){0};
    c->status = weft_generate(c->model, NULL, c->prompt, PROMPT, c->options, generated_collect,
                              &c->got, NULL);
    return NULL;
}

/* Concurrent generations give the same results as single ones. */
static void beside_each_other(weft_model *model, const weft_generate_options *options)
{
    caller alone[CALLERS] = {0}, together[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        alone[i].model = model;
        alone[i].options = options;
        for (int k = 0; k < PROMPT; k++)
            alone[i].prompt[k] = 7 * i + 11 * k + 3;
    }
    memcpy(together, alone, sizeof together);
    for (int time = 0; time < TIMES; time++) { /* first together: nothing is initialized yet */
        pthread_t threads[CALLERS];
        for (int i = 0; i < CALLERS; i++)
            CHECK_EQ_INT(pthread_create(&threads[i], NULL, call, &together[i]), 0);
        for (int i = 0; i < CALLERS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < CALLERS && time == 0; i++)
            call(&alone[i]);
        for (int i = 0; i < CALLERS; i++) {
            CHECK_EQ_INT(together[i].status, WEFT_OK);
            CHECK_EQ_INT(together[i].got.n, alone[i].got.n);
            CHECK_BYTES(together[i].got.ids, alone[i].got.ids, sizeof alone[i].got.ids);
        }
    }
}

/* Of families whose heads are their embeddings, and one with experts. */
static void two_texts_from_one_model(void)
{
    static const char *const families[] = {"gemma3", "qwen3", "mixtral", "gemma4-dense"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        weft_model *model = fixture_model(families[i]);
        if (model == NULL)
            continue;
        weft_generate_options o = {.max_tokens = TOKENS, .ignore_eos = true};
        beside_each_other(model, &o);
        o.no_compile = true;
        o.sampler = (weft_sampler_options){.temperature = 1, .top_p = 0.9};
        o.cache.kv_bits = 8;
        beside_each_other(model, &o);
        weft_model_free(model);
    }
}

CHECK_MAIN("two callers", CHECK_CASE(two_texts_from_one_model))
