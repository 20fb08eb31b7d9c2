/* generate/generate.c -- weft_generate: a generator with a callback and decoded text. */
#include "generate/generator.h"
#include "generate/shift.h"

/* The text that a token completed; for id -1 the text that was held back. */
static weft_status text_of(weft__generation *r, weft_generated *token)
{
    token->text = "";
    token->length = 0;
    if (r->detokenizer == NULL)
        return WEFT_OK;
    if (token->id < 0)
        return weft_detokenizer_finish(r->detokenizer, &token->text, &token->length);
    return weft_detokenizer_push(r->detokenizer, token->id, &token->text, &token->length);
}

/* Passes everything that may be emitted to the callback. */
static void give(weft__generation *r)
{
    weft_generated token;
    while (!r->stopped && weft__stops_next(r->stops, &token)) {
        r->given += token.id >= 0;
        if (r->callback != NULL && (token.id >= 0 || token.length > 0))
            r->stopped = !r->callback(r->context, &token);
    }
}

weft_status weft__generation_next(weft__generation *r, bool *more)
{
    weft_generated token = {.id = -1};
    weft_status status = weft_generator_next(r->generator, &token.id, &token.logprob);
    if (status == WEFT_OK && token.id < 0 && weft__shift_wanted(r->generator)) {
        *more = true;
        return weft__shift_go_on(r->generator);
    }
    if (status == WEFT_OK) {
        weft__generator_top(r->generator, &token);
        status = text_of(r, &token);
    }
    if (status == WEFT_OK)
        status = weft__stops_push(r->stops, &token);
    if (status != WEFT_OK)
        return status;
    if (token.id < 0)
        weft__stops_finish(r->stops);
    give(r);
    *more = token.id >= 0 && !r->stopped && !weft__stops_found(r->stops);
    return WEFT_OK;
}

/* The detokenizer reads the prompt first, because the text of the first token can depend on the
 * preceding one. An incomplete character at the prompt's end is completed by the first token. */
static weft_status open_text(weft__generation *r, const weft_tokenizer *tokenizer,
                             const int32_t *prompt, size_t n, bool keep_special)
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

weft_status weft__generation_open(weft__generation *r, weft_model *model,
                                  const weft_tokenizer *tokenizer, const int32_t *prompt, size_t n,
                                  const weft_generate_options *options)
{
    static const weft_generate_options none = {0};
    const weft_generate_options *o = options != NULL ? options : &none;
    if (o->n_stop_texts < 0 || (o->n_stop_texts > 0 && tokenizer == NULL))
        return weft_fail(WEFT_INVALID, "generate: stop_texts: expected a number of at least 0, and "
                                       "a tokenizer where there are any");
    weft_status status =
        weft__stops_new(o->stop_texts, o->n_stop_texts, o->include_stop_text, &r->stops);
    if (status == WEFT_OK)
        status = weft__shift_open(model, prompt, n, o, &r->generator);
    return status == WEFT_OK ? open_text(r, tokenizer, prompt, n, o->keep_special) : status;
}

weft_generate_stats weft__generation_stats(const weft__generation *r, weft_status status)
{
    weft_generate_stats stats = {0};
    if (r->generator != NULL)
        stats = weft_generator_stats(r->generator);
    stats.tokens = r->given;
    if (r->stops != NULL && weft__stops_found(r->stops)) {
        stats.reason = WEFT_FINISH_STOP;
        stats.detail = WEFT_FINISH_TEXT;
        stats.stop_text = weft__stops_which(r->stops);
    }
    if (r->stopped && stats.reason == WEFT_FINISH_NONE) {
        stats.reason = WEFT_FINISH_CANCELLED;
        stats.detail = WEFT_FINISH_CALLBACK;
    }
    if (status != WEFT_OK)
        stats.reason = WEFT_FINISH_ERROR;
    return stats;
}

void weft__generation_close(weft__generation *r)
{
    weft_detokenizer_free(r->detokenizer);
    weft__stops_free(r->stops);
    weft_generator_free(r->generator);
}

weft_status weft_generate(weft_model *model, const weft_tokenizer *tokenizer, const int32_t *prompt,
                          size_t n, const weft_generate_options *options,
                          weft_generate_fn *callback, void *context, weft_generate_stats *stats)
{
    weft__generation r = {.callback = callback, .context = context};
    weft_status status = weft__generation_open(&r, model, tokenizer, prompt, n, options);
    bool more = true;
    while (status == WEFT_OK && more)
        status = weft__generation_next(&r, &more);
    if (stats != NULL)
        *stats = weft__generation_stats(&r, status);
    weft__generation_close(&r);
    return status;
}
