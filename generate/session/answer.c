/* generate/session/answer.c -- one generation of a session: renders the prompt, and parses the
 * answer while it is generated. */
#include <stdio.h>
#include <string.h>

#include "core/io/json.h"
#include "generate/session/session.h"
#include "text/chat/marks.h"
#include "weft/memory.h"

/* The state of a generation. */
typedef struct answer {
    session_run *run;
    weft_chat_markup markup;
    weft_chat_parser *parser;
    int64_t calls;     /* number of calls so far */
    const char *until; /* text that ends it; NULL: none */
    weft__text raw;    /* with `until`: the raw text so far */
    bool found;        /* `until` has been found */
    weft_status status;
} answer;

static void write_id(char *out, size_t size, const session_run *run, int64_t call)
{
    /* Nine characters, as Mistral's templates require. */
    snprintf(out, size, "call%05lld", (long long)((run->session->calls + call + 1) % 100000));
}

static bool on_event(void *context, const weft_chat_event *event)
{
    answer *a = context;
    char id[32];
    weft_session_event out = {.text = event->text,
                              .length = event->length,
                              .name = event->name,
                              .arguments = event->arguments,
                              .id = event->id};
    switch (event->kind) {
    case WEFT_CHAT_TEXT:
        out.kind = WEFT_SESSION_TEXT;
        break;
    case WEFT_CHAT_REASONING:
        out.kind = WEFT_SESSION_REASONING;
        break;
    case WEFT_CHAT_TOOL_CALL:
        out.kind = WEFT_SESSION_TOOL_CALL;
        write_id(id, sizeof id, a->run, a->calls++);
        if (!out.id)
            out.id = id;
        break;
    case WEFT_CHAT_DONE:
        return true;
    }
    return weft__session_emit(a->run, out);
}

static void push(answer *a, const char *text, size_t n)
{
    if (a->status || n == 0)
        return;
    a->status = weft_chat_parser_push(a->parser, text, n);
    if (a->status == WEFT_CANCELLED && a->run->stopped)
        a->status = WEFT_OK;
}

/* Drops the text of special tokens that the markup does not use. */
static size_t without_special(const answer *a, const weft_generated *token)
{
    const weft_tokenizer *t = a->run->session->tokenizer;
    if (!t || token->id < 0 || !weft_tokenizer_is_special(t, token->id))
        return token->length;
    const char *name = weft_tokenizer_id_to_token(t, token->id);
    const size_t n = name ? strlen(name) : 0;
    const bool ends =
        n > 0 && n <= token->length && memcmp(token->text + token->length - n, name, n) == 0;
    return ends && !weft__chat_is_mark(&a->markup, name) ? token->length - n : token->length;
}

static bool on_token(void *context, const weft_generated *token)
{
    answer *a = context;
    size_t n = without_special(a, token);
    if (a->until) {
        const size_t had = a->raw.n;
        weft__text_append(&a->raw, token->text, n);
        if (a->raw.failed) {
            a->status = weft__session_no_memory();
            return false;
        }
        const char *end = a->raw.at ? strstr(a->raw.at, a->until) : NULL;
        if (end) {
            a->raw.n = (size_t)(end - a->raw.at) + strlen(a->until);
            n = a->raw.n - had;
            a->found = true;
        }
    }
    push(a, token->text, n);
    return !a->status && !a->run->stopped && !a->found;
}

/* ---- running the model ---------------------------------------------------------------------- */

/* Uses the session's own prompt cache, unless the caller has set one or disabled it. */
static weft_status open_prompt_cache(weft_session *s, weft_generate_options *options)
{
    weft_status status = WEFT_OK;
    if (s->no_prompt_cache || options->prompt_cache || options->no_cache)
        return WEFT_OK;
    if (!s->prompt_cache)
        status = weft_prompt_cache_new(s->model, NULL, &s->prompt_cache);
    options->prompt_cache = s->prompt_cache;
    return status;
}

