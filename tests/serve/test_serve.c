/* tests/serve/test_serve.c -- serve/: routes, answers, streams and errors, over HTTP. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/memory.h"

#define USER(text) "\"messages\": [{\"role\": \"user\", \"content\": \"" text "\"}]"
#define CHAT "/v1/chat/completions"

/* The server that most cases share. */
static serve_server *shared;

static int port(void)
{
    if (shared == NULL)
        shared = client_server((serve_options){.rows = 4, .body = 1 << 20});
    return shared != NULL ? serve_port(shared) : 0;
}

/* An error of OpenAI's form, whose message contains `part`. */
static void expect_error(const char *path, const char *body, int status, const char *part)
{
    json_object *root = client_json(port(), path, body, status);
    CHECK_EQ_INT(json_object_get_int(client_at(root, "error.code")), status);
    CHECK(client_text(root, "error.type") != NULL);
    CHECK_CONTAINS(client_text(root, "error.message"), part);
    json_object_put(root);
}

/* ---- routes --------------------------------------------------------------------------------- */

static void routes_answer(void)
{
    json_object *root = client_json(port(), "/health", NULL, 200);
    CHECK_STR(client_text(root, "status"), "ok");
    json_object_put(root);
    root = client_json(port(), "/v1/models", NULL, 200);
    CHECK_STR(client_text(root, "object"), "list");
    CHECK_STR(client_text(root, "data.0.id"), "storyteller");
    json_object_put(root);
    root = client_json(port(), "/v1/models/storyteller", NULL, 200);
    CHECK_STR(client_text(root, "object"), "model");
    json_object_put(root);
    client_reply head = client_ask(port(), "HEAD", "/", NULL);
    CHECK_EQ_INT(head.status, 200);
    CHECK_EQ_INT(head.length, 0);
    client_free(&head);
    CHECK(client_metric(port(), "requests_total") >= 4);
}

static void wrong_requests_get_errors(void)
{
    expect_error("/v1/models/other", NULL, 404, "other");
    expect_error("/v1/chat", NULL, 404, "no such route");
    expect_error(CHAT, NULL, 405, "method");
    expect_error("/tokenize", "{\"content\": 5}", 400, "expected a string");
    expect_error(CHAT, "", 400, "body");
    expect_error(CHAT, "[1]", 400, "JSON object");
    expect_error(CHAT, "{\"messages\": [", 400, "body");
    expect_error(CHAT, "{\"messages\": []} x", 400, "body");
    expect_error(CHAT, "{}", 400, "messages");
    expect_error("/v1/responses", "{\"input\": \"x\", \"metadata\": {\"a\": NaN}}", 400, "NaN");
    expect_error("/v1/responses", "{\"input\": \"x\", \"metadata\": [-Infinity]}", 400, "NaN");
    expect_error(CHAT, "{\"messages\": [{\"content\": \"x\"}]}", 400, "role");
    expect_error(CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": 7}]}", 400, "content");
    expect_error(CHAT, "{" USER("x") ", \"temperature\": \"hot\"}", 400, "temperature");
    expect_error(CHAT, "{" USER("x") ", \"top_p\": 1.5}", 400, "top_p");
    expect_error(CHAT, "{" USER("x") ", \"n\": 0}", 400, "n: expected");
    expect_error(CHAT, "{" USER("x") ", \"logit_bias\": {\"9999999\": 1}}", 400, "logit_bias");
    expect_error(CHAT, "{" USER("x") ", \"logit_bias\": {\"a\": 1}}", 400, "token id");
    expect_error(CHAT, "{" USER("x") ", \"logit_bias\": {\"1\": 101}}", 400, "100");
    expect_error(CHAT, "{" USER("x") ", \"logit_bias\": {\"1\": null}}", 400, "100");
    expect_error(CHAT, "{" USER("x") ", \"logit_bias\": [1]}", 400, "object");
    expect_error(CHAT, "{" USER("x") ", \"max_tokens\": 1.5}", 400, "max_tokens");
    expect_error(CHAT, "{" USER("x") ", \"stop\": [\"\"]}", 400, "stop");
    expect_error(CHAT, "{" USER("x") ", \"top_logprobs\": 2}", 400, "logprobs");
    expect_error(CHAT, "{" USER("x") ", \"logprobs\": true, \"top_logprobs\": 21}", 400, "20");
    expect_error(CHAT, "{" USER("x") ", \"tool_choice\": \"required\"}", 400, "no tool");
    expect_error(CHAT, "{" USER("x") ", \"response_format\": {\"type\": \"xml\"}}", 400, "type");
    expect_error(
        CHAT,
        "{" USER("x") ", \"max_tokens\": 2, \"response_format\": {\"type\": \"json_schema\", "
                      "\"schema\": {\"type\": \"string\", \"minLength\": 90}}}",
        400, "the limit of max_tokens is 2");
    expect_error(CHAT,
                 "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
                 "\"image_url\": {\"url\": \"x\"}}]}]}",
                 501, "only text");
    expect_error("/v1/completions", "{\"prompt\": [1, 99999999]}", 400, "vocabulary");
    expect_error("/detokenize", "{\"tokens\": [-1]}", 400, "tokens: token 0");
    expect_error("/detokenize", "{\"tokens\": [1, 99999999]}", 400, "tokens: token 1");
    expect_error(CHAT, "{" USER("x") ", \"max_tokens\": 2147483648}", 400,
                 "from 0 to 2147483647, got 2147483648");
}

