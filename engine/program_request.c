/* engine/program_request.c -- writes requests to other programs as lines of JSON. */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "engine/program.h"
#include "generate/generation.h"
#include "weft/memory.h"

void weft__program_add_text(weft__text *line, const char *key, const char *value)
{
    if (value != NULL) {
        weft__text_format(line, ", \"%s\": ", key);
        weft__text_quote(line, value);
    }
}

weft_status weft__program_check(const char *name, const weft_generate_options *o)
{
    const weft_sampler_options *s = &o->sampler;
    const char *what = o->constraint != NULL              ? "constraints"
                       : o->n_stop_texts > 0              ? "stop texts"
                       : o->logprobs                      ? "log-probabilities"
                       : o->no_cache                      ? "generation without a KV cache"
                       : o->shift                         ? "context shifting"
                       : o->cache.max_context > 0         ? "max_context"
                       : o->cache.kv_bits != 0            ? "kv_bits"
                       : s->n_bias + s->n_suppress > 0    ? "logit biases and suppressed tokens"
                       : s->presence_penalty != 0         ? "presence penalties"
                       : s->frequency_penalty != 0        ? "frequency penalties"
                       : s->xtc_probability != 0          ? "XTC"
                       : o->draft != NULL || o->ngram > 0 ? "speculative decoding"
                       : o->probe != NULL                 ? "probes"
                                                          : NULL;
    if (what != NULL)
        return weft_fail(WEFT_UNSUPPORTED, "engine: the backend '%s' has no %s", name, what);
    if (!(s->temperature >= 0) || !(s->top_p >= 0) || !(s->min_p >= 0) ||
        !(s->repetition_penalty >= 0) || s->top_k < 0 || o->max_tokens < 0)
        return weft_fail(WEFT_INVALID, "engine: temperature, top_p, min_p, repetition_penalty, "
                                       "top_k and max_tokens: expected at least 0");
    if (isinf(s->temperature + s->top_p + s->min_p + s->repetition_penalty)) /* not in JSON */
        return weft_fail(WEFT_INVALID, "engine: temperature, top_p, min_p and repetition_penalty: "
                                       "expected finite numbers");
    return WEFT_OK;
}

static void add_ids(weft__text *line, const char *key, const int32_t *ids, size_t n)
{
    weft__text_format(line, ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        weft__text_format(line, "%s%d", i > 0 ? ", " : "", (int)ids[i]);
    weft__text_format(line, "]");
}

/* Appends the caller's JSON without line breaks. */
static weft_status add_json(weft__text *line, const char *key, const char *json)
{
    weft__json_doc doc;
    if (json == NULL)
        return WEFT_OK;
    const weft_status status = weft__json_parse(json, strlen(json), key, &doc);
    if (status != WEFT_OK)
        return status;
    const char *plain = json_object_to_json_string_ext(doc.root, JSON_C_TO_STRING_PLAIN);
    weft__text_format(line, ", \"%s\": ", key);
    if (plain != NULL)
        weft__text_append(line, plain, strlen(plain));
    line->failed |= plain == NULL;
    weft__json_free(&doc);
    return WEFT_OK;
}

static weft_status add_chat(weft__text *line, const weft_engine_request *r)
{
    static const weft_chat_options answer = {.generation_prompt = true};
    const weft_chat_options *o = r->chat != NULL ? r->chat : &answer;
    weft_status status = add_json(line, "messages", r->messages);
    if (status == WEFT_OK)
        status = add_json(line, "tools", o->tools);
    if (status == WEFT_OK)
        status = add_json(line, "documents", o->documents);
    if (status == WEFT_OK)
        status = add_json(line, "variables", o->variables);
    weft__program_add_text(line, "template", o->template_name);
    weft__text_format(line, ", \"add_generation_prompt\": %s",
                      o->generation_prompt ? "true" : "false");
    if (o->thinking != WEFT_THINKING_DEFAULT)
        weft__text_format(line, ", \"enable_thinking\": %s",
                          o->thinking == WEFT_THINKING_ON ? "true" : "false");
    return status;
}

static weft_status add_text_prompt(weft__text *line, const char *name, const weft_engine_request *r)
{
    const size_t length = r->length > 0 ? r->length : r->prompt != NULL ? strlen(r->prompt) : 0;
    if (r->ids != NULL) {
        add_ids(line, "prompt_ids", r->ids, r->n_ids);
        return WEFT_OK;
    }
    char *text = weft_malloc(length + 1);
    if (text == NULL)
        return weft__out_of_memory(name, "a prompt");
    if (length > 0)
        memcpy(text, r->prompt, length);
    text[length] = '\0';
    const bool whole = strlen(text) == length;
    weft__program_add_text(line, "prompt", text);
    weft_free(text);
    if (r->no_special)
        weft__text_format(line, ", \"add_special_tokens\": false");
    return whole ? WEFT_OK
                 : weft_fail(WEFT_INVALID, "%s: the prompt has a NUL, which cannot be sent", name);
}

weft_status weft__program_add_prompt(weft__text *line, const char *name,
                                     const weft_engine_request *r)
{
    return r->messages != NULL ? add_chat(line, r) : add_text_prompt(line, name, r);
}

int64_t weft__program_most_tokens(const weft_generate_options *o)
{
    return o->max_tokens > 0 ? o->max_tokens : WEFT__MAX_TOKENS;
}

weft_status weft__program_generate(weft__text *line, const char *name, const weft_engine_request *r)
{
    const weft_generate_options *o = r->options;
    const weft_sampler_options *s = &o->sampler;
    weft__text_format(line, "{\"cmd\": \"%s\"", r->messages != NULL ? "chat" : "generate");
    weft_status status = weft__program_add_prompt(line, name, r);
    weft__text_format(line,
                      ", \"max_tokens\": %lld, \"temperature\": %.17g, \"top_k\": %lld, "
                      "\"top_p\": %.17g, \"min_p\": %.17g, \"repeat_penalty\": %.17g, "
                      "\"seed\": %llu, \"ignore_eos\": %s, \"keep_special\": %s",
                      (long long)weft__program_most_tokens(o), s->temperature, (long long)s->top_k,
                      s->top_p, s->min_p, s->repetition_penalty,
                      (unsigned long long)(o->seed & INT64_MAX), o->ignore_eos ? "true" : "false",
                      o->keep_special ? "true" : "false");
    if (o->n_stop > 0)
        add_ids(line, "stop_ids", o->stop, (size_t)o->n_stop);
    weft__text_append(line, "}", 1);
    return status;
}
