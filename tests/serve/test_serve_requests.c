/* tests/serve/test_serve_requests.c -- behavior that clients of other servers rely on: the
 * assertions of llama.cpp's server tests for shared routes, in our own requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/memory.h"

#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"
#define USER(text) "\"messages\": [{\"role\": \"user\", \"content\": \"" text "\"}]"

static serve_server *shared;

static int port(void)
{
    if (shared == NULL)
        shared = client_server((serve_options){.rows = 4});
    return shared != NULL ? serve_port(shared) : 0;
}

/* Sends a request and checks the status; an error has a message. */
static json_object *ask(const char *path, const char *body, int status)
{
    json_object *root = client_json(port(), path, body, status);
    if (status >= 400 && !CHECK(client_text(root, "error.message") != NULL))
        CHECK_FAIL("%s %s", path, body);
    return root;
}

static int number(json_object *root, const char *path)
{
    return json_object_get_int(client_at(root, path));
}

/* ---- chats ---------------------------------------------------------------------------------- */

static void malformed_messages_are_refused(void)
{
    static const char *const messages[] = {
        "null",
        "\"text\"",
        "{}",
        "[123]",
        "[{}]",
        "[[]]",
        "[{\"role\": 123}]",
        "[{\"role\": \"system\", \"content\": 123}]",
        "[{\"role\": \"system\", \"content\": \"a\"}, {}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
        "[{\"role\": \"user\", \"content\": [7]}]",
    };
    static const char *const paths[] = {CHAT, "/apply-template", "/v1/messages"};
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
            char *body = weft_format("{\"max_tokens\": 2, \"messages\": %s}", messages[i]);
            json_object_put(ask(paths[p], body, 400));
            weft_free(body);
        }
    }
}

