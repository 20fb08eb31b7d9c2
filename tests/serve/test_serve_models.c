/* tests/serve/test_serve_models.c -- models that jobs have trained, their records and events:
 * deleting, unloading, bounds, other models. The jobs train nothing. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/taught.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- models --------------------------------------------------------------------------------- */

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
    client_expect(port, "DELETE", path, NULL, 400, "the job's model is kept: DELETE /v1/models/");
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

typedef struct deletion {
    int port, status;
    const char *path;
} deletion;

static void *delete (void *context)
{
    deletion *d = context;
    client_reply r = client_ask(d->port, "DELETE", d->path, NULL);
    d->status = r.status;
    client_free(&r);
    return NULL;
}

/* Two clients delete a model at the same time, while its record is written. One
 * of them succeeds. While the disk fails, the model stays. */
static void a_model_is_deleted_once(void)
{
    serve_server *server = open_server(check_temporary("twice"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    json_object *job;
    char *id = train_model(port, "", &job),
         *model = weft_format("/v1/models/%s", client_text(job, "fine_tuned_model"));
    disk_set(false, true);
    client_expect(port, "DELETE", model, NULL, 500, "the disk is broken");
    client_expect(port, "GET", model, NULL, 200, "storyteller");
    disk_set(true, false);
    deletion both[] = {{port, 0, model}, {port, 0, model}};
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, delete, &both[0]) == 0);
    disk_await_writer();
    const double before = client_metric(port, "requests_total");
    CHECK(pthread_create(&threads[1], NULL, delete, &both[1]) == 0);
    await_requests(port, before, 1);
    disk_open();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(both[0].status != both[1].status);
    CHECK_EQ_INT(both[0].status + both[1].status, 200 + 404);
    client_expect(port, "GET", model, NULL, 404, "no model");
    json_object_put(job);
    weft_free(model);
    weft_free(id);
    serve_stop(server, 0);
}

#define LOAD "/v1/load_lora_adapter"
#define UNLOAD "/v1/unload_lora_adapter"