/* A request whose end or host is ambiguous ends its connection, also if it is refused for another
 * reason: what follows is not read as a request. Encoded bodies are refused as such. */
static void ambiguous_headers_are_refused(void)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {"Host: localhost\r\nhost: evil.example\r\n", 400},
        {"Host: localhost\r\nHost: localhost\r\n", 400},
        {"Content-Length: 2\r\ncontent-length: 2\r\n", 400},
        {"Content-Length: 2\r\nContent-Length: 44\r\n", 400},
        {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400},
        {"Content-Length: 2\r\nX-Other : 1\r\n", 400},
        {"Host: evil.example\r\nContent-Length: 2\r\nContent-Length: 44\r\n", 403},
        {"Transfer-Encoding: gzip, chunked\r\n", 501},
        {"Transfer-Encoding: identity\r\n", 501},
    };
    static const char body[] = "{}GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char headers[160];
        snprintf(headers, sizeof headers, "%sConnection: keep-alive\r\n", cases[i].headers);
        client_reply r = client_read(client_open(port(), "POST", "/tokenize", headers, body));
        if (!CHECK_EQ_INT(r.status, cases[i].status))
            printf("  %s\n", cases[i].headers);
        CHECK_CONTAINS(r.head, "Connection: close");
        CHECK(r.body != NULL && strstr(r.body, "HTTP/1.1") == NULL);
        client_free(&r);
    }
    static const char *const codings[] = {"gzip", "identity", "Identity", "br, gzip", ""};
    static const int statuses[] = {415, 200, 200, 415, 200};
    for (int i = 0; i < 5; i++) {
        char header[64];
        snprintf(header, sizeof header, "Content-Encoding: %s\r\n", codings[i]);
        client_reply r = client_read(
            client_open(port(), "POST", "/tokenize", header, "{\"content\": \"A cat.\"}"));
        CHECK_EQ_INT(r.status, statuses[i]);
        client_free(&r);
    }
}