/* A body is one JSON object (RFC 8259), whatever the version of json-c accepts. */
static void bodies_are_strict_json(void)
{
    static const struct {
        const char *more; /* after {"content": "a" */
        int status;
    } cases[] = {
        {"}", 200},
        {" \t\r\n}\n ", 200},
        {", \"x\": [1, -0.5e+3, true, false, null, {}, [], \"\"]}", 200},
        {", \"x\": \"caf\xC3\xA9 \\u00e9 \\ud83e\\udd8a \\u0000 \\/\"}", 200},
        {", \"caf\xC3\xA9\": 18446744073709551616}", 200},
        {", \"content\": \"the last one counts\"}", 200},
        {"", 400},
        {",}", 400},
        {"} x", 400},
        {"}{}", 400},
        {"}]", 400},
        {", 'x': 1}", 400},
        {", \"x\": 'y'}", 400},
        {", x: 1}", 400},
        {", \"x\": [1,]}", 400},
        {", \"x\": [1 2]}", 400},
        {", \"x\" 1}", 400},
        {", /* x */ \"x\": 1}", 400},
        {"} // x", 400},
        {" # x\n}", 400},
        {", \"x\": True}", 400},
        {", \"x\": nul}", 400},
        {", \"x\": NaN}", 400},
        {", \"x\": -Infinity}", 400},
        {", \"x\": 01}", 400},
        {", \"x\": +1}", 400},
        {", \"x\": .5}", 400},
        {", \"x\": 1.}", 400},
        {", \"x\": 1e}", 400},
        {", \"x\": 0x10}", 400},
        {", \"x\": \"\\x41\"}", 400},
        {", \"x\": \"\\u12\"}", 400},
        {", \"x\": \"\\ud83e\"}", 400},
        {", \"x\": \"a\tb\"}", 400},
        {", \"x\": \"a\nb\"}", 400},
        {", \"x\": \"\xFF\"}", 400},
        {", \"x\": \"\xED\xA0\x80\"}", 400},
        {", \"\\u0000\": 1}", 400},
        {", \"x\": \x0B 1}", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = weft_format("{\"content\": \"a\"%s", cases[i].more);
        client_reply r = client_ask(port(), "POST", "/tokenize", body);
        if (!CHECK_EQ_INT(r.status, cases[i].status))
            CHECK_FAIL("%s: %s", body, r.body);
        CHECK(r.status == 200 || strstr(r.body, "\"body: ") != NULL);
        client_free(&r);
        weft_free(body);
    }
}

/* The prompt ends with the beginning of an answer unless the request says otherwise; all routes of
 * chats agree. */
static void the_generation_prompt_can_be_left_out(void)
{
    static const struct {
        const char *more, *end;
        int status;
    } cases[] = {
        {"", "<|im_start|>assistant\n", 200},
        {", \"add_generation_prompt\": true", "<|im_start|>assistant\n", 200},
        {", \"add_generation_prompt\": null", "<|im_start|>assistant\n", 200},
        {", \"add_generation_prompt\": false", "", 200},
        {", \"chat_template_kwargs\": {\"add_generation_prompt\": false}", "", 200},
        {", \"add_generation_prompt\": \"no\"", NULL, 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = weft_format("{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", "
                                 "\"content\": \"Hi\"}]%s}",
                                 cases[i].more);
        json_object *root = ask("/apply-template", body, cases[i].status),
                    *chat = ask(CHAT, body, cases[i].status);
        if (cases[i].end != NULL) {
            char *prompt = weft_format("<|im_start|>user\nHi<|im_end|>\n%s", cases[i].end);
            CHECK_STR(client_text(root, "prompt"), prompt);
            CHECK_EQ_INT(json_object_get_int(client_at(root, "tokens")),
                         json_object_get_int(client_at(chat, "usage.prompt_tokens")));
            weft_free(prompt);
        }
        json_object_put(root);
        json_object_put(chat);
        weft_free(body);
    }
}

/* A content of parts is their text. */
static void parts_are_one_text(void)
{
    json_object *parts =
        ask("/apply-template",
            "{\"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": "
            "\"Book\"}]}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"What "
            "is\"}, {\"type\": \"text\", \"text\": \" best?\"}]}]}",
            200);
    CHECK_STR(client_text(parts, "prompt"),
              "<|im_start|>system\nBook<|im_end|>\n<|im_start|>user\nWhat is best?<|im_end|>\n"
              "<|im_start|>assistant\n");
    json_object_put(parts);
}

static void formats_are_checked(void)
{
    static const struct {
        const char *format;
        int status;
        const char *content; /* NULL: any */
    } cases[] = {
        {"{\"type\": \"json_object\", \"schema\": {\"const\": \"42\"}}", 200, "\"42\""},
        {"{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"const\": \"foooooo\"}}}",
         200, "\"foooooo\""},
        {"{\"type\": \"json_object\"}", 200, NULL},
        {"{\"type\": \"text\"}", 200, NULL},
        {"{\"type\": \"sound\"}", 400, NULL},
        {"{}", 400, NULL},
        {"\"json_object\"", 400, NULL},
        {"{\"type\": \"json_object\", \"schema\": 123}", 400, NULL},
        {"{\"type\": \"json_object\", \"schema\": {\"type\": 123}}", 400, NULL},
        {"{\"type\": \"json_object\", \"schema\": {\"type\": \"hiccup\"}}", 400, NULL},
        {"{\"type\": \"json_schema\"}", 400, NULL},
        {"{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}", 400, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = weft_format("{" USER("An example") ", \"max_tokens\": 24, \"temperature\": 0, "
                                                        "\"response_format\": %s}",
                                 cases[i].format);
        json_object *root = ask(CHAT, body, cases[i].status);
        if (cases[i].content != NULL)
            CHECK_STR(client_text(root, "choices.0.message.content"), cases[i].content);
        json_object_put(root);
        weft_free(body);
    }
    json_object_put(ask("/v1/responses",
                        "{\"input\": \"x\", \"max_output_tokens\": 24, \"text\": {\"format\": "
                        "{\"type\": \"json_schema\", \"name\": \"x\"}}}",
                        400));
}

/* Checks every event of a chat: one id, the model, the role in the first one alone, log-
 * probabilities beside their text, and nothing in the last one. */
static void events_of_a_chat_are_consistent(void)
{
    client_reply r =
        client_ask(port(), "POST", CHAT,
                   "{" USER("Hi") ", \"max_tokens\": 8, \"temperature\": 0, \"stream\": "
                                  "true, \"logprobs\": true, \"top_logprobs\": 2, "
                                  "\"stream_options\": {\"include_usage\": true}}");
    char *data = NULL, *text = weft_strdup(""), *tokens = weft_strdup(""), id[64] = "";
    int n = 0, ended = 0, usages = 0;
    for (char *at = client_event(r.body, &data); at != NULL && strcmp(data, "[DONE]") != 0;
         at = client_event(at, &data), n++) {
        json_object *event = json_tokener_parse(data), *delta = client_at(event, "choices.0.delta");
        json_object *list = client_at(event, "choices.0.logprobs.content");
        if (n == 0)
            snprintf(id, sizeof id, "%s", client_text(event, "id"));
        CHECK_STR(client_text(event, "id"), id);
        CHECK_STR(client_text(event, "model"), "storyteller");
        if (delta == NULL) { /* the usage */
            CHECK_EQ_INT(number(event, "usage.completion_tokens"), 8);
            usages++;
        } else if (n == 0) {
            CHECK_STR(client_text(delta, "role"), "assistant");
            CHECK(json_object_object_get_ex(delta, "content", NULL) &&
                  client_text(delta, "content") == NULL);
        } else if (client_text(event, "choices.0.finish_reason") != NULL) {
            CHECK_EQ_INT(json_object_object_length(delta), 0);
            ended++;
        } else {
            CHECK(client_at(delta, "role") == NULL);
            char *longer = weft_format("%s%s", text, client_text(delta, "content"));
            weft_free(text);
            text = longer;
        }
        for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
            json_object *token = json_object_array_get_idx(list, i);
            CHECK(json_object_get_double(client_at(token, "logprob")) <= 0);
            CHECK(json_object_array_length(client_at(token, "bytes")) > 0);
            CHECK_EQ_INT(json_object_array_length(client_at(token, "top_logprobs")), 2);
            char *longer = weft_format("%s%s", tokens, client_text(token, "token"));
            weft_free(tokens);
            tokens = longer;
        }
        json_object_put(event);
    }
    CHECK(strstr(id, "cmpl") != NULL);
    CHECK(ended == 1 && usages == 1 && strlen(text) > 8);
    CHECK_STR(tokens, text);
    weft_free(text);
    weft_free(tokens);
    client_free(&r);
}

/* A prompt that is too long is an error before a stream, too. */
static void long_chats_are_refused_before_the_stream(void)
{
    char *messages = weft_strdup("{\"role\": \"user\", \"content\": \"What is the best book?\"}");
    for (int i = 0; i < 8; i++) {
        char *twice = weft_format("%s, %s", messages, messages);
        weft_free(messages);
        messages = twice;
    }
    for (int stream = 0; stream < 2; stream++) {
        char *body = weft_format("{\"stream\": %s, \"messages\": [%s]}", stream ? "true" : "false",
                                 messages);
        json_object *root = ask(CHAT, body, 400);
        CHECK_STR(client_text(root, "error.type"), "exceed_context_size_error");
        CHECK(number(root, "error.n_prompt_tokens") > number(root, "error.n_ctx"));
        CHECK_EQ_INT(number(root, "error.n_ctx"), 1024);
        json_object_put(root);
        weft_free(body);
    }
    weft_free(messages);
}

static void tools_are_called_only_if_wanted(void)
{
#define TOOL                                                                                       \
    "[{\"type\": \"function\", \"function\": {\"name\": \"test\", \"parameters\": {\"type\": "     \
    "\"object\", \"properties\": {\"success\": {\"type\": \"boolean\", \"const\": true}}, "        \
    "\"required\": [\"success\"]}}}]"
    json_object *root = ask(CHAT,
                            "{" USER("An example") ", \"max_tokens\": 60, \"tool_choice\": "
                                                   "\"required\", \"parallel_tool_calls\": false, "
                                                   "\"tools\": " TOOL "}",
                            200);
    CHECK_EQ_INT(json_object_array_length(client_at(root, "choices.0.message.tool_calls")), 1);
    CHECK_STR(client_text(root, "choices.0.message.tool_calls.0.function.name"), "test");
    CHECK(client_text(root, "choices.0.message.content") == NULL);
    json_object *arguments =
        json_tokener_parse(client_text(root, "choices.0.message.tool_calls.0.function.arguments"));
    CHECK(json_object_get_boolean(client_at(arguments, "success")));
    json_object_put(arguments);
    json_object_put(root);
    static const char *const without[] = {"\"tools\": [], \"tool_choice\": null", "\"tools\": null",
                                          "\"tool_choice\": \"none\", \"tools\": " TOOL};
    for (size_t i = 0; i < 3; i++) {
        char *body = weft_format("{" USER("Say hello") ", \"max_tokens\": 12, %s}", without[i]);
        root = ask(CHAT, body, 200);
        CHECK(client_at(root, "choices.0.message.tool_calls") == NULL);
        json_object_put(root);
        weft_free(body);
    }
}

/* ---- completions ---------------------------------------------------------------------------- */

/* A text, its tokens, and lists of both, in one answer. */
static void prompts_are_texts_or_tokens(void)
{
    json_object *tokens =
        ask("/tokenize", "{\"content\": \"The dog ran\", \"add_special\": true}", 200);
    const char *ids = json_object_to_json_string(client_at(tokens, "tokens"));
    char *body = weft_format("{\"prompt\": [%s, \"The dog ran\", %s], \"max_tokens\": 12, "
                             "\"temperature\": 0}",
                             ids, ids);
    json_object *root = ask(COMPLETIONS, body, 200);
    CHECK_EQ_INT(json_object_array_length(client_at(root, "choices")), 3);
    for (int i = 0; i < 3; i++) {
        char path[32];
        snprintf(path, sizeof path, "choices.%d.text", i);
        CHECK_STR(client_text(root, path), client_text(root, "choices.0.text"));
        snprintf(path, sizeof path, "choices.%d.index", i);
        CHECK_EQ_INT(number(root, path), i);
    }
    json_object_put(root);
    weft_free(body);
    json_object_put(tokens);
    json_object_put(ask(COMPLETIONS, "{\"prompt\": []}", 400));
    json_object_put(ask(COMPLETIONS, "{\"prompt\": [\"a\", {}]}", 400));
    json_object_put(ask(COMPLETIONS, "{}", 400));
}

/* The same seed draws the same text, and each other seed another one. */
static void seeds_choose_the_text(void)
{
    json_object *texts[5];
    for (int i = 0; i < 5; i++) {
        char *body = weft_format("{\"prompt\": \"The meaning of life is\", \"max_tokens\": 24, "
                                 "\"temperature\": 1, \"seed\": %d}",
                                 i % 4);
        texts[i] = ask(COMPLETIONS, body, 200);
        weft_free(body);
    }
    CHECK_STR(client_text(texts[4], "choices.0.text"), client_text(texts[0], "choices.0.text"));
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < i; k++)
            CHECK(strcmp(client_text(texts[i], "choices.0.text"),
                         client_text(texts[k], "choices.0.text")) != 0);
    }
    for (int i = 0; i < 5; i++)
        json_object_put(texts[i]);
}

