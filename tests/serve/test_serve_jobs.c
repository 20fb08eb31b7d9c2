/* tests/serve/test_serve_jobs.c -- records of files and fine-tuning jobs: bounds, deletion, jobs
 * that end the process, slow disks, memory, other models. The jobs train nothing: the test has
 * their training function. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/jobs.h"
#include "weft/adapter.h"
#include "weft/array.h"
#include "weft/creation.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- a slow disk ---------------------------------------------------------------------------- */

static atomic_int slow; /* milliseconds that a file takes to be written */

/* In the place of the library's, which it calls. */
weft_status weft_file_write(const char *path, const void *data, size_t size)
{
    weft_status (*real)(const char *, const void *, size_t) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "weft_file_write");
    client_pause(atomic_load(&slow));
    return real(path, data, size);
}

/* ---- a job ---------------------------------------------------------------------------------- */

static struct asked {
    int64_t bytes; /* of memory */
    int updates;   /* that are reported, each after an evaluation and a new checkpoint */
    bool saves;    /* an adapter */
    bool late;     /* it ends well after it was cancelled */
    bool busy;     /* it evaluates until it is cancelled */
    int64_t array; /* bytes that it holds then */
} asked;
static atomic_int trained; /* jobs */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static const char *option(const serve_task *task, const char *name)
{
    for (size_t i = 0; i + 1 < task->n_words; i++) {
        if (strcmp(task->words[i], name) == 0)
            return task->words[i + 1];
    }
    return NULL;
}

static weft_status evaluate(void)
{
    weft_scope_open();
    const weft_status status = weft_eval(weft_ones(WEFT_DIMS(64, 64), WEFT_FLOAT32));
    weft_scope_close(NULL);
    return status;
}

static weft_status save(const serve_task *task)
{
    const char *folder = option(task, "--out");
    char *last = weft_format("%s/last", folder);
    weft_status status = weft_folder_make(folder);
    if (status == WEFT_OK)
        status = weft_adapter_save(task->model, last, "storyteller");
    weft_free(last);
    return status;
}

static weft_status update(const serve_task *task, int i)
{
    const char *folder = option(task, "--out");
    char *last = weft_format("%s/last", folder), *target = weft_format("step-%d", i);
    weft_status status = weft_folder_make(folder);
    (void)unlink(last);
    CHECK(symlink(target, last) == 0);
    weft_free(last);
    weft_free(target);
    if (status == WEFT_OK)
        status = evaluate();
    const weft_train_report report = {.step = i, .steps = asked.updates};
    if (status == WEFT_OK && !task->callback(task->context, &report))
        status = weft_fail(WEFT_CANCELLED, "stopped");
    return status;
}

/* serve_options.teach */
static weft_status teach(void *context, const serve_task *task, weft_train_result *result)
{
    (void)context;
    (void)result;
    trained++;
    task->enter(task->context);
    weft_status status = weft_nn_lora_inject(weft_model_module(task->model), NULL);
    if (status == WEFT_OK)
        status = task->adapt(task->context);
    if (status == WEFT_OK)
        status = task->reserve(task->context, asked.bytes);
    weft_array *held = asked.array > 0 ? weft_ones(WEFT_DIMS(asked.array / 4), WEFT_FLOAT32) : NULL;
    if (status == WEFT_OK && held != NULL)
        status = weft_eval(held);
    for (int i = 1; status == WEFT_OK && i <= asked.updates; i++)
        status = update(task, i);
    while (status == WEFT_OK && (asked.busy || asked.late) && !weft_cancel_is_set(task->cancel))
        status = evaluate();
    if (status == WEFT_OK && asked.saves)
        status = save(task);
    return asked.busy && status == WEFT_OK ? weft_fail(WEFT_CANCELLED, "stopped") : status;
}

