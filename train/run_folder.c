/* train/run_folder.c -- what a run leaves in its folder. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/number.h"
#include "train/trainer.h"
#include "weft/version.h"

/* Points of a curve. */
typedef struct series {
    double *x, *y;
    int n, capacity;
} series;

struct weft__run {
    const weft_trainer *trainer;
    const weft_schedule *schedule;
    weft_dataset_info validation;
    int64_t batches;
    int metrics;  /* file descriptor; -1: none */
    off_t length; /* of its whole lines */
    series training, validated;
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

static void write_options(weft__text *t, const weft__run *run)
{
    const weft_trainer_options *o = &run->trainer->o;
    weft__text_format(t, "  \"options\": {\n");
    write_number(t, "steps", (double)run->schedule->steps, ",");
    write_number(t, "accumulate", (double)o->accumulate, ",");
    write_number(t, "lr", o->adamw.lr, ",");
    write_number(t, "beta1", o->adamw.beta1, ",");
    write_number(t, "beta2", o->adamw.beta2, ",");
    write_number(t, "eps", o->adamw.eps, ",");
    write_number(t, "weight_decay", o->adamw.weight_decay, ",");
    write_string(t, "schedule", weft_schedule_name(o->schedule), ",");
    write_number(t, "warmup", (double)run->schedule->warmup, ",");
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
    write_number(t, "peak_memory", (double)r->peak_memory, "");
    weft__text_format(t, "  },\n");
}

static weft_status write_run(const weft__run *run, const weft_train_result *result,
                             const char *state)
{
    weft__text t = {0};
    char *path = path_of(run, "run.json");
    weft__text_format(&t, "{\n  \"weft\": \"%s\",\n", WEFT_VERSION);
    write_model(&t, run->trainer);
    write_data(&t, run);
    write_options(&t, run);
    if (result)
        write_result(&t, result);
    weft__text_format(&t, "  \"state\": ");
    weft__text_quote(&t, state);
    weft__text_format(&t, "\n}\n");
    const weft_status status = path == NULL || t.failed
                                   ? weft__out_of_memory("training", "the run's records")
                                   : weft_file_write(path, t.at, t.n);
    weft_free(path);
    weft_free(t.at);
    return status;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

static weft_status fail_metrics(const weft__run *run, const char *what)
{
    return weft_fail(WEFT_IO, "%s/metrics.jsonl: %s: %s", run->trainer->o.folder, what,
                     strerror(errno));
}

static weft_status open_metrics(weft__run *run)
{
    char *path = path_of(run, "metrics.jsonl");
    if (path == NULL)
        return weft__out_of_memory("training", "the run's records");
    run->metrics = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    weft_free(path);
    return run->metrics < 0 ? fail_metrics(run, "cannot be written") : WEFT_OK;
}

/* A line that does not fit on the disk is taken off again. */
static weft_status append_line(weft__run *run, const char *line, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = write(run->metrics, line + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const weft_status status = fail_metrics(run, "write");
            if (done > 0 && ftruncate(run->metrics, run->length) != 0)
                return fail_metrics(run, "write and truncate");
            return status;
        }
        done += (size_t)n;
    }
    run->length += (off_t)size;
    return WEFT_OK;
}

static void add_number(weft__text *t, const char *key, double value)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, ", \"%s\": %s", key, weft__number(value, number));
}

static weft_status add_metrics(weft__run *run, const weft_train_report *r)
{
    weft__text t = {0};
    weft__text_format(&t, "{\"step\": %lld", (long long)r->step);
    add_number(&t, "loss", r->loss);
    add_number(&t, "grad_norm", r->grad_norm);
    add_number(&t, "lr", r->lr);
    weft__text_format(&t, ", \"applied\": %s, \"tokens\": %lld, \"total_tokens\": %lld",
                      r->applied ? "true" : "false", (long long)r->tokens,
                      (long long)r->total_tokens);
    add_number(&t, "epoch", r->epoch);
    add_number(&t, "tokens_per_second", r->tokens_per_second);
    add_number(&t, "seconds", r->seconds);
    weft__text_format(&t, ", \"peak_memory\": %lld", (long long)r->peak_memory);
    if (!isnan(r->validation_loss))
        add_number(&t, "validation_loss", r->validation_loss);
    weft__text_format(&t, "}\n");
    const weft_status status = t.failed ? weft__out_of_memory("training", "the run's records")
                                        : append_line(run, t.at, t.n);
    weft_free(t.at);
    return status;
}