/* Tokens with a bias of -100 are not drawn; without it they are. */
static void biases_exclude_tokens(void)
{
    json_object *plain =
        ask(COMPLETIONS, "{\"prompt\": \"Once\", \"max_tokens\": 40, \"temperature\": 0}", 200);
    const char *text = client_text(plain, "choices.0.text");
    json_object *quoted = json_object_new_string(text);
    char *body = weft_format("{\"content\": %s}", json_object_to_json_string(quoted));
    json_object *tokens = ask("/tokenize", body, 200), *list = client_at(tokens, "tokens");
    char *biases = weft_strdup("");
    for (size_t i = 0; i < json_object_array_length(list) && i < 20; i++) {
        char *more = weft_format("%s%s\"%d\": -100", biases, i > 0 ? ", " : "",
                                 json_object_get_int(json_object_array_get_idx(list, i)));
        weft_free(biases);
        biases = more;
    }
    weft_free(body);
    body =
        weft_format("{\"prompt\": \"Once\", \"max_tokens\": 40, \"temperature\": 0, \"logprobs\": "
                    "0, \"logit_bias\": {%s}}",
                    biases);
    json_object *other = ask(COMPLETIONS, body, 200);
    json_object *kept = client_at(other, "choices.0.logprobs.tokens");
    CHECK(json_object_array_length(kept) > 10);
    for (size_t i = 0; i < json_object_array_length(kept); i++) {
        json_object *one = json_object_array_get_idx(kept, i);
        char *ask_id = weft_format("{\"content\": %s}", json_object_to_json_string(one));
        json_object *id = ask("/tokenize", ask_id, 200);
        if (number(id, "count") == 1) {
            char key[24];
            snprintf(key, sizeof key, "\"%d\":", number(id, "tokens.0"));
            CHECK(strstr(biases, key) == NULL);
        }
        json_object_put(id);
        weft_free(ask_id);
    }
    json_object_put(quoted);
    json_object_put(plain);
    json_object_put(tokens);
    json_object_put(other);
    weft_free(biases);
    weft_free(body);
}

