/* serve/teach.c -- the thread that runs fine-tuning jobs, one after another. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "serve/teach.h"
#include "weft/memory.h"

enum { WORDS = 128, STEP = 64 };

static const int64_t QUOTA = (int64_t)1 << 30;

/* A job in progress. */
typedef struct task {
    serve_teacher *teacher;
    json_object *record;
    char checkpoint[STEP]; /* the folder to which `last` pointed */
    int64_t step;
    bool entered;
} task;

/* ---- the model of a job --------------------------------------------------------------------- */

/* The folder of a job's adapter, which the caller frees. */
static char *adapter_of(const serve_teacher *teacher, json_object *record, const char *name)
{
    return weft_format("%s/%s/%s", teacher->runs, serve_record_id(record), name);
}

/* Loads the best adapter of a run with validation, else the last one. */
static weft_status load_adapter(const serve_teacher *teacher, json_object *record, const char *name)
{
    char *best = adapter_of(teacher, record, "best"), *last = adapter_of(teacher, record, "last");
    const bool validated = best != NULL && access(best, F_OK) == 0;
    const char *path = validated ? best : last;
    const weft_status status = path != NULL ? serve_adapter_load(teacher->server, name, path)
                                            : weft_fail(WEFT_MEMORY, "out of memory for a path");
    weft_free(best);
    weft_free(last);
    return status;
}

void serve_teacher_load(serve_server *server)
{
    serve_teacher *teacher = server->teacher;
    if (teacher == NULL)
        return;
    pthread_mutex_lock(&teacher->lock);
    for (size_t i = 0; i < json_object_array_length(teacher->jobs.list); i++) {
        json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
        const char *name = serve_record_text(record, "fine_tuned_model");
        if (name != NULL && serve_job_is(record, "succeeded") &&
            load_adapter(teacher, record, name) != WEFT_OK)
            weft_log_message(WEFT_LOG_WARNING, "serve: job %s: %s", serve_record_id(record),
                             weft_error_message());
    }
    pthread_mutex_unlock(&teacher->lock);
}

/* ---- functions of serve_task ---------------------------------------------------------------- */

static void enter(void *context)
{
    task *t = context;
    serve_turns_enter(t->teacher->server);
    t->entered = true;
}

static weft_status adapt(void *context)
{
    const task *t = context;
    return serve_turns_adapt(t->teacher->server);
}

static weft_status reserve(void *context, int64_t bytes)
{
    const task *t = context;
    return serve_turns_reserve(t->teacher->server, bytes);
}

static void set_number(json_object *object, const char *key, int64_t value)
{
    json_object_object_add(object, key, json_object_new_int64(value));
}

/* Logs a checkpoint that has been saved since the last call. The lock is held. */
static void note_checkpoint(task *t)
{
    char name[STEP] = "", *last = adapter_of(t->teacher, t->record, "last");
    const ssize_t n = last != NULL ? readlink(last, name, sizeof name - 1) : -1;
    weft_free(last);
    name[n > 0 ? n : 0] = '\0';
    if (n <= 0 || strcmp(name, t->checkpoint) == 0)
        return;
    memcpy(t->checkpoint, name, sizeof name);
    serve_job_log(t->record, "info", t->step, "Checkpoint %s was saved", name);
    if (serve_record_save(&t->teacher->jobs, t->record) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "serve: %s", weft_error_message());
}

/* weft_train_callback */
static bool report(void *context, const weft_train_report *r)
{
    task *t = context;
    pthread_mutex_lock(&t->teacher->lock);
    note_checkpoint(t);
    t->step = r->step;
    set_number(t->record, "step", r->step);
    set_number(t->record, "steps", r->steps);
    if (r->step > 0 && serve_job_is(t->record, "running"))
        set_number(json_object_object_get(t->record, "object"), "estimated_finish",
                   (int64_t)time(NULL) + (int64_t)r->remaining);
    pthread_mutex_unlock(&t->teacher->lock);
    return true;
}

/* ---- a job ---------------------------------------------------------------------------------- */

/* Replaces a text in a message by a shorter one; whether it was there. */
static bool replace(char *message, const char *from, const char *to)
{
    const size_t n = strlen(from), m = strlen(to);
    bool found = false;
    for (char *at = n > 0 && m <= n ? strstr(message, from) : NULL; at != NULL;
         at = strstr(at + m, from)) {
        memmove(at + m, at + n, strlen(at + n) + 1);
        memcpy(at, to, m);
        found = true;
    }
    return found;
}

/* Names a file as its upload did, and not by its path on this machine. */
static bool replace_file(const serve_teacher *teacher, const char *id, char *message)
{
    char *path = id != NULL ? serve_file_path(teacher, id) : NULL;
    json_object *file = serve_record_find(&teacher->files, id);
    const bool found =
        path != NULL && file != NULL && replace(message, path, serve_record_text(file, "filename"));
    weft_free(path);
    return found;
}

