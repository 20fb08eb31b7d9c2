/* cli/train_teacher.c -- weft train --teacher: opens the teacher of a distillation, or what is
 * stored of one. */
#include <string.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/train.h"
#include "weft/tool/run.h"

/* ---- the tokenizers ------------------------------------------------------------------------- */

static weft_status differ(const train_values *v, const char *what, const char *own,
                          const char *other)
{
    return weft_fail(WEFT_INVALID,
                     "--teacher %s: its tokenizer differs from the model's: %s: expected %s, got "
                     "%s",
                     weft_printable(v->teacher), what, own, other);
}

static weft_status check_tokens(const train_values *v, const weft_tokenizer *own,
                                const weft_tokenizer *other)
{
    const int32_t n = weft_tokenizer_vocab_size(own), m = weft_tokenizer_vocab_size(other);
    for (int32_t id = 0; id < (n > m ? n : m); id++) {
        const char *a = id < n ? weft_tokenizer_id_to_token(own, id) : NULL,
                   *b = id < m ? weft_tokenizer_id_to_token(other, id) : NULL;
        if ((a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0))
            continue;
        char what[32], x[80], y[80];
        snprintf(what, sizeof what, "id %d", (int)id);
        snprintf(x, sizeof x, a ? "'%.60s'" : "no token", a ? weft_printable(a) : "");
        snprintf(y, sizeof y, b ? "'%.60s'" : "no token", b ? weft_printable(b) : "");
        return differ(v, what, x, y);
    }
    return WEFT_OK;
}

/* Encodes the text of a sample by both. Equal vocabularies can have other merges or pieces. */
static weft_status check_sample(const train_values *v, const train_run *r, int64_t i,
                                const weft_tokenizer *other)
{
    const weft_sample s = weft_dataset_at(r->data, i);
    char *text = NULL;
    int32_t *ids[2] = {NULL, NULL};
    size_t size, n[2] = {0, 0};
    weft_status status =
        weft_tokenizer_decode(r->tokenizer, s.ids, (size_t)s.length, 0, &text, &size);
    for (int k = 0; status == WEFT_OK && k < 2; k++)
        status = weft_tokenizer_encode(k ? other : r->tokenizer, text, size, 0, &ids[k], &n[k]);
    size_t at = 0;
    while (status == WEFT_OK && at < n[0] && at < n[1] && ids[0][at] == ids[1][at])
        at++;
    if (status == WEFT_OK && (at < n[0] || at < n[1])) {
        char what[96], x[32] = "the end", y[32] = "the end";
        snprintf(what, sizeof what, "sample %lld of the data, token %zu", (long long)i + 1, at + 1);
        if (at < n[0])
            snprintf(x, sizeof x, "id %d", (int)ids[0][at]);
        if (at < n[1])
            snprintf(y, sizeof y, "id %d", (int)ids[1][at]);
        status = differ(v, what, x, y);
    }
    weft_free(ids[0]);
    weft_free(ids[1]);
    weft_free(text);
    return status;
}

static weft_status check_tokenizer(const train_values *v, const train_run *r, const char *path)
{
    enum { SAMPLES = 64 }; /* that are encoded */
    char *at = NULL;
    weft_tokenizer *other = NULL;
    const int64_t all = weft_dataset_info_of(r->data).samples;
    weft_status status = weft_adapter_tokenizer_path(path, NULL, &at);
    if (status == WEFT_OK)
        status = weft_tokenizer_load(at, &other);
    if (status == WEFT_OK)
        status = check_tokens(v, r->tokenizer, other);
    for (int64_t i = 0; status == WEFT_OK && i < (all < SAMPLES ? all : SAMPLES); i++)
        status = check_sample(v, r, i, other);
    weft_tokenizer_free(other);
    weft_free(at);
    return status;
}

/* ---- its samples ---------------------------------------------------------------------------- */

/* Whether some sample of two datasets differs. */
static bool has_another(const weft_dataset *a, const weft_dataset *b)
{
    bool same = weft_dataset_info_of(a).samples == weft_dataset_info_of(b).samples;
    for (int64_t i = 0; same && i < weft_dataset_info_of(a).samples; i++)
        same = weft_dataset_at(a, i).length == weft_dataset_at(b, i).length;
    return !same;
}

weft_status train_open_teacher_samples(const train_values *v, train_run *r,
                                       const weft_dataset_options *o, double split)
{
    cli_data_source source = v->source;
    weft_dataset_options options = *o;
    weft_dataset *data = NULL, *validation = NULL;
    source.system = v->teacher_system;
    source.cache = NULL;
    options.length = INT64_MAX;
    if (r->validation_given && v->val_data == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "--teacher-system: valid.jsonl of a folder is "
                                           "unsupported: expected it as --val-data");
    for (int i = 0; i < source.paths.n; i++) {
        if (strcmp(source.paths.at[i], "-") == 0)
            return weft_fail(WEFT_UNSUPPORTED, "--teacher-system reads the data twice: --data - "
                                               "is unsupported");
    }
    const bool splits = r->validation && !r->validation_given;
    weft_status status = cli_data_load(&source, r->tokenizer, &options, splits ? split : 0, &data,
                                       splits ? &validation : NULL);
    if (status == WEFT_OK && r->validation_given) {
        cli_data_options(&source, &options);
        options.format = WEFT_DATA_AUTO;
        status = weft_dataset_load_mixture(&r->validation_source, 1, r->tokenizer, &options, 0,
                                           &validation, NULL);
    }
    const bool another = status == WEFT_OK && has_another(r->data, data);
    if (status == WEFT_OK)
        status = weft_dataset_take_teacher_samples(r->data, data);
    if (status == WEFT_OK && validation)
        status = weft_dataset_take_teacher_samples(r->validation, validation);
    return status != WEFT_OK || another
               ? status
               : weft_fail(WEFT_INVALID,
                           "--teacher-system: no row has it: expected conversations or prompts "
                           "that a chat template renders, without a system text of their own");
}

