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

enum {
    WORDS = 128,
    STEP = 64,
    MESSAGE = 1024,
    DEATHS = 3 /* of the process, since its last checkpoint, after which a job is not started */
};

static const int64_t QUOTA = (int64_t)1 << 30;

/* A job in progress. */
typedef struct task {
    serve_teacher *teacher;
    json_object *record;
    const char *id;
    char checkpoint[STEP]; /* the folder to which `last` points */
    int64_t step;
    bool entered;
} task;

/* ---- the model of a job --------------------------------------------------------------------- */

/* Checks that a job was created for the model that is served. */
static weft_status check_base(const serve_server *server, json_object *record)
{
    const char *base = serve_plain(json_object_object_get(record, "base")),
               *now = server->options.identity;
    if (base == NULL || now == NULL || strcmp(base, now) == 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "the job was created for the model \"%s\" with the hash %s, and the server "
                     "has a model with the hash %s",
                     serve_record_text(record, "model"), weft_printable(base), now);
}

weft_status serve_job_adapter(serve_teacher *teacher, const char *id, char **path)
{
    pthread_mutex_lock(&teacher->lock);
    const weft_status status = check_base(teacher->server, serve_record_find(&teacher->jobs, id));
    pthread_mutex_unlock(&teacher->lock);
    *path = NULL;
    if (status != WEFT_OK)
        return status;
    *path = weft_format("%s/%s/best", teacher->runs, id);
    if (*path == NULL || access(*path, F_OK) == 0)
        return *path != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for a path");
    weft_free(*path);
    *path = weft_format("%s/%s/last", teacher->runs, id);
    return *path != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for a path");
}

static weft_status read_adapter(serve_teacher *teacher, const char *id, const char *name,
                                serve_adapter **out)
{
    char *path;
    weft_status status = serve_job_adapter(teacher, id, &path);
    if (status == WEFT_OK)
        status = serve_adapter_read(teacher->server, name, path, out);
    weft_free(path);
    return status;
}

/* Finds the i-th job, if its model is to be served; one that cannot be is logged. */
static bool find_model(serve_teacher *teacher, size_t i, char id[STEP], char name[129])
{
    pthread_mutex_lock(&teacher->lock);
    json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
    const char *model = serve_record_number(record, "unloaded") ? NULL : serve_job_model(record);
    const bool fits = model != NULL && check_base(teacher->server, record) == WEFT_OK;
    snprintf(id, STEP, "%s", serve_record_id(record));
    snprintf(name, 129, "%s", model != NULL ? model : "");
    pthread_mutex_unlock(&teacher->lock);
    if (model != NULL && !fits)
        weft_log_message(WEFT_LOG_WARNING, "serve: %s is not served: %s", name,
                         weft_error_message());
    return fits;
}

void serve_teacher_load(serve_server *server)
{
    serve_teacher *teacher = server->teacher;
    char id[STEP], name[129];
    serve_adapter *adapter;
    /* Routes that change the list are refused until the model is loaded. */
    const size_t n = teacher != NULL ? json_object_array_length(teacher->jobs.list) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!find_model(teacher, i, id, name))
            continue;
        if (read_adapter(teacher, id, name, &adapter) == WEFT_OK)
            serve_adapter_list(server, adapter);
        else
            weft_log_message(WEFT_LOG_WARNING, "serve: job %s: %s", id, weft_error_message());
    }
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

static void store(serve_teacher *teacher, const char *id)
{
    if (serve_record_store(teacher, &teacher->jobs, id) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "serve: job %s: %s", id, weft_error_message());
}

/* Reads the name of the newest checkpoint; "": none. */
static void read_checkpoint(const task *t, char out[STEP])
{
    char *last = weft_format("%s/%s/last", t->teacher->runs, t->id);
    const ssize_t n = last != NULL ? readlink(last, out, STEP - 1) : -1;
    weft_free(last);
    out[n > 0 ? n : 0] = '\0';
}

/* Logs a checkpoint that has been saved since the last call; whether there is one. No lock is held.
 */
static bool log_checkpoint(task *t)
{
    char name[STEP];
    read_checkpoint(t, name);
    if (name[0] == '\0' || strcmp(name, t->checkpoint) == 0)
        return false;
    memcpy(t->checkpoint, name, sizeof name);
    pthread_mutex_lock(&t->teacher->lock);
    serve_job_log(t->record, "info", t->step, "Checkpoint %s was saved", name);
    serve_record_set(t->record, "deaths", 0);
    pthread_mutex_unlock(&t->teacher->lock);
    return true;
}

