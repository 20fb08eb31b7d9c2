/* tests/serve/test_serve_apis.c -- serve/: Anthropic's messages, OpenAI's responses and embeddings,
 * over HTTP. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/batch.h"
#include "weft/memory.h"

#define MESSAGES "/v1/messages"
#define RESPONSES "/v1/responses"
#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"Tell a story.\"}]"
#define DRAW "\"temperature\": 0, "
#define SCHEMA                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [1, 2]}}, \"required\": [\"a\"]}"

static serve_server *shared;

static int port(void)
{
    if (shared == NULL)
        shared = client_server((serve_options){.rows = 4});
    return shared != NULL ? serve_port(shared) : 0;
}

/* The parsed events of a stream; each must have an `event:` line with the name in its "type". */
enum { EVENTS = 256 };

typedef struct events {
    json_object *at[EVENTS];
    int n;
} events;

static events read_events(const char *path, const char *body)
{
    events e = {.n = 0};
    client_reply r = client_ask(port(), "POST", path, body);
    CHECK_EQ_INT(r.status, 200);
    char *data = NULL;
    for (char *at = client_event(r.body, &data); at != NULL; at = client_event(at, &data)) {
        json_object *event = json_tokener_parse(data);
        char *name = weft_format("event: %s\n", client_text(event, "type"));
        CHECK(strncmp(data - strlen("data: ") - strlen(name), name, strlen(name)) == 0);
        weft_free(name);
        if (CHECK(e.n < EVENTS))
            e.at[e.n++] = event;
    }
    client_free(&r);
    return e;
}

static void free_events(events *e)
{
    for (int i = 0; i < e->n; i++)
        json_object_put(e->at[i]);
}

static bool is(json_object *event, const char *type)
{
    const char *has = client_text(event, "type");
    return has != NULL && strcmp(has, type) == 0;
}

/* The texts at a path of all events of a type, joined. */
static char *join(const events *e, const char *type, const char *path)
{
    char *text = weft_strdup("");
    for (int i = 0; i < e->n; i++) {
        const char *piece = is(e->at[i], type) ? client_text(e->at[i], path) : NULL;
        char *longer = weft_format("%s%s", text, piece != NULL ? piece : "");
        weft_free(text);
        text = longer;
    }
    return text;
}

/* ---- messages ------------------------------------------------------------------------------- */

static void messages_stream_what_they_answer(void)
{
    json_object *whole =
        client_json(port(), MESSAGES "?beta=true", "{" DRAW "\"max_tokens\": 20, " USER "}", 200);
    events e = read_events(MESSAGES, "{" DRAW "\"max_tokens\": 20, \"stream\": true, " USER "}");
    char *text = join(&e, "content_block_delta", "delta.text");
    CHECK_STR(client_text(whole, "type"), "message");
    CHECK_STR(client_text(whole, "content.0.type"), "text");
    CHECK_STR(client_text(whole, "content.0.text"), text);
    CHECK_STR(client_text(whole, "stop_reason"), "max_tokens");
    CHECK_EQ_INT(json_object_get_int(client_at(whole, "usage.output_tokens")), 20);
    if (CHECK(e.n > 5)) {
        CHECK(is(e.at[0], "message_start"));
        CHECK(json_object_get_int(client_at(e.at[0], "message.usage.input_tokens")) > 0);
        CHECK(is(e.at[1], "content_block_start"));
        CHECK(is(e.at[e.n - 3], "content_block_stop"));
        CHECK_STR(client_text(e.at[e.n - 2], "delta.stop_reason"), "max_tokens");
        CHECK_EQ_INT(json_object_get_int(client_at(e.at[e.n - 2], "usage.output_tokens")), 20);
        CHECK(is(e.at[e.n - 1], "message_stop"));
    }
    weft_free(text);
    free_events(&e);
    json_object_put(whole);
}

