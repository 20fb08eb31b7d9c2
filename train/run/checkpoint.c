/* train/run/checkpoint.c -- checkpoints: folders with the state of a run after an update. */
#include "train/run/checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/temporary.h"
#include "models/convert/convert.h"
#include "optim/optim.h"
#include "train/adapter/adapter.h"
#include "train/run/number.h"
#include "weft/batch.h"

enum { VERSION = 2 };

#define STATE_FILE WEFT__STATE_FILE
#define METADATA "weft.run"
#define PREFIX "step-"

/* ---- folders -------------------------------------------------------------------------------- */

/* Whether the first n characters of a name are the prefix and digits. */
static bool is_numbered(const char *name, size_t n, const char *prefix)
{
    size_t at = strlen(prefix);
    if (n <= at || strncmp(name, prefix, at) != 0)
        return false;
    while (at < n && isdigit((unsigned char)name[at]))
        at++;
    return at == n;
}

bool weft__checkpoint_is_name(const char *name, size_t n)
{
    return is_numbered(name, n, PREFIX) || is_numbered(name, n, WEFT__WEIGHTS);
}

/* The update number of a checkpoint, a folder with the file of its state; -1: not a checkpoint. */
static int64_t step_of(const char *folder, const char *name)
{
    if (!is_numbered(name, strlen(name), PREFIX))
        return -1;
    char *path = weft_format("%s/%s/" STATE_FILE, folder, name);
    const bool found = path && weft__exists(path);
    weft_free(path);
    return found ? strtoll(name + strlen(PREFIX), NULL, 10) : -1;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

int64_t *weft__checkpoint_list(const char *folder, int64_t most, int *n)
{
    int capacity = 16;
    int64_t *steps = weft_calloc((size_t)capacity, sizeof *steps);
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    *n = 0;
    while (steps && dir && (entry = readdir(dir)) != NULL) {
        const int64_t step = step_of(folder, entry->d_name);
        if (step < 0 || step > most)
            continue;
        if (*n == capacity) {
            int64_t *more = weft_realloc(steps, 2 * (size_t)capacity * sizeof *more);
            if (more == NULL)
                break; /* the omitted checkpoints are pruned next time */
            steps = more;
            capacity *= 2;
        }
        steps[(*n)++] = step;
    }
    if (dir)
        closedir(dir);
    if (steps)
        qsort(steps, (size_t)*n, sizeof *steps, newest_first);
    return steps;
}

char *weft__checkpoint_path(const char *folder, int64_t step)
{
    return weft_format("%s/" PREFIX "%lld", folder, (long long)step);
}

bool weft__checkpoint_exists(const char *folder)
{
    int n;
    weft_free(weft__checkpoint_list(folder, INT64_MAX, &n));
    return n > 0;
}

/* Deletes a checkpoint as a temporary folder: a killed process leaves it whole, or as a leftover.
 */
static weft_status drop(const char *path)
{
    weft__folder f;
    const bool moved = weft__folder_open_beside(path, &f) == WEFT_OK && rename(path, f.path) == 0;
    weft__folder_discard(&f);
    return moved ? WEFT_OK : weft__folder_remove(path);
}

void weft__checkpoint_prune(const char *folder, int64_t step, int64_t keep)
{
    int n;
    int64_t *steps = weft__checkpoint_list(folder, step, &n);
    for (int64_t i = keep; steps && i < n; i++) {
        char *path = weft__checkpoint_path(folder, steps[i]);
        if (path && drop(path) != WEFT_OK)
            weft_log_message(WEFT_LOG_WARNING, "%s", weft_error_message());
        weft_free(path);
    }
    weft_free(steps);
}

weft_status weft__checkpoint_remove(const char *folder)
{
    weft_status status = WEFT_OK;
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (status == WEFT_OK && dir && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (step_of(folder, name) < 0 && !is_numbered(name, strlen(name), WEFT__WEIGHTS))
            continue;
        char *path = weft_format("%s/%s", folder, name);
        status = path ? drop(path) : weft__out_of_memory("training", folder);
        weft_free(path);
    }
    if (dir)
        closedir(dir);
    return status;
}

/* ---- the state as JSON ---------------------------------------------------------------------- */

static void write_number(weft__text *t, const char *key, double value)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, ", \"%s\": %s", key, weft__number(value, number));
}

/* Writes the micro-batch size of each rank. */
static void write_micros(weft__text *t, const weft_trainer *trainer)
{
    const int n = weft_group_info_of(trainer->o.group).size;
    for (int i = 0; i < n; i++)
        weft__text_format(t, "%s%lld", i == 0 ? ", \"micro_batch\": [" : ", ",
                          (long long)trainer->micros[i]);
    weft__text_append(t, "]", 1);
}

