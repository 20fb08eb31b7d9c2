/* serve/anthropic.c -- POST /v1/messages and /v1/messages/count_tokens of Anthropic. */
#include <string.h>

#include "serve/convert.h"
#include "weft/memory.h"

/* ---- answers -------------------------------------------------------------------------------- */

static const char *reason_of(const serve_choice *c)
{
    if (c->n_calls > 0)
        return "tool_use";
    if (c->reason == WEFT_FINISH_LENGTH || c->reason == WEFT_FINISH_DEADLINE)
        return "max_tokens";
    return c->stop != NULL ? "stop_sequence" : "end_turn";
}

static void put_usage(const serve_choice *c, serve_text *out)
{
    serve_put(out,
              "{'input_tokens': %i, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': "
              "%i, 'output_tokens': %i}",
              c->prompt_tokens - c->cached_tokens, c->cached_tokens, c->tokens);
}

static void put_message(const serve_choice *c, const char *content, const char *reason,
                        const char *sequence, serve_text *out)
{
    serve_put(out,
              "{'id': %s, 'type': 'message', 'role': 'assistant', 'model': %s, 'content': [%r], "
              "'stop_reason': %s, 'stop_sequence': %s, 'usage': ",
              c->request->id, serve_model_name(c->request), content, reason, sequence);
    put_usage(c, out);
    serve_put(out, "}");
}

static void answer(serve_request *r, serve_text *out)
{
    const serve_choice *c = &r->choices[0];
    serve_text content = {0};
    serve_text_add(&content, "", 0);
    if (c->reasoning.n > 0)
        serve_put(&content, "{'type': 'thinking', 'thinking': %t, 'signature': ''}", &c->reasoning);
    if (c->text.n > 0)
        serve_put(&content, "%r{'type': 'text', 'text': %t}", content.n > 0 ? ", " : "", &c->text);
    for (size_t i = 0; i < c->n_calls; i++)
        serve_put(&content, "%r{'type': 'tool_use', 'id': %s, 'name': %s, 'input': %r}",
                  content.n > 0 ? ", " : "", c->calls[i].id, c->calls[i].name,
                  c->calls[i].arguments);
    if (content.failed)
        out->failed = true;
    else
        put_message(c, content.at, reason_of(c), c->stop, out);
    serve_text_free(&content);
}

