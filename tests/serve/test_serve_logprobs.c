/* tests/serve/test_serve_logprobs.c -- serve/logprobs.c: log-probabilities of answers and prompts,
 * compared with those of transformers. */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/batch.h"
#include "weft/io.h"
#include "weft/memory.h"

#define USER(text) "\"messages\": [{\"role\": \"user\", \"content\": \"" text "\"}]"
#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"

/* The server that all cases share. */
static serve_server *shared;

static int port(void)
{
    if (shared == NULL)
        shared = client_server((serve_options){.rows = 4});
    return shared != NULL ? serve_port(shared) : 0;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void log_probabilities_come_with_the_best(void)
{
    json_object *root = client_json(port(), CHAT,
                                    "{" USER("Hi") ", \"max_tokens\": 8, \"temperature\": 0, "
                                                   "\"logprobs\": true, \"top_logprobs\": 3}",
                                    200);
    json_object *list = client_at(root, "choices.0.logprobs.content");
    char *text = weft_strdup("");
    CHECK(json_object_is_type(list, json_type_array) && json_object_array_length(list) > 0);
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *token = json_object_array_get_idx(list, i);
        json_object *top = client_at(token, "top_logprobs");
        CHECK_EQ_INT(json_object_array_length(top), 3);
        CHECK_STR(client_text(top, "0.token"), client_text(token, "token"));
        CHECK_CLOSE(json_object_get_double(client_at(top, "0.logprob")),
                    json_object_get_double(client_at(token, "logprob")), 0);
        CHECK(json_object_get_double(client_at(top, "0.logprob")) >=
              json_object_get_double(client_at(top, "1.logprob")));
        char *longer = weft_format("%s%s", text, client_text(token, "token"));
        weft_free(text);
        text = longer;
    }
    CHECK_STR(text, client_text(root, "choices.0.message.content"));
    json_object_put(root);
    weft_free(text);
    root = client_json(port(), "/v1/completions",
                       "{\"prompt\": \"A\", \"max_tokens\": 4, \"logprobs\": 2, "
                       "\"temperature\": 0}",
                       200);
    CHECK_EQ_INT(json_object_array_length(client_at(root, "choices.0.logprobs.tokens")), 4);
    CHECK_EQ_INT(json_object_object_length(client_at(root, "choices.0.logprobs.top_logprobs.0")),
                 2);
    json_object_put(root);
}

/* The bytes of a character that no token has whole, drawn by their biases, with the model's ids. */
static void tokens_of_parts_of_characters_have_their_bytes(void)
{
    static const struct {
        int id, byte;
    } parts[] = {{158, 0xE2}, {226, 0x84}, {105, 0xAC}};
    for (size_t i = 0; i < 3; i++) {
        char *body = weft_format("{\"prompt\": \"A\", \"max_tokens\": 2, \"logprobs\": 1, "
                                 "\"logit_bias\": {\"%d\": 100, \"7\": -1}}",
                                 parts[i].id);
        json_object *root = client_json(port(), "/v1/completions", body, 200);
        CHECK_EQ_INT(json_object_get_int(client_at(root, "choices.0.logprobs.text_offset.1")),
                     i == 0 ? 1 : 0);
        json_object_put(root);
        weft_free(body);
        body = weft_format("{" USER("A") ", \"max_tokens\": 1, \"logprobs\": true, "
                                         "\"logit_bias\": {\"%d\": 100}}",
                           parts[i].id);
        root = client_json(port(), CHAT, body, 200);
        json_object *bytes = client_at(root, "choices.0.logprobs.content.0.bytes");
        CHECK_EQ_INT(json_object_array_length(bytes), 1);
        CHECK_EQ_INT(json_object_get_int(client_at(bytes, "0")), parts[i].byte);
        json_object_put(root);
        weft_free(body);
    }
}

/* A mark has no text, so the next text does not get its log-probability. A bias draws it, and a
 * penalty only once. */
