/* train/run/folder.c -- the files in a run's folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/text.h"
#include "core/list.h"
#include "models/convert/convert.h"
#include "optim/optim.h"
#include "train/parallel/parallel.h"
#include "train/rollout.h"
#include "train/run/checkpoint.h"
#include "train/run/metrics.h"
#include "train/run/number.h"
#include "train/run/place.h"
#include "train/run/settings.h"
#include "train/trainer.h"
#include "weft/tool/run.h"
#include "weft/version.h"

struct weft__run {
    weft_trainer *trainer;
    const weft__plan *plan;
    weft_dataset_info validation;
    int64_t batches;
    weft__identity identity;
    char *sources;          /* members of "data" in run.json */
    int lock;               /* descriptor of the locked folder; -1: none */
    weft__metrics *metrics; /* NULL: the run has no folder */
    weft__folder made;      /* the folder, if this run is its first */
    int64_t saved;          /* update of the newest checkpoint; -1: none */
};

static char *path_of(const weft__run *run, const char *name)
{
    return weft_format("%s/%s", run->trainer->o.folder, name);
}

/* ---- run.json ------------------------------------------------------------------------------- */

static void write_flag(weft__text *t, const char *key, bool value, const char *end)
{
    weft__text_format(t, "    \"%s\": %s%s\n", key, value ? "true" : "false", end);
}

static void write_model(weft__text *t, const weft_trainer *trainer)
{
    weft_module *tree = weft_model_module(trainer->model);
    weft__text_format(t, "  \"model\": {\n");
    weft__write_string(t, "name", trainer->o.base_name, ",");
    weft__write_string(t, "model_type", weft_model_family_of(trainer->model)->model_type, ",");
    weft__write_number(t, "adapters", weft_nn_lora_count(tree), ",");
    weft__write_number(t, "parameters", (double)weft_nn_count(tree, false), ",");
    weft__write_number(t, "trainable", (double)weft_nn_count(tree, true), ",");
    const bool gguf = weft_model_check_gguf(trainer->model) == WEFT_OK;
    write_flag(t, "gguf", gguf, ",");
    write_flag(t, "gguf_adapter", gguf && weft_adapter_check_gguf(trainer->model) == WEFT_OK, ",");
    write_flag(t, "mlx", weft_config_has(weft_model_config(trainer->model), "quantization"), "");
    weft__text_format(t, "  },\n");
}

/* Writes {"path": ..., "weight": ..., "hash": ...}; without the weight unless `weighted`. */
static void write_source(weft__text *t, const weft_data_source *source, bool weighted)
{
    const double weight = source->weight > 0 ? source->weight : 1;
    char hash[WEFT__HASH_TEXT], number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "{\"path\": ");
    weft__text_quote(t, source->path);
    if (weighted)
        weft__text_format(t, ", \"weight\": %s", weft__number(weight, number));
    if (weft__identity_of_data(source, hash))
        weft__text_format(t, ", \"hash\": \"%s\"", hash);
    weft__text_format(t, "}");
}

/* Hashes the sources once, at the start: files may change during the run. */
static weft_status describe_sources(weft__run *run)
{
    const weft_trainer_options *o = &run->trainer->o;
    weft__text t = {0};
    weft__text_format(&t, "    \"sources\": [");
    for (int i = 0; i < o->n_sources; i++) {
        weft__text_format(&t, i > 0 ? ", " : "");
        write_source(&t, &o->sources[i], true);
    }
    weft__text_format(&t, "],\n");
    if (o->validation_source) {
        weft__text_format(&t, "    \"validation_source\": ");
        write_source(&t, o->validation_source, false);
        weft__text_format(&t, ",\n");
    }
    run->sources = t.at;
    return t.failed ? weft__out_of_memory("training", "the run's records") : WEFT_OK;
}

