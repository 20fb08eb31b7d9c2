/* tests/fuzz/fuzz_serve.c -- the body of a request to weft serve, after a line with its path, or
 * its method and path. The server is ending, so that requests are read in full, and nothing is
 * generated. Files and jobs are kept in a folder for which saving fails. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/teach.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tokenizer_json[] =
    "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": "
    "\"WhitespaceSplit\"}, "
    "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2}, "
    "\"unk_token\": \"?\"}}";

static const char file_json[] =
    "{\"id\": \"file-a\", \"created_at\": 1, \"object\": {\"id\": \"file-a\", \"bytes\": 1, "
    "\"filename\": \"a.jsonl\"}}";
static const char job_json[] =
    "{\"id\": \"ftjob-a\", \"created_at\": 1, \"words\": [], \"events\": [], \"object\": {\"id\": "
    "\"ftjob-a\", \"status\": \"queued\", \"training_file\": \"file-b\"}}";

static serve_adapter adapter;
static serve_teacher teacher = {
    .runs = (char[]){"/nowhere/runs"},
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .files = {.folder = (char[]){"/nowhere/files"}},
    .jobs = {.folder = (char[]){"/nowhere/jobs"}},
};

static serve_server server = {
    .options = {.name = "fuzz",
                .rows = 4,
                .timeout = 1,
                .max_tokens = 8,
                .unread = 1 << 20,
                .body = 1 << 20,
                .requests = 4,
                .adapter_folder = "/nowhere",
                .quota = 1 << 20},
    .teacher = &teacher,
    .positions = 64,
    .vocabulary = 3,
    .stopping = true,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
};

static void close_server(void)
{
    weft_chat_free(server.loaded.chat);
    weft_tokenizer_free(server.loaded.tokenizer);
    json_object_put(teacher.files.list);
    json_object_put(teacher.jobs.list);
}

/* One file and one job, for each request anew. */
static void open_records(void)
{
    json_object_put(teacher.files.list);
    json_object_put(teacher.jobs.list);
    teacher.files.list = json_object_new_array();
    teacher.jobs.list = json_object_new_array();
    json_object_array_add(teacher.files.list, json_tokener_parse(file_json));
    json_object_array_add(teacher.jobs.list, json_tokener_parse(job_json));
}

static void open_server(void)
{
    const weft_status status = weft_tokenizer_parse(tokenizer_json, strlen(tokenizer_json), NULL, 0,
                                                    "fuzz", &server.loaded.tokenizer);
    if (status != WEFT_OK ||
        weft_chat_builtin("chatml", NULL, server.loaded.tokenizer, &server.loaded.chat) != WEFT_OK)
        abort();
    atexit(close_server);
}

/* Every request gets an answer that is JSON. */
static void check_answer(serve_request *r)
{
    json_object *answer = r->out.at != NULL ? json_tokener_parse(r->out.at) : NULL;
    if (!r->done || r->http == 0 || (answer == NULL && strncmp(r->type, "text/", 5) != 0))
        abort();
    json_object_put(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    const size_t n = end != NULL ? (size_t)(end - data) : size;
    char path[64];
    bool known;
    if (server.loaded.chat == NULL)
        open_server();
    if (n >= sizeof path)
        return 0;
    memcpy(path, data, n);
    path[n] = '\0';
    char *blank = strchr(path, ' '), *url = blank != NULL ? blank + 1 : path;
    if (blank != NULL)
        *blank = '\0';
    const serve_route *route = serve_find_route(blank != NULL ? path : "POST", url, &known);
    serve_request *r = route != NULL ? weft_calloc(1, sizeof *r) : NULL;
    if (r == NULL)
        return 0;
    adapter = (serve_adapter){.name = (char[]){"a"}, .eos = 2, .references = 2}; /* never freed */
    server.adapters = &adapter;
    r->server = &server;
    r->route = route;
    r->api = route->api != NULL ? route->api : &serve_chat_api;
    r->cancel = weft_cancel_new();
    r->path = weft_strdup(url + strlen(route->path));
    r->content_type = "multipart/form-data; boundary=B";
    open_records();
    r->references = 1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->sharing, NULL);
    if (end != NULL)
        serve_text_add(&r->body, (const char *)end + 1, size - n - 1);
    const weft_status status = route->run(r);
    if (status != WEFT_OK) {
        const serve_error failure = serve_error_of(status, false);
        (void)serve_refuse(r, &failure);
        serve_fail(r, &failure);
    }
    check_answer(r);
    serve_request_drop(r);
    return 0;
}