static void marks_have_no_log_probabilities(void)
{
    json_object *root = client_json(port(), "/v1/completions",
                                    "{\"prompt\": \"A\", \"max_tokens\": 4, \"logprobs\": 0, "
                                    "\"temperature\": 0, \"presence_penalty\": 100, "
                                    "\"logit_bias\": {\"4094\": 100}}",
                                    200);
    const char *text = client_text(root, "choices.0.logprobs.tokens.0");
    CHECK_EQ_INT(json_object_get_int(client_at(root, "usage.completion_tokens")), 4);
    CHECK_EQ_INT(json_object_array_length(client_at(root, "choices.0.logprobs.tokens")), 3);
    CHECK(text != NULL && strncmp(client_text(root, "choices.0.text"), text, strlen(text)) == 0);
    json_object_put(root);
}

/* ---- prompts -------------------------------------------------------------------------------- */

static double number(json_object *list, size_t i)
{
    return json_object_get_double(json_object_array_get_idx(list, i));
}

/* The bytes of the first n characters. */
static size_t bytes_of(const char *text, int n)
{
    size_t at = 0;
    for (; n > 0 && text[at] != '\0'; n--) {
        at++;
        while ((text[at] & 0xC0) == 0x80)
            at++;
    }
    return at;
}

/* The offsets of tokens point to their texts, except for parts of characters. */
static void check_offsets(json_object *logprobs, const char *text)
{
    json_object *tokens = client_at(logprobs, "tokens"),
                *offsets = client_at(logprobs, "text_offset");
    CHECK_EQ_INT(json_object_array_length(tokens), json_object_array_length(offsets));
    for (size_t i = 0; i < json_object_array_length(tokens); i++) {
        const char *token = json_object_get_string(json_object_array_get_idx(tokens, i));
        const size_t at = bytes_of(text, (int)number(offsets, i));
        if (strstr(token, "\xEF\xBF\xBD") == NULL)
            CHECK(strncmp(text + at, token, strlen(token)) == 0);
    }
}

/* The prompt's values are those that transformers has computed. */
static void check_values(json_object *logprobs, json_object *expected, size_t n_top)
{
    json_object *values = client_at(logprobs, "token_logprobs"),
                *top = client_at(logprobs, "top_logprobs"),
                *of_tokens = client_at(expected, "logprobs");
    const size_t n = json_object_array_length(of_tokens);
    CHECK(json_object_array_length(values) > n);
    CHECK(json_object_array_get_idx(values, 0) == NULL);
    CHECK(json_object_array_get_idx(top, 0) == NULL);
    for (size_t i = 0; i < n; i++) {
        json_object *best = json_object_array_get_idx(top, i + 1);
        json_object *known = json_object_array_get_idx(client_at(expected, "top"), i);
        size_t k = 0;
        bool own = false;
        CHECK_CLOSE(number(values, i + 1), number(of_tokens, i), 2e-5);
        CHECK(json_object_object_length(best) >= (int)n_top);
        json_object_object_foreach(best, token, value)
        {
            (void)token;
            if (k < n_top)
                CHECK_CLOSE(json_object_get_double(value), number(known, k), 2e-5);
            own = own || json_object_get_double(value) == number(values, i + 1);
            k++;
        }
        CHECK(own && k <= n_top + 1); /* exactly, as clients compare */
    }
}

static json_object *read_expected(void)
{
    char *text = NULL;
    CHECK_OK(weft_file_read(check_source("tests/golden/serve/echo.json"), 0, &text, NULL));
    json_object *cases = text != NULL ? json_tokener_parse(text) : NULL;
    CHECK(json_object_array_length(cases) == 3);
    weft_free(text);
    return cases;
}

