/* train/run_folder.c -- what a run leaves in its folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "models/convert/convert.h"
#include "optim/optim.h"
#include "train/metrics.h"
#include "train/number.h"
#include "train/trainer.h"
#include "weft/version.h"

#define RUN_FILE "run.json"

struct weft__run {
    const weft_trainer *trainer;
    const weft__plan *plan;
    weft_dataset_info validation;
    int64_t batches;
    weft__metrics *metrics; /* NULL: there is no folder */
    int64_t saved;          /* the update that `last` is of; -1: none of this run */
};

static char *path_of(const weft__run *run, const char *name)
{
    return weft_format("%s/%s", run->trainer->o.folder, name);
}

/* ---- run.json ------------------------------------------------------------------------------- */

static void write_string(weft__text *t, const char *key, const char *value, const char *end)
{
    weft__text_format(t, "    \"%s\": ", key);
    weft__text_quote(t, value);
    weft__text_format(t, "%s\n", end);
}

static void write_number(weft__text *t, const char *key, double value, const char *end)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "    \"%s\": %s%s\n", key, weft__number(value, number), end);
}

static void write_model(weft__text *t, const weft_trainer *trainer)
{
    weft_module *tree = weft_model_module(trainer->model);
    weft__text_format(t, "  \"model\": {\n");
    write_string(t, "name", trainer->o.base_name, ",");
    write_string(t, "model_type", weft_model_family_of(trainer->model)->model_type, ",");
    write_number(t, "adapters", weft_nn_lora_count(tree), ",");
    write_number(t, "parameters", (double)weft_nn_count(tree, false), ",");
    write_number(t, "trainable", (double)weft_nn_count(tree, true), "");
    weft__text_format(t, "  },\n");
}

static void write_data(weft__text *t, const weft__run *run)
{
    weft__text_format(t, "  \"data\": {\n");
    write_string(t, "name", run->trainer->o.data_name, ",");
    write_number(t, "batches", (double)run->batches, ",");
    write_number(t, "validation_samples", (double)run->validation.samples, ",");
    write_number(t, "validation_targets", (double)run->validation.targets, "");
    weft__text_format(t, "  },\n");
}

/* The optimizer's name and what it uses of its own options. */
static void write_optimizer(weft__text *t, const weft_trainer *trainer)
{
    const optim_group *g = &trainer->optimizer->groups[0];
    write_string(t, "optimizer", g->type->name, ",");
    for (int i = 0; i < g->n_fields; i++) {
        const weft_field *f = &g->type->fields[i];
        const char *at = (const char *)g->options + f->offset;
        if (f->type == WEFT_FIELD_BOOL)
            weft__text_format(t, "    \"%s\": %s,\n", f->name,
                              *(const bool *)at ? "true" : "false");
        else if (f->type == WEFT_FIELD_INT)
            write_number(t, f->name, (double)*(const int64_t *)at, ",");
        else
            write_number(t, f->name, *(const double *)at, ",");
    }
}

static void write_options(weft__text *t, const weft__run *run)
{
    const weft_trainer_options *o = &run->trainer->o;
    weft__text_format(t, "  \"options\": {\n");
    write_number(t, "steps", (double)run->plan->steps, ",");
    write_number(t, "accumulate", (double)o->accumulate, ",");
    write_number(t, "lr", o->lr, ",");
    write_optimizer(t, run->trainer);
    write_string(t, "schedule", o->schedule, ",");
    write_number(t, "warmup", (double)run->plan->warmup, ",");
    write_number(t, "clip", o->clip, ",");
    weft__text_format(t, "    \"checkpoint\": %s,\n", o->checkpoint ? "true" : "false");
    write_number(t, "seed", (double)o->seed, "");
    weft__text_format(t, "  },\n");
}

static void write_result(weft__text *t, const weft_train_result *r)
{
    weft__text_format(t, "  \"result\": {\n");
    write_number(t, "steps", (double)r->steps, ",");
    write_number(t, "skipped", (double)r->skipped, ",");
    write_number(t, "loss", r->loss, ",");
    write_number(t, "first_validation", r->first_validation, ",");
    write_number(t, "last_validation", r->last_validation, ",");
    write_number(t, "best_validation", r->best_validation, ",");
    write_number(t, "best_step", (double)r->best_step, ",");
    write_number(t, "tokens", (double)r->tokens, ",");
    write_number(t, "seconds", r->seconds, ",");
    write_number(t, "training_seconds", r->training_seconds, ",");
    write_number(t, "peak_memory", (double)r->peak_memory, "");
    weft__text_format(t, "  },\n");
}

/* Over the old text, in the blocks that it has: a full disk refuses a new file, but not this. */
static weft_status write_in_place(const char *path, const weft__text *t)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool done = file >= 0 && pwrite(file, t->at, t->n, 0) == (ssize_t)t->n &&
                      ftruncate(file, (off_t)t->n) == 0 && fsync(file) == 0;
    const int error = errno;
    if (file >= 0)
        close(file);
    return done ? WEFT_OK : weft_fail(WEFT_IO, "%s: write: %s", path, strerror(error));
}

