/* tests/generate/test_finish.c -- reasons for the end of a text: cancelled, time limit, complete
 * document; and that evaluating several tokens at once changes nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/generate/once.h"
#include "weft/generate.h"
#include "weft/memory.h"

enum { MOST = 1000 };

/* The prompt ends within a character, which the first token completes. */
static void half_a_character_in_the_prompt_is_completed(void)
{
    int32_t *ids;
    size_t n;
    if (!ready() || !CHECK_OK(weft_tokenizer_encode(tokenizer, "\xc3\xa9", 2, 0, &ids, &n)))
        return;
    if (CHECK_EQ_INT(n, 2)) {
        const float certain = 1000;
        const weft_generate_options o = {
            .max_tokens = 1,
            .ignore_eos = true,
            .sampler = {.bias_ids = &ids[1], .bias_values = &certain, .n_bias = 1}};
        generated t = {0};
        CHECK_OK(weft_generate(model, tokenizer, ids, 1, &o, generated_collect, &t, NULL));
        CHECK_EQ_INT(t.n, 1);
        CHECK_EQ_INT(t.ids[0], ids[1]);
        CHECK_STR(t.text, "\xc3\xa9");
    }
    weft_free(ids);
}

/* ---- Cancelled and late --------------------------------------------------------------------- */

/* Earlier tokens are kept, and no further token is generated. */
static void cancelling_stops_at_the_token(void)
{
    if (!ready())
        return;
    for (int64_t ahead = 1; ahead <= 4; ahead += 3) {
        generated whole = {0}, part = {.cancel_at = 6, .cancel = weft_cancel_new()};
        weft_generate_options o = {.max_tokens = 20, .ignore_eos = true, .tokens_per_eval = ahead};
        generate(&o, &whole);
        o.cancel = part.cancel;
        const weft_generate_stats stats = generate(&o, &part);
        CHECK_EQ_INT(stats.reason, WEFT_FINISH_CANCELLED);
        CHECK_EQ_INT(stats.detail, WEFT_FINISH_DETAIL_NONE);
        CHECK_STR(weft_finish_name(stats.reason), "cancelled");
        CHECK_EQ_INT(part.n, 6);
        CHECK_EQ_INT(stats.tokens, 6);
        CHECK_BYTES(part.ids, whole.ids, 6 * sizeof *whole.ids);
        CHECK(strlen(part.text) > 0 && strncmp(part.text, whole.text, strlen(part.text)) == 0);
        weft_cancel_free(part.cancel);
    }
}

/* A generation that waits after its fifth token until another thread has cancelled it. */
typedef struct midst {
    atomic_int n;
    weft_cancel *cancel;
} midst;

enum { MIDST = 5 };

static bool wait_in_the_midst(void *context, const weft_generated *token)
{
    midst *m = context;
    (void)token;
    if (atomic_fetch_add(&m->n, 1) + 1 == MIDST) {
        for (int i = 0; i < 60000 && !weft_cancel_is_set(m->cancel); i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static void *cancel_in_the_midst(void *context)
{
    midst *m = context;
    while (atomic_load(&m->n) < MIDST)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    weft_cancel_set(m->cancel);
    return NULL;
}

/* Cancelled by another thread during generation; a request made before lets no token be
 * computed. */
static void another_thread_cancels(void)
{
    if (!ready())
        return;
    weft_cancel *cancel = weft_cancel_new();
    weft_generate_options o = {
        .max_tokens = 900, .ignore_eos = true, .cancel = cancel, .no_cache = true};
    midst m = {.cancel = cancel};
    pthread_t thread;
    if (!CHECK_EQ_INT(pthread_create(&thread, NULL, cancel_in_the_midst, &m), 0))
        return;
    weft_generate_stats stats = {0};
    CHECK_OK(weft_generate(model, tokenizer, once, ONCE, &o, wait_in_the_midst, &m, &stats));
    atomic_store(&m.n, MIDST); /* after a failure, too, the thread ends */
    pthread_join(thread, NULL);
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(stats.tokens, MIDST);
    generated t = {0};

    stats = generate(&o, &t);
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(stats.tokens, 0);
    weft_cancel_clear(cancel);
    o.max_tokens = 2;
    stats = generate(&o, &t);
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_LENGTH);
    weft_cancel_free(cancel);
    weft_cancel_free(NULL);
}

static void the_timeout_ends_generation(void)
{
    if (!ready())
        return;
    generated t = {0};
    weft_generate_options o = {
        .max_tokens = 900, .ignore_eos = true, .timeout = 0.05, .no_cache = true};
    weft_generate_stats stats = generate(&o, &t);
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_DEADLINE);
    CHECK_STR(weft_finish_name(stats.reason), "deadline");
    CHECK(stats.tokens < 900);
    CHECK_EQ_INT(stats.tokens, t.n);
    /* Also between the chunks of a prompt: then there is no token. */
    static int32_t prompt[MOST];
    for (int i = 0; i < MOST; i++)
        prompt[i] = once[i % ONCE];
    o = (weft_generate_options){.timeout = 1e-3, .prefill = 2};
    CHECK_OK(weft_generate(model, NULL, prompt, MOST, &o, NULL, NULL, &stats));
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_DEADLINE);
    CHECK_EQ_INT(stats.tokens, 0);
    o = (weft_generate_options){.timeout = 3600, .max_tokens = 3, .prefill = 2};
    CHECK_OK(weft_generate(model, NULL, once, ONCE, &o, NULL, NULL, &stats));
    CHECK_EQ_INT(stats.reason, WEFT_FINISH_LENGTH);
    CHECK_EQ_INT(stats.detail, WEFT_FINISH_MAX);
    weft_generator *g;
    o.timeout = -1;
    CHECK_STATUS(weft_generator_new(model, once, ONCE, &o, &g), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "timeout");
}