static void prompts_are_scored_as_by_transformers(void)
{
    json_object *cases = read_expected();
    for (size_t i = 0; i < json_object_array_length(cases); i++) {
        json_object *one = json_object_array_get_idx(cases, i);
        for (int form = 0; form < 4; form++) { /* text or ids; nothing or three tokens after it */
            json_object *prompt = client_at(one, form % 2 ? "ids" : "text");
            const int more = form < 2 ? 0 : 3;
            char *body = weft_format("{\"prompt\": %s, \"echo\": true, \"logprobs\": %d, "
                                     "\"max_tokens\": %d, \"temperature\": 0}",
                                     json_object_to_json_string(prompt), 2 + form % 2, more);
            json_object *root = client_json(port(), COMPLETIONS, body, 200);
            json_object *logprobs = client_at(root, "choices.0.logprobs");
            const char *text = client_text(root, "choices.0.text"),
                       *given = client_text(one, "text");
            const size_t n = json_object_array_length(client_at(one, "ids"));
            CHECK(strncmp(text, given, strlen(given)) == 0);
            CHECK(more > 0 ? strlen(text) > strlen(given) : strlen(text) == strlen(given));
            CHECK_EQ_INT(json_object_array_length(client_at(logprobs, "tokens")), n + (size_t)more);
            CHECK_EQ_INT(json_object_get_int(client_at(root, "usage.completion_tokens")), more);
            CHECK_EQ_INT(json_object_get_int(client_at(root, "usage.prompt_tokens")), (int)n);
            CHECK_STR(client_text(root, "choices.0.finish_reason"), "length");
            check_offsets(logprobs, text);
            check_values(logprobs, one, (size_t)(2 + form % 2));
            json_object_put(root);
            weft_free(body);
        }
    }
    json_object_put(cases);
}

/* The first event of a stream has the prompt; several prompts are scored each by itself. */
static void scored_prompts_come_in_streams_and_lists(void)
{
    json_object *cases = read_expected(), *whole, *first = NULL;
    char *data = NULL,
         *body = weft_format("{\"prompt\": [%s, %s], \"echo\": true, \"logprobs\": 0, "
                             "\"max_tokens\": 0}",
                             json_object_to_json_string(client_at(cases, "0.ids")),
                             json_object_to_json_string(client_at(cases, "1.ids")));
    whole = client_json(port(), COMPLETIONS, body, 200);
    check_values(client_at(whole, "choices.0.logprobs"), client_at(cases, "0"), 0);
    check_values(client_at(whole, "choices.1.logprobs"), client_at(cases, "1"), 0);
    weft_free(body);
    body = weft_format("{\"prompt\": %s, \"echo\": true, \"logprobs\": 1, \"max_tokens\": 2, "
                       "\"temperature\": 0, \"stream\": true}",
                       json_object_to_json_string(client_at(cases, "0.text")));
    client_reply r = client_ask(port(), "POST", COMPLETIONS, body);
    CHECK_EQ_INT(r.status, 200);
    if (CHECK(client_event(r.body, &data) != NULL))
        first = json_tokener_parse(data);
    check_values(client_at(first, "choices.0.logprobs"), client_at(cases, "0"), 1);
    CHECK_STR(client_text(first, "choices.0.text"), client_text(cases, "0.text"));
    client_free(&r);
    json_object_put(first);
    json_object_put(whole);
    json_object_put(cases);
    weft_free(body);
}

/* Special tokens of a prompt are in its text or have no text; a prompt may fill the model's
 * positions if nothing follows. */
static void prompts_are_echoed_as_given(void)
{
    static const char marked[] = "<|endoftext|>Once upon";
    json_object *root = client_json(port(), COMPLETIONS,
                                    "{\"prompt\": \"<|endoftext|>Once upon\", \"echo\": true, "
                                    "\"logprobs\": 1, \"max_tokens\": 0}",
                                    200);
    CHECK_STR(client_text(root, "choices.0.text"), marked);
    check_offsets(client_at(root, "choices.0.logprobs"), marked);
    json_object_put(root);
    root = client_json(port(), COMPLETIONS,
                       "{\"prompt\": [4093, 2010, 370], \"echo\": true, \"logprobs\": 1, "
                       "\"max_tokens\": 0}",
                       200);
    CHECK_STR(client_text(root, "choices.0.text"), "Once");
    CHECK_EQ_INT(json_object_get_int(client_at(root, "choices.0.logprobs.text_offset.1")), 0);
    CHECK_EQ_INT(json_object_get_int(client_at(root, "choices.0.logprobs.text_offset.2")), 2);
    json_object_put(root);
    for (int more = 0; more < 3; more++) { /* 1024 tokens of 1024 */
        char *ids = weft_strdup("5");
        for (int i = 1; i < 1024 + more / 2; i++) {
            char *longer = weft_format("%s, 5", ids);
            weft_free(ids);
            ids = longer;
        }
        char *body = weft_format("{\"prompt\": [%s], \"echo\": true, \"logprobs\": 1, "
                                 "\"max_tokens\": %d}",
                                 ids, more % 2);
        root = client_json(port(), COMPLETIONS, body, more == 0 ? 200 : 400);
        if (more == 0)
            CHECK_EQ_INT(json_object_array_length(client_at(root, "choices.0.logprobs.tokens")),
                         1024);
        json_object_put(root);
        weft_free(ids);
        weft_free(body);
    }
}