static void write_state(weft__text *t, const weft_trainer *trainer, const weft__run_state *s,
                        const weft__identity *identity)
{
    const weft_train_result *r = &s->result;
    weft__text_format(t, "{\"version\": %d, ", VERSION);
    weft__identity_write(t, identity);
    weft__text_format(t,
                      "\"step\": %lld, \"batch\": %lld, \"accumulate\": %lld, \"seed\": \"%llu\", "
                      "\"optimizer\": \"%s\", \"skipped\": %lld, \"skipped_in_row\": %lld, "
                      "\"validated\": %lld, \"best_step\": %lld, \"tokens\": %lld",
                      (long long)r->steps, (long long)(r->steps * trainer->o.accumulate),
                      (long long)trainer->o.accumulate, (unsigned long long)trainer->o.seed,
                      trainer->o.optimizer->name, (long long)r->skipped, (long long)s->skipped,
                      (long long)s->validated, (long long)r->best_step, (long long)r->tokens);
    write_micros(t, trainer);
    write_number(t, "loss", r->loss);
    write_number(t, "first_validation", r->first_validation);
    write_number(t, "last_validation", r->last_validation);
    write_number(t, "best_validation", r->best_validation);
    write_number(t, "first_general", r->first_general);
    write_number(t, "last_general", r->last_general);
    write_number(t, "seconds", r->seconds);
    write_number(t, "training_seconds", r->training_seconds);
    weft__text_append(t, "}", 1);
}

static weft_status read_results(const weft__json *o, weft__run_state *s)
{
    weft_train_result *r = &s->result;
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"loss", &r->loss},
                   {"first_validation", &r->first_validation},
                   {"last_validation", &r->last_validation},
                   {"best_validation", &r->best_validation},
                   {"first_general", &r->first_general},
                   {"last_general", &r->last_general},
                   {"seconds", &r->seconds},
                   {"training_seconds", &r->training_seconds}};
    const struct {
        const char *key;
        int64_t *to;
    } counts[] = {
        {"step", &r->steps},          {"skipped", &r->skipped},     {"skipped_in_row", &s->skipped},
        {"validated", &s->validated}, {"best_step", &r->best_step}, {"tokens", &r->tokens}};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof counts / sizeof *counts; i++) {
        status = weft__json_get_int(o, counts[i].key, counts[i].to);
        if (status == WEFT_OK && *counts[i].to < 0)
            status =
                weft__json_fail(o, WEFT_INVALID, "%s: expected a number of at least 0, got %lld",
                                counts[i].key, (long long)*counts[i].to);
    }
    for (size_t i = 0; status == WEFT_OK && i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i].to = NAN;
        status = weft__json_find_number(o, numbers[i].key, numbers[i].to);
    }
    return status;
}

/* Reads the micro-batch size of each rank; 0: the whole batch. */
static weft_status read_micros(const weft__json *o, weft_trainer *trainer)
{
    weft__json list, item;
    size_t n;
    const size_t ranks = (size_t)weft_group_info_of(trainer->o.group).size;
    weft_status status = weft__json_get(o, "micro_batch", &list);
    if (status == WEFT_OK)
        status = weft__json_length(&list, &n);
    if (status == WEFT_OK && n != ranks)
        return weft__json_fail(&list, WEFT_INVALID, "expected %zu numbers, got %zu", ranks, n);
    for (size_t i = 0; status == WEFT_OK && i < ranks; i++) {
        int64_t micro = 0;
        status = weft__json_at(&list, i, &item);
        if (status == WEFT_OK)
            status = weft__json_as_int(&item, &micro);
        if (status == WEFT_OK && (micro < 0 || micro > INT32_MAX))
            return weft__json_fail(&item, WEFT_INVALID, "expected a number of at least 0, got %lld",
                                   (long long)micro);
        trainer->micros[i] = micro;
    }
    return status;
}

/* Checks that the options that affect later updates are those of the run. */
static weft_status check_options(const weft_trainer *trainer, const weft__json *o)
{
    const weft_trainer_options *now = &trainer->o;
    const char *optimizer = now->optimizer->name, *seed = NULL;
    int64_t accumulate = now->accumulate;
    char seed_now[32];
    snprintf(seed_now, sizeof seed_now, "%llu", (unsigned long long)now->seed);
    weft_status status = weft__json_get_string(o, "optimizer", &optimizer);
    if (status == WEFT_OK)
        status = weft__json_get_string(o, "seed", &seed);
    if (status == WEFT_OK)
        status = weft__json_get_int(o, "accumulate", &accumulate);
    if (status != WEFT_OK)
        return status;
    if (strcmp(optimizer, now->optimizer->name) != 0)
        return weft_fail(WEFT_INVALID, "%s: optimizer: expected the run's %s, got %s", o->name,
                         weft_printable(optimizer), now->optimizer->name);
    if (strcmp(seed, seed_now) != 0)
        return weft_fail(WEFT_INVALID, "%s: seed: expected the run's %s, got %s", o->name,
                         weft_printable(seed), seed_now);
    if (accumulate != now->accumulate)
        return weft_fail(WEFT_INVALID, "%s: accumulate: expected the run's %lld, got %lld", o->name,
                         (long long)accumulate, (long long)now->accumulate);
    return WEFT_OK;
}