/* ---- curves --------------------------------------------------------------------------------- */

static bool add_point(series *s, double x, double y)
{
    if (s->n == s->capacity) {
        const int capacity = 2 * s->capacity + 256;
        double *xs = weft_realloc(s->x, (size_t)capacity * sizeof *xs);
        if (xs)
            s->x = xs;
        double *ys = weft_realloc(s->y, (size_t)capacity * sizeof *ys);
        if (ys)
            s->y = ys;
        if (xs == NULL || ys == NULL)
            return false;
        s->capacity = capacity;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
    return true;
}

weft_status weft__run_draw(const weft__run *run)
{
    if (run->metrics < 0)
        return WEFT_OK;
    char *path = path_of(run, "loss.svg");
    if (path == NULL)
        return weft__out_of_memory("training", "the run's records");
    const series *t = &run->training, *v = &run->validated;
    const weft_curve curves[] = {
        {.name = "training", .x = t->x, .y = t->y, .n = t->n},
        {.name = "validation", .x = v->x, .y = v->y, .n = v->n, .dots = true},
    };
    const weft_status status =
        weft_curves_save(path, "Loss (nats per token)", "update", curves, v->n > 0 ? 2 : 1);
    weft_free(path);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

weft_status weft__run_open(const weft_trainer *trainer, const weft_schedule *schedule,
                           const weft_batches *batches, const weft_dataset *validation,
                           weft__run **out)
{
    *out = NULL;
    weft__run *run = weft_calloc(1, sizeof *run);
    if (run == NULL)
        return weft__out_of_memory("training", "the run's records");
    run->trainer = trainer;
    run->schedule = schedule;
    run->batches = weft_batches_count(batches);
    run->metrics = -1;
    if (validation)
        run->validation = weft_dataset_info_of(validation);
    weft_status status = WEFT_OK;
    if (trainer->o.folder) {
        status = weft_folder_make(trainer->o.folder);
        if (status == WEFT_OK)
            status = write_run(run, NULL, "running");
        if (status == WEFT_OK)
            status = open_metrics(run);
    }
    if (status == WEFT_OK)
        *out = run;
    else
        weft__run_free(run);
    return status;
}

weft_status weft__run_add(weft__run *run, const weft_train_report *report)
{
    const double step = (double)report->step, loss = report->loss;
    const double validation = report->validation_loss;
    const bool measured = !isnan(validation);
    if ((report->step > 0 && !add_point(&run->training, step, loss)) ||
        (measured && !add_point(&run->validated, step, validation)))
        return weft__out_of_memory("training", "the run's records");
    return run->metrics >= 0 && report->step > 0 ? add_metrics(run, report) : WEFT_OK;
}

weft_status weft__run_save(weft__run *run, const char *name)
{
    if (run->metrics < 0)
        return WEFT_OK;
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

weft_status weft__run_finish(weft__run *run, const weft_train_result *result, const char *ended)
{
    if (run->metrics < 0)
        return WEFT_OK;
    const weft_status status = weft__run_draw(run);
    return status == WEFT_OK ? write_run(run, result, ended) : status;
}

void weft__run_free(weft__run *run)
{
    if (run == NULL)
        return;
    if (run->metrics >= 0)
        close(run->metrics);
    weft_free(run->training.x);
    weft_free(run->training.y);
    weft_free(run->validated.x);
    weft_free(run->validated.y);
    weft_free(run);
}