static void put_error(const serve_error *error, serve_text *out)
{
    const char *type = error->http == 413   ? "request_too_large"
                       : error->http == 503 ? "overloaded_error"
                       : error->http == 401 ? "authentication_error"
                       : error->http == 403 ? "permission_error"
                       : error->http == 404 ? "not_found_error"
                       : error->http == 500 ? "api_error"
                                            : "invalid_request_error";
    serve_put(out, "{'type': 'error', 'error': {'type': %s, 'message': %s}, 'request_id': null}",
              type, error->message);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void close_block(serve_request *r)
{
    serve_text out = {0};
    if (r->part == SERVE_BEGIN)
        return;
    serve_put(&out, "{'type': 'content_block_stop', 'index': %i}", r->block++);
    serve_send(r, "content_block_stop", &out);
    r->part = SERVE_BEGIN;
}

/* Opens a block of a kind, unless such a one is open. */
static void open_block(serve_choice *c, serve_event_kind kind)
{
    serve_request *r = c->request;
    serve_text out = {0};
    if (r->part == (int)kind && kind != SERVE_CALL)
        return;
    close_block(r);
    r->part = (int)kind;
    serve_put(&out, "{'type': 'content_block_start', 'index': %i, 'content_block': ", r->block);
    if (kind == SERVE_CALL)
        serve_put(&out, "{'type': 'tool_use', 'id': %s, 'name': %s, 'input': {}}}",
                  c->calls[c->n_calls - 1].id, c->calls[c->n_calls - 1].name);
    else
        serve_put(&out, kind == SERVE_TEXT
                            ? "{'type': 'text', 'text': ''}}"
                            : "{'type': 'thinking', 'thinking': '', 'signature': ''}}");
    serve_send(r, "content_block_start", &out);
}

static void send_delta(serve_choice *c, const serve_event *event)
{
    serve_text out = {0};
    open_block(c, event->kind);
    serve_put(&out, "{'type': 'content_block_delta', 'index': %i, 'delta': ", c->request->block);
    if (event->kind == SERVE_CALL) {
        serve_put(&out, "{'type': 'input_json_delta', 'partial_json': %s}}",
                  c->calls[c->n_calls - 1].arguments);
    } else {
        serve_put(&out, event->kind == SERVE_TEXT ? "{'type': 'text_delta', 'text': "
                                                  : "{'type': 'thinking_delta', 'thinking': ");
        serve_text_quote(&out, event->text, event->length);
        serve_put(&out, "}}");
    }
    serve_send(c->request, "content_block_delta", &out);
}

static void event(serve_choice *c, const serve_event *event)
{
    serve_request *r = c->request;
    serve_text out = {0};
    if (event->kind == SERVE_BEGIN) {
        serve_put(&out, "{'type': 'message_start', 'message': ");
        put_message(c, "", NULL, NULL, &out);
        serve_put(&out, "}");
        serve_send(r, "message_start", &out);
        return;
    }
    if (event->kind != SERVE_END) {
        send_delta(c, event);
        return;
    }
    close_block(r);
    serve_put(&out,
              "{'type': 'message_delta', 'delta': {'stop_reason': %s, 'stop_sequence': %s}, "
              "'usage': ",
              reason_of(c), c->stop);
    put_usage(c, &out);
    serve_put(&out, "}");
    serve_send(r, "message_delta", &out);
}

static void close_stream(serve_request *r)
{
    serve_text out = {0};
    serve_put(&out, "{'type': 'message_stop'}");
    serve_send(r, "message_stop", &out);
}

const serve_api serve_anthropic_api = {
    .event = event, .close = close_stream, .answer = answer, .error = put_error, .named = true};

/* ---- the request ---------------------------------------------------------------------------- */

static weft_status read_thinking(serve_request *r)
{
    json_object *thinking = json_object_object_get(r->json, "thinking");
    const char *type = serve_plain(json_object_object_get(thinking, "type"));
    if (type != NULL)
        r->settings.thinking = strcmp(type, "disabled") == 0 ? WEFT_THINKING_OFF : WEFT_THINKING_ON;
    return WEFT_OK;
}

/* The format of the answer; `output_format` is its older name. */
static weft_status read_format(serve_request *r)
{
    json_object *config = json_object_object_get(r->json, "output_config");
    json_object *format = json_object_object_get(config, "format");
    if (config != NULL && !json_object_is_type(config, json_type_object))
        return weft_fail(WEFT_INVALID, "output_config: expected an object");
    return format != NULL ? serve_read_format(r, "output_config.format", format)
                          : serve_read_format(r, "output_format",
                                              json_object_object_get(r->json, "output_format"));
}

/* A last message of the assistant is continued. */
static void continue_last(serve_settings *s)
{
    const size_t n = json_object_array_length(s->messages);
    json_object *last = n > 0 ? json_object_array_get_idx(s->messages, n - 1) : NULL;
    const char *role = serve_plain(json_object_object_get(last, "role"));
    s->turn.continue_final = role != NULL && strcmp(role, "assistant") == 0 &&
                             json_object_object_get(last, "content") != NULL &&
                             json_object_object_get(last, "tool_calls") == NULL;
}

static weft_status read_request(serve_request *r)
{
    json_object *choice = json_object_object_get(r->json, "tool_choice");
    json_object *messages = json_object_new_array();
    bool alone = false;
    r->tools = serve_own_tools(json_object_object_get(r->json, "tools"), "custom");
    weft_status status = serve_convert_anthropic(r->json, messages);
    if (status == WEFT_OK)
        status = serve_read_generation(r);
    if (status == WEFT_OK)
        status = serve_read_stops(r, "stop_sequences");
    if (status == WEFT_OK)
        status = serve_read_tools(r, r->tools);
    if (status == WEFT_OK)
        status = serve_read_tool_choice(r, choice);
    if (status == WEFT_OK && choice != NULL)
        status = serve_read_flag(choice, "disable_parallel_tool_use", &alone);
    r->settings.one_call = r->settings.one_call || alone;
    if (status == WEFT_OK)
        status = read_format(r);
    if (status == WEFT_OK)
        status = serve_read_template(r);
    if (status == WEFT_OK)
        status = read_thinking(r);
    if (status != WEFT_OK) {
        json_object_put(messages);
        return status;
    }
    status = serve_read_messages(r, messages);
    if (status == WEFT_OK)
        continue_last(&r->settings);
    return status;
}

weft_status serve_run_anthropic(serve_request *r)
{
    return serve_run_message(r, read_request, "msg_");
}

weft_status serve_run_count_tokens(serve_request *r)
{
    return serve_count_tokens(r, read_request, "{'input_tokens': %i}");
}
