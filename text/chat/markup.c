/* text/chat/markup.c -- splits a model's answer into text, reasoning and tool calls while it is
 * generated. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "text/chat/parser.h"
#include "text/chat/tool_call.h"
#include "weft/memory.h"

/* ---- marks ---------------------------------------------------------------------------------- */

static const char *tool_open(const weft_chat_markup *m)
{
    switch (m->tools) {
    case WEFT_TOOLS_HERMES:
        return "<tool_call>";
    case WEFT_TOOLS_LLAMA:
        return "<|python_tag|>";
    case WEFT_TOOLS_MISTRAL:
        return "[TOOL_CALLS]";
    case WEFT_TOOLS_GEMMA4:
        return "<|tool_call>";
    case WEFT_TOOLS_FUNCTION:
        return "<function name=\"";
    case WEFT_TOOLS_PYTHON:
        return "<|tool_call_start|>";
    case WEFT_TOOLS_CUSTOM:
        return m->tool_open;
    default:
        break;
    }
    return NULL;
}

/* NULL: a call ends with its JSON value. */
static const char *tool_close(const weft_chat_markup *m)
{
    switch (m->tools) {
    case WEFT_TOOLS_HERMES:
        return "</tool_call>";
    case WEFT_TOOLS_GEMMA4:
        return "<tool_call|>";
    case WEFT_TOOLS_FUNCTION:
        return "</function>";
    case WEFT_TOOLS_PYTHON:
        return "<|tool_call_end|>";
    case WEFT_TOOLS_CUSTOM:
        return m->tool_close;
    default:
        return NULL;
    }
}

bool weft__chat_is_mark(const weft_chat_markup *markup, const char *token)
{
    /* Marks that occur inside of calls. */
    static const struct {
        weft_tool_style style;
        const char *mark;
    } inner[] = {{WEFT_TOOLS_GEMMA4, "<|\"|>"},     {WEFT_TOOLS_MISTRAL, "[ARGS]"},
                 {WEFT_TOOLS_MISTRAL, "[CALL_ID]"}, {WEFT_TOOLS_FUNCTION, "<param"},
                 {WEFT_TOOLS_FUNCTION, "</param>"}, {WEFT_TOOLS_FUNCTION, "<![CDATA["},
                 {WEFT_TOOLS_FUNCTION, "]]>"}};
    if (weft__chat_is_harmony(markup))
        return weft__harmony_is_mark(token);
    const char *marks[] = {markup->think_open, markup->think_close, tool_open(markup),
                           tool_close(markup)};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i] && (strstr(marks[i], token) || strstr(token, marks[i])))
            return true;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        if (inner[i].style == markup->tools && strcmp(inner[i].mark, token) == 0)
            return true;
    return false;
}

size_t weft__chat_find_mark(const char *text, size_t n, const char *mark, size_t *held)
{
    const size_t size = mark ? strlen(mark) : 0;
    if (size == 0)
        return n;
    const char *found = n >= size ? memmem(text, n, mark, size) : NULL;
    if (found)
        return (size_t)(found - text);
    for (size_t k = size - 1 < n ? size - 1 : n; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0) {
            if (n - k < *held)
                *held = n - k;
            break;
        }
    return n;
}

/* ---- events --------------------------------------------------------------------------------- */

static weft_status emit(weft_chat_parser *p, const weft_chat_event *event)
{
    if (!p->stopped && p->callback && !p->callback(p->context, event))
        p->stopped = true;
    return p->stopped ? weft_fail(WEFT_CANCELLED, "chat: the callback asked to stop") : WEFT_OK;
}

weft_status weft__chat_emit_text(weft_chat_parser *p, bool reasoning, const char *text, size_t n)
{
    if (n == 0)
        return WEFT_OK;
    p->piece.n = 0;
    weft__text_append(&p->piece, text, n);
    weft__text_append(reasoning ? &p->reasoning : &p->content, text, n);
    if (p->piece.failed || p->reasoning.failed || p->content.failed)
        return weft__out_of_memory("chat", "the answer");
    const weft_chat_event event = {
        .kind = reasoning ? WEFT_CHAT_REASONING : WEFT_CHAT_TEXT, .text = p->piece.at, .length = n};
    return emit(p, &event);
}

