/* serve/openai_chat.c -- POST /v1/chat/completions of OpenAI. */
#include <string.h>

#include "serve/server.h"

const char *serve_finish_reason(const serve_choice *c)
{
    if (c->n_calls > 0)
        return "tool_calls";
    return c->reason == WEFT_FINISH_LENGTH || c->reason == WEFT_FINISH_DEADLINE ? "length" : "stop";
}

void serve_put_usage(const serve_request *r, serve_text *out)
{
    int64_t tokens = 0, prompt = 0, cached = 0;
    for (size_t i = 0; i < r->n_choices; i++)
        tokens += r->choices[i].tokens;
    for (size_t i = 0; i < r->n_choices; i += r->settings.each) {
        prompt += r->choices[i].prompt_tokens;
        cached += r->choices[i].cached_tokens;
    }
    serve_put(out,
              "{'prompt_tokens': %i, 'completion_tokens': %i, 'total_tokens': %i, "
              "'prompt_tokens_details': {'cached_tokens': %i}}",
              prompt, tokens, prompt + tokens, cached);
}

/* ---- streams -------------------------------------------------------------------------------- */

void serve_put_chunk(const serve_request *r, serve_text *out)
{
    serve_put(out,
              "{'id': %s, 'object': %s, 'created': %i, 'model': %s, 'system_fingerprint': null, "
              "'choices': [",
              r->id, r->api->chunk, r->created, serve_model_name(r));
}

static void put_call(const serve_choice *c, serve_text *out)
{
    const serve_call *call = &c->calls[c->n_calls - 1];
    serve_put(out,
              "'tool_calls': [{'index': %i, 'id': %s, 'type': 'function', 'function': {'name': "
              "%s, 'arguments': %s}}]",
              (int64_t)c->n_calls - 1, call->id, call->name, call->arguments);
}

static void put_delta(const serve_choice *c, const serve_event *event, serve_text *out)
{
    switch (event->kind) {
    case SERVE_BEGIN:
        serve_put(out, "'role': 'assistant', 'content': null");
        break;
    case SERVE_TEXT:
    case SERVE_REASONING:
        serve_put(out, event->kind == SERVE_TEXT ? "'content': " : "'reasoning_content': ");
        serve_text_quote(out, event->text, event->length);
        break;
    case SERVE_CALL:
        put_call(c, out);
        break;
    case SERVE_END:
        break;
    }
}

static void event(serve_choice *c, const serve_event *event)
{
    const serve_request *r = c->request;
    serve_text out = {0};
    serve_put_chunk(r, &out);
    serve_put(&out, "{'index': %i, 'delta': {", (int64_t)c->index);
    put_delta(c, event, &out);
    serve_put(&out, "}, 'logprobs': ");
    if (event->logprobs != NULL)
        serve_put(&out, "{'content': [%r], 'refusal': null}", event->logprobs);
    else
        serve_put(&out, "null");
    serve_put(&out, ", 'finish_reason': %s}]",
              event->kind == SERVE_END ? serve_finish_reason(c) : NULL);
    serve_put(&out, r->settings.usage ? ", 'usage': null}" : "}");
    serve_send(c->request, NULL, &out);
}

void serve_close_chunks(serve_request *r)
{
    serve_text out = {0};
    if (r->settings.usage) {
        serve_put_chunk(r, &out);
        serve_put(&out, "], 'usage': ");
        serve_put_usage(r, &out);
        serve_put(&out, "}");
        serve_send(r, NULL, &out);
    }
    serve_put(&out, "[DONE]");
    serve_send(r, NULL, &out);
}

/* ---- whole answers -------------------------------------------------------------------------- */