/* Under its present name and the older one. */
static void messages_have_formats(void)
{
    static const char *const formats[] = {"\"output_config\": {\"format\": %s}",
                                          "\"output_format\": %s"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char *good = weft_format(formats[i], "{\"type\": \"json_schema\", \"schema\": {\"const\": "
                                             "[\"foooo\"]}}"),
             *bad = weft_format(formats[i], "{\"type\": \"json_schema\"}"),
             *body = weft_format("{\"max_tokens\": 90, " USER ", %s}", good),
             *other = weft_format("{\"max_tokens\": 90, " USER ", %s}", bad);
        json_object *root = client_json(port(), "/v1/messages", body, 200);
        CHECK_STR(client_text(root, "content.0.text"), "[\"foooo\"]");
        json_object_put(root);
        root = client_json(port(), "/v1/messages", other, 400);
        CHECK_CONTAINS(client_text(root, "error.message"), "expected a schema");
        json_object_put(root);
        weft_free(good);
        weft_free(bad);
        weft_free(body);
        weft_free(other);
    }
}

static void messages_are_converted(void)
{
    /* What Claude Code sends: a list of system texts, a system message, results of tools. */
    static const char body[] =
        "{\"max_tokens\": 4, \"system\": [{\"type\": \"text\", \"text\": \"Be terse.\", "
        "\"cache_control\": {\"type\": \"ephemeral\"}}], \"messages\": [{\"role\": \"system\", "
        "\"content\": \"And kind.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
        "\"text\": \"Hi\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", "
        "\"thinking\": \"hm\", \"signature\": \"\"}, {\"type\": \"tool_use\", \"id\": \"c1\", "
        "\"name\": \"add\", \"input\": {\"a\": 1}}]}, {\"role\": \"user\", \"content\": "
        "[{\"type\": "
        "\"tool_result\", \"tool_use_id\": \"c1\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"three\"}]}, {\"type\": \"text\", \"text\": \"And?\"}]}], \"tools\": [{\"type\": "
        "\"web_search_20250305\", \"name\": \"web_search\"}, {\"name\": "
        "\"add\", \"input_schema\": " SCHEMA "}]}";
    static const char same[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be terse.\\nAnd kind.\"}, "
        "{\"role\": "
        "\"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"reasoning_content\": \"hm\", "
        "\"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": "
        "\"add\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": "
        "\"c1\", \"content\": \"three\"}, {\"role\": \"user\", \"content\": \"And?\"}], \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": " SCHEMA
        "}}]}";
    json_object *count = client_json(port(), MESSAGES "/count_tokens", body, 200);
    json_object *chat = client_json(port(), "/apply-template", same, 200);
    json_object *answer = client_json(port(), MESSAGES, body, 200);
    const int64_t tokens = json_object_get_int64(client_at(chat, "tokens"));
    CHECK(tokens > 20);
    CHECK_EQ_INT(json_object_get_int64(client_at(count, "input_tokens")), tokens);
    CHECK_EQ_INT(json_object_get_int64(client_at(answer, "usage.input_tokens")) +
                     json_object_get_int64(client_at(answer, "usage.cache_read_input_tokens")),
                 tokens);
    json_object_put(count);
    json_object_put(chat);
    json_object_put(answer);
}

static void messages_call_tools(void)
{
#define CALL                                                                                       \
    "{\"max_tokens\": 200, " USER ", \"tools\": [{\"name\": \"add\", \"input_schema\": " SCHEMA    \
    "}], \"tool_choice\": {\"type\": \"tool\", \"name\": \"add\"}"
    json_object *whole = client_json(port(), MESSAGES, CALL "}", 200);
    CHECK_STR(client_text(whole, "stop_reason"), "tool_use");
    CHECK_STR(client_text(whole, "content.0.type"), "tool_use");
    CHECK_STR(client_text(whole, "content.0.name"), "add");
    const int64_t a = json_object_get_int64(client_at(whole, "content.0.input.a"));
    CHECK(a == 1 || a == 2);
    events e = read_events(MESSAGES, CALL ", \"stream\": true}");
    char *arguments = join(&e, "content_block_delta", "delta.partial_json");
    json_object *parsed = json_tokener_parse(arguments);
    CHECK(client_at(parsed, "a") != NULL);
    if (CHECK(e.n > 2))
        CHECK_STR(client_text(e.at[1], "content_block.name"), "add");
    weft_free(arguments);
    json_object_put(parsed);
    free_events(&e);
    json_object_put(whole);
}

static void messages_fail_in_their_own_form(void)
{
    static const struct {
        const char *body, *type, *part;
        int status;
    } wrong[] = {
        {"{", "invalid_request_error", "body", 400},
        {"{\"max_tokens\": 1}", "invalid_request_error", "messages", 400},
        {"{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": 5}]}",
         "invalid_request_error", "content", 400},
        {"{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
         "\"image\"}]}]}",
         "invalid_request_error", "image", 501},
        {"{\"max_tokens\": 1, \"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": "
         "\"tool_use\"}]}]}",
         "invalid_request_error", "name", 400},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_object *root = client_json(port(), MESSAGES, wrong[i].body, wrong[i].status);
        CHECK_STR(client_text(root, "type"), "error");
        CHECK_STR(client_text(root, "error.type"), wrong[i].type);
        CHECK_CONTAINS(client_text(root, "error.message"), wrong[i].part);
        json_object_put(root);
    }
}

