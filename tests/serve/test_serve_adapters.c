/* tests/serve/test_serve_adapters.c -- serve/adapters.c: requests that choose adapters, alone and
 * together, and adapters that are loaded, replaced and unloaded while requests are computed. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/client.h"
#include "weft/adapter.h"
#include "weft/memory.h"

enum { MADE = 3 };

/* Folders within `folder` with adapters of the storyteller, of ranks 4, 5 and 6; the third has
 * DoRA. */
static const char *folder, *made[MADE];
static const char *const names[MADE] = {"one", "two", "three"};

static weft_status strengthen(void *context, const weft_nn_item *item)
{
    const double *deviation = context;
    const size_t n = strlen(item->path);
    if (n < 6 || strcmp(item->path + n - 6, "lora_B") != 0)
        return WEFT_OK;
    return weft_set(item->slot->address, weft_random_normal(NULL, weft_shape(*item->slot->address),
                                                            0, *deviation, WEFT_FLOAT32));
}

static void make(int i)
{
    static const char *const every[] = {"all-linear"};
    const weft_nn_lora_options options = {
        .rank = 4 + i, .alpha = 8, .targets = every, .n_targets = 1, .dora = i == 2};
    weft_model *model = NULL;
    double deviation = 0.1;
    weft_random_seed((uint64_t)i + 1);
    weft_scope_open();
    if (CHECK_OK(weft_model_load(check_source("examples/storyteller"),
                                 &(weft_model_options){.dtype = WEFT_FLOAT32}, &model)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &options)) &&
        CHECK_OK(weft_nn_visit(weft_model_module(model), strengthen, &deviation)))
        CHECK_OK(weft_adapter_save(model, made[i], NULL));
    weft_scope_close(NULL);
    weft_model_free(model);
}

static void make_all(void)
{
    if (folder != NULL)
        return;
    folder = check_temporary("adapters");
    CHECK(mkdir(folder, 0700) == 0);
    for (int i = 0; i < MADE; i++) {
        char name[64];
        snprintf(name, sizeof name, "adapters/%s", names[i]);
        made[i] = check_temporary(name);
        make(i);
    }
}

/* A server whose requests can choose the first two by name, and load others. */
static serve_server *start(void)
{
    make_all();
    const serve_adapter_path paths[] = {{"one", made[0]}, {"two", made[1]}};
    return client_server(
        (serve_options){.rows = 16, .adapters = paths, .n_adapters = 2, .adapter_folder = folder});
}

static const weft_generate_options greedy = {.max_tokens = 24};

static char *body_for(const char *model, const char *prompt, const char *more)
{
    return weft_format("{\"model\": \"%s\", \"prompt\": \"%s\", \"max_tokens\": 24, %s}", model,
                       prompt, more != NULL ? more : "\"temperature\": 0");
}

/* ---- choosing ------------------------------------------------------------------------------- */

static void one_request_gets_what_weft_generate_gives(void)
{
    serve_server *server = start();
    static const struct {
        const char *body;
        weft_generate_options options;
    } cases[] = {{NULL, {.max_tokens = 24}},
                 {"\"temperature\": 1, \"seed\": 3, \"top_k\": 20",
                  {.max_tokens = 24, .seed = 3, .sampler = {.temperature = 1, .top_k = 20}}}};
    for (int i = 0; server && i < 3; i++) {
        for (size_t k = 0; k < 2; k++) {
            const char *model = i < 2 ? names[i] : "storyteller";
            char *alone =
                client_alone_with(i < 2 ? made[i] : NULL, "Once upon a time", &cases[k].options);
            char *body = body_for(model, "Once upon a time", cases[k].body);
            json_object *root = client_json(serve_port(server), "/v1/completions", body, 200);
            CHECK_STR(client_text(root, "choices.0.text"), alone);
            CHECK_STR(client_text(root, "model"), model);
            json_object_put(root);
            weft_free(body);
            weft_free(alone);
        }
    }
    serve_stop(server, 0);
}

static void models_are_listed(void)
{
    serve_server *server = start();
    if (server == NULL)
        return;
    json_object *root = client_json(serve_port(server), "/v1/models", NULL, 200);
    CHECK_EQ_INT(json_object_array_length(client_at(root, "data")), 3);
    CHECK_STR(client_text(root, "data.0.id"), "storyteller");
    CHECK(client_at(root, "data.0.parent") == NULL);
    CHECK_STR(client_text(root, "data.2.id"), "two");
    CHECK_STR(client_text(root, "data.2.parent"), "storyteller");
    CHECK_STR(client_text(root, "last_id"), "two");
    json_object_put(root);
    root = client_json(serve_port(server), "/v1/models/one", NULL, 200);
    CHECK_STR(client_text(root, "id"), "one");
    json_object_put(root);
    root = client_json(serve_port(server), "/v1/completions",
                       "{\"model\": \"three\", \"prompt\": \"a\"}", 404);
    CHECK_CONTAINS(client_text(root, "error.message"), "there is no model \"three\"");
    json_object_put(root);
    serve_stop(server, 0);
}

