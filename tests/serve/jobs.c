/* tests/serve/jobs.c -- files and fine-tuning jobs of a server: requests of the tests. */
#include "tests/serve/jobs.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/check.h"
#include "weft/memory.h"

void client_pause(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

char *jobs_rows(int n)
{
    char *text = weft_strdup("");
    for (int i = 0; i < n; i++) {
        char *more = weft_format("%s{\"prompt\": \"The cat number %d says\", \"completion\": "
                                 "\" hello to the dog and the sun %d times.\"}\n",
                                 text, i, i + 1);
        weft_free(text);
        text = more;
    }
    return text;
}

char *jobs_form(const char *name, const char *purpose, const char *data)
{
    return weft_format("--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n%s\r\n"
                       "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n"
                       "Content-Type: application/octet-stream\r\n\r\n%s\r\n--B--\r\n",
                       purpose, name, data);
}

json_object *jobs_post_form(int port, const char *body, int status)
{
    client_reply r = client_read(client_open(
        port, "POST", "/v1/files", "Content-Type: multipart/form-data; boundary=B\r\n", body));
    if (!CHECK_EQ_INT(r.status, status))
        fprintf(stderr, "%s\n", r.body != NULL ? r.body : "");
    json_object *root = r.body != NULL ? json_tokener_parse(r.body) : NULL;
    client_free(&r);
    return root;
}

/* Uploads data; the caller frees the id. */
char *jobs_upload(int port, const char *name, const char *data)
{
    char *body = jobs_form(name, "fine-tune", data);
    json_object *root = jobs_post_form(port, body, 200);
    const char *id = client_text(root, "id");
    char *copy = weft_strdup(id != NULL ? id : "");
    CHECK(strncmp(copy, "file-", 5) == 0);
    CHECK_EQ_INT(json_object_get_int(client_at(root, "bytes")), (int)strlen(data));
    CHECK_STR(client_text(root, "filename"), name);
    json_object_put(root);
    weft_free(body);
    return copy;
}

/* Creates a job; the caller frees the id. */
char *jobs_create(int port, const char *file, const char *more)
{
    char *body =
        weft_format("{\"model\": \"storyteller\", \"training_file\": \"%s\"%s}", file, more);
    json_object *root = client_json(port, "/v1/fine_tuning/jobs", body, 200);
    const char *id = client_text(root, "id");
    char *copy = weft_strdup(id != NULL ? id : "");
    CHECK_STR(client_text(root, "object"), "fine_tuning.job");
    json_object_put(root);
    weft_free(body);
    return copy;
}

json_object *jobs_get(int port, const char *id, const char *rest)
{
    char *path = weft_format("/v1/fine_tuning/jobs/%s%s", id, rest);
    json_object *root = client_json(port, path, NULL, 200);
    weft_free(path);
    return root;
}

bool jobs_is(json_object *job, const char *status)
{
    const char *now = client_text(job, "status");
    return now != NULL && strcmp(now, status) == 0;
}

/* The job once it has ended. */
json_object *jobs_await(int port, const char *id)
{
    json_object *job = NULL;
    for (int i = 0; i < 6000; i++) {
        json_object_put(job);
        job = jobs_get(port, id, "");
        if (job == NULL || !(jobs_is(job, "queued") || jobs_is(job, "running")))
            break;
        client_pause(20);
    }
    return job;
}

/* Whether it has ended as expected; else prints it. */
bool jobs_ended(json_object *job, const char *status)
{
    const bool well = CHECK_STR(client_text(job, "status"), status);
    if (!well)
        fprintf(stderr, "%s\n", json_object_to_json_string(job));
    return well;
}

/* The number of metrics among the latest events; -1: no answer. */
int jobs_count_metrics(int port, const char *id)
{
    json_object *events = jobs_get(port, id, "/events?limit=1000");
    json_object *data = client_at(events, "data");
    int n = data != NULL ? 0 : -1;
    for (size_t i = 0; data != NULL && i < json_object_array_length(data); i++) {
        const char *type = client_text(json_object_array_get_idx(data, i), "type");
        n += type != NULL && strcmp(type, "metrics") == 0;
    }
    json_object_put(events);
    return n;
}

/* Waits until a job has made so many updates, or has ended. */
void jobs_await_steps(int port, const char *id, int steps)
{
    for (int i = 0, n = 0; i < 6000 && n >= 0 && n < steps; i++) {
        json_object *job = jobs_get(port, id, "");
        const bool going = jobs_is(job, "queued") || jobs_is(job, "running");
        n = going ? jobs_count_metrics(port, id) : -1;
        json_object_put(job);
        client_pause(20);
    }
}

/* The text of a greedy answer with all log-probabilities, which have 9 digits. */
char *client_answer(int port, const char *model)
{
    char *body =
        weft_format("{\"model\": \"%s\", \"prompt\": \"Once upon a time\", \"max_tokens\": "
                    "12, \"temperature\": 0, \"logprobs\": 3}",
                    model);
    json_object *root = client_json(port, "/v1/completions", body, 200);
    json_object *choice = client_at(root, "choices.0");
    char *text = weft_strdup(choice != NULL ? json_object_to_json_string(choice) : "");
    json_object_put(root);
    weft_free(body);
    return text;
}

void client_expect(int port, const char *method, const char *path, const char *body, int status,
                   const char *part)
{
    client_reply r = client_ask(port, method, path, body);
    CHECK_EQ_INT(r.status, status);
    CHECK_CONTAINS(r.body != NULL ? r.body : "", part);
    client_free(&r);
}