static weft_status run_source(answer *a, const char *prompt, size_t length, bool constrained)
{
    session_run *run = a->run;
    weft_session *s = run->session;
    weft_generate_options options = s->generate;
    weft_generate_stats stats = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    options.keep_special = true;
    options.stop = s->stop;
    options.n_stop = s->n_stop;
    options.stop_texts = s->stop_texts;
    options.n_stop_texts = s->n_stop_texts;
    options.constraint = constrained ? s->constraint : NULL;
    weft_status status = constrained ? weft_constraint_reset(s->constraint) : WEFT_OK;
    if (!status && s->tokenizer)
        status = weft_tokenizer_encode(s->tokenizer, prompt, length, 0, &ids, &n);
    if (!status && s->source) {
        const weft_session_request request = {
            .prompt = prompt, .length = length, .ids = ids, .n_ids = n, .options = &options};
        status = s->source(s->source_context, &request, on_token, a, &stats);
    } else if (!status && !(status = open_prompt_cache(s, &options))) {
        status = weft_generate(s->model, s->tokenizer, ids, n, &options, on_token, a, &stats);
    }
    weft_free(ids);
    run->stats.prompt_tokens = s->tokenizer ? (int64_t)n : stats.prompt_tokens;
    run->stats.left_out = (int64_t)s->left_out;
    run->stats.tokens += stats.tokens;
    run->stats.last = stats;
    run->ended = stats.reason == WEFT_FINISH_DEADLINE ||
                 (stats.reason == WEFT_FINISH_CANCELLED && stats.detail != WEFT_FINISH_CALLBACK);
    return status ? status : a->status;
}

/* Gives every call of a message the id that its event had. */
static weft_status add_ids(const answer *a, json_object *message)
{
    json_object *calls = json_object_object_get(message, "tool_calls");
    for (size_t i = 0; calls && i < json_object_array_length(calls); i++) {
        char text[32];
        json_object *call = json_object_array_get_idx(calls, i);
        if (json_object_object_get(call, "id"))
            continue;
        write_id(text, sizeof text, a->run, (int64_t)i);
        json_object *id = json_object_new_string(text);
        if (!id || json_object_object_add(call, "id", id)) {
            json_object_put(id);
            return weft__session_no_memory();
        }
    }
    a->run->session->calls += a->calls;
    return WEFT_OK;
}

/* Ends the answer: emits what was held back, and creates the message. */
static weft_status finish(answer *a, json_object **message)
{
    char *json = NULL;
    weft__json_doc doc = {0};
    weft_status status = WEFT_OK;
    if (!a->run->stopped && !a->run->ended) {
        status = weft_chat_parser_finish(a->parser);
        if (status == WEFT_CANCELLED && a->run->stopped)
            status = WEFT_OK;
    }
    if (!status)
        status = weft_chat_parser_message(a->parser, &json);
    if (!status)
        status = weft__json_parse(json, strlen(json), "answer", &doc);
    if (!status)
        status = add_ids(a, doc.root);
    if (!status)
        *message = json_object_get(doc.root);
    weft__json_free(&doc);
    weft_free(json);
    return status;
}

static weft_status one(answer *a, const char *prompt, size_t length, bool constrained,
                       json_object **message)
{
    weft_status status = weft_chat_parser_new(&a->markup, on_event, a, &a->parser);
    if (!status)
        status = run_source(a, prompt, length, constrained);
    if (!status && a->until && !a->found && !a->run->stopped && !a->run->ended)
        push(a, a->until, strlen(a->until));
    if (!status)
        status = finish(a, message);
    weft_chat_parser_free(a->parser);
    a->parser = NULL;
    return status;
}

/* ---- constrained answers -------------------------------------------------------------------- */