static void requests_with_different_adapters_are_computed_together(void)
{
    enum { PROMPTS = 3, N = 3 * PROMPTS };
    static const char *const prompts[PROMPTS] = {"Once upon a time", "A cat and a dog", "The sun"};
    serve_server *server = start();
    int sockets[N];
    for (int i = 0; server && i < N; i++) {
        char *body = body_for(i % 3 < 2 ? names[i % 3] : "storyteller", prompts[i / 3], NULL);
        sockets[i] = client_open(serve_port(server), "POST", "/v1/completions", NULL, body);
        weft_free(body);
    }
    for (int i = 0; server && i < N; i++) {
        client_reply r = client_read(sockets[i]);
        json_object *root = r.body != NULL ? json_tokener_parse(r.body) : NULL;
        char *alone = client_alone_with(i % 3 < 2 ? made[i % 3] : NULL, prompts[i / 3], &greedy);
        CHECK_EQ_INT(r.status, 200);
        CHECK_STR(client_text(root, "choices.0.text"), alone);
        weft_free(alone);
        json_object_put(root);
        client_free(&r);
    }
    CHECK(server == NULL || client_metric(serve_port(server), "n_rows_max") > 1);
    serve_stop(server, 0);
}

static void every_route_takes_an_adapter(void)
{
    serve_server *server = start();
    if (server == NULL)
        return;
    static const struct {
        const char *path, *body, *text;
    } routes[] = {
        {"/v1/chat/completions", "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]",
         "choices.0.message.content"},
        {"/v1/messages", "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]",
         "content.0.text"},
        {"/v1/responses", "\"input\": \"Hi\", \"max_output_tokens\": 16",
         "output.0.content.0.text"},
        {"/v1/embeddings", "\"input\": \"Hi\", \"encoding_format\": \"base64\"",
         "data.0.embedding"},
        {"/v1/completions", "\"prompt\": \"Hi\", \"n\": 2", "choices.1.text"},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        char *texts[3] = {NULL};
        for (int k = 0; k < 3; k++) {
            char *body =
                weft_format("{\"model\": \"%s\", \"temperature\": 0, \"max_tokens\": 16, %s}",
                            k < 2 ? names[k] : "storyteller", routes[i].body);
            json_object *root = client_json(serve_port(server), routes[i].path, body, 200);
            texts[k] = weft_strdup(client_text(root, routes[i].text));
            CHECK_STR(client_text(root, "model"), k < 2 ? names[k] : "storyteller");
            json_object_put(root);
            weft_free(body);
        }
        CHECK(texts[0] && texts[1] && texts[2] && strcmp(texts[0], texts[1]) != 0 &&
              strcmp(texts[0], texts[2]) != 0);
        for (int k = 0; k < 3; k++)
            weft_free(texts[k]);
    }
    serve_stop(server, 0);
}

/* ---- loading -------------------------------------------------------------------------------- */

static void expect(serve_server *server, const char *path, const char *body, int status,
                   const char *part)
{
    client_reply r = client_ask(serve_port(server), "POST", path, body);
    CHECK_EQ_INT(r.status, status);
    CHECK_CONTAINS(r.body != NULL ? r.body : "", part);
    client_free(&r);
}

#define LOAD "/v1/load_lora_adapter"
#define UNLOAD "/v1/unload_lora_adapter"

static void expect_text(serve_server *server, const char *model, const char *adapter)
{
    char *alone = client_alone_with(adapter, "The dog", &greedy);
    char *body = body_for(model, "The dog", NULL);
    json_object *root = client_json(serve_port(server), "/v1/completions", body, 200);
    CHECK_STR(client_text(root, "choices.0.text"), alone);
    json_object_put(root);
    weft_free(body);
    weft_free(alone);
}

static void adapters_are_loaded_and_unloaded(void)
{
    serve_server *server = start();
    if (server == NULL)
        return;
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"three\"}", 200, "new");
    expect_text(server, "new", made[2]); /* DoRA */
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"one\"}", 400, "load_inplace");
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"one\", \"load_inplace\": true}",
           200, "new");
    expect_text(server, "new", made[0]); /* not keys and values of the previous adapter */
    expect(server, UNLOAD, "{\"lora_name\": \"new\"}", 200, "unloaded");
    expect(server, UNLOAD, "{\"lora_name\": \"new\"}", 404, "there is no adapter");
    expect(server, "/v1/completions", "{\"model\": \"new\", \"prompt\": \"a\"}", 404, "no model");
    expect_text(server, "storyteller", NULL);
    serve_stop(server, 0);
}