int64_t train_sampled_length(const train_values *v, const train_run *r)
{
    int64_t longest = 0;
    if (!(v->trainer.objective_options.lmbda > 0) || r->data == NULL)
        return 0;
    for (int64_t i = 0; i < weft_dataset_info_of(r->data).samples; i++) {
        const weft_sample s = weft_dataset_at(r->data, i);
        int64_t n = s.length;
        while (n > 1 && s.weights && s.weights[n - 1] == 0)
            n--;
        while (n > 1 && s.weights && s.weights[n - 1] != 0)
            n--;
        longest = n > longest ? n : longest;
    }
    return longest + train_most_tokens(v);
}

/* ---- the teacher ---------------------------------------------------------------------------- */

/* Whether the teacher's distributions are computed and stored: on rank 0, unless the run has them
 * already. */
static bool stores(const train_values *v)
{
    const bool again = v->verify || (v->trainer.resume && weft_run_exists(v->out) &&
                                     access(v->teacher_file, R_OK) == 0);
    return v->teacher && train_is_first() && !again;
}

/* The number of ids of the model, which is not loaded yet: as in config.json, else that of the
 * tokenizer. */
static int64_t vocabulary_of(const train_run *r)
{
    const int64_t own = weft_tokenizer_vocab_size(r->tokenizer);
    char *path = weft_format("%s/config.json", r->path);
    weft_config *config = NULL;
    int64_t n = own;
    if (path && access(path, R_OK) == 0 && weft_config_load(path, &config) == WEFT_OK)
        n = weft_config_int(config, "vocab_size", own);
    weft_config_free(config);
    weft_free(path);
    return n > own ? n : own;
}

/* Reads the stored entries of a dataset, or computes and saves them; for --dry-run entries of the
 * same size suffice. */
static weft_status open_entries(const train_values *v, const train_run *r, bool store,
                                weft_model *teacher, weft_dataset *data, const char *end)
{
    const double temperature = v->trainer.objective_options.temperature;
    char *path = data ? weft_format("%s%s", v->teacher_file, end) : NULL;
    weft_status status =
        path || data == NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "train: out of memory");
    if (path && !store)
        status = weft_dataset_load_teacher(data, path, temperature);
    else if (path)
        status = weft_dataset_add_teacher(data, v->dry_run ? NULL : teacher, vocabulary_of(r),
                                          temperature, v->batch_size);
    if (status == WEFT_OK && path && store && !v->dry_run)
        status = weft_dataset_save_teacher(data, path);
    weft_free(path);
    return status;
}

/* Checks before the computation that no other file would be replaced. */
static weft_status check_files(const train_values *v)
{
    char *validation = weft_format("%s.validation", v->teacher_file);
    weft_status status = validation ? weft_teacher_check_file(v->teacher_file)
                                    : weft_fail(WEFT_MEMORY, "train: out of memory");
    if (status == WEFT_OK)
        status = weft_teacher_check_file(validation);
    weft_free(validation);
    return status;
}

static weft_status load_teacher(const train_values *v, train_run *r, weft_model **out)
{
    weft_status status =
        cli_find_model(&v->place, v->teacher, r->teacher_path, sizeof r->teacher_path);
    if (status == WEFT_OK)
        status = check_tokenizer(v, r, r->teacher_path);
    return status == WEFT_OK ? cli_load_model(r->teacher_path, &v->place, NULL, out) : status;
}

/* Reads the entries of training and validation data, or computes them. */
static weft_status open_all_entries(const train_values *v, train_run *r)
{
    weft_model *teacher = NULL;
    const bool store = stores(v); /* before there are files */
    weft_status status = store ? check_files(v) : WEFT_OK;
    if (status == WEFT_OK && store)
        status = load_teacher(v, r, &teacher);
    if (teacher)
        r->storing = train_model_bytes(v, teacher);
    if (status == WEFT_OK)
        status = open_entries(v, r, store, teacher, r->data, "");
    if (status == WEFT_OK)
        status = open_entries(v, r, store, teacher, r->validation, ".validation");
    weft_model_free(teacher);
    weft_memory_clear_cache();
    return status;
}

/* The other ranks read the files when rank 0 has them. */
weft_status train_store_teacher(const train_values *v, train_run *r)
{
    if (train_objective(v) != &weft_objective_distill || v->teacher_file == NULL)
        return WEFT_OK;
    weft_status status = train_is_first() ? open_all_entries(v, r) : WEFT_OK;
    status = weft_group_agree(train_ranks(), status, NULL);
    return status == WEFT_OK && !train_is_first() ? open_all_entries(v, r) : status;
}

weft_status train_open_teacher(const train_values *v, train_run *r)
{
    if (train_objective(v) != &weft_objective_distill)
        return WEFT_OK;
    r->sampling = v->sampling;
    const weft_status status = train_find_stop(r);
    if (status != WEFT_OK || v->teacher_file)
        return status;
    return v->teacher ? load_teacher(v, r, &r->teacher)
                      : cli_load_model(r->path, &v->place, NULL, &r->teacher); /* mapped weights
                                                                                  are shared */
}
