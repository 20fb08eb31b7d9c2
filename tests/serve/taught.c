/* tests/serve/taught.c -- a server whose jobs train nothing, and a simulated disk. */
#include "tests/serve/taught.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/adapter.h"
#include "weft/array.h"
#include "weft/creation.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- the disk ------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;     /* files are not written until it is open again */
    bool broken;   /* they cannot be written */
    bool doubtful; /* they are written, but that is reported as failed */
    bool late;     /* something has waited for PATIENCE */
    int writers;   /* that wait */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool disk_wait(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    return pthread_cond_timedwait(&disk.changed, &disk.lock, &until) == 0;
}

void disk_set(bool shut, bool broken)
{
    pthread_mutex_lock(&disk.lock);
    disk.shut = shut;
    disk.broken = broken;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

void disk_set_doubtful(bool doubtful)
{
    pthread_mutex_lock(&disk.lock);
    disk.doubtful = doubtful;
    pthread_mutex_unlock(&disk.lock);
}

void disk_await_writer(void)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.writers == 0 && CHECK(disk_wait()))
        continue;
    pthread_mutex_unlock(&disk.lock);
}

void disk_open(void)
{
    pthread_mutex_lock(&disk.lock);
    CHECK(disk.shut && !disk.late);
    pthread_mutex_unlock(&disk.lock);
    disk_set(false, false);
}

/* Replaces the library's function, and calls it. */
weft_status weft_file_write(const char *path, const void *data, size_t size)
{
    weft_status (*real)(const char *, const void *, size_t) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "weft_file_write");
    pthread_mutex_lock(&disk.lock);
    disk.writers++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.shut && !disk.late)
        disk.late = !disk_wait() && disk.shut;
    disk.writers--;
    const bool broken = disk.broken, doubtful = disk.doubtful;
    pthread_mutex_unlock(&disk.lock);
    const weft_status status =
        broken ? weft_fail(WEFT_IO, "%s: the disk is broken", path) : real(path, data, size);
    return doubtful ? weft_fail(WEFT_IO, "%s: the disk is broken", path) : status;
}

/* ---- a job ---------------------------------------------------------------------------------- */

struct asked asked;
static atomic_int trained; /* jobs */

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

weft_status teach(void *context, const serve_task *task, weft_train_result *result)
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
    if (asked.shuts)
        disk_set(true, false);
    for (int i = 1; status == WEFT_OK && i <= asked.updates; i++)
        status = update(task, i);
    while (status == WEFT_OK && (asked.busy || asked.late) && !weft_cancel_is_set(task->cancel))
        status = evaluate();
    if (status == WEFT_OK && asked.saves)
        status = save(task);
    return asked.busy && status == WEFT_OK ? weft_fail(WEFT_CANCELLED, "stopped") : status;
}

serve_server *open_server(const char *state, const char *identity)
{
    return client_server((serve_options){.rows = 2,
                                         .state = state,
                                         .teach = teach,
                                         .identity = identity,
                                         .adapter_folder = state,
                                         .teach_latency = 0.05});
}

char *start_job(int port, const char *more)
{
    const int before = atomic_load(&trained);
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n"),
         *id = jobs_create(port, file, more);
    for (int i = 0; i < 100 * PATIENCE && atomic_load(&trained) == before; i++)
        client_pause(10);
    CHECK(atomic_load(&trained) > before);
    weft_free(file);
    return id;
}

char *train_model(int port, const char *more, json_object **job)
{
    char *file = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n");
    asked = (struct asked){.saves = true};
    char *id = jobs_create(port, file, more);
    *job = jobs_await(port, id);
    jobs_ended(*job, "succeeded");
    weft_free(file);
    return id;
}

void write_job(const char *state, const char *id, int created, const char *more)
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

void await_requests(int port, double before, int n)
{
    int polls = 0;
    double now;
    do {
        client_pause(5);
        now = client_metric(port, "requests_total");
    } while (now < before + n + ++polls && polls < 200 * PATIENCE);
    CHECK(now >= before + n + polls);
}