static void stop_sequences_end_messages(void)
{
    json_object *whole =
        client_json(port(), MESSAGES, "{" DRAW "\"max_tokens\": 40, " USER "}", 200);
    const char *text = client_text(whole, "content.0.text");
    if (!CHECK(text != NULL && strlen(text) > 20)) {
        json_object_put(whole);
        return;
    }
    json_object *stop = json_object_new_string_len(text + 12, 5);
    char *body = weft_format("{" DRAW "\"max_tokens\": 40, " USER ", \"stop_sequences\": [%s]}",
                             json_object_to_json_string(stop));
    json_object *cut = client_json(port(), MESSAGES, body, 200);
    CHECK_STR(client_text(cut, "stop_reason"), "stop_sequence");
    CHECK_STR(client_text(cut, "stop_sequence"), json_object_get_string(stop));
    json_object_put(cut);
    weft_free(body);
    body = weft_format("{" DRAW "\"max_tokens\": 40, " USER ", \"stop_sequences\": [\"@@\", %s, "
                       "\"##\"]}",
                       json_object_to_json_string(stop));
    cut = client_json(port(), MESSAGES, body, 200); /* the number of the first match */
    CHECK_STR(client_text(cut, "stop_reason"), "stop_sequence");
    CHECK_STR(client_text(cut, "stop_sequence"), json_object_get_string(stop));
    weft_free(body);
    json_object_put(stop);
    json_object_put(cut);
    json_object_put(whole);
}

/* ---- responses ------------------------------------------------------------------------------ */

static void responses_stream_what_they_answer(void)
{
    json_object *whole = client_json(
        port(), RESPONSES, "{" DRAW "\"max_output_tokens\": 20, \"input\": \"A story.\"}", 200);
    events e = read_events(
        RESPONSES,
        "{" DRAW "\"max_output_tokens\": 20, \"stream\": true, \"input\": [{\"role\": \"user\", "
        "\"content\": [{\"type\": \"input_text\", \"text\": \"A story.\"}]}]}");
    char *text = join(&e, "response.output_text.delta", "delta");
    CHECK_STR(client_text(whole, "object"), "response");
    CHECK_STR(client_text(whole, "status"), "incomplete");
    CHECK_STR(client_text(whole, "incomplete_details.reason"), "max_output_tokens");
    CHECK_STR(client_text(whole, "output.0.content.0.text"), text);
    CHECK_EQ_INT(json_object_get_int(client_at(whole, "usage.output_tokens")), 20);
    for (int i = 0; i < e.n; i++)
        CHECK_EQ_INT(json_object_get_int(client_at(e.at[i], "sequence_number")), i);
    if (CHECK(e.n > 8)) {
        CHECK(is(e.at[0], "response.created"));
        CHECK(is(e.at[1], "response.in_progress"));
        CHECK(is(e.at[2], "response.output_item.added"));
        CHECK(is(e.at[3], "response.content_part.added"));
        CHECK_STR(client_text(e.at[e.n - 4], "text"), text);
        CHECK_STR(client_text(e.at[e.n - 3], "part.text"), text);
        CHECK_STR(client_text(e.at[e.n - 2], "item.content.0.text"), text);
        CHECK_STR(client_text(e.at[e.n - 2], "item.id"), client_text(e.at[4], "item_id"));
        CHECK(is(e.at[e.n - 1], "response.incomplete"));
        CHECK_STR(client_text(e.at[e.n - 1], "response.output.0.content.0.text"), text);
    }
    weft_free(text);
    free_events(&e);
    json_object_put(whole);
}

