/* tests/serve/test_serve_no_memory.c -- serve/: answers when any one allocation fails. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/memory.h"

static const struct {
    const char *path, *more, *end; /* the stream's last event */
} apis[] = {
    {"/v1/chat/completions",
     "\"max_tokens\": 3, \"logprobs\": true, \"stream_options\": {\"include_usage\": true}",
     "data: [DONE]"},
    {"/v1/completions", "\"max_tokens\": 3, \"prompt\": \"A\", \"echo\": true, \"logprobs\": 2",
     "data: [DONE]"},
    {"/v1/messages", "\"max_tokens\": 3", "event: message_stop"},
    {"/v1/responses", "\"max_output_tokens\": 3, \"input\": \"Hi\", \"top_logprobs\": 2",
     "event: response.incomplete"},
};

enum { APIS = sizeof apis / sizeof *apis };

static client_reply ask(int port, int api)
{
    char body[512]; /* this allocation is not the server's */
    snprintf(body, sizeof body,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"stream\": true, "
             "\"temperature\": 0, \"ignore_eos\": true, %s}",
             apis[api].more);
    return client_ask(port, "POST", apis[api].path, body);
}

/* The content of an answer without ids and times: the values of some members, in order. */
static char *essence(const char *body)
{
    static const char *const keys[] = {
        "\"text\": ",   "\"content\": ",       "\"delta\": ",          "\"logprob\": ",
        "\"tokens\": ", "\"output_tokens\": ", "\"token_logprobs\": ", "\"completion_tokens\": "};
    char *out = weft_strdup("");
    for (const char *at = body; *at != '\0'; at++) {
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            if (strncmp(at, keys[k], strlen(keys[k])) != 0)
                continue;
            char *longer = weft_format("%s%.*s;", out, (int)strcspn(at, "}"), at);
            weft_free(out);
            out = longer;
        }
    }
    return out;
}

/* Each event of a stream is JSON or the end mark. */
static void check_events(char *body)
{
    char *data = NULL;
    for (char *at = client_event(body, &data); at != NULL; at = client_event(at, &data)) {
        json_object *event = strcmp(data, "[DONE]") != 0 ? json_tokener_parse(data) : NULL;
        if (!CHECK(event != NULL || strcmp(data, "[DONE]") == 0))
            CHECK_FAIL("%s", data);
        json_object_put(event);
    }
}

/* An answer is complete, or an error, or the stream lacks its end. */
static void check_answer(client_reply *r, int api, const char *whole, uint64_t nth)
{
    const char *body = r->body != NULL ? r->body : "";
    const bool ended = r->status == 200 && strstr(body, apis[api].end) != NULL;
    char *got = essence(body);
    if (ended && !CHECK_STR(got, whole))
        CHECK_FAIL("%s, allocation %llu", apis[api].path, (unsigned long long)nth);
    if (!CHECK(ended || r->status == 200 || r->status == 500 || r->status == 0))
        CHECK_FAIL("%s, allocation %llu: %d", apis[api].path, (unsigned long long)nth, r->status);
    if (r->status == 200)
        check_events(r->body);
    weft_free(got);
}

/* Any allocation of a request may fail. Streams then end with an error, not like complete ones, and
 * the next request is answered. */
static void no_event_is_lost(void)
{
    serve_server *server = client_server((serve_options){.rows = 2});
    const uint64_t step = check_few() ? 23 : check_exhaustive() ? 1 : 5;
    if (server == NULL)
        return;
    const int port = serve_port(server);
    for (int api = 0; api < APIS; api++) {
        uint64_t n = 1, errors = 0;
        client_reply r = ask(port, api); /* compiles the step */
        client_free(&r);
        (void)weft_memory_fail_at(0);
        r = ask(port, api);
        const uint64_t all = weft_memory_fail_at(0);
        char *whole = r.body != NULL ? essence(r.body) : NULL;
        CHECK_CONTAINS(r.body, apis[api].end);
        client_free(&r);
        for (; whole != NULL && n < all; n += step) {
            (void)weft_memory_fail_at(n);
            r = ask(port, api);
            (void)weft_memory_fail_at(0);
            errors += r.status == 200 && strstr(r.body, "out of memory") != NULL;
            check_answer(&r, api, whole, n);
            client_free(&r);
        }
        CHECK(errors > 3); /* in streams that have begun */
        r = ask(port, api);
        CHECK_CONTAINS(r.body, apis[api].end);
        check_answer(&r, api, whole, 0);
        client_free(&r);
        weft_free(whole);
    }
    CHECK_EQ_INT(client_metric(port, "requests_processing"), 0);
    CHECK_EQ_INT(client_metric(port, "kv_cache_tokens"), 0);
    serve_stop(server, 1);
}

CHECK_MAIN("serve_no_memory", CHECK_CASE(no_event_is_lost))