weft_status weft__chat_emit_call(weft_chat_parser *p, json_object *call)
{
    const int style = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
    json_object *id = json_object_object_get(call, "id");
    const weft_chat_event event = {
        .kind = WEFT_CHAT_TOOL_CALL,
        .name = json_object_get_string(json_object_object_get(call, "name")),
        .arguments =
            json_object_to_json_string_ext(json_object_object_get(call, "arguments"), style),
        .id = id ? json_object_get_string(id) : NULL,
    };
    if (!event.arguments)
        return weft__out_of_memory("chat", "the answer");
    weft__text_format(&p->calls, "%s{\"type\": \"function\", ", p->calls.n > 0 ? ", " : "");
    if (event.id) {
        weft__text_append(&p->calls, "\"id\": ", 6);
        weft__text_quote(&p->calls, event.id);
        weft__text_append(&p->calls, ", ", 2);
    }
    weft__text_append(&p->calls, "\"function\": {\"name\": ", 21);
    weft__text_quote(&p->calls, event.name);
    weft__text_append(&p->calls, ", \"arguments\": ", 15);
    weft__text_append(&p->calls, event.arguments, strlen(event.arguments));
    weft__text_append(&p->calls, "}}", 2);
    return p->calls.failed ? weft__out_of_memory("chat", "the answer") : emit(p, &event);
}

void weft__chat_drop(weft_chat_parser *p, size_t n)
{
    if (n > 0 && n < p->pending.n)
        memmove(p->pending.at, p->pending.at + n, p->pending.n - n);
    p->pending.n -= n;
}

/* ---- text and reasoning --------------------------------------------------------------------- */

/* The end of the text without newlines before `end`. */
static size_t before_newlines(const char *text, size_t end)
{
    while (end > 0 && text[end - 1] == '\n')
        end--;
    return end;
}

size_t weft__chat_safe_end(const char *text, size_t n, size_t held)
{
    if (held < n)
        return before_newlines(text, held);
    size_t start = n;
    for (int i = 0; i < 3 && start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80; i++)
        start--;
    if (start > 0 && weft__utf8_step(text + start - 1, n - start + 1) == 0)
        n = start - 1;
    return before_newlines(text, n);
}

static void begin_call(weft_chat_parser *p, const char *open)
{
    p->open = open;
    p->scan = (weft__chat_scan){0};
    p->mode = p->markup.tools == WEFT_TOOLS_LLAMA && *open ? MODE_PYTHON : MODE_CALL;
}

/* Skips newlines after a mark; false when more may follow. */
static bool pass_newlines(weft_chat_parser *p)
{
    size_t n = 0;
    while (p->skip_newlines && n < p->pending.n && p->pending.at[n] == '\n')
        n++;
    weft__chat_drop(p, n);
    p->skip_newlines = p->skip_newlines && p->pending.n == 0;
    return p->pending.n > 0;
}

/* Emits text up to the next mark and skips the mark; *more: there is input left. */
static weft_status take_text(weft_chat_parser *p, bool final, bool *more)
{
    *more = false;
    if (!pass_newlines(p))
        return WEFT_OK;
    const char *text = p->pending.at, *open = tool_open(&p->markup);
    const size_t n = p->pending.n;
    size_t held = n;
    const size_t think = weft__chat_find_mark(text, n, p->markup.think_open, &held);
    const size_t call = weft__chat_find_mark(text, n, open, &held);
    const size_t at = think < call ? think : call;
    size_t end = at < n  ? before_newlines(text, at)
                 : final ? n
                         : weft__chat_safe_end(text, n, held);
    weft_status status = weft__chat_emit_text(p, false, text, end);
    if (at == n) {
        weft__chat_drop(p, end);
        return status;
    }
    weft__chat_drop(p, at + strlen(think < call ? p->markup.think_open : open));
    *more = true;
    p->skip_newlines = true;
    if (think < call) {
        p->mode = MODE_REASONING;
        p->skip_line = strcmp(p->markup.think_open, "<|channel>") == 0;
    } else {
        begin_call(p, open);
    }
    return status;
}