static serve_server *open_server(const char *state, const char *identity)
{
    return client_server((serve_options){
        .rows = 2, .state = state, .teach = teach, .identity = identity, .teach_latency = 0.05});
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void jobs_without_memory_are_refused(void)
{
    const char *state = check_temporary("memory");
    serve_server *server =
        client_server((serve_options){.rows = 2, .state = state, .teach = teach});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n"),
         *before = client_answer(port, "storyteller");
    asked = (struct asked){.bytes = (int64_t)1 << 60};
    char *id = jobs_create(port, file, "");
    json_object *job = jobs_await(port, id);
    jobs_ended(job, "failed");
    CHECK_STR(client_text(job, "error.code"), "insufficient_memory");
    CHECK_CONTAINS(client_text(job, "error.message"), "GB of memory");
    char *after = client_answer(port, "storyteller");
    CHECK_STR(after, before);
    json_object_put(job);
    weft_free(before);
    weft_free(after);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

/* A repeated text; the caller frees it. */
static char *repeat(const char *text, int n)
{
    char *all = weft_strdup("");
    for (int i = 0; i < n; i++) {
        char *longer = weft_format("%s%s", all, text);
        weft_free(all);
        all = longer;
    }
    return all;
}

static void metadata_is_bounded(void)
{
    serve_server *server = open_server(check_temporary("metadata"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    asked = (struct asked){.bytes = 0};
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    char *key = repeat("\xc3\xa4", 64), *value = repeat("\xe2\x82\xac", 512),
         *pairs = weft_strdup("");
    for (int i = 0; i < 16; i++) {
        char *more = weft_format("%s, \"k%d\": \"v\"", pairs, i);
        weft_free(pairs);
        pairs = more;
    }
    const struct {
        char *metadata;
        const char *part; /* NULL: accepted */
    } cases[] = {
        {weft_format("{\"%s\": \"%s\"}", key, value), NULL},
        {weft_format("{%s}", pairs + 2), NULL},
        {weft_format("{\"more\": \"\"%s}", pairs), "up to 16 pairs"},
        {weft_format("{\"%sx\": \"\"}", key), "keys of up to 64 characters"},
        {weft_format("{\"k\": \"%sx\"}", value), "up to 512 characters"},
        {weft_strdup("{\"k\": 1}"), "expected a string"},
        {weft_strdup("[]"), "expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = weft_format("{\"model\": \"storyteller\", \"training_file\": \"%s\", "
                                 "\"metadata\": %s}",
                                 file, cases[i].metadata);
        client_expect(port, "POST", JOBS, body, cases[i].part != NULL ? 400 : 200,
                      cases[i].part != NULL ? cases[i].part : "\"metadata\":{\"");
        weft_free(body);
        weft_free(cases[i].metadata);
    }
    weft_free(key);
    weft_free(value);
    weft_free(pairs);
    weft_free(file);
    serve_stop(server, 0);
}

/* Trains a job that succeeds; the caller frees the id and the job. */
static char *train_model(int port, const char *more, json_object **job)
{
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.saves = true};
    char *id = jobs_create(port, file, more);
    *job = jobs_await(port, id);
    jobs_ended(*job, "succeeded");
    weft_free(file);
    return id;
}

static void models_and_jobs_can_be_deleted(void)
{
    const char *state = check_temporary("deleted");
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    int port = serve_port(server);
    json_object *job;
    char *id = train_model(port, ", \"suffix\": \"gone\"", &job);
    const char *name = client_text(job, "fine_tuned_model");
    char *model = weft_format("/v1/models/%s", name), *path = weft_format(JOBS "/%s", id),
         *folder = weft_format("%s/runs/%s", state, id);
    client_expect(port, "GET", model, NULL, 200, name);
    client_expect(port, "DELETE", path, NULL, 400, model);
    client_expect(port, "DELETE", "/v1/models/storyteller", NULL, 400, "only models that jobs");
    client_expect(port, "DELETE", model, NULL, 200, "\"deleted\": true");
    client_expect(port, "DELETE", model, NULL, 404, "no model");
    client_expect(port, "GET", model, NULL, 404, "no model");
    client_expect(port, "GET", path, NULL, 200, name);
    CHECK(access(folder, F_OK) != 0);
    serve_stop(server, 0);
    server = open_server(state, NULL); /* which does not serve it again */
    port = serve_port(server);
    client_expect(port, "GET", model, NULL, 404, "no model");
    client_expect(port, "DELETE", path, NULL, 200, "\"fine_tuning.job\"");
    client_expect(port, "DELETE", path, NULL, 404, "no job");
    client_expect(port, "GET", path, NULL, 404, "no job");
    serve_stop(server, 0);
    json_object_put(job);
    weft_free(model);
    weft_free(path);
    weft_free(folder);
    weft_free(id);
}

static void a_job_cancelled_at_its_end_is_not_served(void)
{
    serve_server *server = open_server(check_temporary("late"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server), before = atomic_load(&trained);
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.saves = true, .late = true};
    char *id = jobs_create(port, file, ", \"suffix\": \"late\""),
         *path = weft_format(JOBS "/%s/cancel", id);
    for (int i = 0; i < 500 && atomic_load(&trained) == before; i++)
        client_pause(10);
    client_expect(port, "POST", path, "", 200, "cancelled");
    char *answered = client_answer(port, "storyteller");
    for (int i = 0; i < 20; i++)
        client_pause(10);
    json_object *models = client_json(port, "/v1/models", NULL, 200);
    CHECK_EQ_INT((int)json_object_array_length(client_at(models, "data")), 1);
    json_object_put(models);
    weft_free(answered);
    weft_free(path);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

/* Writes the record of a job, which was created at a time. */
static void write_job(const char *state, const char *id, int created, const char *more)
{
    char *folder = weft_format("%s/jobs", state), *path = weft_format("%s/%s.json", folder, id);
    char *text =
        weft_format("{\"id\": \"%s\", \"created_at\": %d, \"words\": [], \"events\": [], %s, "
                    "\"training_file\": \"file-a\"}}",
                    id, created, more);
    CHECK_OK(weft_folder_make(folder));
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    weft_free(folder);
    weft_free(path);
    weft_free(text);
}

static void ended_jobs_make_room(void)
{
    const char *state = check_temporary("full");
    char id[64];
    for (int i = 0; i < 1000; i++) {
        char more[160];
        snprintf(id, sizeof id, "ftjob-old%d", i);
        snprintf(more, sizeof more,
                 i == 0 ? "\"object\": {\"id\": \"%s\", \"status\": \"succeeded\", "
                          "\"fine_tuned_model\": \"kept\""
                        : "\"object\": {\"id\": \"%s\", \"status\": \"failed\"",
                 id);
        write_job(state, id, i, more);
    }
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    asked = (struct asked){.bytes = 0};
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n"),
         *job = jobs_create(port, file, "");
    client_expect(port, "GET", JOBS "/ftjob-old0", NULL, 200, "kept");
    client_expect(port, "GET", JOBS "/ftjob-old1", NULL, 404, "no job");
    client_expect(port, "GET", JOBS "/ftjob-old2", NULL, 200, "failed");
    client_expect(port, "GET", JOBS "?after=ftjob-old1", NULL, 400, "after: there is no");
    weft_free(file);
    weft_free(job);
    serve_stop(server, 0);
}

/* A job that was running when the process ended: for the third time, or for the first. */
static void jobs_that_end_the_process_are_not_started_for_ever(void)
{
    const char *state = check_temporary("deaths");
    write_job(state, "ftjob-third", 1,
              "\"deaths\": 2, \"step\": 7, \"object\": {\"id\": \"ftjob-third\", \"status\": "
              "\"running\"");
    write_job(state, "ftjob-first", 2,
              "\"object\": {\"id\": \"ftjob-first\", \"status\": \"running\"");
    asked = (struct asked){.saves = true};
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    json_object *job = jobs_await(port, "ftjob-first");
    jobs_ended(job, "succeeded");
    json_object_put(job);
    job = jobs_get(port, "ftjob-third", "");
    jobs_ended(job, "failed");
    CHECK_STR(client_text(job, "error.code"), "server_failed");
    CHECK_CONTAINS(client_text(job, "error.message"), "3 times");
    CHECK_CONTAINS(client_text(job, "error.message"), "after update 7");
    json_object_put(job);
    serve_stop(server, 0);
}

static void jobs_of_another_model_are_not_used(void)
{
    const char *state = check_temporary("other");
    serve_server *server = open_server(state, "aaaa");
    if (server == NULL)
        return;
    int port = serve_port(server);
    json_object *job;
    char *id = train_model(port, "", &job),
         *model = weft_strdup(client_text(job, "fine_tuned_model"));
    json_object_put(job);
    serve_stop(server, 0);
    write_job(state, "ftjob-queued", 1,
              "\"base\": \"aaaa\", \"object\": {\"id\": \"ftjob-queued\", \"model\": "
              "\"storyteller\", \"status\": \"queued\"");
    server = open_server(state, "bbbb");
    port = serve_port(server);
    job = jobs_await(port, "ftjob-queued");
    jobs_ended(job, "failed");
    CHECK_CONTAINS(client_text(job, "error.message"), "hash aaaa");
    json_object_put(job);
    char *path = weft_format("/v1/models/%s", model);
    client_expect(port, "GET", path, NULL, 404, "no model");
    serve_stop(server, 0);
    server = open_server(state, "aaaa");
    client_expect(serve_port(server), "GET", path, NULL, 200, model);
    serve_stop(server, 0);
    weft_free(path);
    weft_free(model);
    weft_free(id);
}

/* The state folder may be moved. */
static void records_have_no_paths(void)
{
    char state[512], moved[512], *text = NULL;
    snprintf(state, sizeof state, "%s", check_temporary("here"));
    snprintf(moved, sizeof moved, "%s", check_temporary("there"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    json_object *job;
    char *id = train_model(serve_port(server), "", &job);
    serve_stop(server, 0);
    char *path = weft_format("%s/jobs/%s.json", state, id);
    CHECK_OK(weft_file_read(path, 0, &text, NULL));
    CHECK(text != NULL && strstr(text, state) == NULL);
    CHECK(rename(state, moved) == 0);
    server = open_server(moved, NULL);
    weft_free(path);
    path = weft_format("/v1/models/%s", client_text(job, "fine_tuned_model"));
    client_expect(serve_port(server), "GET", path, NULL, 200, "storyteller");
    serve_stop(server, 0);
    json_object_put(job);
    weft_free(path);
    weft_free(text);
    weft_free(id);
}

static void messages_of_a_job_are_bounded(void)
{
    serve_server *server = open_server(check_temporary("messages"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.updates = 400, .bytes = 0};
    char *id = jobs_create(port, file, "");
    json_object *job = jobs_await(port, id), *events = jobs_get(port, id, "/events?limit=1000");
    json_object *data = client_at(events, "data");
    const size_t n = data != NULL ? json_object_array_length(data) : 0;
    CHECK_EQ_INT((int)n, 256);
    CHECK_CONTAINS(client_text(json_object_array_get_idx(data, n - 1), "message"), "Created");
    for (size_t i = 1; i < n; i++)
        CHECK(strcmp(client_text(json_object_array_get_idx(data, i), "id"),
                     client_text(json_object_array_get_idx(data, i - 1), "id")) != 0);
    /* a page after one of them */
    char *rest = weft_format("/events?limit=5&after=%s",
                             client_text(json_object_array_get_idx(data, 9), "id"));
    json_object *page = jobs_get(port, id, rest);
    CHECK_EQ_INT((int)json_object_array_length(client_at(page, "data")), 5);
    CHECK_STR(client_text(page, "data.0.id"),
              client_text(json_object_array_get_idx(data, 10), "id"));
    CHECK(json_object_get_boolean(client_at(page, "has_more")));
    json_object_put(page);
    json_object_put(events);
    json_object_put(job);
    weft_free(rest);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

static void *upload_slowly(void *context)
{
    weft_free(jobs_upload(*(int *)context, "slow.jsonl", "{\"text\": \"a\"}\n"));
    return NULL;
}

/* The longest of some answers, in seconds, which need no disk. */
static double longest_answer(int port, const char *path)
{
    double longest = 0;
    for (int i = 0; i < 5; i++) {
        const double began = seconds();
        char *text = client_answer(port, "storyteller");
        client_expect(port, "GET", path, NULL, 200, "running");
        const double took = seconds() - began;
        longest = took > longest ? took : longest;
        weft_free(text);
        client_pause(50);
    }
    return longest;
}

/* While a job's record is written, and while files are uploaded. */
static void a_slow_disk_stops_no_answers(void)
{
    serve_server *server = open_server(check_temporary("slow"), NULL);
    if (server == NULL)
        return;
    int port = serve_port(server);
    pthread_t threads[8];
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.updates = 3, .busy = true};
    const int before = atomic_load(&trained);
    char *id = jobs_create(port, file, ""), *path = weft_format(JOBS "/%s", id);
    while (atomic_load(&trained) == before)
        client_pause(1);
    atomic_store(&slow, 4000);
    CHECK(longest_answer(port, path) < 2.5);
    atomic_store(&slow, 0);
    client_pause(4500);
    atomic_store(&slow, 4000);
    for (int i = 0; i < 8; i++) { /* one after another, so that each has a connection's thread */
        CHECK(pthread_create(&threads[i], NULL, upload_slowly, &port) == 0);
        client_pause(30);
    }
    CHECK(longest_answer(port, path) < 2.5);
    atomic_store(&slow, 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    weft_free(path);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

/* While a job is away, the limit leaves it what it has reserved and does not hold. */
static void reserved_memory_is_kept_free(void)
{
    serve_server *server = open_server(check_temporary("reserved"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    const int64_t limit = weft_memory_active() + ((int64_t)200 << 20),
                  before = weft_memory_set_limit(limit);
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.bytes = (int64_t)100 << 20, .array = (int64_t)60 << 20, .busy = true};
    char *id = jobs_create(port, file, ""), *path = weft_format(JOBS "/%s/cancel", id);
    bool kept = false;
    int64_t left = 0;
    for (int i = 0; i < 200 && !kept; i++) {
        weft_free(client_answer(port, "storyteller"));
        for (int k = 0; k < 100 && !kept; k++) {
            left = limit - weft_memory_limit();
            kept = left > ((int64_t)39 << 20) && left < ((int64_t)41 << 20);
        }
    }
    CHECK(kept);
    client_expect(port, "POST", path, "", 200, "cancelled");
    for (int i = 0; i < 500 && weft_memory_limit() != limit; i++)
        client_pause(10);
    CHECK(weft_memory_limit() == limit);
    weft_memory_set_limit(before);
    weft_free(path);
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

static void *embed(void *context)
{
    client_expect(*(int *)context, "POST", "/v1/embeddings", "{\"input\": \"Once upon a time\"}",
                  200, "embedding");
    return NULL;
}

/* Calls that wait together are computed in one turn of the answers, and not one in each. */
static void embeddings_do_not_wait_for_a_turn_each(void)
{
    serve_server *server = client_server((serve_options){
        .rows = 2, .state = check_temporary("embed"), .teach = teach, .teach_latency = 2});
    if (server == NULL)
        return;
    int port = serve_port(server);
    pthread_t threads[8];
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.busy = true};
    const int before = atomic_load(&trained);
    char *id = jobs_create(port, file, "");
    while (atomic_load(&trained) == before)
        client_pause(10);
    const double began = seconds();
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, embed, &port) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK(seconds() - began < 6); /* a turn of the job lasts 1.8 s */
    weft_free(file);
    weft_free(id);
    serve_stop(server, 0);
}

CHECK_MAIN("serve_jobs", CHECK_CASE(jobs_without_memory_are_refused),
           CHECK_CASE(reserved_memory_is_kept_free), CHECK_CASE(metadata_is_bounded),
           CHECK_CASE(models_and_jobs_can_be_deleted),
           CHECK_CASE(a_job_cancelled_at_its_end_is_not_served), CHECK_CASE(ended_jobs_make_room),
           CHECK_CASE(jobs_that_end_the_process_are_not_started_for_ever),
           CHECK_CASE(jobs_of_another_model_are_not_used), CHECK_CASE(records_have_no_paths),
           CHECK_CASE(messages_of_a_job_are_bounded), CHECK_CASE(a_slow_disk_stops_no_answers),
           CHECK_CASE(embeddings_do_not_wait_for_a_turn_each))