static void requests_end_on_the_adapter_they_began_with(void)
{
    serve_server *server = start();
    if (server == NULL)
        return;
    const weft_generate_options options = {.max_tokens = 200, .ignore_eos = true};
    char *alone = client_alone_with(made[0], "Once upon a time", &options), *text = weft_strdup("");
    const int s = client_open(serve_port(server), "POST", "/v1/completions", NULL,
                              "{\"model\": \"one\", \"prompt\": \"Once upon a time\", "
                              "\"temperature\": 0, \"max_tokens\": 200, \"ignore_eos\": true, "
                              "\"stream\": true}");
    char first[16];
    CHECK(recv(s, first, sizeof first, MSG_PEEK | MSG_WAITALL) > 0); /* it has begun */
    expect(server, LOAD, "{\"lora_name\": \"one\", \"lora_path\": \"two\", \"load_inplace\": true}",
           200, "one");
    expect_text(server, "one", made[1]); /* beside the old one */
    expect(server, UNLOAD, "{\"lora_name\": \"one\"}", 200, "unloaded");
    client_reply r = client_read(s);
    char *data = NULL;
    for (char *at = client_event(r.body, &data); at != NULL; at = client_event(at, &data)) {
        json_object *event = data[0] == '{' ? json_tokener_parse(data) : NULL;
        const char *piece = client_text(event, "choices.0.text");
        char *longer = weft_format("%s%s", text, piece != NULL ? piece : "");
        weft_free(text);
        text = longer;
        json_object_put(event);
    }
    CHECK_STR(text, alone);
    weft_free(text);
    weft_free(alone);
    client_free(&r);
    serve_stop(server, 0);
}

static void names_do_not_leave_the_folder(void)
{
    serve_server *server = start();
    if (server == NULL)
        return;
    static const char *const paths[] = {"..",      ".",         "",          "../adapters/one",
                                        "one/",    "/etc",      "a\\u0000b", "one two",
                                        "\\u00e9", "one\\u0000"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *body = weft_format("{\"lora_name\": \"new\", \"lora_path\": \"%s\"}", paths[i]);
        expect(server, LOAD, body, 400, "lora_path");
        weft_free(body);
        body = weft_format("{\"lora_name\": \"%s\", \"lora_path\": \"one\"}", paths[i]);
        expect(server, LOAD, body, 400, "lora_name");
        weft_free(body);
    }
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"nowhere\"}", 400,
           "there is no such adapter");
    expect(server, LOAD, "{\"lora_name\": \"storyteller\", \"lora_path\": \"one\"}", 400,
           "the model itself");
    expect(server, LOAD, "{\"lora_path\": \"one\"}", 400, "lora_name: expected");
    CHECK(symlink("one", check_temporary("adapters/link")) == 0);
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"link\"}", 400, "links");
    CHECK(mkdir(check_temporary("adapters/inner"), 0700) == 0);
    CHECK(symlink("/etc/passwd", check_temporary("adapters/inner/adapter_config.json")) == 0);
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"inner\"}", 400, "links");
    CHECK(mkdir(check_temporary("adapters/empty"), 0700) == 0);
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"empty\"}", 400, "adapter");
    expect_text(server, "one", made[0]);
    serve_stop(server, 0);
}

static void loading_is_off_without_a_folder(void)
{
    make_all();
    serve_server *server = client_server((serve_options){.rows = 2});
    if (server == NULL)
        return;
    expect(server, LOAD, "{\"lora_name\": \"new\", \"lora_path\": \"one\"}", 501, "--adapter-dir");
    expect(server, UNLOAD, "{\"lora_name\": \"new\"}", 501, "--adapter-dir");
    expect_text(server, "any name", NULL);
    serve_stop(server, 0);
}

CHECK_MAIN("serve_adapters", CHECK_CASE(one_request_gets_what_weft_generate_gives),
           CHECK_CASE(models_are_listed),
           CHECK_CASE(requests_with_different_adapters_are_computed_together),
           CHECK_CASE(every_route_takes_an_adapter), CHECK_CASE(adapters_are_loaded_and_unloaded),
           CHECK_CASE(requests_end_on_the_adapter_they_began_with),
           CHECK_CASE(names_do_not_leave_the_folder), CHECK_CASE(loading_is_off_without_a_folder))
