/* models/generate/generate.c -- a generator with a callback and texts. */
#include "weft/generate.h"

/* What a run of weft_generate has open. */
typedef struct run {
    weft_generator *generator;
    weft_detokenizer *detokenizer; /* NULL: no texts */
    weft_generate_fn *callback;
    void *context;
    bool stopped; /* by the callback */
} run;

/* The text that a token completed; that which was held back for id -1. */
static weft_status text_of(run *r, weft_generated *token)
{
    token->text = "";
    token->length = 0;
    if (r->detokenizer == NULL)
        return WEFT_OK;
    if (token->id < 0)
        return weft_detokenizer_finish(r->detokenizer, &token->text, &token->length);
    return weft_detokenizer_push(r->detokenizer, token->id, &token->text, &token->length);
}

/* One token to the callback; *more is false when there will be no other. */
static weft_status one(run *r, bool *more)
{
    weft_generated token = {.id = -1};
    weft_status status = weft_generator_next(r->generator, &token.id, &token.logprob);
    if (status == WEFT_OK)
        status = text_of(r, &token);
    if (status != WEFT_OK)
        return status;
    *more = token.id >= 0;
    if (r->callback != NULL && (token.id >= 0 || token.length > 0))
        r->stopped = !r->callback(r->context, &token);
    return WEFT_OK;
}

/* The detokenizer reads the prompt first: what the first token gives can depend on what stands in
 * front of it. Half a character at the prompt's end is completed by the first token. */
static weft_status open_text(run *r, const weft_tokenizer *tokenizer, const int32_t *prompt,
                             size_t n, bool keep_special)
{
    if (tokenizer == NULL)
        return WEFT_OK;
    weft_status status = weft_detokenizer_new(
        tokenizer, keep_special ? 0 : WEFT_TOKENIZER_SKIP_SPECIAL, &r->detokenizer);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const char *text;
        status = weft_detokenizer_push(r->detokenizer, prompt[i], &text, NULL);
    }
    return status;
}

weft_status weft_generate(weft_model *model, const weft_tokenizer *tokenizer, const int32_t *prompt,
                          size_t n, const weft_generate_options *options,
                          weft_generate_fn *callback, void *context, weft_generate_stats *stats)
{
    run r = {.callback = callback, .context = context};
    if (stats != NULL)
        *stats = (weft_generate_stats){0};
    weft_status status = weft_generator_new(model, prompt, n, options, &r.generator);
    if (status == WEFT_OK)
        status = open_text(&r, tokenizer, prompt, n, options != NULL && options->keep_special);
    bool more = true;
    while (status == WEFT_OK && more && !r.stopped)
        status = one(&r, &more);
    if (stats != NULL && r.generator != NULL) {
        *stats = weft_generator_stats(r.generator);
        if (r.stopped && stats->reason == WEFT_FINISH_NONE) {
            stats->reason = WEFT_FINISH_CANCELLED;
            stats->detail = WEFT_FINISH_CALLBACK;
        }
    }
    if (stats != NULL && status != WEFT_OK)
        stats->reason = WEFT_FINISH_ERROR;
    weft_detokenizer_free(r.detokenizer);
    weft_generator_free(r.generator);
    return status;
}