static void bodies_have_a_limit(void)
{
    char *text = weft_malloc((2 << 20) + 1);
    memset(text, ' ', 2 << 20);
    text[2 << 20] = '\0';
    client_reply r = client_ask(port(), "POST", CHAT, text);
    CHECK_EQ_INT(r.status, 413);
    client_free(&r);
    /* Values that take far more bytes than their text; not those within a string. */
    static const char *const values[] = {"{},", "[],", "0,"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = (size_t)sprintf(text, "{\"messages\": [");
        for (; n < 900000; n += strlen(values[i]))
            memcpy(text + n, values[i], strlen(values[i]));
        strcpy(text + n, "0]}");
        expect_error(CHAT, text, 413, "values");
        expect_error("/v1/embeddings", text, 413, "values");
    }
    size_t n = (size_t)sprintf(text, "{\"content\": \"\\\"");
    for (; n < 20000; n++)
        text[n] = '{';
    strcpy(text + n, "\"}");
    json_object *root = client_json(port(), "/tokenize", text, 200);
    CHECK(json_object_get_int(client_at(root, "count")) > 100);
    json_object_put(root);
    weft_free(text);
}

static void tools_have_a_limit(void)
{
    char *text = weft_malloc(100000);
    size_t n = (size_t)sprintf(text, "{" USER("x") ", \"max_tokens\": 1, \"tools\": [");
    for (int i = 0; i <= 1024; i++)
        n += (size_t)sprintf(text + n, "%s{\"function\": {\"name\": \"t%d\"}}", i > 0 ? ", " : "",
                             i);
    sprintf(text + n, "]}");
    expect_error(CHAT, text, 400, "tools: expected at most 1024, got 1025");
    weft_free(text);
}

static void prompts_that_are_too_long_are_refused(void)
{
    char *text = weft_malloc(40000);
    size_t n = (size_t)sprintf(text, "{\"prompt\": \"");
    for (int i = 0; i < 5000; i++)
        n += (size_t)sprintf(text + n, "cat %d", i % 10);
    sprintf(text + n, "\"}");
    json_object *root = client_json(port(), "/v1/completions", text, 400);
    CHECK_STR(client_text(root, "error.type"), "exceed_context_size_error");
    CHECK(json_object_get_int(client_at(root, "error.n_ctx")) > 0);
    CHECK(json_object_get_int(client_at(root, "error.n_prompt_tokens")) >=
          json_object_get_int(client_at(root, "error.n_ctx")));
    json_object_put(root);
    weft_free(text);
}