/* weft_train_callback */
static bool report(void *context, const weft_train_report *r)
{
    task *t = context;
    serve_turns_rest(t->teacher->server);
    if (log_checkpoint(t))
        store(t->teacher, t->id);
    t->step = r->step;
    pthread_mutex_lock(&t->teacher->lock);
    serve_record_set(t->record, "step", r->step);
    serve_record_set(t->record, "steps", r->steps);
    if (r->step > 0 && serve_job_is(t->record, "running"))
        serve_record_set(json_object_object_get(t->record, "object"), "estimated_finish",
                         (int64_t)time(NULL) + (int64_t)r->remaining);
    pthread_mutex_unlock(&t->teacher->lock);
    serve_turns_resume(t->teacher->server);
    return true;
}

/* ---- a job ---------------------------------------------------------------------------------- */

/* Replaces a text in a message of MESSAGE bytes; whether it was there. */
static bool replace(char *message, const char *from, const char *to)
{
    bool found = false;
    for (char *at = *from ? strstr(message, from) : NULL; at != NULL; at = strstr(at, from)) {
        char *rest = weft_strdup(at + strlen(from));
        if (rest == NULL)
            break;
        const size_t room = MESSAGE - (size_t)(at - message);
        snprintf(at, room, "%s%s", to, rest);
        weft_free(rest);
        at += strlen(to) < room ? strlen(to) : room - 1;
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
    const char *of =
        replace_file(teacher, serve_record_text(t->record, "training_file"), message)
            ? "training_file"
        : replace_file(teacher, serve_record_text(t->record, "validation_file"), message)
            ? "validation_file"
            : NULL;
    (void)replace(message, teacher->runs, "runs");
    (void)replace(message, teacher->files.folder, "files");
    serve_job_fail(t->record,
                   status == WEFT_MEMORY ? "insufficient_memory"
                   : of != NULL          ? "invalid_file"
                                         : "training_failed",
                   message, of);
}

/* Records how a job has ended; whether its adapter is to be served. The lock is held. */
static bool end(task *t, weft_status status, const char *name, const weft_train_result *result)
{
    char message[MESSAGE];
    json_object *object = json_object_object_get(t->record, "object");
    snprintf(message, sizeof message, "%s", status == WEFT_OK ? "" : weft_error_message());
    serve_record_set(object, "trained_tokens", result->tokens);
    if (!serve_job_is(t->record, "running")) /* cancelled meanwhile */
        return false;
    if (status == WEFT_CANCELLED) { /* the server ends */
        serve_job_log(t->record, "info", t->step,
                      "The server stopped after update %lld; the job continues when it is started",
                      (long long)t->step);
        serve_job_set(t->record, "queued");
    } else if (status == WEFT_OK) {
        json_object_object_add(object, "fine_tuned_model", json_object_new_string(name));
        serve_job_set(t->record, "succeeded");
        serve_job_log(t->record, "info", t->step, "New fine-tuned model created: %s", name);
        serve_job_log(t->record, "info", t->step, "The job has successfully completed");
    } else {
        fail(t, status, message);
    }
    return status == WEFT_OK;
}

/* The options of a job's run: the words of its record, which live as long as that, and paths. */
typedef struct job_words {
    const char *at[WORDS];
    size_t n;
    char *training, *validation, *folder;
} job_words;

static weft_status make_words(const serve_teacher *teacher, json_object *record, job_words *out)
{
    json_object *words = json_object_object_get(record, "words");
    const char *training = serve_record_text(record, "training_file"),
               *validation = serve_record_text(record, "validation_file");
    *out = (job_words){.training = serve_file_path(teacher, training),
                       .validation = validation ? serve_file_path(teacher, validation) : NULL,
                       .folder = serve_job_folder(teacher, serve_record_id(record))};
    if (out->training == NULL || out->folder == NULL ||
        (validation != NULL && out->validation == NULL))
        return weft_fail(WEFT_MEMORY, "out of memory for a job");
    const char *const paths[] = {"--data",
                                 out->training,
                                 validation ? "--val-data" : "--val-split",
                                 validation ? out->validation : "0",
                                 "--out",
                                 out->folder,
                                 "--resume"};
    const size_t n_paths = sizeof paths / sizeof *paths;
    for (size_t i = 0; i < json_object_array_length(words) && out->n + n_paths < WORDS; i++)
        out->at[out->n++] = json_object_get_string(json_object_array_get_idx(words, i));
    for (size_t i = 0; i < n_paths; i++)
        out->at[out->n++] = paths[i];
    return WEFT_OK;
}

static void free_words(job_words *words)
{
    weft_free(words->training);
    weft_free(words->validation);
    weft_free(words->folder);
}

/* SUFFIX-ID, with the first letters of the job's id. */
static void name_model(json_object *record, char *out, size_t size)
{
    const char *suffix = serve_record_text(record, "user_provided_suffix");
    snprintf(out, size, "%s-%.8s", suffix != NULL ? suffix : "ft",
             serve_record_id(record) + strlen("ftjob-"));
}

/* Trains, and reads the adapter while the model is this thread's. */
static weft_status teach(task *t, const job_words *words, const weft_cancel *cancel,
                         const char *name, weft_train_result *result, serve_adapter **adapter)
{
    serve_server *server = t->teacher->server;
    const serve_task asked = {.model = server->loaded.model,
                              .words = words->at,
                              .n_words = words->n,
                              .cancel = cancel,
                              .callback = report,
                              .context = t,
                              .enter = enter,
                              .adapt = adapt,
                              .reserve = reserve};
    weft_scope_open();
    weft_status status = server->options.teach(server->options.context, &asked, result);
    if (t->entered) {
        char why[1024];
        snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
        serve_turns_free_adapter(server);
        if (status == WEFT_OK)
            status = read_adapter(t->teacher, t->id, name, adapter);
        else
            (void)weft_fail(status, "%s", why);
    }
    weft_scope_close(NULL);
    return status;
}

static void run_job(serve_teacher *teacher, json_object *record, const weft_cancel *cancel)
{
    serve_server *server = teacher->server;
    job_words words;
    char name[128];
    serve_adapter *adapter = NULL;
    task t = {.teacher = teacher, .record = record, .id = serve_record_id(record)};
    weft_train_result result = {0};
    pthread_mutex_lock(&teacher->lock);
    weft_status status = check_base(server, record);
    if (status == WEFT_OK)
        status = make_words(teacher, record, &words);
    else
        words = (job_words){.n = 0};
    t.step = serve_record_number(record, "step");
    name_model(record, name, sizeof name);
    pthread_mutex_unlock(&teacher->lock);
    read_checkpoint(&t, t.checkpoint);
    if (status == WEFT_OK)
        status = teach(&t, &words, cancel, name, &result, &adapter);
    (void)log_checkpoint(&t);
    pthread_mutex_lock(&teacher->lock);
    const bool served = end(&t, status, name, &result);
    if (served && adapter != NULL)
        serve_adapter_list(server, adapter);
    pthread_mutex_unlock(&teacher->lock);
    if (!served)
        serve_adapter_free(server, adapter);
    if (t.entered)
        serve_turns_leave(server);
    store(teacher, t.id);
    free_words(&words);
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
        if (!serve_job_has_ended(record))
            return record;
    }
    return NULL;
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
        if (cancel == NULL) {
            serve_job_fail(record, "insufficient_memory", "out of memory", NULL);
            continue;
        }
        const bool again = json_object_object_get(record, "started_at") != NULL;
        if (!again)
            serve_record_set(record, "started_at", (int64_t)time(NULL));
        serve_job_set(record, "running");
        serve_job_log(record, "info", serve_record_number(record, "step"),
                      again ? "The job continues" : "The job has started");
        teacher->current = record;
        pthread_mutex_unlock(&teacher->lock);
        store(teacher, serve_record_id(record));
        run_job(teacher, record, cancel);
        pthread_mutex_lock(&teacher->lock);
        teacher->current = NULL;
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

/* Counts that the process has ended while a job was running. One that makes it end again and again
 * is not started once more. */
static void count_deaths(serve_teacher *teacher)
{
    char message[256];
    for (size_t i = 0; i < json_object_array_length(teacher->jobs.list); i++) {
        json_object *record = json_object_array_get_idx(teacher->jobs.list, i);
        const int64_t deaths = serve_record_number(record, "deaths") + 1;
        if (!serve_job_is(record, "running"))
            continue;
        serve_record_set(record, "deaths", deaths);
        snprintf(message, sizeof message,
                 "the server was killed or crashed %lld times while the job was running, after "
                 "update %lld, without a checkpoint in between: is there enough memory?",
                 (long long)deaths, (long long)serve_record_number(record, "step"));
        if (deaths >= DEATHS)
            serve_job_fail(record, "server_failed", message, NULL);
        store(teacher, serve_record_id(record));
    }
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
    pthread_mutex_init(&teacher->disk, NULL);
    pthread_mutex_init(&teacher->lock, NULL);
    pthread_cond_init(&teacher->changed, NULL);
    const weft_status status = open_state(teacher, o->state);
    if (status == WEFT_OK)
        count_deaths(teacher);
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
    serve_records_flush(teacher, &teacher->jobs);
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
    pthread_mutex_destroy(&teacher->disk);
    pthread_mutex_destroy(&teacher->lock);
    pthread_cond_destroy(&teacher->changed);
    weft_free(teacher->runs);
    weft_free(teacher);
    server->teacher = NULL;
}
