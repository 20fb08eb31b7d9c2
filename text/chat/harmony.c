/* text/chat/harmony.c -- answers of gpt-oss (Harmony), which are messages of channels: a header,
 * which names the channel and perhaps a tool, then <|message|>, the body and a mark that ends it.
 */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "text/chat/parser.h"

static const char message[] = "<|message|>", start[] = "<|start|>";

/* What ends a body. The last one begins the next message. */
static const char *const ends[] = {"<|end|>", "<|return|>", "<|call|>", start};
enum { N_ENDS = sizeof ends / sizeof *ends };

bool weft__chat_is_harmony(const weft_chat_markup *markup)
{
    return markup->tools == WEFT_TOOLS_HARMONY ||
           (markup->think_open && strcmp(markup->think_open, WEFT__HARMONY_THINKS) == 0);
}

const char *weft__harmony_final(bool reasoned)
{
    return reasoned ? "<|start|>assistant<|channel|>final<|message|>"
                    : "<|channel|>final<|message|>";
}

bool weft__harmony_is_mark(const char *token)
{
    static const char *const others[] = {message, WEFT__HARMONY_SIGN, "<|constrain|>"};
    bool found = false;
    for (int i = 0; i < N_ENDS && !found; i++)
        found = strcmp(ends[i], token) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others && !found; i++)
        found = strcmp(others[i], token) == 0;
    return found;
}

/* With reasoning that is open the header was part of the prompt. */
void weft__harmony_begin(weft_chat_parser *p)
{
    p->mode = p->markup.thinking ? MODE_BODY : MODE_HEADER;
    p->skip_newlines = false;
    if (p->markup.thinking)
        weft__text_append(&p->header, WEFT__HARMONY_THINKS, strlen("<|channel|>analysis"));
}

/* ---- headers -------------------------------------------------------------------------------- */

/* Whether a text may be the start of a header; otherwise it is an answer without one. */
static bool may_be_header(const char *text, size_t n)
{
    static const char *const starts[] = {start, WEFT__HARMONY_SIGN, message, " to=", "to="};
    bool may = n == 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts && !may; i++) {
        const size_t size = strlen(starts[i]);
        may = memcmp(text, starts[i], n < size ? n : size) == 0;
    }
    return may;
}

static weft_status take_header(weft_chat_parser *p, bool final, bool *more)
{
    const size_t n = p->pending.n;
    size_t held = n;
    const size_t at = weft__chat_find_mark(p->pending.at, n, message, &held);
    p->header.n = 0;
    *more = at < n;
    if (at < n) {
        weft__text_append(&p->header, p->pending.at, at);
        weft__chat_drop(p, at + strlen(message));
        p->mode = MODE_BODY;
    } else if (!may_be_header(p->pending.at, n)) {
        p->mode = MODE_BODY;
        *more = true;
    } else if (final) {
        weft__chat_drop(p, n);
    }
    return p->header.failed ? weft__out_of_memory("chat", "the answer") : WEFT_OK;
}

/* The word after `mark` in the header, and its length; NULL: none. */
static const char *word_after(const weft_chat_parser *p, const char *mark, size_t *n)
{
    const size_t size = strlen(mark);
    const char *at = p->header.n ? memmem(p->header.at, p->header.n, mark, size) : NULL;
    if (at == NULL)
        return NULL;
    at += size;
    const char *end = p->header.at + p->header.n;
    *n = 0;
    while (at + *n < end && at[*n] != ' ' && at[*n] != '<')
        ++*n;
    return *n > 0 ? at : NULL;
}

/* ---- bodies --------------------------------------------------------------------------------- */

/* {"name", "arguments"} of a body that is a JSON object; NULL: it is not, or out of memory. */
static json_object *call_of(const char *name, size_t n_name, const char *body, size_t n)
{
    static const char tools[] = "functions.";
    const size_t prefix = strlen(tools);
    struct json_tokener *tokener = json_tokener_new();
    json_object *call = json_object_new_object(), *arguments = NULL;
    if (n_name > prefix && memcmp(name, tools, prefix) == 0) {
        name += prefix;
        n_name -= prefix;
    }
    if (tokener && n > 0 && n <= INT32_MAX) {
        arguments = json_tokener_parse_ex(tokener, body, (int)n);
        bool whole = json_tokener_get_error(tokener) == json_tokener_success;
        for (size_t i = json_tokener_get_parse_end(tokener); i < n; i++)
            whole = whole && strchr(" \n\r\t", body[i]) != NULL;
        if (!whole || !json_object_is_type(arguments, json_type_object)) {
            json_object_put(arguments);
            arguments = NULL;
        }
    }
    if (tokener)
        json_tokener_free(tokener);
    json_object *text = json_object_new_string_len(name, (int)n_name);
    bool fine = call && arguments && text;
    if (fine && (fine = json_object_object_add(call, "name", text) == 0))
        text = NULL;
    if (fine && (fine = json_object_object_add(call, "arguments", arguments) == 0))
        arguments = NULL;
    json_object_put(text);
    json_object_put(arguments);
    if (fine)
        return call;
    json_object_put(call);
    return NULL;
}

/* A call of n bytes that a mark of `close` bytes follows; a malformed one is emitted as text. */
static weft_status take_call(weft_chat_parser *p, const char *name, size_t n_name, size_t n,
                             size_t close)
{
    json_object *call =
        p->markup.tools == WEFT_TOOLS_HARMONY ? call_of(name, n_name, p->pending.at, n) : NULL;
    weft_status status = WEFT_OK;
    if (call) {
        status = weft__chat_emit_call(p, call);
        json_object_put(call);
    } else {
        status = weft__chat_emit_text(p, false, p->header.at, p->header.n);
        if (!status)
            status = weft__chat_emit_text(p, false, message, strlen(message));
        if (!status)
            status = weft__chat_emit_text(p, false, p->pending.at, n + close);
    }
    weft__chat_drop(p, n + close);
    return status;
}

static weft_status take_body(weft_chat_parser *p, bool final, bool *more)
{
    const size_t n = p->pending.n;
    size_t held = n, at = n, close = 0, n_name = 0, n_channel = 0;
    for (int i = 0; i < N_ENDS; i++) {
        const size_t found = weft__chat_find_mark(p->pending.at, n, ends[i], &held);
        if (found < at) {
            at = found;
            close = ends[i] == start ? 0 : strlen(ends[i]);
        }
    }
    const char *name = word_after(p, "to=", &n_name);
    const char *channel = word_after(p, WEFT__HARMONY_SIGN, &n_channel);
    const bool analysis = channel && n_channel == 8 && memcmp(channel, "analysis", 8) == 0;
    weft_status status = WEFT_OK;
    *more = at < n;
    if (at < n)
        p->mode = MODE_HEADER;
    if (name && (at < n || final))
        return n > 0 ? take_call(p, name, n_name, at, at < n ? close : 0) : WEFT_OK;
    if (name)
        return WEFT_OK;
    const size_t end = at < n ? at : final ? n : weft__chat_safe_end(p->pending.at, n, held);
    status = weft__chat_emit_text(p, analysis, p->pending.at, end);
    weft__chat_drop(p, end + (at < n ? close : 0));
    return status;
}

weft_status weft__harmony_take(weft_chat_parser *p, bool final, bool *more)
{
    return p->mode == MODE_HEADER ? take_header(p, final, more) : take_body(p, final, more);
}