/* Without a limit an answer ends at the last position. */
static void answers_end_at_the_last_position(void)
{
    for (int stream = 0; stream < 2; stream++) {
        char *body = weft_format("{\"prompt\": \"Once\", \"ignore_eos\": true, \"temperature\": 0, "
                                 "\"stream\": %s, \"stream_options\": {\"include_usage\": true}}",
                                 stream ? "true" : "false");
        client_reply r = client_ask(port(), "POST", COMPLETIONS, body);
        CHECK_CONTAINS(r.body, "\"finish_reason\": \"length\"");
        const char *total = strstr(r.body, "\"total_tokens\": ");
        /* the last token needs no position */
        CHECK(total != NULL && atoi(total + strlen("\"total_tokens\": ")) == 1025);
        client_free(&r);
        weft_free(body);
    }
}

/* A repeated prompt comes from the prompt cache, and /metrics counts that. */
static void repeated_prompts_are_cached(void)
{
    static const char body[] = "{\"prompt\": \"A prompt that nobody else has asked for, ever. It "
                               "is not short, since it has many words, and then some more of them, "
                               "so that much of it can be kept for the next time.\", "
                               "\"max_tokens\": 4, \"temperature\": 0}";
    const double before = client_metric(port(), "prompt_tokens_cached_total");
    json_object *first = ask(COMPLETIONS, body, 200), *again = ask(COMPLETIONS, body, 200);
    CHECK_EQ_INT(number(first, "usage.prompt_tokens_details.cached_tokens"), 0);
    CHECK(number(again, "usage.prompt_tokens_details.cached_tokens") > 4);
    CHECK_STR(client_text(again, "choices.0.text"), client_text(first, "choices.0.text"));
    CHECK(client_metric(port(), "prompt_tokens_cached_total") > before + 4);
    json_object_put(first);
    json_object_put(again);
}

