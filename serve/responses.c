/* serve/responses.c -- POST /v1/responses of OpenAI. Nothing is stored. */
#include <string.h>

#include "serve/convert.h"
#include "weft/memory.h"

/* ---- items ---------------------------------------------------------------------------------- */

/* The id of an item: that of the response, with its number. */
static void put_id(const serve_request *r, const char *prefix, int64_t index, serve_text *out)
{
    serve_put(out, "'%r_%r_%i'", prefix, r->id + strlen("resp_"), index);
}

static void put_reasoning(const serve_request *r, int64_t index, const char *text, size_t n,
                          bool done, serve_text *out)
{
    serve_put(out, "{'id': ");
    put_id(r, "rs", index, out);
    serve_put(out, ", 'type': 'reasoning', 'summary': [], 'status': %s, 'content': [",
              done ? "completed" : "in_progress");
    if (done) {
        serve_put(out, "{'type': 'reasoning_text', 'text': ");
        serve_text_quote(out, text, n);
        serve_put(out, "}");
    }
    serve_put(out, "]}");
}

/* `entries`: log-probabilities, separated by commas. */
static void put_part(const char *text, size_t n, const char *entries, serve_text *out)
{
    serve_put(out,
              "{'type': 'output_text', 'annotations': [], 'logprobs': [%r], 'text': ", entries);
    serve_text_quote(out, text, n);
    serve_put(out, "}");
}

/* The log-probabilities of the text from a byte of their record on. */
static const char *entries_from(const serve_choice *c, size_t from)
{
    return from < c->logprobs.n ? c->logprobs.at + from : "";
}

static void put_text(const serve_choice *c, int64_t index, const char *text, size_t n, size_t first,
                     bool done, serve_text *out)
{
    const serve_request *r = c->request;
    serve_put(out, "{'id': ");
    put_id(r, "msg", index, out);
    serve_put(out, ", 'type': 'message', 'role': 'assistant', 'status': %s, 'content': [",
              done ? "completed" : "in_progress");
    if (done)
        put_part(text, n, entries_from(c, first), out);
    serve_put(out, "]}");
}

static void put_call(const serve_request *r, int64_t index, const serve_call *call, bool done,
                     serve_text *out)
{
    serve_put(out, "{'id': ");
    put_id(r, "fc", index, out);
    serve_put(out,
              ", 'type': 'function_call', 'call_id': %s, 'name': %s, 'arguments': %s, 'status': "
              "%s}",
              call->id, call->name, done ? call->arguments : "",
              done ? "completed" : "in_progress");
}

/* The items of an answer that is no stream. */
static void put_items(const serve_choice *c, serve_text *out)
{
    const serve_request *r = c->request;
    int64_t index = 0;
    if (c->reasoning.n > 0)
        put_reasoning(r, index++, c->reasoning.at, c->reasoning.n, true, out);
    if (c->text.n > 0) {
        serve_put(out, index > 0 ? ", " : "");
        put_text(c, index++, c->text.at, c->text.n, 0, true, out);
    }
    for (size_t i = 0; i < c->n_calls; i++) {
        serve_put(out, index > 0 ? ", " : "");
        put_call(r, index++, &c->calls[i], true, out);
    }
}

/* ---- the response --------------------------------------------------------------------------- */

/* A member of the request, or what stands for it. */
static void put_echo(const serve_request *r, const char *key, const char *otherwise,
                     serve_text *out)
{
    json_object *value = json_object_object_get(r->json, key);
    if (value != NULL)
        serve_put(out, ", '%r': %o", key, value);
    else
        serve_put(out, ", '%r': %r", key, otherwise);
}

static bool is_cut(const serve_choice *c)
{
    return c->n_calls == 0 && strcmp(serve_finish_reason(c), "length") == 0;
}