/* ---- saving --------------------------------------------------------------------------------- */

static weft_status write_weights(const weft_trainer *trainer, const char *path)
{
    weft_model *model = trainer->model;
    const weft_trainer_options *o = &trainer->o;
    const bool adapted = weft_nn_lora_count(weft_model_module(model)) > 0;
    weft_status status = !adapted ? weft_model_save(model, path)
                         : o->objective->compare
                             ? weft__adapter_save_for(model, path, o->base_name, true)
                             : weft_adapter_save(model, path, o->base_name);
    if (status == WEFT_OK && o->tokenizer_path)
        status = weft_tokenizer_copy(o->tokenizer_path, path);
    if (status == WEFT_OK && o->tokenizer_path && !adapted) /* generation_config.json */
        status = weft__text_files_copy(o->tokenizer_path, path, false);
    if (status == WEFT_OK && o->tokenizer)
        status = weft_tokenizer_save(o->tokenizer, path);
    if (status == WEFT_OK && o->objective->compare && o->objective_options.embed)
        status = weft_embed_settings_save(o->objective_options.embed,
                                          weft_model_info_of(model)->hidden_size, path);
    char *file = o->chat_template ? weft_format("%s/chat_template.jinja", path) : NULL;
    if (status == WEFT_OK && o->chat_template)
        status = file ? weft_file_write(file, o->chat_template, strlen(o->chat_template))
                      : weft__out_of_memory("training", "a path");
    weft_free(file);
    return status;
}

weft_status weft__checkpoint_weights(const weft_trainer *trainer, const char *path)
{
    weft__folder f;
    weft_status status = weft__folder_open_beside(path, &f);
    if (status == WEFT_OK)
        status = write_weights(trainer, f.path);
    return weft__folder_replace(&f, path, status);
}

static weft_status save_training(const weft_trainer *trainer, const char *folder,
                                 const weft__run_state *state, const weft__identity *identity)
{
    int n;
    weft_array ***slots = weft_optim_slots(trainer->optimizer, &n);
    weft_array **arrays = weft_calloc((size_t)n, sizeof(weft_array *));
    char *path = weft_format("%s/" STATE_FILE, folder);
    weft__text t = {0};
    write_state(&t, trainer, state, identity);
    weft_status status;
    if (arrays && path && !t.failed) {
        for (int i = 0; i < n; i++)
            arrays[i] = *slots[i];
        const weft_metadata metadata = {METADATA, t.at};
        status = weft_safetensors_save(path, weft_optim_slot_names(trainer->optimizer), arrays, n,
                                       &metadata, 1);
    } else {
        status = weft__out_of_memory("training", "a checkpoint");
    }
    weft_free(arrays);
    weft_free(path);
    weft_free(t.at);
    return status;
}

/* Points `last` to the checkpoint: a link, or copies of its files where links are unsupported. */
static weft_status point_last(const weft_trainer *trainer, int64_t step)
{
    const char *folder = trainer->o.folder;
    char *target = weft_format(PREFIX "%lld", (long long)step);
    char *last = weft_format("%s/last", folder);
    weft_status status = WEFT_OK;
    if (target == NULL || last == NULL)
        status = weft__out_of_memory("training", "a checkpoint");
    else if (weft__link_replace(target, last) != WEFT_OK)
        status = weft__checkpoint_weights(trainer, last);
    weft_free(target);
    weft_free(last);
    return status;
}