/* ---- tokens, embeddings --------------------------------------------------------------------- */

static void pieces_have_ids_and_text(void)
{
    json_object *root = ask(
        "/tokenize",
        "{\"content\": \"A test with \\u5abd and \\ud83e\\udd17.\", \"with_pieces\": true}", 200);
    json_object *list = client_at(root, "tokens");
    CHECK(json_object_array_length(list) > 5);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *token = json_object_array_get_idx(list, i);
        CHECK(json_object_is_type(client_at(token, "id"), json_type_int));
        CHECK(strlen(client_text(token, "piece")) > 0);
    }
    json_object_put(root);
}

static void embeddings_take_texts_and_tokens(void)
{
    json_object *root =
        ask("/v1/embeddings", "{\"input\": [\"The dog ran\", \"A cat.\", \"The dog ran\"]}", 200);
    json_object *tokens =
        ask("/tokenize", "{\"content\": \"The dog ran\", \"add_special\": true}", 200);
    char *body =
        weft_format("{\"input\": %s}", json_object_to_json_string(client_at(tokens, "tokens")));
    json_object *same = ask("/v1/embeddings", body, 200);
    const char *const paths[] = {"data.0.embedding.", "data.2.embedding."};
    double sum = 0;
    for (int i = 0; i < 192; i++) {
        char path[48];
        snprintf(path, sizeof path, "data.0.embedding.%d", i);
        const double value = json_object_get_double(client_at(same, path));
        sum += value * value;
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s%d", paths[k], i);
            CHECK_CLOSE(json_object_get_double(client_at(root, path)), value, 1e-4);
        }
    }
    CHECK_CLOSE(sum, 1, 1e-4);
    CHECK_EQ_INT(number(root, "usage.prompt_tokens"), number(root, "usage.total_tokens"));
    CHECK(number(root, "usage.prompt_tokens") > 2 * number(same, "usage.prompt_tokens"));
    json_object_put(root);
    json_object_put(same);
    json_object_put(tokens);
    weft_free(body);
    static const char *const wrong[] = {"{\"input\": []}",   "{\"input\": {}}",
                                        "{\"input\": 3}",    "{}",
                                        "{\"input\": [[]]}", "{\"input\": [\"a\", {}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        json_object_put(ask("/v1/embeddings", wrong[i], 400));
}