static weft_status write_run(const weft__run *run, const weft_train_result *result,
                             const char *state, const char *message)
{
    weft__text t = {0};
    char *path = path_of(run, RUN_FILE);
    weft__text_format(&t, "{\n  \"weft\": \"%s\",\n", WEFT_VERSION);
    write_model(&t, run->trainer);
    write_data(&t, run);
    write_options(&t, run);
    if (result)
        write_result(&t, result);
    if (message) {
        weft__text_format(&t, "  \"message\": ");
        weft__text_quote(&t, message);
        weft__text_format(&t, ",\n");
    }
    weft__text_format(&t, "  \"state\": \"%s\"\n}\n", state);
    weft_status status = WEFT_OK;
    if (path == NULL || t.failed)
        status = weft__out_of_memory("training", "the run's records");
    else if (weft_file_write(path, t.at, t.n) != WEFT_OK)
        status = write_in_place(path, &t);
    weft_free(path);
    weft_free(t.at);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool weft_run_exists(const char *folder)
{
    static const char *const names[] = {RUN_FILE, "metrics.jsonl"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = weft_format("%s/%s", folder, names[i]);
        found = found || (path && weft__exists(path));
        weft_free(path);
    }
    return found;
}

/* Deletes what an earlier run wrote, run.json last: until then the folder is known to have one. */
static weft_status remove_run(const weft__run *run)
{
    static const char *const names[] = {"last", "best", "loss.svg", "metrics.jsonl", RUN_FILE};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof names / sizeof *names; i++) {
        char *path = path_of(run, names[i]);
        if (path == NULL)
            status = weft__out_of_memory("training", "the run's records");
        else if (weft__exists(path))
            status = weft__folder_remove(path);
        weft_free(path);
    }
    return status;
}

static weft_status open_folder(weft__run *run)
{
    const weft_trainer_options *o = &run->trainer->o;
    const bool exists = weft_run_exists(o->folder);
    weft_status status = WEFT_OK;
    if (exists && !o->overwrite)
        return weft_fail(WEFT_INVALID, "%s: it has a run already, which only `overwrite` deletes",
                         o->folder);
    if (exists)
        status = remove_run(run);
    if (status == WEFT_OK)
        status = weft_folder_make(o->folder);
    if (status == WEFT_OK)
        status = write_run(run, NULL, "running", NULL);
    return status == WEFT_OK ? weft__metrics_open(o->folder, &run->metrics) : status;
}

weft_status weft__run_open(const weft_trainer *trainer, const weft__plan *plan,
                           const weft_batches *batches, const weft_dataset *validation,
                           weft__run **out)
{
    *out = NULL;
    weft__run *run = weft_calloc(1, sizeof *run);
    if (run == NULL)
        return weft__out_of_memory("training", "the run's records");
    run->trainer = trainer;
    run->plan = plan;
    run->batches = weft_batches_count(batches);
    run->saved = -1;
    if (validation)
        run->validation = weft_dataset_info_of(validation);
    const weft_status status = trainer->o.folder ? open_folder(run) : WEFT_OK;
    if (status == WEFT_OK)
        *out = run;
    else
        weft__run_free(run);
    return status;
}

weft_status weft__run_add(weft__run *run, const weft_train_report *report)
{
    return run->metrics ? weft__metrics_add(run->metrics, report) : WEFT_OK;
}

weft_status weft__run_draw(const weft__run *run)
{
    return run->metrics ? weft__metrics_draw(run->metrics) : WEFT_OK;
}

static weft_status save(const weft__run *run, const char *name)
{
    weft_model *model = run->trainer->model;
    char *path = path_of(run, name);
    if (path == NULL)
        return weft__out_of_memory("training", "the run's records");
    const weft_status status = weft_nn_lora_count(weft_model_module(model)) > 0
                                   ? weft_adapter_save(model, path, run->trainer->o.base_name)
                                   : weft_model_save(model, path);
    weft_free(path);
    return status;
}

weft_status weft__run_save_best(weft__run *run)
{
    return run->metrics ? save(run, "best") : WEFT_OK;
}

weft_status weft__run_save(weft__run *run, int64_t step)
{
    if (run->metrics == NULL || run->saved == step)
        return WEFT_OK;
    const weft_status status = save(run, "last");
    if (status == WEFT_OK)
        run->saved = step;
    return status;
}

/* Adds to the message what was saved before. */
static weft_status fail_save(const weft__run *run, weft_status status)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", weft_error_message());
    if (run->saved < 0)
        return weft_fail(status, "%s; nothing was saved before", why);
    return weft_fail(status, "%s; %s/last is that of update %lld", why, run->trainer->o.folder,
                     (long long)run->saved);
}

/* A reason for the end of the run stands; what failed after it is added. */
static weft_status add_failure(weft_status status, weft_status later, const char *why)
{
    if (later == WEFT_OK || status == WEFT_OK || status == WEFT_CANCELLED)
        return later == WEFT_OK ? status : later;
    char also[1024];
    snprintf(also, sizeof also, "%s", weft_error_message());
    return weft_fail(status, "%s; and saving failed: %s", why, also);
}

weft_status weft__run_finish(weft__run *run, const weft_train_result *result, weft_status status)
{
    if (run->metrics == NULL)
        return status;
    char why[1024];
    snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
    weft_status saved = weft__run_save(run, result->steps);
    if (saved != WEFT_OK)
        saved = fail_save(run, saved);
    else
        saved = weft__metrics_finish(run->metrics);
    status = add_failure(status, saved, why);
    const char *state = status == WEFT_OK          ? "finished"
                        : status == WEFT_CANCELLED ? "stopped"
                                                   : "failed";
    if (status == WEFT_OK)
        return write_run(run, result, state, NULL);
    if (saved != WEFT_OK)
        snprintf(why, sizeof why, "%s", weft_error_message());
    const weft_status written = write_run(run, result, state, why);
    return written == WEFT_OK ? weft_fail(status, "%s", why) : add_failure(status, written, why);
}

void weft__run_free(weft__run *run)
{
    if (run == NULL)
        return;
    weft__metrics_free(run->metrics);
    weft_free(run);
}