/* The tokens of log-probabilities, joined; the caller frees them. */
static char *join_tokens(json_object *entries)
{
    char *text = weft_strdup("");
    for (size_t i = 0; entries != NULL && i < json_object_array_length(entries); i++) {
        json_object *entry = json_object_array_get_idx(entries, i);
        char *more = weft_format("%s%s", text, client_text(entry, "token"));
        weft_free(text);
        text = more;
    }
    return text;
}

static void responses_have_log_probabilities(void)
{
    static const char asked[] = "\"max_output_tokens\": 12, \"input\": \"A story.\", "
                                "\"top_logprobs\": 2, \"include\": "
                                "[\"message.output_text.logprobs\"]";
    char *body = weft_format("{" DRAW "%s}", asked),
         *streaming = weft_format("{" DRAW "%s, \"stream\": true}", asked);
    json_object *whole = client_json(port(), RESPONSES, body, 200);
    json_object *entries = client_at(whole, "output.0.content.0.logprobs");
    char *tokens = join_tokens(entries);
    CHECK_STR(tokens, client_text(whole, "output.0.content.0.text"));
    CHECK_EQ_INT((int)json_object_array_length(client_at(entries, "0.top_logprobs")), 2);
    CHECK(json_object_get_double(client_at(entries, "0.logprob")) < 0);
    events e = read_events(RESPONSES, streaming);
    int n = 0;
    for (int i = 0; i < e.n; i++) {
        if (is(e.at[i], "response.output_text.delta"))
            n += (int)json_object_array_length(client_at(e.at[i], "logprobs"));
    }
    CHECK_EQ_INT(n, 12);
    if (CHECK(e.n > 8))
        CHECK_STR(json_object_to_json_string(
                      client_at(e.at[e.n - 1], "response.output.0.content.0.logprobs")),
                  json_object_to_json_string(entries));
    weft_free(tokens);
    weft_free(body);
    weft_free(streaming);
    free_events(&e);
    json_object_put(whole);
}