static void fail(task *t, weft_status status, char *message)
{
    const serve_teacher *teacher = t->teacher;
    serve_text error = {0};
    const char *of =
        replace_file(teacher, serve_record_text(t->record, "training_file"), message)
            ? "training_file"
        : replace_file(teacher, serve_record_text(t->record, "validation_file"), message)
            ? "validation_file"
            : NULL;
    (void)replace(message, teacher->runs, "runs");
    (void)replace(message, teacher->files.folder, "files");
    serve_put(&error, "{'code': %s, 'message': %s, 'param': %s}",
              status == WEFT_MEMORY ? "insufficient_memory"
              : of != NULL          ? "invalid_file"
                                    : "training_failed",
              message, of);
    serve_job_set(t->record, "failed");
    json_object_object_add(json_object_object_get(t->record, "object"), "error",
                           error.failed ? NULL : serve_parse(error.at));
    serve_job_log(t->record, "error", t->step, "The job failed: %s", message);
    serve_text_free(&error);
}

/* Records how a job has ended. The lock is held. */
static void end(task *t, weft_status status, const char *name, const weft_train_result *result)
{
    char message[1024];
    json_object *object = json_object_object_get(t->record, "object");
    snprintf(message, sizeof message, "%s", status == WEFT_OK ? "" : weft_error_message());
    note_checkpoint(t);
    set_number(object, "trained_tokens", result->tokens);
    if (status == WEFT_CANCELLED && serve_job_is(t->record, "running")) { /* the server ends */
        serve_job_log(t->record, "info", t->step,
                      "The server stopped after update %lld; the job continues when it is started",
                      (long long)t->step);
        serve_job_set(t->record, "queued");
    } else if (!serve_job_is(t->record, "running")) { /* cancelled meanwhile */
        return;
    } else if (status == WEFT_OK) {
        json_object_object_add(object, "fine_tuned_model", json_object_new_string(name));
        serve_job_set(t->record, "succeeded");
        serve_job_log(t->record, "info", t->step, "New fine-tuned model created: %s", name);
        serve_job_log(t->record, "info", t->step, "The job has successfully completed");
    } else {
        fail(t, status, message);
    }
}

/* The words of a record; returns their number. They live as long as the record. */
static size_t words_of(json_object *record, const char *out[WORDS])
{
    json_object *words = json_object_object_get(record, "words");
    size_t n = 0;
    while (n < WORDS && n < json_object_array_length(words)) {
        out[n] = json_object_get_string(json_object_array_get_idx(words, n));
        n++;
    }
    return n;
}

/* SUFFIX-ID, with the first letters of the job's id. */
static void name_model(json_object *record, char *out, size_t size)
{
    const char *suffix = serve_record_text(record, "user_provided_suffix");
    snprintf(out, size, "%s-%.8s", suffix != NULL ? suffix : "ft",
             serve_record_id(record) + strlen("ftjob-"));
}