/* Generates the reasoning without the constraint, up to its end, and appends it to the prompt. */
static weft_status reason(answer *a, weft__text *prompt, json_object **message)
{
    const weft_chat_markup *m = &a->markup;
    if (!m->thinking) {
        weft__text_append(prompt, m->think_open, strlen(m->think_open));
        if (!weft__chat_is_harmony(m))
            weft__text_append(prompt, "\n", 1);
        a->markup.thinking = true;
    }
    a->until = m->think_close;
    if (prompt->failed)
        return weft__session_no_memory();
    weft_status status = one(a, prompt->at, prompt->n, false, message);
    weft__text_append(prompt, a->raw.at ? a->raw.at : "", a->raw.n);
    if (!a->found)
        weft__text_format(prompt, "\n%s", m->think_close);
    a->until = NULL;
    return status;
}

/* Moves the reasoning of one message into another. */
static weft_status move_reasoning(json_object *from, json_object *to)
{
    json_object *text = from ? json_object_object_get(from, "reasoning_content") : NULL;
    if (!text || json_object_object_add(to, "reasoning_content", json_object_get(text)) == 0)
        return WEFT_OK;
    json_object_put(text);
    return weft__session_no_memory();
}

/* The reasoning is ended or skipped before the document begins, in which marks have no meaning. */
static weft_status generate_document(answer *a, const char *text, size_t length,
                                     json_object **message)
{
    const weft_chat_markup *m = &a->markup;
    weft__text prompt = {0};
    json_object *thoughts = NULL;
    weft_status status = WEFT_OK;
    const bool harmony = weft__chat_is_harmony(m);
    weft__text_append(&prompt, text, length);
    if (m->think_open && a->run->session->thinking == WEFT_THINKING_ON) {
        status = reason(a, &prompt, &thoughts);
        if (!harmony)
            weft__text_append(&prompt, "\n\n", 2);
    } else if (m->thinking) {
        weft__text_format(&prompt, harmony ? "%s" : "\n%s\n\n", m->think_close);
    }
    if (harmony)
        weft__text_format(&prompt, "%s", weft__harmony_final(prompt.n > length));
    if ((a->run->stopped || a->run->ended) && !status) {
        *message = thoughts;
        thoughts = NULL;
    } else if (!status) {
        a->markup = (weft_chat_markup){0};
        status =
            prompt.failed ? weft__session_no_memory() : one(a, prompt.at, prompt.n, true, message);
        if (!status)
            status = move_reasoning(thoughts, *message);
    }
    json_object_put(thoughts);
    weft_free(prompt.at);
    return status;
}

/* ---- a generation --------------------------------------------------------------------------- */

/* Whether the message that is continued ends within open reasoning. */
static bool open_reasoning(const weft_session *s, const weft_chat_markup *m)
{
    const char *text = weft_session_reply(s), *open = NULL;
    for (const char *at = text; at && m->think_open && (at = strstr(at, m->think_open)); at++)
        open = at;
    return open && !strstr(open, m->think_close);
}

weft_status weft__session_generate(session_run *run, json_object **message)
{
    const weft_session *s = run->session;
    answer a = {.run = run};
    char *text = NULL;
    size_t length = 0;
    *message = NULL;
    run->stats.generations++;
    weft_status status = weft__session_render(run, &text, &length);
    if (status)
        return status;
    a.markup = weft_chat_markup_of(s->chat, text, weft__session_with_tools(run));
    if (s->has_markup) {
        a.markup = s->markup;
        if (!weft__session_with_tools(run))
            a.markup.tools = WEFT_TOOLS_NONE;
    }
    if (s->tool_open && weft__session_with_tools(run)) {
        a.markup.tools = WEFT_TOOLS_CUSTOM;
        a.markup.tool_open = s->tool_open;
        a.markup.tool_close = s->tool_close;
    }
    if (run->turn.continue_final)
        a.markup.thinking = open_reasoning(s, &a.markup);
    status = run->turn.structured == WEFT_STRUCTURED_CONSTRAINED
                 ? generate_document(&a, text, length, message)
                 : one(&a, text, length, false, message);
    if (status) {
        json_object_put(*message);
        *message = NULL;
    }
    weft_free(a.raw.at);
    weft_free(text);
    return status;
}