/* ---- messages and responses ----------------------------------------------------------------- */

static void messages_have_their_members(void)
{
    json_object *root = ask("/v1/messages",
                            "{\"model\": \"test\", \"max_tokens\": 8, \"temperature\": 0.5, "
                            "\"top_p\": 0.9, \"top_k\": 40, \"metadata\": {\"user_id\": \"a\"}, "
                            "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 50}, "
                            "\"system\": \"Be kind.\", " USER("Hello") "}",
                            200);
    CHECK_STR(client_text(root, "type"), "message");
    CHECK_STR(client_text(root, "role"), "assistant");
    CHECK_STR(client_text(root, "content.0.type"), "text");
    CHECK(client_at(root, "timings") == NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const keys[] = {"usage.cache_read_input_tokens", "usage.input_tokens",
                                           "usage.output_tokens"};
        CHECK(json_object_is_type(client_at(root, keys[i]), json_type_int));
    }
    json_object_put(root);
    root = ask("/v1/messages/count_tokens", "{" USER("Hello world") "}", 200);
    CHECK(number(root, "input_tokens") > 0);
    CHECK_EQ_INT(json_object_object_length(root), 1);
    json_object_put(root);
}

/* The ids of a response and of its item are the same in all events. */
static void events_of_a_response_have_its_ids(void)
{
    client_reply r = client_ask(port(), "POST", "/v1/responses",
                                "{\"input\": [{\"role\": \"system\", \"content\": \"Book\"}, "
                                "{\"role\": \"user\", \"content\": \"What is best?\"}], "
                                "\"max_output_tokens\": 8, \"temperature\": 0, \"stream\": true}");
    char *data = NULL, *text = weft_strdup(""), id[64] = "", item[64] = "";
    int ends = 0;
    for (char *at = client_event(r.body, &data); at != NULL; at = client_event(at, &data)) {
        json_object *e = json_tokener_parse(data);
        const char *own = client_text(e, "response.id"), *part = client_text(e, "item_id");
        part = part != NULL ? part : client_text(e, "item.id");
        if (own != NULL && id[0] == '\0')
            snprintf(id, sizeof id, "%s", own);
        if (part != NULL && item[0] == '\0')
            snprintf(item, sizeof item, "%s", part);
        CHECK(own == NULL || strcmp(own, id) == 0);
        CHECK(part == NULL || strcmp(part, item) == 0);
        if (strcmp(client_text(e, "type"), "response.output_text.delta") == 0) {
            char *longer = weft_format("%s%s", text, client_text(e, "delta"));
            weft_free(text);
            text = longer;
        }
        if (client_at(e, "response.output.0.content.0.text") != NULL) {
            CHECK_STR(client_text(e, "response.output.0.content.0.text"), text);
            CHECK_STR(client_text(e, "response.output.0.id"), item);
            ends++;
        }
        json_object_put(e);
    }
    CHECK(strncmp(id, "resp_", 5) == 0 && strncmp(item, "msg_", 4) == 0);
    CHECK_EQ_INT(ends, 1);
    weft_free(text);
    client_free(&r);
}

static void the_shared_server_stops(void)
{
    CHECK(port() > 0);
    serve_stop(shared, 5);
    shared = NULL;
}

CHECK_MAIN("serve_requests", CHECK_CASE(malformed_messages_are_refused),
           CHECK_CASE(bodies_are_strict_json), CHECK_CASE(the_generation_prompt_can_be_left_out),
           CHECK_CASE(parts_are_one_text), CHECK_CASE(formats_are_checked),
           CHECK_CASE(events_of_a_chat_are_consistent),
           CHECK_CASE(long_chats_are_refused_before_the_stream),
           CHECK_CASE(tools_are_called_only_if_wanted), CHECK_CASE(prompts_are_texts_or_tokens),
           CHECK_CASE(seeds_choose_the_text), CHECK_CASE(biases_exclude_tokens),
           CHECK_CASE(answers_end_at_the_last_position), CHECK_CASE(repeated_prompts_are_cached),
           CHECK_CASE(pieces_have_ids_and_text), CHECK_CASE(embeddings_take_texts_and_tokens),
           CHECK_CASE(messages_have_their_members), CHECK_CASE(events_of_a_response_have_its_ids),
           CHECK_CASE(the_shared_server_stops))
