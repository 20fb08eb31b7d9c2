/* serve/jobs.c -- fine-tuning jobs of OpenAI's API: creating, reading, cancelling and deleting
 * them, and the models that they have trained. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/teach.h"
#include "weft/memory.h"

enum {
    EVENTS = 256, /* messages of a record; of more, those after the first one are dropped */
    MODELS = 256  /* of jobs */
};

/* ---- records -------------------------------------------------------------------------------- */

static json_object *object_of(json_object *record)
{
    return json_object_object_get(record, "object");
}

bool serve_job_is(json_object *record, const char *status)
{
    const char *now = serve_record_text(record, "status");
    return now != NULL && strcmp(now, status) == 0;
}

bool serve_job_has_ended(json_object *record)
{
    return !serve_job_is(record, "queued") && !serve_job_is(record, "running");
}

const char *serve_job_model(json_object *record)
{
    const bool kept = serve_job_is(record, "succeeded") && !serve_record_number(record, "deleted");
    return kept ? serve_record_text(record, "fine_tuned_model") : NULL;
}

char *serve_job_folder(const serve_teacher *teacher, const char *id)
{
    return weft_format("%s/%s", teacher->runs, id);
}

void serve_job_log(json_object *record, const char *level, int64_t step, const char *format, ...)
{
    char message[512];
    serve_text text = {0};
    json_object *events = json_object_object_get(record, "events");
    const int64_t n = serve_record_number(record, "logged");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    serve_put(&text,
              "{'id': \"ftevent-%r-%i\", 'object': 'fine_tuning.job.event', 'created_at': %i, "
              "'level': %s, 'message': %s, 'type': 'message', 'data': {'step': %i}}",
              serve_record_id(record) + strlen("ftjob-"), n, (int64_t)time(NULL), level, message,
              step);
    json_object *event = serve_record_make(&text);
    if (event == NULL)
        return;
    serve_record_set(record, "logged", n + 1);
    json_object_array_add(events, event);
    if (json_object_array_length(events) > EVENTS)
        json_object_array_del_idx(events, 1, 1);
}

void serve_job_set(json_object *record, const char *status)
{
    const bool ends = strcmp(status, "queued") != 0 && strcmp(status, "running") != 0;
    json_object_object_add(object_of(record), "status", json_object_new_string(status));
    if (ends)
        json_object_object_add(object_of(record), "finished_at",
                               json_object_new_int64((int64_t)time(NULL)));
    if (ends)
        json_object_object_add(object_of(record), "estimated_finish", NULL);
}

void serve_job_fail(json_object *record, const char *code, const char *message, const char *param)
{
    serve_text error = {0};
    serve_put(&error, "{'code': %s, 'message': %s, 'param': %s}", code, message, param);
    serve_job_set(record, "failed");
    json_object_object_add(object_of(record), "error", serve_record_make(&error));
    serve_job_log(record, "error", serve_record_number(record, "step"), "The job failed: %s",
                  message);
}

/* ---- creating ---------------------------------------------------------------------------------
 */

/* Whether a job has ended and nothing of it is served. The lock is held. */
static bool may_go(const serve_teacher *teacher, json_object *record)
{
    return serve_job_has_ended(record) && serve_job_model(record) == NULL &&
           record != teacher->current;
}

/* Checks that a job can be added. `oldest`: the one that makes room for it; "": none. The lock is
 * held. */
static weft_status check_job(serve_request *r, const serve_teacher *teacher,
                             const serve_job_request *q, char oldest[40])
{
    const size_t n = json_object_array_length(teacher->jobs.list);
    size_t models = 0;
    oldest[0] = '\0';
    if (serve_record_find(&teacher->files, q->training) == NULL)
        return serve_refuse_unknown(r, "training_file", q->training);
    if (q->validation != NULL && serve_record_find(&teacher->files, q->validation) == NULL)
        return serve_refuse_unknown(r, "validation_file", q->validation);
    for (size_t i = 0; i < n; i++) {
        json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
        models += serve_job_model(record) != NULL || !serve_job_has_ended(record);
        if (n >= SERVE_RECORDS && oldest[0] == '\0' && may_go(teacher, record))
            snprintf(oldest, 40, "%s", serve_record_id(record));
    }
    if (models >= MODELS || (n >= SERVE_RECORDS && oldest[0] == '\0'))
        return weft_fail(WEFT_INVALID,
                         "the server keeps %d fine-tuned models and jobs that have not ended: "
                         "delete one with DELETE /v1/models/NAME, or cancel a job",
                         (int)MODELS);
    return WEFT_OK;
}