static void responses_call_tools(void)
{
#define TOOL                                                                                       \
    "\"tools\": [{\"type\": \"web_search\"}, {\"type\": \"function\", \"name\": \"add\", "         \
    "\"parameters\": " SCHEMA "}]"
    json_object *whole = client_json(
        port(), RESPONSES, "{\"input\": \"Hi\", \"tool_choice\": \"required\", " TOOL "}", 200);
    CHECK_STR(client_text(whole, "status"), "completed");
    CHECK_STR(client_text(whole, "output.0.type"), "function_call");
    CHECK_STR(client_text(whole, "output.0.name"), "add");
    CHECK(client_text(whole, "output.0.call_id") != NULL);
    events e = read_events(RESPONSES, "{\"input\": \"Hi\", \"stream\": true, \"tool_choice\": "
                                      "{\"type\": \"function\", \"name\": \"add\"}, " TOOL "}");
    char *arguments = join(&e, "response.function_call_arguments.delta", "delta");
    char *done = join(&e, "response.function_call_arguments.done", "arguments");
    CHECK_STR(arguments, done);
    CHECK(e.n > 0 && is(e.at[e.n - 1], "response.completed"));
    weft_free(arguments);
    weft_free(done);
    free_events(&e);
    json_object_put(whole);
    /* A conversation with the call and its result, which is also counted. */
    static const char input[] =
        "{\"instructions\": \"Be terse.\", \"input\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
        "{\"type\": \"reasoning\", \"summary\": []}, {\"type\": \"function_call\", \"call_id\": "
        "\"c1\", \"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1}\"}, {\"type\": "
        "\"function_call_output\", \"call_id\": \"c1\", \"output\": \"three\"}], "
        "\"max_output_tokens\": 2, " TOOL "}";
    json_object *answer = client_json(port(), RESPONSES, input, 200);
    json_object *count = client_json(port(), RESPONSES "/input_tokens", input, 200);
    CHECK_EQ_INT(json_object_get_int(client_at(answer, "usage.input_tokens")),
                 json_object_get_int(client_at(count, "input_tokens")));
    json_object_put(answer);
    json_object_put(count);
}

static void responses_refuse_what_is_not_there(void)
{
    json_object *root = client_json(
        port(), RESPONSES, "{\"input\": \"Hi\", \"previous_response_id\": \"resp_1\"}", 501);
    CHECK_CONTAINS(client_text(root, "error.message"), "previous_response_id");
    json_object_put(root);
    root = client_json(port(), RESPONSES, "{\"input\": [{\"type\": \"item_reference\"}]}", 501);
    CHECK_CONTAINS(client_text(root, "error.message"), "item_reference");
    json_object_put(root);
    root = client_json(port(), RESPONSES, "{\"model\": \"x\"}", 400);
    CHECK_CONTAINS(client_text(root, "error.message"), "input");
    json_object_put(root);
}

/* ---- embeddings ----------------------------------------------------------------------------- */

/* The digits' values, as many as there are. */
static size_t decode(const char *text, unsigned char *out, size_t room)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0;
    size_t n = 0;
    int held = 0;
    for (; *text != '\0' && *text != '='; text++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *text) - digits);
        held += 6;
        if (held >= 8 && n < room)
            out[n++] = (unsigned char)(bits >> (held -= 8));
    }
    return n;
}

