/* tests/serve/test_serve_jobs.c -- fine-tuning jobs: bounds, jobs that end the process, slow disks,
 * memory. The jobs train nothing. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/check.h"
#include "tests/serve/taught.h"
#include "weft/memory.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
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

static void a_job_cancelled_at_its_end_is_not_served(void)
{
    serve_server *server = open_server(check_temporary("late"), NULL);
    if (server == NULL)
        return;
    const int port = serve_port(server);
    asked = (struct asked){.saves = true, .late = true};
    char *id = start_job(port, ", \"suffix\": \"late\""),
         *path = weft_format(JOBS "/%s/cancel", id), *job = weft_format(JOBS "/%s", id);
    client_expect(port, "POST", path, "", 200, "cancelled");
    int status = 400; /* until its thread has ended */
    for (int i = 0; i < 100 * PATIENCE && status == 400; i++) {
        client_reply r = client_ask(port, "DELETE", job, NULL);
        status = r.status;
        client_free(&r);
        client_pause(10);
    }
    CHECK_EQ_INT(status, 200);
    json_object *models = client_json(port, "/v1/models", NULL, 200);
    CHECK_EQ_INT((int)json_object_array_length(client_at(models, "data")), 1);
    json_object_put(models);
    weft_free(path);
    weft_free(job);
    weft_free(id);
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

static void *upload(void *context)
{
    weft_free(jobs_upload(*(int *)context, "slow.jsonl", "{\"text\": \"a\"}\n"));
    return NULL;
}

/* Sends requests that need no disk while the disk blocks; then unblocks it. */
static void answer_without_disk(int port, const char *path)
{
    disk_await_writer();
    for (int i = 0; i < 5; i++) {
        weft_free(client_answer(port, "storyteller"));
        client_expect(port, "GET", path, NULL, 200, "running");
    }
    disk_open();
}

/* While a job's record is written, and while files are uploaded. */
static void a_slow_disk_stops_no_answers(void)
{
    serve_server *server = open_server(check_temporary("slow"), NULL);
    if (server == NULL)
        return;
    int port = serve_port(server);
    pthread_t threads[8];
    asked = (struct asked){.updates = 3, .busy = true, .shuts = true};
    char *id = start_job(port, ""), *path = weft_format(JOBS "/%s", id);
    answer_without_disk(port, path);
    disk_set(true, false);
    const double before = client_metric(port, "requests_total");
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, upload, &port) == 0);
    await_requests(port, before, 8);
    answer_without_disk(port, path);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    weft_free(path);
    weft_free(id);
    serve_stop(server, 0);
}

/* While a job does not compute, the memory limit keeps free what it has reserved but not
 * allocated. */
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
    const double end = seconds() + PATIENCE;
    while (seconds() < end && !kept) {
        weft_free(client_answer(port, "storyteller"));
        for (int k = 0; k < 100 && !kept; k++) {
            left = limit - weft_memory_limit();
            kept = left > ((int64_t)39 << 20) && left < ((int64_t)41 << 20);
        }
    }
    CHECK(kept);
    client_expect(port, "POST", path, "", 200, "cancelled");
    for (int i = 0; i < 100 * PATIENCE && weft_memory_limit() != limit; i++)
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
    asked = (struct asked){.busy = true};
    char *id = start_job(port, "");
    double least = INFINITY; /* the best of five times, since a late thread takes a separate turn */
    for (int time = 0; time < 5 && least > 6; time++) {
        const double began = seconds();
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, embed, &port) == 0);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        least = fmin(least, seconds() - began);
    }
    CHECK(least <= 6); /* a turn of the job lasts 1.8 s */
    weft_free(id);
    serve_stop(server, 0);
}

CHECK_MAIN("serve_jobs", CHECK_CASE(jobs_without_memory_are_refused),
           CHECK_CASE(reserved_memory_is_kept_free), CHECK_CASE(metadata_is_bounded),
           CHECK_CASE(a_job_cancelled_at_its_end_is_not_served),
           CHECK_CASE(jobs_that_end_the_process_are_not_started_for_ever),
           CHECK_CASE(a_slow_disk_stops_no_answers),
           CHECK_CASE(embeddings_do_not_wait_for_a_turn_each))