/* A NUL is a character of the prompt, for each choice; some versions of json-c refuse it in a text,
 * so it is given as a token. */
static void prompts_may_have_a_nul(void)
{
    for (int form = 0; form < 4; form++) { /* without and with log-probabilities, one or two */
        const int n = form % 2 + 1;
        char *body = weft_format("{\"prompt\": [64, 188, 65], \"echo\": true, \"n\": %d, "
                                 "\"max_tokens\": 0%s}",
                                 n, form < 2 ? "" : ", \"logprobs\": 0");
        json_object *root = client_json(port(), COMPLETIONS, body, 200);
        for (int i = 0; i < n; i++) {
            json_object *choice = json_object_array_get_idx(client_at(root, "choices"), (size_t)i),
                        *text = client_at(choice, "text"),
                        *offsets = client_at(choice, "logprobs.text_offset");
            CHECK_EQ_INT(json_object_get_string_len(text), 3);
            CHECK(memcmp(json_object_get_string(text), "a\0b", 3) == 0);
            CHECK_EQ_INT(form < 2 ? 3 : json_object_array_length(offsets), 3);
            for (size_t k = 0; form >= 2 && k < json_object_array_length(offsets); k++)
                CHECK_EQ_INT((int)number(offsets, k), (int)k);
        }
        json_object_put(root);
        weft_free(body);
    }
}

/* A body is UTF-8. */
static void bodies_are_utf8(void)
{
    static const char *const texts[] = {"caf\xC3\xA9 \xE2\x80\x94 \xF0\x9F\xA6\x8A \xED\x9F\xBF",
                                        "\x80",
                                        "\xC3(",
                                        "\xED\xA0\x80",
                                        "\xC0\x80",
                                        "\xF4\x90\x80\x80",
                                        "\xE0\x9F\xBF"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *body = weft_format("{\"prompt\": \"%s\", \"max_tokens\": 1}", texts[i]);
        client_reply r = client_ask(port(), "POST", COMPLETIONS, body);
        CHECK_EQ_INT(r.status, i == 0 ? 200 : 400);
        CHECK(i == 0 || strstr(r.body, "body: column 13: invalid UTF-8") != NULL);
        client_free(&r);
        weft_free(body);
    }
}

/* Bytes that are not a character are U+FFFD in the text, and the tokens after them have the right
 * offsets. */