static void tokens_become_text_again(void)
{
    json_object *root = client_json(port(), "/tokenize", "{\"content\": \"A small cat.\"}", 200);
    char *body =
        weft_format("{\"tokens\": %s}", json_object_to_json_string(client_at(root, "tokens")));
    json_object_put(root);
    root = client_json(port(), "/detokenize", body, 200);
    CHECK_STR(client_text(root, "content"), "A small cat.");
    json_object_put(root);
    weft_free(body);
    root = client_json(port(), "/apply-template", "{" USER("Hi") "}", 200);
    CHECK_CONTAINS(client_text(root, "prompt"), "<|im_start|>user\nHi<|im_end|>");
    json_object_put(root);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void completions_are_those_of_weft_generate(void)
{
    static const struct {
        const char *prompt, *body;
        weft_generate_options options;
    } cases[] = {
        {"Once upon a time", "\"temperature\": 0, \"max_tokens\": 40", {.max_tokens = 40}},
        {"The dog",
         "\"temperature\": 0.8, \"seed\": 11, \"max_completion_tokens\": 30",
         {.max_tokens = 30, .seed = 11, .sampler.temperature = 0.8}},
        {"The dog", "\"temperature\": 5, \"top_p\": 0, \"max_tokens\": 12", {.max_tokens = 12}},
        {"Lily",
         "\"temperature\": 1, \"seed\": 3, \"max_tokens\": 30, \"top_k\": 5, \"top_p\": 0.9, "
         "\"presence_penalty\": 0.5, \"unknown\": {\"ignored\": [1]}",
         {.max_tokens = 30,
          .seed = 3,
          .sampler = {.temperature = 1, .top_k = 5, .top_p = 0.9, .presence_penalty = 0.5}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *alone = client_alone(cases[i].prompt, &cases[i].options);
        char *body = weft_format("{\"prompt\": \"%s\", %s}", cases[i].prompt, cases[i].body);
        json_object *root = client_json(port(), "/v1/completions", body, 200);
        CHECK_STR(client_text(root, "choices.0.text"), alone);
        CHECK_EQ_INT(json_object_get_int(client_at(root, "usage.total_tokens")),
                     json_object_get_int(client_at(root, "usage.prompt_tokens")) +
                         json_object_get_int(client_at(root, "usage.completion_tokens")));
        json_object_put(root);
        weft_free(body);
        weft_free(alone);
    }
}

/* The texts of a stream of chats, joined. Checks what every event has. */
static char *join(char *body, int *events, const char **finish, json_object **usage)
{
    char *text = weft_strdup(""), *data = NULL;
    bool done = false;
    *events = 0;
    for (char *at = client_event(body, &data); at != NULL; at = client_event(at, &data)) {
        CHECK(!done);
        done = strcmp(data, "[DONE]") == 0;
        if (done || data[0] == ':')
            continue;
        json_object *event = json_tokener_parse(data);
        CHECK_STR(client_text(event, "object"), "chat.completion.chunk");
        if (client_at(event, "choices.0") == NULL && client_at(event, "usage") != NULL)
            *usage = json_object_get(client_at(event, "usage"));
        if (*events == 0)
            CHECK_STR(client_text(event, "choices.0.delta.role"), "assistant");
        const char *piece = client_text(event, "choices.0.delta.content");
        char *longer = weft_format("%s%s", text, piece != NULL ? piece : "");
        weft_free(text);
        text = longer;
        const char *reason = client_text(event, "choices.0.finish_reason");
        if (reason != NULL)
            *finish = strcmp(reason, "stop") == 0     ? "stop"
                      : strcmp(reason, "length") == 0 ? "length"
                                                      : "other";
        json_object_put(event);
        ++*events;
    }
    CHECK(done);
    return text;
}

static void streams_have_the_text_of_the_whole_answer(void)
{
    static const char asked[] = USER("Tell a story.") ", \"max_tokens\": 30, \"seed\": 5, "
                                                      "\"temperature\": 1";
    char *body = weft_format("{%s}", asked);
    json_object *whole = client_json(port(), CHAT, body, 200);
    weft_free(body);
    body =
        weft_format("{%s, \"stream\": true, \"stream_options\": {\"include_usage\": true}}", asked);
    client_reply r = client_ask(port(), "POST", CHAT, body);
    CHECK_EQ_INT(r.status, 200);
    CHECK_CONTAINS(r.head, "text/event-stream");
    int events = 0;
    const char *finish = NULL;
    json_object *usage = NULL;
    char *text = join(r.body, &events, &finish, &usage);
    CHECK(events > 10);
    CHECK_STR(text, client_text(whole, "choices.0.message.content"));
    CHECK_STR(finish, client_text(whole, "choices.0.finish_reason"));
    CHECK_EQ_INT(json_object_get_int(client_at(usage, "completion_tokens")),
                 json_object_get_int(client_at(whole, "usage.completion_tokens")));
    CHECK(client_at(usage, "prompt_tokens_details.cached_tokens") != NULL);
    json_object_put(usage);
    json_object_put(whole);
    weft_free(text);
    weft_free(body);
    client_free(&r);
}

static void stop_strings_are_in_no_event(void)
{
    json_object *whole = client_json(
        port(), CHAT, "{" USER("A story.") ", \"max_tokens\": 60, \"temperature\": 0}", 200);
    const char *text = client_text(whole, "choices.0.message.content");
    char stop[8] = "";
    if (CHECK(text != NULL && strlen(text) > 30))
        snprintf(stop, 6, "%s", text + 20); /* begins and ends within tokens */
    char *before = weft_format("%.*s", (int)(strstr(text, stop) - text), text);
    json_object *string = json_object_new_string(stop);
    char *body = weft_format("{" USER("A story.") ", \"max_tokens\": 60, \"temperature\": 0, "
                                                  "\"stop\": [%s], \"stream\": true}",
                             json_object_to_json_string(string));
    client_reply r = client_ask(port(), "POST", CHAT, body);
    int events = 0;
    const char *finish = NULL;
    json_object *usage = NULL;
    char *streamed = join(r.body, &events, &finish, &usage);
    CHECK_STR(streamed, before);
    CHECK_STR(finish, "stop");
    CHECK(usage == NULL);
    json_object_put(string);
    json_object_put(whole);
    weft_free(streamed);
    weft_free(before);
    weft_free(body);
    client_free(&r);
}

#define CACHED "usage.prompt_tokens_details.cached_tokens"

/* The prompt of several choices is computed once. */
static void choices_share_their_prompt(void)
{
    const double cached = client_metric(port(), "prompt_tokens_cached_total");
    json_object *all =
        client_json(port(), CHAT,
                    "{" USER("One two three four five six seven eight nine ten eleven twelve "
                             "thirteen.") ", \"n\": 3, \"max_tokens\": 2}",
                    200);
    const int64_t prompt = json_object_get_int64(client_at(all, "usage.prompt_tokens"));
    CHECK(prompt > 20);
    CHECK_EQ_INT((int64_t)(client_metric(port(), "prompt_tokens_cached_total") - cached),
                 3 * (prompt - 1));
    CHECK_EQ_INT(json_object_get_int(client_at(all, CACHED)), 0); /* of earlier requests */
    json_object_put(all);
    for (int n = 1; n <= 3; n += 2) { /* a prompt counts once for its choices */
        char *body = weft_format("{\"prompt\": [\"One two three\", \"Four\"], \"n\": %d, "
                                 "\"max_tokens\": 1}",
                                 n);
        all = client_json(port(), "/v1/completions", body, 200);
        const int64_t tokens = json_object_get_int64(client_at(all, "usage.prompt_tokens"));
        CHECK(tokens > 2 && tokens < 10);
        CHECK_EQ_INT(json_object_get_int(client_at(all, "usage.completion_tokens")), 2 * n);
        json_object_put(all);
        weft_free(body);
    }
}

static void choices_draw_with_seeds_of_their_own(void)
{
    json_object *all = client_json(
        port(), "/v1/completions",
        "{\"prompt\": \"The\", \"n\": 3, \"seed\": 7, \"temperature\": 1, \"max_tokens\": 12}",
        200);
    for (int i = 0; i < 3; i++) {
        char path[32], body[200];
        snprintf(path, sizeof path, "choices.%d.text", i);
        snprintf(body, sizeof body,
                 "{\"prompt\": \"The\", \"seed\": %d, \"temperature\": 1, \"max_tokens\": 12}",
                 7 + i);
        json_object *one = client_json(port(), "/v1/completions", body, 200);
        CHECK_STR(client_text(all, path), client_text(one, "choices.0.text"));
        json_object_put(one);
    }
    json_object_put(all);
    all =
        client_json(port(), "/v1/completions",
                    "{\"prompt\": [\"A cat\", \"A dog\"], \"echo\": true, \"max_tokens\": 2}", 200);
    CHECK(strncmp(client_text(all, "choices.0.text"), "A cat", 5) == 0);
    CHECK(strncmp(client_text(all, "choices.1.text"), "A dog", 5) == 0);
    json_object_put(all);
}

/* ---- documents and tools -------------------------------------------------------------------- */

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": "      \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [1, 2]}}, \"required\": "           \
    "[\"a\"]}}}]"

static void documents_fit_their_schema(void)
{
    static const char *const formats[] = {
        "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": {\"type\": "
        "\"object\", \"properties\": {\"a\": {\"enum\": [1, 2]}}, \"required\": [\"a\"], "
        "\"additionalProperties\": false}}}",
        "{\"type\": \"json_object\", \"schema\": {\"type\": \"object\", \"properties\": {\"a\": "
        "{\"enum\": [1, 2]}}, \"required\": [\"a\"], \"additionalProperties\": false}}",
    };
    for (int i = 0; i < 4; i++) {
        char *body = weft_format("{" USER("Hi") ", \"max_tokens\": 60, \"response_format\": %s, "
                                                "\"stream\": %s}",
                                 formats[i % 2], i < 2 ? "false" : "true");
        client_reply r = client_ask(port(), "POST", CHAT, body);
        json_object *root = i < 2 ? json_tokener_parse(r.body) : NULL, *usage = NULL;
        int events = 0;
        const char *finish = NULL;
        char *text = i < 2 ? weft_strdup(client_text(root, "choices.0.message.content"))
                           : join(r.body, &events, &finish, &usage);
        json_object *document = text != NULL ? json_tokener_parse(text) : NULL;
        const int64_t a = json_object_get_int64(client_at(document, "a"));
        CHECK(a == 1 || a == 2);
        json_object_put(document);
        json_object_put(root);
        weft_free(text);
        weft_free(body);
        client_free(&r);
    }
}

/* Documents of a constraint end within the limit; those that only the prompt requests do not. */
static void documents_that_are_cut_off_are_the_answer(void)
{
    static const char *const formats[] = {
        "{\"type\": \"json_schema\", \"schema\": {\"type\": \"string\", \"minLength\": 9}}",
        "{\"type\": \"json_object\", \"prompted\": true}",
    };
    for (int i = 0; i < 4; i++) {
        char *body = weft_format("{" USER("Hi") ", \"max_tokens\": 6, \"ignore_eos\": true, "
                                                "\"response_format\": %s, \"stream\": %s}",
                                 formats[i % 2], i < 2 ? "false" : "true");
        client_reply r = client_ask(port(), "POST", CHAT, body);
        CHECK_EQ_INT(r.status, 200);
        json_object *root = i < 2 ? json_tokener_parse(r.body) : NULL, *usage = NULL;
        int events = 0;
        const char *finish = client_text(root, "choices.0.finish_reason");
        char *text = i < 2 ? weft_strdup(client_text(root, "choices.0.message.content"))
                           : join(r.body, &events, &finish, &usage);
        CHECK_STR(finish, i % 2 == 0 ? "stop" : "length");
        CHECK(text != NULL && strlen(text) > (i % 2 == 0 ? 1 : 0));
        CHECK(i % 2 == 1 || (text != NULL && text[0] == '"'));
        json_object_put(root);
        weft_free(text);
        weft_free(body);
        client_free(&r);
    }
}

/* The request is valid, so a wrong answer of the model is not an error of the request. */
static void answers_that_are_no_document_are_errors_of_the_server(void)
{
    json_object *root = client_json(
        port(), CHAT,
        "{" USER("Hi") ", \"max_tokens\": 200, \"stop\": [\"e\"], \"response_format\": {\"type\": "
                       "\"json_object\", \"prompted\": true}}",
        500);
    CHECK_STR(client_text(root, "error.type"), "server_error");
    CHECK_CONTAINS(client_text(root, "error.message"), "document");
    json_object_put(root);
}

static void required_calls_come(void)
{
    json_object *root = client_json(
        port(), CHAT, "{" USER("Hi") ", " TOOLS ", \"tool_choice\": \"required\"}", 200);
    CHECK_STR(client_text(root, "choices.0.finish_reason"), "tool_calls");
    CHECK_STR(client_text(root, "choices.0.message.tool_calls.0.function.name"), "add");
    CHECK(client_text(root, "choices.0.message.tool_calls.0.id") != NULL);
    json_object *arguments =
        json_tokener_parse(client_text(root, "choices.0.message.tool_calls.0.function.arguments"));
    const int64_t a = json_object_get_int64(client_at(arguments, "a"));
    CHECK(a == 1 || a == 2);
    json_object_put(arguments);
    json_object_put(root);
    client_reply r = client_ask(
        port(), "POST", CHAT,
        "{" USER("Hi") ", " TOOLS ", \"tool_choice\": {\"type\": \"function\", \"function\": "
                       "{\"name\": \"add\"}}, \"stream\": true}");
    CHECK_CONTAINS(r.body, "\"tool_calls\": [{\"index\": 0, \"id\": \"c");
    CHECK_CONTAINS(r.body, "\"finish_reason\": \"tool_calls\"");
    client_free(&r);
    expect_error(CHAT,
                 "{" USER("Hi") ", " TOOLS ", \"tool_choice\": {\"type\": \"function\", "
                                "\"function\": {\"name\": \"other\"}}}",
                 400, "other");
    /* A conversation with a call and its result. */
    root = client_json(port(), "/apply-template",
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
                       "\"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", "
                       "\"type\": \"function\", \"function\": {\"name\": \"add\", \"arguments\": "
                       "\"{\\\"a\\\": 1}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"c1\", "
                       "\"content\": \"three\"}], " TOOLS "}",
                       200);
    CHECK_CONTAINS(client_text(root, "prompt"), "{\"name\": \"add\", \"arguments\": {\"a\": 1}}");
    CHECK_CONTAINS(client_text(root, "prompt"), "three");
    json_object_put(root);
}

/* References within the schema of a tool's arguments, which is part of another schema. */
static void references_of_required_calls_are_followed(void)
{
    static const char *const choices[] = {
        "\"required\"", "{\"type\": \"function\", \"function\": {\"name\": \"second\"}}"};
    for (int i = 0; i < 2; i++) {
#define REFERS(name)                                                                               \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"parameters\": {\"type\": "  \
    "\"object\", \"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}, \"$ref\": {\"enum\": "         \
    "[\"#/$defs/x\"]}}, \"required\": [\"a\", \"$ref\"], \"$defs\": {\"x\": {\"enum\": [1, "       \
    "2]}}}}}"
        char *body = weft_format(
            "{" USER("Hi") ", \"tools\": [{\"type\": \"function\", \"function\": "
                           "{\"name\": \"first\"}}, " REFERS("second") "], "
                                                                       "\"tool_choice\": %s}",
            choices[i]);
        json_object *root = client_json(port(), CHAT, body, 200);
        json_object *arguments = json_tokener_parse(
            client_text(root, "choices.0.message.tool_calls.0.function.arguments"));
        if (strcmp(client_text(root, "choices.0.message.tool_calls.0.function.name"), "second") ==
            0) {
            CHECK(json_object_get_int(client_at(arguments, "a")) > 0);
            CHECK_STR(client_text(arguments, "$ref"), "#/$defs/x");
        }
        json_object_put(arguments);
        json_object_put(root);
        weft_free(body);
    }
}

/* ---- stopping ------------------------------------------------------------------------------- */

static void the_shared_server_stops(void)
{
    CHECK(port() > 0);
    serve_stop(shared, 5);
    shared = NULL;
}

CHECK_MAIN("serve", CHECK_CASE(routes_answer), CHECK_CASE(wrong_requests_get_errors),
           CHECK_CASE(ambiguous_headers_are_refused), CHECK_CASE(bodies_have_a_limit),
           CHECK_CASE(tools_have_a_limit), CHECK_CASE(prompts_that_are_too_long_are_refused),
           CHECK_CASE(tokens_become_text_again), CHECK_CASE(completions_are_those_of_weft_generate),
           CHECK_CASE(streams_have_the_text_of_the_whole_answer),
           CHECK_CASE(stop_strings_are_in_no_event), CHECK_CASE(choices_share_their_prompt),
           CHECK_CASE(choices_draw_with_seeds_of_their_own), CHECK_CASE(documents_fit_their_schema),
           CHECK_CASE(documents_that_are_cut_off_are_the_answer),
           CHECK_CASE(answers_that_are_no_document_are_errors_of_the_server),
           CHECK_CASE(required_calls_come), CHECK_CASE(references_of_required_calls_are_followed),
           CHECK_CASE(the_shared_server_stops))