/* A model that a client has unloaded is not served after a restart, unless it was loaded again. */
static void unloaded_models_stay_unloaded(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("unloaded"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    json_object *job;
    char *id = train_model(serve_port(server), "", &job),
         *name = weft_strdup(client_text(job, "fine_tuned_model")),
         *model = weft_format("/v1/models/%s", name),
         *body = weft_format("{\"lora_name\": \"%s\"}", name),
         *other = weft_format("{\"lora_name\": \"%s\", \"lora_path\": \"a\"}", name),
         *again = weft_format("{\"lora_name\": \"%s\", \"load_inplace\": true}", name);
    client_expect(serve_port(server), "POST", LOAD, body, 400, "loaded already");
    client_expect(serve_port(server), "POST", LOAD, other, 400, "the model of a job");
    disk_set(false, true);
    client_expect(serve_port(server), "POST", UNLOAD, body, 500, "the disk is broken");
    client_expect(serve_port(server), "GET", model, NULL, 200, name);
    client_expect(serve_port(server), "POST", LOAD, again, 200, "loaded"); /* writes nothing */
    disk_set(false, false);
    client_expect(serve_port(server), "POST", UNLOAD, body, 200, "unloaded");
    client_expect(serve_port(server), "POST", UNLOAD, body, 404, "no adapter");
    disk_set(false, true);
    client_expect(serve_port(server), "POST", LOAD, body, 500, "the disk is broken");
    disk_set(false, false);
    for (int i = 0; i < 2; i++) { /* unloaded, and loaded again */
        client_expect(serve_port(server), "GET", model, NULL, i == 0 ? 404 : 200, name);
        serve_stop(server, 0);
        server = open_server(state, NULL);
        client_expect(serve_port(server), "GET", model, NULL, i == 0 ? 404 : 200, name);
        if (i == 0)
            client_expect(serve_port(server), "POST", LOAD, body, 200, "loaded");
    }
    client_expect(serve_port(server), "POST", UNLOAD, body, 200, "unloaded");
    client_expect(serve_port(server), "DELETE", model, NULL, 200, "deleted");
    client_expect(serve_port(server), "POST", LOAD, body, 400, "lora_path: expected");
    serve_stop(server, 0);
    json_object_put(job);
    weft_free(name);
    weft_free(model);
    weft_free(body);
    weft_free(other);
    weft_free(again);
    weft_free(id);
}

/* The model of a job is loaded without a folder of adapters. */
static void models_of_jobs_need_no_folder(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("folder"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    json_object *job;
    char *id = train_model(serve_port(server), "", &job),
         *model = weft_format("/v1/models/%s", client_text(job, "fine_tuned_model")),
         *path = weft_format(JOBS "/%s", id),
         *body = weft_format("{\"lora_name\": \"%s\"}", client_text(job, "fine_tuned_model"));
    client_expect(serve_port(server), "POST", UNLOAD, body, 200, "unloaded");
    serve_stop(server, 0);
    server = client_server((serve_options){.rows = 2, .state = state, .teach = teach});
    client_expect(serve_port(server), "GET", model, NULL, 404, "no model");
    client_expect(serve_port(server), "DELETE", path, NULL, 400, "the job's model is kept");
    client_expect(serve_port(server), "POST", LOAD, body, 200, "loaded");
    client_expect(serve_port(server), "GET", model, NULL, 200, "storyteller");
    client_expect(serve_port(server), "POST", UNLOAD, body, 200, "unloaded");
    client_expect(serve_port(server), "POST", LOAD, "{\"lora_name\": \"a\", \"lora_path\": \"a\"}",
                  501, "--adapter-dir");
    client_expect(serve_port(server), "POST", LOAD, "{}", 501, "--adapter-dir");
    serve_stop(server, 0);
    json_object_put(job);
    weft_free(model);
    weft_free(path);
    weft_free(body);
    weft_free(id);
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

/* ---- records -------------------------------------------------------------------------------- */

/* What a request could not save is unchanged after a restart, whether or not it was written: a job
 * that was not created, a model that was not unloaded or deleted. */
static void what_was_not_saved_is_as_before(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("doubtful"));
    for (int doubtful = 0; doubtful < 2; doubtful++) {
        serve_server *server = open_server(state, NULL);
        if (server == NULL)
            return;
        int port = serve_port(server);
        json_object *job;
        char *id = train_model(port, "", &job),
             *file = jobs_upload(port, "b.jsonl", "{\"text\": \"b\"}\n"),
             *model = weft_format("/v1/models/%s", client_text(job, "fine_tuned_model")),
             *body = weft_format("{\"lora_name\": \"%s\"}", client_text(job, "fine_tuned_model")),
             *ask = weft_format("{\"model\": \"storyteller\", \"training_file\": \"%s\"}", file);
        client_reply before = client_ask(port, "GET", JOBS, NULL);
        disk_set(false, doubtful == 0);
        disk_set_doubtful(doubtful == 1);
        client_expect(port, "POST", JOBS, ask, 500, "the disk is broken");
        client_expect(port, "POST", UNLOAD, body, 500, "the disk is broken");
        client_expect(port, "DELETE", model, NULL, 500, "the disk is broken");
        disk_set(false, false);
        disk_set_doubtful(false);
        for (int i = 0; i < 2; i++) {
            client_reply after = client_ask(port, "GET", JOBS, NULL);
            CHECK_STR(after.body, before.body);
            client_free(&after);
            client_expect(port, "GET", model, NULL, 200, "storyteller");
            if (i > 0)
                break;
            serve_stop(server, 0);
            server = open_server(state, NULL);
            port = serve_port(server);
        }
        client_free(&before);
        serve_stop(server, 0);
        json_object_put(job);
        weft_free(ask);
        weft_free(body);
        weft_free(model);
        weft_free(file);
        weft_free(id);
    }
}

/* A job that was cancelled while the disk was broken does not run after a restart. */
static void what_has_changed_is_saved_later(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("later"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    int port = serve_port(server);
    asked = (struct asked){.busy = true};
    char *busy = start_job(port, ""), *file = jobs_upload(port, "b.jsonl", "{\"text\": \"b\"}\n"),
         *id = jobs_create(port, file, ""), *cancel = weft_format(JOBS "/%s/cancel", id),
         *path = weft_format(JOBS "/%s", id);
    disk_set(false, true);
    client_expect(port, "POST", cancel, NULL, 500, "the disk is broken");
    client_expect(port, "GET", path, NULL, 200, "\"cancelled\"");
    disk_set(false, false);
    serve_stop(server, 0);
    server = open_server(state, NULL);
    client_expect(serve_port(server), "GET", path, NULL, 200, "\"cancelled\"");
    serve_stop(server, 0);
    asked = (struct asked){.updates = 0};
    weft_free(busy);
    weft_free(file);
    weft_free(id);
    weft_free(cancel);
    weft_free(path);
}

/* A record that cannot be removed stays. */
static void what_cannot_be_removed_stays(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("stays"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    char *file = jobs_upload(port, "b.jsonl", "{\"text\": \"b\"}\n"),
         *record = weft_format("%s/files/%s.json", state, file),
         *path = weft_format("/v1/files/%s", file);
    CHECK(unlink(record) == 0);
    CHECK_OK(weft_folder_make(record)); /* a folder, which unlink does not remove */
    client_expect(port, "DELETE", path, NULL, 500, "cannot be removed");
    client_expect(port, "GET", path, NULL, 200, "b.jsonl");
    CHECK(rmdir(record) == 0);
    client_expect(port, "DELETE", path, NULL, 200, "deleted");
    client_expect(port, "GET", path, NULL, 404, "no file");
    serve_stop(server, 0);
    weft_free(file);
    weft_free(record);
    weft_free(path);
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

/* Records of the same second keep their order. */
static void files_keep_their_order(void)
{
    char state[512];
    snprintf(state, sizeof state, "%s", check_temporary("order"));
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.jsonl", i);
        weft_free(jobs_upload(serve_port(server), name, "{\"text\": \"a\"}\n"));
    }
    client_reply before = client_ask(serve_port(server), "GET", "/v1/files", NULL);
    serve_stop(server, 0);
    server = open_server(state, NULL);
    client_reply after = client_ask(serve_port(server), "GET", "/v1/files", NULL);
    CHECK_STR(after.body, before.body);
    client_free(&before);
    client_free(&after);
    serve_stop(server, 0);
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
         *body = weft_format("{\"model\": \"storyteller\", \"training_file\": \"%s\"}", file);
    disk_set(false, true); /* a job that is not stored replaces no other job */
    client_expect(port, "POST", JOBS, body, 500, "the disk is broken");
    disk_set(false, false);
    client_expect(port, "GET", JOBS "/ftjob-old1", NULL, 200, "failed");
    char *job = jobs_create(port, file, "");
    weft_free(body);
    client_expect(port, "GET", JOBS "/ftjob-old0", NULL, 200, "kept");
    client_expect(port, "GET", JOBS "/ftjob-old1", NULL, 404, "no job");
    client_expect(port, "GET", JOBS "/ftjob-old2", NULL, 200, "failed");
    client_expect(port, "GET", JOBS "?after=ftjob-old1", NULL, 400, "after: there is no");
    weft_free(file);
    weft_free(job);
    serve_stop(server, 0);
}

/* ---- events --------------------------------------------------------------------------------- */

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

/* Writes the metrics of a job that has ended: a hole, and the lines of updates. */
static void write_metrics(const char *state, const char *id, off_t hole, int updates)
{
    char more[160], *runs = weft_format("%s/runs", state), *folder = weft_format("%s/%s", runs, id),
                    *path = weft_format("%s/metrics.jsonl", folder);
    snprintf(more, sizeof more,
             "\"steps\": %d, \"object\": {\"id\": \"%s\", \"status\": \"failed\"", updates, id);
    write_job(state, id, 1, more);
    CHECK_OK(weft_folder_make(runs));
    CHECK_OK(weft_folder_make(folder));
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL && ftruncate(fileno(file), hole) == 0 &&
              fseeko(file, hole, SEEK_SET) == 0)) {
        fputs(hole > 0 ? "\n" : "", file);
        for (int i = 1; i <= updates; i++)
            fprintf(file, "{\"step\": %d, \"loss\": %d.5, \"seconds\": 1%*s}\n", i, i, i % 90, "");
        fputs("{\"step\": 100000, \"lo", file); /* being written */
        CHECK(fclose(file) == 0);
    }
    weft_free(runs);
    weft_free(folder);
    weft_free(path);
}

/* Expects a page with the updates `from`, from - 1, ... */
static void expect_updates(int port, const char *id, const char *query, int from, int n)
{
    json_object *page = jobs_get(port, id, query), *data = client_at(page, "data");
    CHECK_EQ_INT((int)json_object_array_length(data), n);
    for (int i = 0; i < n; i++) {
        json_object *event = json_object_array_get_idx(data, (size_t)i);
        CHECK_EQ_INT(json_object_get_int(client_at(event, "data.step")), from - i);
        CHECK_CLOSE(json_object_get_double(client_at(event, "data.train_loss")), from - i + 0.5, 0);
    }
    CHECK(json_object_get_boolean(client_at(page, "has_more")) == (from > n));
    json_object_put(page);
}

/* Of a file of any size only the page is read. */
static void metrics_are_read_in_pieces(void)
{
    static const char *const ids[] = {"ftjob-small", "ftjob-hole"};
    const off_t holes[] = {0, (off_t)1 << 30};
    const int updates[] = {5000, 50};
    char state[512], query[96];
    snprintf(state, sizeof state, "%s", check_temporary("metrics"));
    CHECK_OK(weft_folder_make(state));
    for (int i = 0; i < 2; i++)
        write_metrics(state, ids[i], holes[i], updates[i]);
    serve_server *server = open_server(state, NULL);
    if (server == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        expect_updates(serve_port(server), ids[i], "/events?limit=7", updates[i], 7);
        for (int after = 2; after <= updates[i]; after += after < 40 ? 1 : 137) {
            snprintf(query, sizeof query, "/events?limit=6&after=ftevent-%s-step-%d", ids[i] + 6,
                     after);
            expect_updates(serve_port(server), ids[i], query, after - 1, after > 6 ? 6 : after - 1);
        }
    }
    serve_stop(server, 0);
}
CHECK_MAIN("serve_models", CHECK_CASE(models_and_jobs_can_be_deleted),
           CHECK_CASE(a_model_is_deleted_once), CHECK_CASE(unloaded_models_stay_unloaded),
           CHECK_CASE(models_of_jobs_need_no_folder),
           CHECK_CASE(jobs_of_another_model_are_not_used),
           CHECK_CASE(what_was_not_saved_is_as_before), CHECK_CASE(what_has_changed_is_saved_later),
           CHECK_CASE(what_cannot_be_removed_stays), CHECK_CASE(records_have_no_paths),
           CHECK_CASE(files_keep_their_order), CHECK_CASE(ended_jobs_make_room),
           CHECK_CASE(messages_of_a_job_are_bounded), CHECK_CASE(metrics_are_read_in_pieces))