/* The response with its items; `status` NULL: that of its end. */
static void put_response(const serve_choice *c, const char *status, const char *items,
                         serve_text *out)
{
    const serve_request *r = c->request;
    const bool cut = status == NULL && is_cut(c);
    serve_put(out,
              "{'id': %s, 'object': 'response', 'created_at': %i, 'model': %s, 'status': %s, "
              "'error': null, 'incomplete_details': %r, 'previous_response_id': null, 'store': "
              "false, 'background': false, 'truncation': 'disabled', 'output': [%r]",
              r->id, r->created, serve_model_name(r),
              status != NULL ? status
              : cut          ? "incomplete"
                             : "completed",
              cut ? "{\"reason\": \"max_output_tokens\"}" : "null", items);
    put_echo(r, "instructions", "null", out);
    put_echo(r, "max_output_tokens", "null", out);
    put_echo(r, "metadata", "{}", out);
    put_echo(r, "parallel_tool_calls", "true", out);
    put_echo(r, "reasoning", "{\"effort\": null, \"summary\": null}", out);
    put_echo(r, "text", "{\"format\": {\"type\": \"text\"}}", out);
    put_echo(r, "tool_choice", "\"auto\"", out);
    put_echo(r, "tools", "[]", out);
    put_echo(r, "top_logprobs", "0", out);
    serve_put(out, ", 'temperature': %f, 'top_p': %f, 'user': null, 'usage': ",
              r->settings.generate.sampler.temperature,
              r->settings.generate.sampler.top_p > 0 ? r->settings.generate.sampler.top_p : 1.0);
    if (status != NULL)
        serve_put(out, "null}");
    else
        serve_put(out,
                  "{'input_tokens': %i, 'input_tokens_details': {'cached_tokens': %i, "
                  "'cache_write_tokens': 0}, 'output_tokens': %i, 'output_tokens_details': "
                  "{'reasoning_tokens': %i}, 'total_tokens': %i}}",
                  c->prompt_tokens, c->cached_tokens, c->tokens, c->reasoning_tokens,
                  c->prompt_tokens + c->tokens);
}