static void run_job(serve_teacher *teacher, json_object *record, const weft_cancel *cancel)
{
    serve_server *server = teacher->server;
    const char *words[WORDS];
    char name[128];
    task t = {.teacher = teacher, .record = record};
    weft_train_result result = {0};
    pthread_mutex_lock(&teacher->lock);
    const size_t n = words_of(record, words);
    name_model(record, name, sizeof name);
    pthread_mutex_unlock(&teacher->lock);
    const serve_task asked = {.model = server->loaded.model,
                              .words = words,
                              .n_words = n,
                              .cancel = cancel,
                              .callback = report,
                              .context = &t,
                              .enter = enter,
                              .adapt = adapt,
                              .reserve = reserve};
    weft_scope_open();
    weft_status status = server->options.teach(server->options.context, &asked, &result);
    if (t.entered) {
        char why[1024];
        snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
        serve_turns_free_adapter(server);
        if (status == WEFT_OK)
            status = load_adapter(teacher, record, name);
        else
            (void)weft_fail(status, "%s", why);
    }
    weft_scope_close(NULL);
    pthread_mutex_lock(&teacher->lock);
    end(&t, status, name, &result);
    teacher->current = NULL;
    if (serve_record_save(&teacher->jobs, record) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "serve: %s", weft_error_message());
    pthread_mutex_unlock(&teacher->lock);
    if (t.entered)
        serve_turns_leave(server);
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* The oldest job that has not ended. The lock is held. */
static json_object *next_job(const serve_teacher *teacher)
{
    serve_server *server = teacher->server;
    pthread_mutex_lock(&server->lock);
    const bool ready = server->ready;
    pthread_mutex_unlock(&server->lock);
    for (size_t i = 0; ready && i < json_object_array_length(teacher->jobs.list); i++) {
        json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
        if (serve_job_is(record, "queued") || serve_job_is(record, "running"))
            return record;
    }
    return NULL;
}

/* The updates that a job has made. */
static int64_t step_of(json_object *record)
{
    return json_object_get_int64(json_object_object_get(record, "step"));
}

static void *run(void *context)
{
    serve_teacher *teacher = context;
    pthread_mutex_lock(&teacher->lock);
    while (!teacher->stopping) {
        json_object *record = next_job(teacher);
        if (record == NULL) {
            pthread_cond_wait(&teacher->changed, &teacher->lock);
            continue;
        }
        weft_cancel *cancel = teacher->cancel = weft_cancel_new();
        if (cancel == NULL)
            break;
        const bool again = json_object_object_get(record, "started_at") != NULL;
        if (!again)
            set_number(record, "started_at", (int64_t)time(NULL));
        serve_job_set(record, "running");
        serve_job_log(record, "info", step_of(record),
                      again ? "The job continues" : "The job has started");
        teacher->current = record;
        (void)serve_record_save(&teacher->jobs, record);
        pthread_mutex_unlock(&teacher->lock);
        run_job(teacher, record, cancel);
        pthread_mutex_lock(&teacher->lock);
        teacher->cancel = NULL;
        weft_cancel_free(cancel);
    }
    pthread_mutex_unlock(&teacher->lock);
    return NULL;
}

void serve_teacher_wake(serve_server *server)
{
    serve_teacher *teacher = server->teacher;
    if (teacher == NULL)
        return;
    pthread_mutex_lock(&teacher->lock);
    pthread_cond_signal(&teacher->changed);
    pthread_mutex_unlock(&teacher->lock);
}

/* ---- starting and stopping ------------------------------------------------------------------ */

static weft_status open_state(serve_teacher *teacher, const char *root)
{
    weft_status status = serve_make_folder(root);
    if (status != WEFT_OK)
        return status;
    teacher->lock_file = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (teacher->lock_file < 0)
        return weft_fail(WEFT_IO, "%s: %s", weft_printable(root), strerror(errno));
    if (flock(teacher->lock_file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return weft_fail(WEFT_INVALID, "%s: another server uses this folder", weft_printable(root));
    teacher->runs = weft_format("%s/runs", root);
    status = teacher->runs != NULL ? serve_make_folder(teacher->runs)
                                   : weft_fail(WEFT_MEMORY, "serve: out of memory");
    if (status == WEFT_OK)
        status = serve_records_open(root, "files", &teacher->files);
    return status == WEFT_OK ? serve_records_open(root, "jobs", &teacher->jobs) : status;
}

weft_status serve_teacher_start(serve_server *server)
{
    serve_options *o = &server->options;
    if (o->state == NULL)
        return WEFT_OK;
    o->quota = o->quota > 0 ? o->quota : QUOTA;
    serve_teacher *teacher = server->teacher = weft_calloc(1, sizeof *teacher);
    if (teacher == NULL)
        return weft_fail(WEFT_MEMORY, "serve: out of memory");
    teacher->server = server;
    teacher->lock_file = -1;
    pthread_mutex_init(&teacher->lock, NULL);
    pthread_cond_init(&teacher->changed, NULL);
    const weft_status status = open_state(teacher, o->state);
    if (status == WEFT_OK)
        teacher->has_thread = pthread_create(&teacher->thread, NULL, run, teacher) == 0;
    return status != WEFT_OK || teacher->has_thread
               ? status
               : weft_fail(WEFT_MEMORY, "serve: no thread for fine-tuning jobs");
}

void serve_teacher_stop(serve_server *server)
{
    serve_teacher *teacher = server->teacher;
    if (teacher == NULL || !teacher->has_thread)
        return;
    pthread_mutex_lock(&teacher->lock);
    teacher->stopping = true;
    if (teacher->cancel != NULL)
        weft_cancel_set(teacher->cancel);
    pthread_cond_signal(&teacher->changed);
    pthread_mutex_unlock(&teacher->lock);
    pthread_join(teacher->thread, NULL);
    teacher->has_thread = false;
}

void serve_teacher_free(serve_server *server)
{
    serve_teacher *teacher = server->teacher;
    if (teacher == NULL)
        return;
    serve_records_close(&teacher->files);
    serve_records_close(&teacher->jobs);
    if (teacher->lock_file >= 0)
        close(teacher->lock_file);
    pthread_mutex_destroy(&teacher->lock);
    pthread_cond_destroy(&teacher->changed);
    weft_free(teacher->runs);
    weft_free(teacher);
    server->teacher = NULL;
}