static weft_status take_reasoning(weft_chat_parser *p, bool final, bool *more)
{
    *more = false;
    size_t held = p->pending.n;
    const char *close = p->markup.think_close;
    const size_t at = weft__chat_find_mark(p->pending.at, p->pending.n, close, &held);
    if (p->skip_line) {
        const char *line = p->pending.n ? memchr(p->pending.at, '\n', p->pending.n) : NULL;
        const size_t end = line ? (size_t)(line - p->pending.at) : p->pending.n;
        if (end == p->pending.n && at == p->pending.n && !final)
            return WEFT_OK;
        weft__chat_drop(p, end < at ? end : at);
        p->skip_line = false;
        *more = true;
        return WEFT_OK;
    }
    if (!pass_newlines(p))
        return WEFT_OK;
    const char *text = p->pending.at;
    const size_t n = p->pending.n;
    held = n;
    const size_t close_at = weft__chat_find_mark(text, n, close, &held);
    const size_t end = close_at < n ? before_newlines(text, close_at)
                       : final      ? before_newlines(text, n)
                                    : weft__chat_safe_end(text, n, held);
    const weft_status status = weft__chat_emit_text(p, true, text, end);
    if (close_at < n) {
        weft__chat_drop(p, close_at + strlen(close));
        p->mode = MODE_TEXT;
        p->skip_newlines = true;
        *more = true;
    } else {
        weft__chat_drop(p, final ? n : end);
    }
    return status;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Continues the search for the end of a call: `close` outside of JSON strings or, if that is NULL,
 * the bracket that closes the first one. Returns the end, or n + 1. */
static size_t find_end(weft__chat_scan *s, const char *text, size_t n, const char *close, bool json)
{
    const size_t size = close ? strlen(close) : 0;
    for (; s->at < n; s->at++) {
        const char c = text[s->at];
        if (s->string) {
            s->string = s->escape || c != '"';
            s->escape = !s->escape && c == '\\';
            continue;
        }
        if (close && c == *close) {
            const size_t left = n - s->at;
            if (memcmp(text + s->at, close, size < left ? size : left) == 0)
                return left >= size ? s->at : n + 1;
        }
        s->string = json && c == '"';
        s->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (!close && s->depth == 0 && (c == '}' || c == ']')) {
            /* Mistral's bracketed marks within a call are not JSON. */
            const bool mark =
                s->at >= 5 && (memcmp(text + s->at - 5, "[ARGS]", 6) == 0 ||
                               (s->at >= 8 && memcmp(text + s->at - 8, "[CALL_ID]", 9) == 0));
            if (!mark)
                return ++s->at;
        }
    }
    return n + 1;
}

/* Whether the text begins with `mark`; *partial: the text ends within the mark. */
static bool begins(const char *text, size_t n, const char *mark, bool *partial)
{
    const size_t size = strlen(mark);
    const bool equal = memcmp(text, mark, size < n ? size : n) == 0;
    *partial = *partial || (equal && n < size);
    return equal && n >= size;
}

/* Like find_end for a call in tags, ignoring tags in CDATA. */
static size_t find_tag_end(weft__chat_scan *s, const char *text, size_t n, const char *close)
{
    for (; s->at < n; s->at++) {
        const char *at = text + s->at;
        const size_t left = n - s->at;
        bool partial = false;
        if (s->string)
            s->string = !begins(at, left, "]]>", &partial);
        else if (begins(at, left, close, &partial))
            return s->at;
        else
            s->string = begins(at, left, "<![CDATA[", &partial);
        if (partial)
            break;
    }
    return n + 1;
}

/* Like find_end for a list as Python writes it, ignoring marks in strings. */
static size_t find_list_end(weft__chat_scan *s, const char *text, size_t n, const char *close)
{
    for (; s->at < n; s->at++) {
        const char *at = text + s->at, quote = s->string ? s->quote : *at;
        const char quotes[] = {quote, quote, quote, '\0'};
        const size_t left = n - s->at;
        bool partial = false;
        if (s->escape || (s->string && *at == '\\')) {
            s->escape = !s->escape;
            continue;
        }
        if (!s->string && begins(at, left, close, &partial))
            return s->at;
        if (*at == quote && (quote == '"' || quote == '\'')) {
            const bool three = begins(at, left, quotes, &partial), opens = !s->string;
            if (partial)
                break;
            s->three = opens ? three : s->three;
            s->string = opens || (s->three && !three);
            s->quote = quote;
            s->at += s->three && three ? 2 : 0;
        }
        if (partial)
            break;
    }
    return n + 1;
}

static json_object *read_calls(const weft_chat_parser *p, size_t n)
{
    if (p->mode == MODE_PYTHON) {
        json_object *calls = weft__tool_calls_json(p->pending.at, n);
        return calls ? calls : weft__tool_calls_python(p->pending.at, n);
    }
    if (p->markup.tools != WEFT_TOOLS_FUNCTION)
        return weft__tool_calls(p->markup.tools, p->pending.at, n);
    weft__text whole = {0};
    weft__text_append(&whole, p->open, strlen(p->open));
    weft__text_append(&whole, p->pending.at, n);
    json_object *calls = whole.failed ? NULL : weft__tool_calls(p->markup.tools, whole.at, whole.n);
    weft_free(whole.at);
    return calls;
}

/* Emits a call of n bytes that `close` follows; a malformed one is emitted as text. */
static weft_status finish_call(weft_chat_parser *p, size_t n, size_t close)
{
    json_object *calls = p->pending.at ? read_calls(p, n) : NULL;
    weft_status status = WEFT_OK;
    if (calls) {
        for (size_t i = 0; i < json_object_array_length(calls) && !status; i++)
            status = weft__chat_emit_call(p, json_object_array_get_idx(calls, i));
        json_object_put(calls);
    } else {
        status = weft__chat_emit_text(p, false, p->open, strlen(p->open));
        if (!status)
            status = weft__chat_emit_text(p, false, p->pending.at, n + close);
    }
    weft__chat_drop(p, n + close);
    const bool bare = p->markup.tools == WEFT_TOOLS_LLAMA;
    p->mode = bare && calls ? MODE_START : MODE_TEXT;
    p->skip_newlines = calls != NULL;
    p->scan = (weft__chat_scan){0};
    return status;
}

static weft_status take_call(weft_chat_parser *p, bool final, bool *more)
{
    *more = false;
    const char *close = tool_close(&p->markup), *text = p->pending.at;
    const size_t n = p->pending.n;
    size_t first = 0;
    while (first < n && strchr(" \n\r\t", text[first]))
        first++;
    if (first == n && !final)
        return WEFT_OK;
    const bool json = first < n && (text[first] == '{' || text[first] == '[' || !close);
    size_t end = n + 1;
    if (p->markup.tools == WEFT_TOOLS_FUNCTION)
        end = find_tag_end(&p->scan, text, n, close);
    else if (p->markup.tools == WEFT_TOOLS_PYTHON)
        end = find_list_end(&p->scan, text, n, close);
    else if (p->mode != MODE_PYTHON || (first < n && text[first] == '{'))
        end = find_end(&p->scan, text, n, close, json);
    if (end <= n) {
        *more = true;
        return finish_call(p, end, close ? strlen(close) : 0);
    }
    return final ? finish_call(p, n, 0) : WEFT_OK;
}

/* Llama: an answer that begins with { is a call without a mark; several calls are separated by
 * semicolons. */
static weft_status take_start(weft_chat_parser *p, bool *more)
{
    size_t first = 0;
    const bool again = p->calls.n > 0;
    while (first < p->pending.n &&
           (strchr(" \n\r\t", p->pending.at[first]) || (again && p->pending.at[first] == ';')))
        first++;
    *more = first < p->pending.n;
    if (!*more)
        return WEFT_OK;
    const bool brace = p->pending.at[first] == '{';
    if (brace || again)
        weft__chat_drop(p, first);
    if (brace)
        begin_call(p, "");
    else
        p->mode = MODE_TEXT;
    return WEFT_OK;
}

/* ---- the parser ----------------------------------------------------------------------------- */

static weft_status process(weft_chat_parser *p, bool final)
{
    weft_status status = WEFT_OK;
    for (bool more = true; more && !status;) {
        if (p->mode == MODE_HEADER || p->mode == MODE_BODY)
            status = weft__harmony_take(p, final, &more);
        else if (p->mode == MODE_START)
            status = take_start(p, &more);
        else if (p->mode == MODE_TEXT)
            status = take_text(p, final, &more);
        else if (p->mode == MODE_REASONING)
            status = take_reasoning(p, final, &more);
        else
            status = take_call(p, final, &more);
    }
    return status;
}

weft_status weft_chat_parser_new(const weft_chat_markup *markup, weft_chat_event_fn *callback,
                                 void *context, weft_chat_parser **out)
{
    *out = NULL;
    if (!markup->think_open != !markup->think_close || (markup->thinking && !markup->think_close))
        return weft_fail(WEFT_INVALID, "chat: expected both marks of reasoning, or none");
    if (markup->tools == WEFT_TOOLS_CUSTOM &&
        (!markup->tool_open || !*markup->tool_open || !markup->tool_close || !*markup->tool_close))
        return weft_fail(WEFT_INVALID, "chat: custom markup expects both marks of tool calls");
    weft_chat_parser *p = weft_calloc(1, sizeof *p);
    if (!p)
        return weft__out_of_memory("chat", "the answer");
    p->markup = *markup;
    p->callback = callback;
    p->context = context;
    p->mode = markup->thinking                    ? MODE_REASONING
              : markup->tools == WEFT_TOOLS_LLAMA ? MODE_START
                                                  : MODE_TEXT;
    p->skip_newlines = markup->thinking;
    if (weft__chat_is_harmony(markup))
        weft__harmony_begin(p);
    *out = p;
    return WEFT_OK;
}

void weft_chat_parser_free(weft_chat_parser *parser)
{
    if (!parser)
        return;
    weft_free(parser->pending.at);
    weft_free(parser->piece.at);
    weft_free(parser->header.at);
    weft_free(parser->content.at);
    weft_free(parser->reasoning.at);
    weft_free(parser->calls.at);
    weft_free(parser);
}

weft_status weft_chat_parser_push(weft_chat_parser *parser, const char *text, size_t length)
{
    if (parser->stopped)
        return weft_fail(WEFT_CANCELLED, "chat: the callback asked to stop");
    weft__text_append(&parser->pending, text, length);
    return parser->pending.failed ? weft__out_of_memory("chat", "the answer")
                                  : process(parser, false);
}

weft_status weft_chat_parser_finish(weft_chat_parser *parser)
{
    static const weft_chat_event done = {.kind = WEFT_CHAT_DONE};
    weft_status status = WEFT_OK;
    if (parser->stopped)
        return weft_fail(WEFT_CANCELLED, "chat: the callback asked to stop");
    status = process(parser, true);
    return status ? status : emit(parser, &done);
}

static void member(weft__text *out, const char *key, const weft__text *value)
{
    weft__text_format(out, ", \"%s\": ", key);
    weft__text_quote_bytes(out, value->at ? value->at : "", value->n);
}

weft_status weft_chat_parser_message(const weft_chat_parser *parser, char **json)
{
    weft__text out = {0};
    weft__text_append(&out, "{\"role\": \"assistant\"", 20);
    member(&out, "content", &parser->content);
    if (parser->reasoning.n > 0)
        member(&out, "reasoning_content", &parser->reasoning);
    if (parser->calls.n > 0)
        weft__text_format(&out, ", \"tool_calls\": [%s]", parser->calls.at);
    weft__text_append(&out, "}", 1);
    *json = out.failed ? NULL : out.at;
    if (!out.failed)
        return WEFT_OK;
    weft_free(out.at);
    return weft__out_of_memory("chat", "the answer");
}

/* ---- detecting the markup from a template ---------------------------------------------------- */

static bool ends_open(const char *prompt, const char *open)
{
    size_t n = strlen(prompt);
    const size_t size = strlen(open);
    while (n > 0 && (prompt[n - 1] == '\n' || prompt[n - 1] == ' '))
        n--;
    return n >= size && memcmp(prompt + n - size, open, size) == 0;
}

weft_chat_markup weft_chat_markup_of(const weft_chat *chat, const char *prompt, bool tools)
{
    static const struct {
        const char *sign;
        weft_tool_style style;
    } signs[] = {
        {WEFT__HARMONY_SIGN, WEFT_TOOLS_HARMONY},  {"<|tool_call>", WEFT_TOOLS_GEMMA4},
        {"<tool_call>", WEFT_TOOLS_HERMES},        {"[TOOL_CALLS]", WEFT_TOOLS_MISTRAL},
        {"<function name=", WEFT_TOOLS_FUNCTION},  {"<|python_tag|>", WEFT_TOOLS_LLAMA},
        {"<|start_header_id|>", WEFT_TOOLS_LLAMA}, {"<|tool_call_start|>", WEFT_TOOLS_PYTHON},
        {"List of tools: ", WEFT_TOOLS_PYTHON},
    };
    static const char *const thoughts[][2] = {
        {"<|channel>", "<channel|>"}, {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}};
    weft_chat_markup markup = {0};
    const char *with_tools = tools ? weft_chat_source(chat, "tool_use") : NULL;
    const char *source = with_tools ? with_tools : weft_chat_source(chat, NULL);
    if (source && strstr(source, WEFT__HARMONY_SIGN) && strstr(source, "<|message|>")) {
        markup.think_open = WEFT__HARMONY_THINKS;
        markup.think_close = "<|end|>";
    }
    for (size_t i = 0; source && !markup.think_open && i < 3; i++)
        if (strstr(source, thoughts[i][0]) || strstr(source, thoughts[i][1])) {
            markup.think_open = thoughts[i][0];
            markup.think_close = thoughts[i][1];
        }
    for (size_t i = 0; tools && source && !markup.tools && i < sizeof signs / sizeof *signs; i++)
        if (strstr(source, signs[i].sign))
            markup.tools = signs[i].style;
    markup.thinking = prompt && markup.think_open && ends_open(prompt, markup.think_open);
    return markup;
}