static void answer(serve_request *r, serve_text *out)
{
    serve_text items = {0};
    serve_text_add(&items, "", 0);
    put_items(&r->choices[0], &items);
    if (items.failed)
        out->failed = true;
    else
        put_response(&r->choices[0], NULL, items.at, out);
    serve_text_free(&items);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Begins the data of an event. */
static void put_event(serve_request *r, const char *name, serve_text *out)
{
    serve_put(out, "{'type': %s, 'sequence_number': %i", name, r->sequence++);
}

static void send_response(serve_choice *c, const char *name, const char *status)
{
    serve_request *r = c->request;
    serve_text out = {.failed = r->items.failed};
    put_event(r, name, &out);
    serve_put(&out, ", 'response': ");
    put_response(c, status, r->items.n > 0 ? r->items.at : "", &out);
    serve_put(&out, "}");
    serve_send(r, name, &out);
}

static const char *prefix_of(int part)
{
    return part == SERVE_TEXT ? "msg" : part == SERVE_CALL ? "fc" : "rs";
}

/* Begins an event about the open item. */
static void put_item_event(serve_request *r, const char *name, serve_text *out)
{
    put_event(r, name, out);
    serve_put(out, ", 'output_index': %i, 'item_id': ", r->block);
    put_id(r, prefix_of(r->part), r->block, out);
    if (r->part != SERVE_CALL)
        serve_put(out, ", 'content_index': 0");
}

/* The text of the open item so far. */
static const char *block_text(const serve_choice *c, size_t *n)
{
    const serve_request *r = c->request;
    const serve_text *all = r->part == SERVE_TEXT ? &c->text : &c->reasoning;
    *n = all->n - r->from;
    return all->at + r->from;
}

static void put_open_item(const serve_choice *c, bool done, serve_text *out)
{
    const serve_request *r = c->request;
    size_t n = 0;
    const char *text = r->part == SERVE_CALL || !done ? "" : block_text(c, &n);
    if (r->part == SERVE_CALL)
        put_call(r, r->block, &c->calls[c->n_calls - 1], done, out);
    else if (r->part == SERVE_TEXT)
        put_text(c, r->block, text, n, r->first, done, out);
    else
        put_reasoning(r, r->block, text, n, done, out);
}

static void send_item(serve_choice *c, const char *name, bool done)
{
    serve_request *r = c->request;
    serve_text out = {0};
    put_event(r, name, &out);
    serve_put(&out, ", 'output_index': %i, 'item': ", r->block);
    put_open_item(c, done, &out);
    serve_put(&out, "}");
    serve_send(r, name, &out);
}

static void send_part(serve_choice *c, const char *name, const char *text, size_t n)
{
    serve_text out = {0};
    put_item_event(c->request, name, &out);
    serve_put(&out, ", 'part': ");
    put_part(text, n, n > 0 ? entries_from(c, c->request->first) : "", &out);
    serve_put(&out, "}");
    serve_send(c->request, name, &out);
}

/* A delta, or the whole text or arguments at the end, with the log-probabilities of a text. */
static void send_text(serve_choice *c, const char *name, const char *key, const char *text,
                      size_t n, const char *entries)
{
    const serve_request *r = c->request;
    serve_text out = {0};
    put_item_event(c->request, name, &out);
    serve_put(&out, ", '%r': ", key);
    serve_text_quote(&out, text, n);
    if (r->part == SERVE_TEXT)
        serve_put(&out, ", 'logprobs': [%r]", entries);
    if (r->part == SERVE_CALL && strcmp(key, "arguments") == 0)
        serve_put(&out, ", 'name': %s", c->calls[c->n_calls - 1].name);
    serve_put(&out, "}");
    serve_send(c->request, name, &out);
}

static void close_item(serve_choice *c)
{
    serve_request *r = c->request;
    size_t n = 0;
    if (r->part == SERVE_BEGIN)
        return;
    if (r->part == SERVE_CALL) {
        const char *arguments = c->calls[c->n_calls - 1].arguments;
        send_text(c, "response.function_call_arguments.done", "arguments", arguments,
                  strlen(arguments), "");
    } else {
        const char *text = block_text(c, &n);
        send_text(
            c, r->part == SERVE_TEXT ? "response.output_text.done" : "response.reasoning_text.done",
            "text", text, n, entries_from(c, r->first));
        if (r->part == SERVE_TEXT)
            send_part(c, "response.content_part.done", text, n);
    }
    send_item(c, "response.output_item.done", true);
    if (r->items.n > 0)
        serve_put(&r->items, ", ");
    put_open_item(c, true, &r->items);
    r->part = SERVE_BEGIN;
    r->block++;
}

static void open_item(serve_choice *c, const serve_event *event)
{
    serve_request *r = c->request;
    if (r->part == (int)event->kind)
        return;
    close_item(c);
    r->part = (int)event->kind;
    r->from = (event->kind == SERVE_TEXT ? c->text.n : c->reasoning.n) - event->length;
    r->first = c->logprobs.n - (event->logprobs != NULL ? strlen(event->logprobs) : 0);
    send_item(c, "response.output_item.added", false);
    if (event->kind == SERVE_TEXT)
        send_part(c, "response.content_part.added", "", 0);
}

static void event(serve_choice *c, const serve_event *event)
{
    switch (event->kind) {
    case SERVE_BEGIN:
        send_response(c, "response.created", "in_progress");
        send_response(c, "response.in_progress", "in_progress");
        break;
    case SERVE_TEXT:
    case SERVE_REASONING:
        open_item(c, event);
        send_text(c,
                  event->kind == SERVE_TEXT ? "response.output_text.delta"
                                            : "response.reasoning_text.delta",
                  "delta", event->text, event->length,
                  event->logprobs != NULL ? event->logprobs : "");
        break;
    case SERVE_CALL: {
        const char *arguments = c->calls[c->n_calls - 1].arguments;
        open_item(c, event);
        send_text(c, "response.function_call_arguments.delta", "delta", arguments,
                  strlen(arguments), "");
        close_item(c); /* the next call is an item of its own */
        break;
    }
    case SERVE_END:
        close_item(c);
        send_response(c, is_cut(c) ? "response.incomplete" : "response.completed", NULL);
    }
}

/* The error of a stream, followed by the response that has failed. */
static void send_error(serve_request *r, const serve_error *error)
{
    serve_text out = {0};
    put_event(r, "error", &out);
    serve_put(&out, ", 'code': %s, 'message': %s, 'param': null}", error->type, error->message);
    serve_send(r, "error", &out);
    put_event(r, "response.failed", &out);
    serve_put(&out,
              ", 'response': {'id': %s, 'object': 'response', 'created_at': %i, 'model': %s, "
              "'status': 'failed', 'error': {'code': %s, 'message': %s}, 'incomplete_details': "
              "null, 'output': [%r], 'usage': null}}",
              r->id, r->created, serve_model_name(r),
              error->http == 500 ? "server_error" : error->type, error->message,
              r->items.n > 0 && !r->items.failed ? r->items.at : "");
    serve_send(r, "response.failed", &out);
}

static void close_stream(serve_request *r)
{
    (void)r;
}

const serve_api serve_responses_api = {.event = event,
                                       .close = close_stream,
                                       .answer = answer,
                                       .error = serve_put_error,
                                       .send_error = send_error,
                                       .named = true};

/* ---- the request ---------------------------------------------------------------------------- */

/* "top_logprobs", or what `include` asks for. */
static weft_status read_logprobs(serve_request *r)
{
    weft_generate_options *o = &r->settings.generate;
    json_object *list = json_object_object_get(r->json, "include");
    const size_t n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    const weft_status status =
        serve_read_count(r->json, "top_logprobs", 0, WEFT_TOP_LOGPROBS, &o->top_logprobs);
    o->logprobs = o->top_logprobs > 0;
    for (size_t i = 0; i < n; i++) {
        const char *word = serve_plain(json_object_array_get_idx(list, i));
        o->logprobs =
            o->logprobs || (word != NULL && strcmp(word, "message.output_text.logprobs") == 0);
    }
    return status;
}

static weft_status read_request(serve_request *r)
{
    json_object *text = json_object_object_get(r->json, "text");
    json_object *effort =
        json_object_object_get(json_object_object_get(r->json, "reasoning"), "effort");
    json_object *messages = json_object_new_array();
    if (json_object_object_get(r->json, "previous_response_id") != NULL) {
        json_object_put(messages);
        return weft_fail(WEFT_UNSUPPORTED, "previous_response_id: responses are not stored: send "
                                           "the whole conversation");
    }
    if (effort != NULL)
        json_object_object_add(r->json, "reasoning_effort", json_object_get(effort));
    r->tools = serve_own_tools(json_object_object_get(r->json, "tools"), "function");
    weft_status status = serve_convert_responses(r->json, messages);
    if (status == WEFT_OK)
        status = serve_read_generation(r);
    if (status == WEFT_OK)
        status = read_logprobs(r);
    if (status == WEFT_OK)
        status = serve_read_tools(r, r->tools);
    if (status == WEFT_OK)
        status = serve_read_tool_choice(r, json_object_object_get(r->json, "tool_choice"));
    if (status == WEFT_OK)
        status = serve_read_format(r, "text.format", json_object_object_get(text, "format"));
    if (status == WEFT_OK)
        status = serve_read_template(r);
    if (status != WEFT_OK) {
        json_object_put(messages);
        return status;
    }
    return serve_read_messages(r, messages);
}

weft_status serve_run_responses(serve_request *r)
{
    return serve_run_message(r, read_request, "resp_");
}

weft_status serve_run_input_tokens(serve_request *r)
{
    return serve_count_tokens(r, read_request,
                              "{'object': 'response.input_tokens', 'input_tokens': %i}");
}