static void write_data(weft__text *t, const weft__run *run)
{
    weft__text_format(t, "  \"data\": {\n");
    weft__write_string(t, "name", run->trainer->o.data_name, ",");
    weft__text_append(t, run->sources, strlen(run->sources));
    weft__write_number(t, "batches", (double)run->batches, ",");
    const weft_dataset_info *data = run->trainer->o.data;
    if (data) {
        weft__write_number(t, "samples", (double)data->samples, ",");
        weft__write_number(t, "conversations", (double)data->rendered, ",");
        if (data->examples == WEFT_EXAMPLES_PAIRS)
            weft__write_number(t, "pairs", (double)(data->samples / 2), ",");
        weft__write_number(t, "tokens", (double)data->tokens, ",");
        weft__write_number(t, "targets", (double)data->targets, ",");
        weft__write_number(t, "longest", (double)data->longest, ",");
        weft__write_number(t, "truncated", (double)data->truncated, ",");
        weft__write_number(t, "dropped", (double)data->dropped, ",");
    }
    weft__write_number(t, "validation_samples", (double)run->validation.samples, ",");
    if (run->validation.examples == WEFT_EXAMPLES_PAIRS)
        weft__write_number(t, "validation_pairs", (double)(run->validation.samples / 2), ",");
    weft__write_number(t, "validation_targets", (double)run->validation.targets, "");
    weft__text_format(t, "  },\n");
}

static bool has_rewards(const weft__run *run)
{
    return run->trainer->o.objective->examples == WEFT_EXAMPLES_SCORED;
}

/* `rewards`: the validation losses are minus mean rewards. */
static void write_result(weft__text *t, const weft_train_result *r, bool rewards)
{
    const double sign = rewards ? -1 : 1;
    weft__text_format(t, "  \"result\": {\n");
    weft__write_number(t, "steps", (double)r->steps, ",");
    weft__write_number(t, "skipped", (double)r->skipped, ",");
    weft__write_number(t, "loss", r->loss, ",");
    weft__write_number(t, rewards ? "first_validation_reward" : "first_validation",
                       sign * r->first_validation, ",");
    weft__write_number(t, rewards ? "last_validation_reward" : "last_validation",
                       sign * r->last_validation, ",");
    weft__write_number(t, rewards ? "best_validation_reward" : "best_validation",
                       sign * r->best_validation, ",");
    weft__write_number(t, "best_step", (double)r->best_step, ",");
    weft__write_number(t, "first_general", r->first_general, ",");
    weft__write_number(t, "last_general", r->last_general, ",");
    weft__write_number(t, "tokens", (double)r->tokens, ",");
    weft__write_number(t, "seconds", r->seconds, ",");
    weft__write_number(t, "training_seconds", r->training_seconds, ",");
    weft__write_number(t, "peak_memory", (double)r->peak_memory, "");
    weft__text_format(t, "  },\n");
}

/* Overwrites the file in place: a full disk refuses new files, but the blocks of this file are
 * already allocated. If the new text needs more blocks than are available, the old text is kept. */
static weft_status write_in_place(const char *path, const weft__text *t)
{
    struct stat info;
    int file;
    const weft_status status = weft__file_open(path, O_RDWR, &file);
    if (status != WEFT_OK)
        return status;
    if (fstat(file, &info) != 0) {
        const int error = errno;
        close(file);
        return weft_fail(WEFT_IO, "%s: write: %s", path, strerror(error));
    }
    weft__pause(WEFT_PAUSE_DISK);
    int error = posix_fallocate(file, 0, (off_t)t->n);
    if (error != 0)
        (void)!ftruncate(file, info.st_size);
    else if (pwrite(file, t->at, t->n, 0) != (ssize_t)t->n || ftruncate(file, (off_t)t->n) != 0 ||
             fsync(file) != 0)
        error = errno;
    close(file);
    weft__pause(WEFT_PAUSE_DISK_DONE);
    return error == 0 ? WEFT_OK : weft_fail(WEFT_IO, "%s: write: %s", path, strerror(error));
}