static void tokens_follow_invalid_bytes(void)
{
    static const struct {
        const char *ids; /* 222: 0x80, 158: 0xE2, 226: 0x84, 105: 0xAC, 171: 0xEF, 123: 0xBF */
        const char *text;
    } cases[] = {
        {"222", "\xEF\xBF\xBD"},
        {"222, 222", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"158, 226", "\xEF\xBF\xBD"},
        {"171", "\xEF\xBF\xBD"},
        {"171, 123", "\xEF\xBF\xBD"},
        {"171, 222", "\xEF\xBF\xBD"},
        {"158, 226, 105", "\xE2\x84\xAC"},
        {"2010, 158, 226, 105, 222", "On\xE2\x84\xAC\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = weft_format("{\"prompt\": [%s, 2010, 370], \"echo\": true, \"logprobs\": 0, "
                                 "\"max_tokens\": 0}",
                                 cases[i].ids),
             *text = weft_format("%sOnce", cases[i].text);
        json_object *root = client_json(port(), COMPLETIONS, body, 200);
        json_object *offsets = client_at(root, "choices.0.logprobs.text_offset");
        const size_t n = json_object_array_length(offsets);
        int characters = 0;
        for (const char *at = cases[i].text; *at != '\0'; at++)
            characters += (*at & 0xC0) != 0x80;
        CHECK_STR(client_text(root, "choices.0.text"), text);
        CHECK(n > 2 && number(offsets, 0) == 0);
        CHECK_EQ_INT((int)number(offsets, n - 2), characters);
        CHECK_EQ_INT((int)number(offsets, n - 1), characters + 2);
        json_object_put(root);
        weft_free(body);
        weft_free(text);
    }
}

/* Replaces the library's function, and calls it. */
static atomic_int scored;

weft_status weft_score(weft_model *model, const weft_score_request *requests, size_t n,
                       const weft_batch_options *options, weft_scored *out)
{
    weft_status (*real)(weft_model *, const weft_score_request *, size_t,
                        const weft_batch_options *, weft_scored *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "weft_score");
    scored++;
    return real(model, requests, n, options, out);
}

static void a_prompt_is_scored_once_for_its_choices(void)
{
    json_object *cases = read_expected();
    char *body = weft_format("{\"prompt\": [%s, %s], \"n\": 2, \"echo\": true, \"logprobs\": 1, "
                             "\"max_tokens\": 2}",
                             json_object_to_json_string(client_at(cases, "0.text")),
                             json_object_to_json_string(client_at(cases, "1.text")));
    scored = 0;
    json_object *root = client_json(port(), COMPLETIONS, body, 200);
    CHECK_EQ_INT(atomic_load(&scored), 2);
    for (size_t i = 0; i < 4; i++) {
        json_object *choice = json_object_array_get_idx(client_at(root, "choices"), i),
                    *logprobs = client_at(choice, "logprobs");
        check_values(logprobs, client_at(cases, i < 2 ? "0" : "1"), 1);
        check_offsets(logprobs, client_text(choice, "text"));
    }
    json_object_put(root);
    json_object_put(cases);
    weft_free(body);
}

/* Replaces json-c's function, and calls it. `parsers`: how many succeed before one fails. */
static atomic_int parsers = -1;

json_tokener *json_tokener_new_ex(int depth)
{
    json_tokener *(*real)(int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "json_tokener_new_ex");
    return parsers >= 0 && parsers-- == 0 ? NULL : real(depth);
}

/* Lists that cannot be allocated are a failure, not empty. */
static void log_probabilities_need_memory(void)
{
    parsers = 0; /* that of the first list */
    client_reply r = client_ask(port(), "POST", COMPLETIONS,
                                "{\"prompt\": \"A\", \"max_tokens\": 2, \"logprobs\": 1}");
    CHECK_EQ_INT(atomic_load(&parsers), -1);
    CHECK_EQ_INT(r.status, 500);
    CHECK_CONTAINS(r.body, "out of memory");
    parsers = -1;
    client_free(&r);
}

static void the_shared_server_stops(void)
{
    CHECK(port() > 0);
    serve_stop(shared, 5);
    shared = NULL;
}

CHECK_MAIN("serve_logprobs", CHECK_CASE(log_probabilities_come_with_the_best),
           CHECK_CASE(tokens_of_parts_of_characters_have_their_bytes),
           CHECK_CASE(marks_have_no_log_probabilities),
           CHECK_CASE(prompts_are_scored_as_by_transformers),
           CHECK_CASE(scored_prompts_come_in_streams_and_lists),
           CHECK_CASE(prompts_are_echoed_as_given), CHECK_CASE(prompts_may_have_a_nul),
           CHECK_CASE(bodies_are_utf8), CHECK_CASE(tokens_follow_invalid_bytes),
           CHECK_CASE(a_prompt_is_scored_once_for_its_choices),
           CHECK_CASE(log_probabilities_need_memory), CHECK_CASE(the_shared_server_stops))