/* Removes a job, and its run's folder. `disk` is held. */
static weft_status remove_job(serve_teacher *teacher, const char *id)
{
    char *folder = serve_job_folder(teacher, id);
    const weft_status status = serve_record_remove(teacher, &teacher->jobs, id);
    if (folder != NULL && status == WEFT_OK)
        serve_remove_folder(folder);
    weft_free(folder);
    return status;
}

static weft_status create(serve_request *r, serve_teacher *teacher, const serve_job_request *q)
{
    char id[40], oldest[40];
    serve_text text = {0};
    serve_make_id("ftjob-", id, sizeof "ftjob-" + 24);
    pthread_mutex_lock(&teacher->disk);
    pthread_mutex_lock(&teacher->lock);
    weft_status status = check_job(r, teacher, q, oldest);
    pthread_mutex_unlock(&teacher->lock);
    if (status == WEFT_OK) {
        serve_put_job(&text, r, q, id);
        json_object *record = serve_record_make(&text);
        if (record != NULL)
            serve_job_log(record, "info", 0, "Created fine-tuning job: %s", id);
        status = serve_record_add(teacher, &teacher->jobs, record);
    }
    if (status == WEFT_OK && oldest[0] != '\0')
        (void)remove_job(teacher, oldest);
    pthread_mutex_unlock(&teacher->disk);
    if (status != WEFT_OK)
        return status;
    serve_teacher_wake(r->server);
    return serve_reply_record(r, &teacher->jobs, "job", id);
}

weft_status serve_run_create_job(serve_request *r)
{
    serve_job_request q = {0};
    weft_status status = serve_parse_body(r);
    if (status == WEFT_OK)
        status = serve_teacher_check(r);
    if (status == WEFT_OK)
        status = serve_read_job(r, &q);
    if (status == WEFT_OK)
        status = create(r, r->server->teacher, &q);
    json_object_put(q.words);
    return status;
}

/* ---- reading, cancelling and deleting ------------------------------------------------------- */

weft_status serve_run_list_jobs(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->lock);
    status = serve_reply_page(r, serve_record_objects(&teacher->jobs));
    pthread_mutex_unlock(&teacher->lock);
    return status;
}

/* Splits the path into the id of a job and what follows it. */
static const char *read_id(const serve_request *r, char id[64])
{
    const size_t n = strcspn(r->path, "/");
    snprintf(id, 64, "%.*s", (int)(n < 64 ? n : 63), r->path);
    return r->path + n;
}

static weft_status reply_events(serve_request *r, serve_teacher *teacher, const char *id)
{
    json_object *copy = NULL;
    size_t most;
    weft_status status = serve_read_limit(r, &most);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->lock);
    json_object *record = serve_record_find(&teacher->jobs, id);
    const bool copied = record != NULL && json_object_deep_copy(record, &copy, NULL) == 0;
    pthread_mutex_unlock(&teacher->lock);
    if (record == NULL)
        return serve_refuse_unknown(r, "job", id);
    char *folder = serve_job_folder(teacher, id);
    status =
        copied && folder != NULL
            ? serve_reply_page(r, serve_job_events(folder, copy, serve_query(r, "after"), most))
            : weft_fail(WEFT_MEMORY, "out of memory for the events");
    json_object_put(copy);
    weft_free(folder);
    return status;
}

/* A job's object, or with /events its events. */
weft_status serve_run_job(serve_request *r)
{
    char id[64];
    const char *rest = read_id(r, id);
    const weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    return strcmp(rest, "/events") == 0
               ? reply_events(r, r->server->teacher, id)
               : serve_reply_record(r, &r->server->teacher->jobs, "job", r->path);
}