static weft_status write_run(const weft__run *run, const weft_train_result *result,
                             const char *state, const char *message)
{
    weft__text t = {0};
    char *path = path_of(run, WEFT__RUN_FILE);
    weft__text_format(&t, "{\n  \"weft\": \"%s\",\n", WEFT_VERSION);
    write_model(&t, run->trainer);
    write_data(&t, run);
    weft__text_append(&t, run->identity.settings, strlen(run->identity.settings));
    weft__identity now = run->identity; /* the rest is in checkpoints */
    now.device = NULL;
    now.samples = NULL;
    now.contents = NULL;
    now.settings = NULL;
    weft__text_format(&t, "  \"identity\": {");
    weft__identity_write(&t, &now);
    weft__text_format(&t, "\"version\": 1},\n");
    if (result)
        write_result(&t, result, has_rewards(run));
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

/* ---- opening and closing -------------------------------------------------------------------- */

static weft_status add_word(const weft__json *item, void *context)
{
    weft_run_words *out = context;
    const char *word;
    const weft_status status = weft__json_as_string(item, &word, NULL);
    if (status != WEFT_OK)
        return status;
    char *copy = weft__list_more(out->at, out->n) ? weft_strdup(word) : NULL;
    if (copy == NULL)
        return weft__out_of_memory("run", "its command");
    out->at[out->n++] = copy;
    return WEFT_OK;
}

weft_status weft_run_command(const char *folder, weft_run_words *out)
{
    *out = (weft_run_words){.n = 0};
    char *path = weft_format("%s/" WEFT__RUN_FILE, folder);
    if (path == NULL)
        return weft__out_of_memory("run", "its command");
    weft__json_doc doc = {.root = NULL};
    weft_status status = weft__json_read(path, &doc);
    if (status == WEFT_OK) {
        const weft__json root = weft__json_root(&doc);
        status = weft__json_each(&root, "command", add_word, out);
    }
    if (status != WEFT_OK)
        weft_run_words_free(out);
    weft__json_free(&doc);
    weft_free(path);
    return status;
}

void weft_run_words_free(weft_run_words *words)
{
    for (int i = 0; i < words->n; i++)
        weft_free(words->at[i]);
    weft_free(words->at);
    *words = (weft_run_words){.n = 0};
}

/* Permits a run without a checkpoint to start again, as after a kill before the first one. Refuses
 * if `last` exists without a readable checkpoint, as runs of other versions may have, so that its
 * weights are not lost. */
static weft_status check_beginning(const weft__run *run)
{
    char *last = path_of(run, "last"), *path = path_of(run, WEFT__RUN_FILE);
    weft__json_doc doc = {.root = NULL};
    weft_status status = WEFT_OK;
    if (last == NULL || path == NULL)
        status = weft__out_of_memory("training", "the run's records");
    else if (weft__exists(last))
        status = weft_fail(WEFT_INVALID,
                           "%s: it has weights in `last` but no checkpoint that can be read, so it "
                           "cannot be resumed",
                           run->trainer->o.folder);
    else if (weft__exists(path))
        status = weft__json_read(path, &doc);
    if (status == WEFT_OK && doc.root) {
        const weft__json root = weft__json_root(&doc);
        weft__json identity;
        status = weft__json_find(&root, "identity", &identity);
        if (status == WEFT_OK && identity.value)
            status = weft__identity_check(&run->identity, &identity);
    }
    weft__json_free(&doc);
    weft_free(last);
    weft_free(path);
    return status;
}

static weft_status resume(weft__run *run, weft__run_state *state)
{
    bool found;
    weft__run_clean(run->trainer->o.folder);
    const weft_status status = weft__checkpoint_load(run->trainer, &run->identity, state, &found);
    if (status != WEFT_OK)
        return status;
    if (!found)
        return check_beginning(run);
    if (state->result.steps > run->plan->steps)
        return weft_fail(WEFT_INVALID,
                         "%s: steps: the run has made %lld updates already: expected at least as "
                         "many, got %lld",
                         run->trainer->o.folder, (long long)state->result.steps,
                         (long long)run->plan->steps);
    run->saved = state->result.steps;
    return WEFT_OK;
}

/* Locks the folder, so that two runs cannot write to it. A run that was killed while it started a
 * program holds its lock until the program has begun, so this tries for a second. On file systems
 * without locks the folder is not locked. */
static weft_status lock_folder(weft__run *run)
{
    enum { TRIES = 20 };
    const struct timespec slice = {.tv_nsec = 50000000};
    const char *folder = run->trainer->o.folder;
    run->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked =
        run->lock >= 0 && flock(run->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    for (int i = 0; locked && i < TRIES; i++) {
        nanosleep(&slice, NULL);
        locked = flock(run->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    }
    if (locked)
        return weft_fail(WEFT_INVALID, "%s: another run is writing there", folder);
    return WEFT_OK;
}

/* Saves the reference log-probabilities of a dataset (may be NULL), unless a resumed run has the
 * file. If they cannot be saved, they are computed again when the run is resumed. */
static weft_status keep_reference(const weft__run *run, const char *name,
                                  const weft_dataset *dataset)
{
    if (dataset == NULL || weft_dataset_reference(dataset) == NULL)
        return WEFT_OK;
    char *path = path_of(run, name);
    if (path == NULL)
        return weft__out_of_memory("training", "the run's records");
    weft_status status = WEFT_OK;
    if (run->saved < 0 || !weft__exists(path))
        status = weft_dataset_save_reference(dataset, path);
    weft_free(path);
    if (status == WEFT_IO)
        weft_log_message(WEFT_LOG_WARNING, "%s; training continues", weft_error_message());
    return status == WEFT_IO ? WEFT_OK : status;
}

static weft_status open_records(weft__run *run, weft__run_state *state)
{
    const weft_trainer_options *o = &run->trainer->o;
    weft_status status = lock_folder(run);
    if (status == WEFT_OK)
        status = weft__run_check_place(o->folder);
    if (status != WEFT_OK)
        return status;
    const bool exists = weft_run_exists(o->folder);
    if (run->trainer->begin && *run->trainer->begin)
        status = weft__checkpoint_restore(run->trainer, &run->identity, run->trainer->begin, state);
    else if (exists && o->resume)
        status = resume(run, state);
    else if (exists && o->overwrite)
        status = weft__run_remove(o->folder);
    else if (exists)
        status = weft_fail(WEFT_INVALID, "%s: it has a run already: expected resume or overwrite",
                           o->folder);
    else /* a run may have been killed before it had any file */
        weft__run_clean(o->folder);
    if (status == WEFT_OK)
        status = write_run(run, NULL, "running", NULL);
    /* A run that is resumed at step 0 repeats the validation of step 0. */
    const int64_t kept = run->saved > 0 ? run->saved : -1;
    return status == WEFT_OK ? weft__metrics_open(o->folder, kept, has_rewards(run), &run->metrics)
                             : status;
}

/* Opens the run's folder. A folder that this creates is deleted on failure. */
static weft_status open_folder(weft__run *run, const weft_batches *batches,
                               const weft_dataset *validation, weft__run_state *state)
{
    weft__folder f;
    weft_status status = weft__folder_open(run->trainer->o.folder, &f);
    if (status == WEFT_OK)
        status = open_records(run, state);
    if (status == WEFT_OK)
        status = keep_reference(run, WEFT__REFERENCE_FILE, weft__batches_dataset(batches));
    if (status == WEFT_OK)
        status = keep_reference(run, WEFT__VALIDATION_REFERENCE_FILE, validation);
    if (status == WEFT_OK && run->saved < 0 && !run->trainer->o.resume)
        run->made = f;
    return status == WEFT_OK && run->made.path ? status : weft__folder_close(&f, status);
}

weft_status weft__run_open(weft_trainer *trainer, const weft__plan *plan,
                           const weft_batches *batches, const weft_dataset *validation,
                           weft__run_state *state, weft__run **out)
{
    *out = NULL;
    weft__run *run = weft_calloc(1, sizeof *run);
    if (run == NULL)
        return weft__out_of_memory("training", "the run's records");
    run->trainer = trainer;
    run->plan = plan;
    run->batches = weft_batches_count(batches);
    run->saved = run->lock = -1;
    if (validation)
        run->validation = weft_dataset_info_of(validation);
    weft_status status = WEFT_OK;
    if (trainer->o.folder) {
        status =
            weft__identity_of_run(trainer, plan, batches, trainer->begin == NULL, &run->identity);
        if (status == WEFT_OK)
            status = describe_sources(run);
        if (status == WEFT_OK)
            status = open_folder(run, batches, validation, state);
    }
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

weft_status weft__run_save_best(weft__run *run)
{
    if (run->metrics == NULL)
        return WEFT_OK;
    char *path = path_of(run, "best");
    const weft_status status = path ? weft__checkpoint_weights(run->trainer, path)
                                    : weft__out_of_memory("training", "the run's records");
    weft_free(path);
    return status;
}

/* Saves a checkpoint. On a full disk it deletes all older checkpoints but the newest one and tries
 * again. */
static weft_status save_or_free_space(const weft__run *run, const weft__run_state *state)
{
    const weft_trainer_options *o = &run->trainer->o;
    const weft_status status = weft__checkpoint_save(run->trainer, state, &run->identity, o->keep);
    if (status != WEFT_IO || run->saved < 0 || o->keep < 2)
        return status;
    weft__checkpoint_prune(o->folder, run->saved, 1);
    return weft__checkpoint_save(run->trainer, state, &run->identity, o->keep);
}

weft_status weft__run_save(weft__run *run, const weft__run_state *state)
{
    if (run->metrics == NULL || run->saved == state->result.steps)
        return WEFT_OK;
    weft__metrics_sync(run->metrics);
    const weft_status status = save_or_free_space(run, state);
    if (status == WEFT_OK)
        run->saved = state->result.steps;
    return status;
}

/* Saves only the weights, which need less space than a checkpoint. Returns whether it succeeded. */
static bool save_weights(const weft__run *run, int64_t step)
{
    char *path = weft_format("%s/" WEFT__WEIGHTS "%lld", run->trainer->o.folder, (long long)step);
    const bool saved = path && weft__checkpoint_weights(run->trainer, path) == WEFT_OK;
    weft_free(path);
    return saved;
}

/* Saves what there is space for, and fails with a message that names what was saved. */
static weft_status fail_save(const weft__run *run, int64_t step, weft_status status)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", weft_error_message());
    if (!run->trainer->torn && save_weights(run, step))
        return weft_fail(status, "%s; kept: the weights of update %lld in %s/" WEFT__WEIGHTS "%lld",
                         why, (long long)step, run->trainer->o.folder, (long long)step);
    if (run->saved < 0)
        return weft_fail(status, "%s; nothing was saved before", why);
    return weft_fail(status, "%s; kept: update %lld in %s/last, from which the run can be resumed",
                     why, (long long)run->saved, run->trainer->o.folder);
}

/* Combines the failure that ended the run with a later one. */
static weft_status add_failure(weft_status status, weft_status later, const char *why)
{
    if (later == WEFT_OK || status == WEFT_OK || status == WEFT_CANCELLED)
        return later == WEFT_OK ? status : later;
    char also[1024];
    snprintf(also, sizeof also, "%s", weft_error_message());
    return weft_fail(status, "%s; and saving failed: %s", why, also);
}

/* Deletes the files of a run that had no memory for its first update, so that it can begin again
 * with other options. */
static weft_status withdraw(weft__run *run, weft_status status, const char *why)
{
    weft__metrics_free(run->metrics);
    run->metrics = NULL;
    (void)weft__run_remove(run->trainer->o.folder);
    weft__folder_discard(&run->made);
    return weft_fail(status, "%s", why);
}

weft_status weft__run_finish(weft__run *run, const weft__run_state *state, weft_status status)
{
    const weft_train_result *result = &state->result;
    char why[1024];
    snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
    const bool begins_again = status == WEFT_MEMORY && result->steps == 0 && run->made.path;
    const bool wanted = run->metrics && run->saved != result->steps && !begins_again;
    weft_status saved = weft__group_collect_states(run->trainer, wanted);
    if (run->metrics == NULL)
        return status == WEFT_OK ? saved : weft_fail(status, "%s", why);
    if (begins_again)
        return withdraw(run, status, why);
    /* Among the updates on the same completions only the weights are saved: a run continues from
     * the last of such updates. */
    const bool among = result->steps % weft__rollout_iterations(run->trainer) != 0;
    if (saved == WEFT_OK && (!among || !save_weights(run, result->steps)))
        saved = weft__run_save(run, state);
    if (saved != WEFT_OK)
        saved = fail_save(run, result->steps, saved);
    else
        saved = weft__metrics_finish(run->metrics);
    status = add_failure(status, saved, why);
    const char *ended = status == WEFT_OK          ? "finished"
                        : status == WEFT_CANCELLED ? "stopped"
                                                   : "failed";
    if (status == WEFT_OK)
        return write_run(run, result, ended, NULL);
    if (saved != WEFT_OK)
        snprintf(why, sizeof why, "%s", weft_error_message());
    const weft_status written = write_run(run, result, ended, why);
    return written == WEFT_OK ? weft_fail(status, "%s", why) : add_failure(status, written, why);
}

void weft__run_free(weft__run *run)
{
    if (run == NULL)
        return;
    weft__metrics_free(run->metrics);
    (void)weft__folder_close(&run->made, WEFT_OK);
    weft_free(run->sources);
    weft__identity_free(&run->identity);
    if (run->lock >= 0)
        close(run->lock);
    weft_free(run);
}