weft_status weft__checkpoint_save(const weft_trainer *trainer, const weft__run_state *state,
                                  const weft__identity *identity, int64_t keep)
{
    const char *folder = trainer->o.folder;
    const int64_t step = state->result.steps;
    char *path = weft__checkpoint_path(folder, step);
    if (path == NULL)
        return weft__out_of_memory("training", "a checkpoint");
    weft__folder f;
    weft_status status = weft__folder_open_beside(path, &f);
    if (status == WEFT_OK)
        status = write_weights(trainer, f.path);
    weft__pause(WEFT_PAUSE_DISK); /* what follows does not use the module tree */
    if (status == WEFT_OK)
        status = save_training(trainer, f.path, state, identity);
    status = weft__folder_replace(&f, path, status);
    weft__pause(WEFT_PAUSE_DISK_DONE);
    weft_free(path);
    if (status == WEFT_OK)
        status = point_last(trainer, step);
    weft__pause(WEFT_PAUSE_DISK);
    weft__folder_sync(folder);
    if (status == WEFT_OK) /* otherwise `last` still points to an older one */
        weft__checkpoint_prune(folder, step, keep);
    weft__pause(WEFT_PAUSE_DISK_DONE);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------- */

void weft__checkpoint_close(weft__checkpoint *c)
{
    weft__json_free(&c->doc);
    weft_safetensors_close(c->file);
    *c = (weft__checkpoint){.file = NULL};
}

static weft_status open_one(const char *path, weft__checkpoint *out)
{
    weft_status status = weft_safetensors_open(path, &out->file);
    if (status != WEFT_OK)
        return status;
    const char *text = weft_safetensors_metadata(out->file, METADATA);
    if (text == NULL)
        return weft_fail(WEFT_INVALID, "%s: its metadata has no " METADATA, path);
    status = weft__json_parse(text, strlen(text), path, &out->doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&out->doc);
    return read_results(&root, &out->state);
}

weft_status weft__checkpoint_open(const char *folder, weft__checkpoint *out)
{
    char *path = weft_format("%s/" STATE_FILE, folder);
    *out = (weft__checkpoint){.file = NULL};
    const weft_status status =
        path ? open_one(path, out) : weft__out_of_memory("training", "a checkpoint");
    weft_free(path);
    if (status != WEFT_OK)
        weft__checkpoint_close(out);
    return status;
}

static weft_status restore(weft_trainer *trainer, const weft__identity *identity,
                           const weft__checkpoint *from, weft__run_state *state)
{
    const weft__json root = weft__json_root(&from->doc);
    int64_t version = 0;
    weft_status status = weft__json_get_int(&root, "version", &version);
    if (status == WEFT_OK && version != VERSION)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: version %lld: this Weft resumes version %d",
                           root.name, (long long)version, VERSION);
    if (status == WEFT_OK)
        status = weft__identity_check(identity, &root);
    if (status == WEFT_OK)
        status = check_options(trainer, &root);
    if (status == WEFT_OK)
        status = read_micros(&root, trainer);
    if (status == WEFT_OK)
        status = weft__optim_restore(trainer->optimizer, root.name, from->file);
    return status == WEFT_OK ? read_results(&root, state) : status;
}

weft_status weft__checkpoint_restore(weft_trainer *trainer, const weft__identity *identity,
                                     const char *folder, weft__run_state *state)
{
    weft__checkpoint c;
    weft_status status = weft__checkpoint_open(folder, &c);
    if (status == WEFT_OK)
        status = restore(trainer, identity, &c, state);
    weft__checkpoint_close(&c);
    return status;
}

/* Opens the newest readable checkpoint. out->file is NULL if there is none. */
static weft_status open_newest(const char *folder, weft__checkpoint *out)
{
    int n;
    int64_t *steps = weft__checkpoint_list(folder, INT64_MAX, &n);
    weft_status status = steps ? WEFT_OK : weft__out_of_memory("training", "a list of checkpoints");
    *out = (weft__checkpoint){.file = NULL};
    for (int i = 0; status == WEFT_OK && out->file == NULL && i < n; i++) {
        char *path = weft__checkpoint_path(folder, steps[i]);
        status = path ? weft__checkpoint_open(path, out)
                      : weft__out_of_memory("training", "a checkpoint");
        if (status != WEFT_OK && status != WEFT_MEMORY) {
            status = WEFT_OK;
            weft_log_message(WEFT_LOG_WARNING, "%s; an earlier checkpoint is tried",
                             weft_error_message());
        }
        weft_free(path);
    }
    weft_free(steps);
    return status;
}

weft_status weft__checkpoint_load(weft_trainer *trainer, const weft__identity *identity,
                                  weft__run_state *state, bool *found)
{
    weft__checkpoint newest;
    weft_status status = open_newest(trainer->o.folder, &newest);
    *found = status == WEFT_OK && newest.file != NULL;
    if (*found)
        status = restore(trainer, identity, &newest, state);
    if (*found && status == WEFT_OK) {
        weft_log_message(WEFT_LOG_INFO, "resuming %s after update %lld", trainer->o.folder,
                         (long long)state->result.steps);
        status = point_last(trainer, state->result.steps); /* a killed run may lack `last` */
    }
    weft__checkpoint_close(&newest);
    return status;
}