static void embeddings_are_those_of_weft_embed(void)
{
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    float values[4096];
    weft_embedded own = {0};
    const char *folder = check_source("examples/storyteller");
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    CHECK_OK(weft_model_load(folder, &options, &model));
    CHECK_OK(weft_tokenizer_load(folder, &tokenizer));
    CHECK_OK(weft_tokenizer_encode(tokenizer, "A king.", 7, WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
    const weft_prompt prompt = {ids, n};
    const weft_embed_options o = {.normalize = true};
    CHECK_OK(weft_embed(model, &prompt, 1, &o, &own));
    json_object *root = client_json(port(), "/v1/embeddings", "{\"input\": \"A king.\"}", 200);
    json_object *list = client_at(root, "data.0.embedding");
    if (CHECK_EQ_INT(json_object_array_length(list), own.n)) {
        for (size_t i = 0; i < own.n; i++)
            CHECK_CLOSE(json_object_get_double(json_object_array_get_idx(list, i)), own.values[i],
                        1e-8);
    }
    CHECK_EQ_INT(json_object_get_int(client_at(root, "usage.prompt_tokens")), (long long)n);
    json_object_put(root);
    root = client_json(port(), "/v1/embeddings",
                       "{\"input\": [\"A king.\", \"A queen with a longer text.\"], "
                       "\"encoding_format\": \"base64\"}",
                       200);
    const char *text = client_text(root, "data.0.embedding");
    CHECK_EQ_INT(decode(text != NULL ? text : "", (unsigned char *)values, sizeof values),
                 own.n * sizeof *values);
    for (size_t i = 0; i < own.n; i++) /* beside a longer text */
        CHECK_CLOSE(values[i], own.values[i], 1e-5);
    CHECK(client_text(root, "data.1.embedding") != NULL);
    json_object_put(root);
    root = client_json(port(), "/v1/embeddings", "{\"input\": []}", 400);
    json_object_put(root);
    root =
        client_json(port(), "/v1/embeddings", "{\"input\": \"A king.\", \"dimensions\": 3}", 200);
    list = client_at(root, "data.0.embedding");
    CHECK_EQ_INT(json_object_array_length(list), 3);
    double norm = 0;
    for (size_t i = 0; i < 3; i++)
        norm += (double)own.values[i] * (double)own.values[i];
    for (size_t i = 0; i < 3; i++) {
        const double got = json_object_get_double(json_object_array_get_idx(list, i));
        CHECK_CLOSE(got * got * norm, (double)own.values[i] * (double)own.values[i], 1e-6);
        CHECK((got < 0) == (own.values[i] < 0));
    }
    json_object_put(root);
    root = client_json(port(), "/v1/embeddings", "{\"input\": \"a\", \"dimensions\": 0}", 400);
    json_object_put(root);
    root = client_json(port(), "/v1/embeddings", "{\"input\": \"a\", \"dimensions\": 9999}", 400);
    CHECK_CONTAINS(client_text(root, "error.message"), "dimensions: expected a number from 1 to ");
    json_object_put(root);
    weft_embedded_free(&own, 1);
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
}

/* ---- reasoning ------------------------------------------------------------------------------ */

static weft_status load_with(const char *source, const char *folder, serve_model *out)
{
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    weft_status status = weft_model_load(folder, &options, &out->model);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(folder, &out->tokenizer);
    return status == WEFT_OK
               ? weft_chat_parse(source, strlen(source), "template", out->tokenizer, &out->chat)
               : status;
}

/* A template that opens reasoning, which the storyteller never ends. */
static weft_status load_thinker(void *context, serve_model *out)
{
    return load_with(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}",
        context, out);
}

/* A template that takes one message of the system, at the beginning. */
static weft_status load_strict(void *context, serve_model *out)
{
    return load_with("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                     "{{ raise_exception('one system message, not ' ~ m.content) }}{% endif %}"
                     "[{{ m.role }}: {{ m.content }}]{% endfor %}",
                     context, out);
}

static void system_messages_are_merged_where_a_template_takes_one(void)
{
#define TWO                                                                                        \
    "{\"role\": \"developer\", \"content\": \"A\"}, {\"role\": \"system\", \"content\": "          \
    "[{\"type\": "                                                                                 \
    "\"text\", \"text\": \"B\"}]}, {\"role\": \"user\", \"content\": \"Hi\"}"
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", check_source("examples/storyteller"));
    json_object *usual = client_json(port(), "/apply-template", "{\"messages\": [" TWO "]}", 200);
    CHECK_CONTAINS(client_text(usual, "prompt"), "A<|im_end|>\n<|im_start|>system\nB<|im_end|>");
    json_object_put(usual);
    serve_server *server = client_server((serve_options){.load = load_strict, .context = folder});
    if (server == NULL)
        return;
    json_object *root =
        client_json(serve_port(server), "/apply-template", "{\"messages\": [" TWO "]}", 200);
    CHECK_STR(client_text(root, "prompt"), "[system: A\nB][user: Hi]");
    json_object_put(root);
    root = client_json(serve_port(server), RESPONSES,
                       "{\"instructions\": \"C\", \"max_output_tokens\": 2, \"input\": [{\"role\": "
                       "\"developer\", \"content\": \"A\"}, {\"role\": \"user\", \"content\": "
                       "\"Hi\"}]}",
                       200);
    json_object_put(root);
    /* A message that is cut ends between two characters, wherever they begin. */
    for (int shift = 0; shift < 3; shift++) {
        char body[1500];
        size_t n = (size_t)sprintf(body,
                                   "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, "
                                   "{\"role\": \"system\", \"content\": \"%.*s",
                                   shift, "aaa");
        for (int i = 0; i < 400; i++)
            n += (size_t)sprintf(body + n, "\xE2\x82\xAC");
        sprintf(body + n, "\"}]}");
        client_reply r = client_ask(serve_port(server), "POST", "/v1/chat/completions", body);
        json_tokener *strict = json_tokener_new();
        if (json_c_version_num() < 17 << 8) /* later ones take valid text for invalid */
            json_tokener_set_flags(strict, JSON_TOKENER_VALIDATE_UTF8);
        root = json_tokener_parse_ex(strict, r.body, (int)r.length);
        const char *message = client_text(root, "error.message");
        CHECK_EQ_INT(r.status, 400);
        CHECK(message != NULL && strlen(message) > 500);
        json_object_put(root);
        json_tokener_free(strict);
        client_free(&r);
    }
    serve_stop(server, 5);
}

static void reasoning_is_apart_from_text(void)
{
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", check_source("examples/storyteller"));
    serve_server *usual = shared;
    shared = client_server((serve_options){.load = load_thinker, .context = folder});
    if (shared == NULL)
        return;
    json_object *chat =
        client_json(port(), "/v1/chat/completions", "{" DRAW "\"max_tokens\": 12, " USER "}", 200);
    const char *text = client_text(chat, "choices.0.message.reasoning_content");
    CHECK(text != NULL && *text != '\0');
    CHECK_STR(client_text(chat, "choices.0.message.content"), "");
    json_object *message =
        client_json(port(), MESSAGES, "{" DRAW "\"max_tokens\": 12, " USER "}", 200);
    CHECK_STR(client_text(message, "content.0.type"), "thinking");
    CHECK_STR(client_text(message, "content.0.thinking"), text);
    events e = read_events(MESSAGES, "{" DRAW "\"max_tokens\": 12, \"stream\": true, " USER "}");
    char *joined = join(&e, "content_block_delta", "delta.thinking");
    CHECK_STR(joined, text);
    weft_free(joined);
    free_events(&e);
    json_object *response =
        client_json(port(), RESPONSES,
                    "{" DRAW "\"max_output_tokens\": 12, \"input\": \"Tell a story.\"}", 200);
    CHECK_STR(client_text(response, "output.0.content.0.text"), text);
    CHECK_EQ_INT(
        json_object_get_int(client_at(response, "usage.output_tokens_details.reasoning_tokens")),
        12);
    e = read_events(RESPONSES, "{" DRAW "\"max_output_tokens\": 12, \"input\": \"Tell a "
                               "story.\", \"stream\": true}");
    joined = join(&e, "response.reasoning_text.delta", "delta");
    CHECK_STR(joined, text);
    if (CHECK(e.n > 3))
        CHECK_STR(client_text(e.at[e.n - 1], "response.output.0.content.0.text"), text);
    weft_free(joined);
    free_events(&e);
    json_object_put(response);
    json_object_put(message);
    json_object_put(chat);
    serve_stop(shared, 5);
    shared = usual;
}

static void the_server_stops(void)
{
    CHECK(port() > 0);
    serve_stop(shared, 5);
    shared = NULL;
}

CHECK_MAIN("serve_apis", CHECK_CASE(messages_stream_what_they_answer),
           CHECK_CASE(messages_have_formats), CHECK_CASE(messages_are_converted),
           CHECK_CASE(messages_call_tools), CHECK_CASE(messages_fail_in_their_own_form),
           CHECK_CASE(stop_sequences_end_messages), CHECK_CASE(responses_stream_what_they_answer),
           CHECK_CASE(responses_have_log_probabilities), CHECK_CASE(responses_call_tools),
           CHECK_CASE(responses_refuse_what_is_not_there),
           CHECK_CASE(embeddings_are_those_of_weft_embed), CHECK_CASE(reasoning_is_apart_from_text),
           CHECK_CASE(system_messages_are_merged_where_a_template_takes_one),
           CHECK_CASE(the_server_stops))