/* Cancels a job. The lock is held. */
static weft_status cancel(serve_request *r, serve_teacher *teacher, json_object *record)
{
    if (record == NULL)
        return serve_refuse_unknown(r, "job", r->path);
    if (serve_job_has_ended(record))
        return weft_fail(WEFT_INVALID, "the job has ended: its status is %s",
                         serve_record_text(record, "status"));
    if (record == teacher->current)
        weft_cancel_set(teacher->cancel);
    serve_job_set(record, "cancelled");
    serve_job_log(record, "info", serve_record_number(record, "step"), "The job was cancelled");
    return WEFT_OK;
}

weft_status serve_run_cancel_job(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    char id[64];
    const char *rest = read_id(r, id);
    weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->lock);
    status = cancel(r, teacher,
                    strcmp(rest, "/cancel") == 0 ? serve_record_find(&teacher->jobs, id) : NULL);
    pthread_mutex_unlock(&teacher->lock);
    if (status == WEFT_OK)
        status = serve_record_store(teacher, &teacher->jobs, id);
    return status == WEFT_OK ? serve_reply_record(r, &teacher->jobs, "job", id) : status;
}

/* Whether a job may be deleted. The lock is held. */
static weft_status check_ended(serve_request *r, const serve_teacher *teacher)
{
    json_object *record = serve_record_find(&teacher->jobs, r->path);
    if (record == NULL)
        return serve_refuse_unknown(r, "job", r->path);
    if (serve_job_model(record) != NULL)
        return weft_fail(WEFT_INVALID, "the job's model is kept: DELETE /v1/models/%s first",
                         serve_job_model(record));
    return may_go(teacher, record)
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "the job has not ended: cancel it first");
}

weft_status serve_run_delete_job(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->disk);
    pthread_mutex_lock(&teacher->lock);
    status = check_ended(r, teacher);
    pthread_mutex_unlock(&teacher->lock);
    if (status == WEFT_OK)
        status = remove_job(teacher, r->path);
    if (status == WEFT_OK)
        serve_reply_deleted(r, r->path, "fine_tuning.job");
    pthread_mutex_unlock(&teacher->disk);
    return status;
}

bool serve_job_of_model(serve_teacher *teacher, const char *model, char id[SERVE_ID])
{
    bool found = false;
    if (teacher == NULL)
        return false;
    pthread_mutex_lock(&teacher->lock);
    for (size_t i = 0; i < json_object_array_length(teacher->jobs.list) && !found; i++) {
        json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
        const char *name = serve_job_model(record);
        found = name != NULL && strcmp(name, model) == 0;
        if (found)
            snprintf(id, SERVE_ID, "%s", serve_record_id(record));
    }
    pthread_mutex_unlock(&teacher->lock);
    return found;
}

/* Deletes the model of a job: its record first, so that it does not come back. `disk` is held. */
static weft_status delete_model(serve_request *r, serve_teacher *teacher, const char *id)
{
    if (serve_record_mark(teacher, &teacher->jobs, id, "deleted", true) != WEFT_OK) {
        const serve_error error = serve_error_of(WEFT_IO, false);
        return serve_refuse(r, &error);
    }
    (void)serve_adapter_unlist(r->server, r->path);
    char *folder = serve_job_folder(teacher, id);
    if (folder != NULL)
        serve_remove_folder(folder);
    weft_free(folder);
    return WEFT_OK;
}

weft_status serve_run_delete_model(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    char id[SERVE_ID];
    if (teacher != NULL)
        pthread_mutex_lock(&teacher->disk);
    const bool trained = serve_job_of_model(teacher, r->path, id);
    weft_status status = trained ? delete_model(r, teacher, id) : WEFT_OK;
    if (teacher != NULL)
        pthread_mutex_unlock(&teacher->disk);
    if (!trained) {
        serve_adapter *adapter = serve_adapter_find(r->server, r->path);
        const bool known = adapter != NULL || strcmp(r->path, r->server->options.name) == 0;
        serve_adapter_drop(r->server, adapter);
        return known ? weft_fail(WEFT_INVALID, "only models that jobs have trained can be deleted")
                     : serve_refuse_unknown(r, "model", r->path);
    }
    if (status == WEFT_OK)
        serve_reply_deleted(r, r->path, "model");
    return status;
}