/* ---- Several tokens at once ----------------------------------------------------------------- */

static void same_tokens(weft_generate_options o)
{
    generated one = {0};
    const weft_generate_stats wanted = generate(&o, &one);
    for (int64_t n = 2; n <= 16; n *= 2) {
        generated many = {0};
        o.tokens_per_eval = n;
        const weft_generate_stats got = generate(&o, &many);
        CHECK_EQ_INT(many.n, one.n);
        CHECK_BYTES(many.ids, one.ids, sizeof one.ids);
        CHECK_BYTES(many.logprobs, one.logprobs, sizeof one.logprobs);
        CHECK_STR(many.text, one.text);
        CHECK_EQ_INT(got.reason, wanted.reason);
        CHECK_EQ_INT(got.detail, wanted.detail);
        CHECK_EQ_INT(got.tokens, wanted.tokens);
    }
}

/* Also if the text ends within a group, and if there are fewer tokens than in one group. */
static void several_tokens_per_evaluation_are_the_same(void)
{
    if (!ready())
        return;
    generated t = {0};
    same_tokens((weft_generate_options){.max_tokens = 41, .ignore_eos = true, .logprobs = true});
    same_tokens((weft_generate_options){.max_tokens = 3});
    same_tokens((weft_generate_options){
        .max_tokens = 30,
        .seed = 7,
        .no_compile = true,
        .sampler = {.temperature = 1, .top_k = 30, .repetition_penalty = 1.2}});
    generate(&(weft_generate_options){.max_tokens = 30, .ignore_eos = true}, &t);
    for (int i = 8; i < 12; i++)
        same_tokens((weft_generate_options){.max_tokens = 30, .stop = t.ids + i, .n_stop = 1});
}

/* ---- Documents ------------------------------------------------------------------------------ */

/* What is generated under a constraint is a whole document, compiled or not, with a cache or not,
 * greedy or drawn, and the same tokens in each of these ways. */
static void a_document_ends_the_text(void)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"enum\":[\"wolf\",\"girl\"]},"
                                 "\"minItems\":3,\"maxItems\":3}";
    weft_constraint *constraint = NULL;
    if (!ready() || !CHECK_OK(weft_constraint_new(tokenizer, schema, strlen(schema), "schema", NULL,
                                                  &constraint)))
        return;
    for (int drawn = 0; drawn < 2; drawn++) {
        generated all[3] = {0};
        for (int way = 0; way < 3; way++) {
            const weft_generate_options o = {.max_tokens = 40,
                                             .seed = 3,
                                             .sampler = {.temperature = drawn},
                                             .constraint = constraint,
                                             .no_compile = way == 1,
                                             .no_cache = way == 2};
            CHECK_OK(weft_constraint_reset(constraint));
            const weft_generate_stats stats = generate(&o, &all[way]);
            CHECK(weft_constraint_complete(constraint));
            CHECK_EQ_INT(stats.reason, WEFT_FINISH_STOP);
            CHECK_EQ_INT(stats.compiles, way == 0);
            CHECK_EQ_INT(stats.detail, WEFT_FINISH_DOCUMENT);
            CHECK_STR(all[way].text, all[0].text);
            CHECK_BYTES(all[way].ids, all[0].ids, sizeof all[0].ids);
        }
        CHECK(all[0].n > 5);
        CHECK_OK(weft_constraint_reset(constraint));
        CHECK_OK(weft_constraint_accept_text(constraint, all[0].text, strlen(all[0].text)));
        CHECK(weft_constraint_complete(constraint));
    }
    weft_constraint_free(constraint);
}

int main(int argc, char **argv)
{
    static const check_case cases[] = {
        CHECK_CASE(half_a_character_in_the_prompt_is_completed),
        CHECK_CASE(cancelling_stops_at_the_token),
        CHECK_CASE(another_thread_cancels),
        CHECK_CASE(the_timeout_ends_generation),
        CHECK_CASE(several_tokens_per_evaluation_are_the_same),
        CHECK_CASE(a_document_ends_the_text),
    };
    return check_main(argc, argv, "finish", cases, sizeof cases / sizeof *cases);
}