static void put_choice(const serve_choice *c, serve_text *out)
{
    serve_put(out, "{'index': %i, 'message': {'role': 'assistant', 'refusal': null, 'content': ",
              (int64_t)c->index);
    if (c->text.n == 0 && c->n_calls > 0)
        serve_put(out, "null");
    else
        serve_put(out, "%t", &c->text);
    if (c->reasoning.n > 0)
        serve_put(out, ", 'reasoning_content': %t", &c->reasoning);
    for (size_t i = 0; i < c->n_calls; i++)
        serve_put(out,
                  "%r{'id': %s, 'type': 'function', 'function': {'name': %s, 'arguments': %s}}",
                  i > 0 ? ", " : ", \"tool_calls\": [", c->calls[i].id, c->calls[i].name,
                  c->calls[i].arguments);
    serve_put(out, c->n_calls > 0 ? "]}" : "}");
    if (c->request->settings.generate.logprobs)
        serve_put(out, ", 'logprobs': {'content': [%r], 'refusal': null}",
                  c->logprobs.n > 0 ? c->logprobs.at : "");
    else
        serve_put(out, ", 'logprobs': null");
    serve_put(out, ", 'finish_reason': %s}", serve_finish_reason(c));
}

static void answer(serve_request *r, serve_text *out)
{
    serve_put(out,
              "{'id': %s, 'object': 'chat.completion', 'created': %i, 'model': %s, "
              "'system_fingerprint': null, 'choices': [",
              r->id, r->created, serve_model_name(r));
    for (size_t i = 0; i < r->n_choices; i++) {
        serve_put(out, i > 0 ? ", " : "");
        put_choice(&r->choices[i], out);
    }
    serve_put(out, "], 'usage': ");
    serve_put_usage(r, out);
    serve_put(out, "}");
}

void serve_put_error(const serve_error *error, serve_text *out)
{
    serve_put(out, "{'error': {'code': %i, 'message': %s, 'type': %s, 'param': null",
              (int64_t)error->http, error->message, error->type);
    if (error->context > 0)
        serve_put(out, ", 'n_prompt_tokens': %i, 'n_ctx': %i", error->prompt_tokens,
                  error->context);
    serve_put(out, "}}");
}

const serve_api serve_chat_api = {.event = event,
                                  .close = serve_close_chunks,
                                  .answer = answer,
                                  .error = serve_put_error,
                                  .chunk = "chat.completion.chunk"};

/* ---- the request ---------------------------------------------------------------------------- */

static weft_status read_logprobs(serve_request *r)
{
    weft_generate_options *o = &r->settings.generate;
    weft_status status = serve_read_flag(r->json, "logprobs", &o->logprobs);
    if (status == WEFT_OK)
        status = serve_read_count(r->json, "top_logprobs", 0, WEFT_TOP_LOGPROBS, &o->top_logprobs);
    if (status == WEFT_OK && o->top_logprobs > 0 && !o->logprobs)
        status = weft_fail(WEFT_INVALID, "top_logprobs: expected with logprobs true");
    return status;
}

weft_status serve_read_chat(serve_request *r)
{
    json_object *messages = json_object_object_get(r->json, "messages");
    weft_status status = serve_read_generation(r);
    if (status == WEFT_OK)
        status = serve_read_stops(r, "stop");
    if (status == WEFT_OK)
        status = read_logprobs(r);
    if (status == WEFT_OK)
        status = serve_read_tools(r, json_object_object_get(r->json, "tools"));
    if (status == WEFT_OK)
        status = serve_read_tool_choice(r, json_object_object_get(r->json, "tool_choice"));
    if (status == WEFT_OK)
        status = serve_read_format(r, "response_format",
                                   json_object_object_get(r->json, "response_format"));
    if (status == WEFT_OK)
        status = serve_read_template(r);
    if (status == WEFT_OK)
        status = serve_read_messages(r, json_object_get(messages));
    return status;
}

weft_status serve_run_chat(serve_request *r)
{
    int64_t n = 1;
    weft_status status = serve_parse_body(r);
    if (status == WEFT_OK)
        status = serve_read_count(r->json, "n", 1, r->server->options.rows, &n);
    if (status == WEFT_OK)
        status = serve_read_chat(r);
    if (status == WEFT_OK)
        status = serve_make_choices(r, (size_t)n);
    r->settings.each = (size_t)n;
    r->settings.same = n > 1;
    serve_make_id("chatcmpl-", r->id, sizeof r->id);
    return status == WEFT_OK ? serve_start_choices(r, r->n_choices, serve_chat) : status;
}
