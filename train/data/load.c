/* train/data/load.c -- loads datasets from files: sources, plain texts, validation splits, reports.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "train/data/reader.h"
#include "weft/io.h"
#include "weft/memory.h"

/* The training and validation samples of one or all sources. */
typedef struct parts {
    double split;                     /* of a source with WEFT_SPLIT_AUTO: the share of its rows */
    weft_dataset *train, *validation; /* validation NULL: none */
    weft__said *said;
} parts;

/* ---- plain texts ---------------------------------------------------------------------------- */

static weft_status add_windows(weft__reader *r, const char *text, size_t length, weft_dataset *out)
{
    weft_status status = weft__reader_begin(r, text, length, true, 1);
    if (status != WEFT_OK)
        return status;
    status = weft_dataset_add_windows(out, r->sample.ids, r->sample.n, r->o.stride);
    return status == WEFT_INVALID ? weft_fail(status, "%s: %s", r->where, weft_error_message())
                                  : status;
}

/* The byte offset after the first (1 - share) of the characters of a UTF-8 text. */
static size_t cut_of(const char *text, size_t size, double share)
{
    int64_t characters = 0;
    for (size_t i = 0; i < size; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    int64_t left = characters - (int64_t)(share * (double)characters);
    for (size_t i = 0; i < size; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80 && left-- == 0)
            return i;
    }
    return size;
}

static weft_status add_text(weft__reader *r, const char *data, size_t size)
{
    parts *p = r->context;
    const size_t cut = p->split > 0 ? cut_of(data, size, p->split) : size;
    weft_status status = add_windows(r, data, cut, p->train);
    if (status == WEFT_OK && p->split > 0)
        status = add_windows(r, data + cut, size - cut, p->validation);
    return status;
}

/* ---- a source ------------------------------------------------------------------------------- */

/* Finds the prefix of texts: the ids that the tokenizer produces for an empty text, up to the first
 * EOS. */
static weft_status find_prefix(weft__reader *r)
{
    size_t n;
    const weft_status status =
        weft_tokenizer_encode(r->tokenizer, "", 0, WEFT_TOKENIZER_ADD_SPECIAL, &r->prefix, &n);
    if (status != WEFT_OK)
        return status;
    while (r->n_prefix < n && r->prefix[r->n_prefix] != r->eos)
        r->n_prefix++;
    return WEFT_OK;
}

static weft_status new_dataset(const weft_dataset_options *o, weft_dataset **out)
{
    const weft_status status = weft_dataset_new(o->length, out);
    if (status != WEFT_OK)
        return status;
    weft_dataset_set_longer(*out, o->longer);
    (*out)->vocabulary = o->vocabulary;
    return WEFT_OK;
}

static weft_status open_reader(weft__reader *r, const char *source, const weft_tokenizer *tokenizer,
                               const weft_dataset_options *options)
{
    *r = (weft__reader){.source = source,
                        .path = source,
                        .where = source,
                        .tokenizer = tokenizer,
                        .add_row = weft__reader_add_row,
                        .add_text = add_text};
    if (options)
        r->o = *options;
    if (r->o.examples == WEFT_EXAMPLES_SCORED)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: completions with rewards are not rows of data: expected "
                         "weft_dataset_load_completions (--completions)",
                         source);
    if (r->o.labels)
        r->expected = "rows with \"text\" and \"label\"";
    else if (r->o.examples == WEFT_EXAMPLES_TEXTS)
        r->expected = "rows with \"anchor\" and \"positive\"";
    else if (r->o.examples != WEFT_EXAMPLES_SINGLE)
        r->expected = "rows of preference data";
    r->eos = r->o.eos ? *r->o.eos : weft_tokenizer_eos(tokenizer);
    r->o.eos = &r->eos;
    const weft_status status = new_dataset(&r->o, &r->rows);
    return status == WEFT_OK ? find_prefix(r) : status;
}

static void close_reader(weft__reader *r)
{
    weft_free(r->prefix);
    weft__builder_free(&r->sample);
    weft_dataset_free(r->rows);
}

/* ---- reports -------------------------------------------------------------------------------- */

static void report_longer(const weft__reader *r)
{
    static const char *const fates[] = {"their first tokens are kept", "their last tokens are kept",
                                        "they are split", "they are left out"};
    const weft_dataset_info *info = &r->rows->info;
    const int64_t n = info->truncated + info->split + info->dropped;
    if (n == 0)
        return;
    int64_t rows = 0;
    for (int i = 0; i < WEFT_ROW_KINDS; i++)
        rows += info->rows[i];
    char lost[96] = "";
    if (info->dropped > 0 && r->o.longer != WEFT_LONG_DROP)
        snprintf(lost, sizeof lost,
                 "; %lld of them have no target in what is kept and are left out",
                 (long long)info->dropped);
    const bool texts = info->texts > 0; /* whose samples have a mark after the last token */
    char which[96];
    snprintf(which, sizeof which,
             texts ? "%lld of %lld texts are longer than"
                   : "samples of %lld of %lld rows are longer than",
             (long long)n, (long long)(texts ? info->samples : rows));
    weft__data_warn(r->said, "%s: %s %lld tokens: %s, %lld tokens are cut%s (%s)", r->source, which,
                    (long long)r->rows->limit - texts, fates[r->o.longer], (long long)info->cut,
                    lost, r->longer.text);
}

static void report(const weft__reader *r)
{
    const weft_dataset_info *info = &r->rows->info;
    report_longer(r);
    if (info->empty > 0)
        weft__data_warn(r->said, "%s: %lld samples without a trained token are left out (%s)",
                        r->source, (long long)info->empty, r->empty.text);
    if (info->empty_answers > 0)
        weft__data_warn(r->said, "%s: %lld answers are empty: only their end is trained (%s)",
                        r->source, (long long)info->empty_answers, r->empty_answers.text);
    if (r->o.labels == NULL || !r->o.labels->open) /* the rows are read again */
        weft__unused_report(&r->unused, r->source, r->said);
    if (info->bad_rows > 0)
        weft__data_warn(r->said, "%s: %lld bad rows are skipped", r->source,
                        (long long)info->bad_rows);
}

/* ---- WEFT_SPLIT_AUTO ------------------------------------------------------------------------ */

/* The share of n samples that is held out. */
static double auto_share(int64_t n)
{
    enum { LEAST = 200, MOST = 100 };
    const double share = 0.05;
    return n < LEAST ? 0 : fmin(share, (double)MOST / (double)n);
}

/* Moves the last windows of the source's texts to the validation samples. */
static weft_status hold_out_windows(parts *p, double share)
{
    weft_dataset *rest, *chosen;
    const weft_status status = weft__dataset_split(p->train, share, NULL, &rest, &chosen);
    if (status != WEFT_OK)
        return status;
    weft_dataset_free(p->train);
    weft_dataset_free(p->validation);
    p->train = rest;
    p->validation = chosen;
    return WEFT_OK;
}

/* Splits the windows of the source's texts, and sets the split of its rows. */
static weft_status split_auto(const weft__reader *r, parts *p)
{
    int64_t groups;
    int64_t *starts = weft__dataset_groups(r->rows, &groups);
    if (starts == NULL)
        return WEFT_MEMORY;
    weft_free(starts);
    const int64_t windows = p->train->info.samples;
    const double share = auto_share(groups + windows);
    p->split = groups > 1 ? share : 0;
    return share > 0 && windows > 1 ? hold_out_windows(p, share) : WEFT_OK;
}

/* ---- sources and mixtures ------------------------------------------------------------------- */

/* Appends the samples of rows to those of plain texts, after splitting them. */
static weft_status join_rows(weft__reader *r, double split, parts *p, double weight)
{
    if (split == 0 || r->rows->info.samples == 0)
        return weft__dataset_join(p->train, r->rows, weight);
    weft_dataset *rest, *chosen;
    weft_status status = weft__dataset_split(r->rows, split, &r->o.seed, &rest, &chosen);
    if (status != WEFT_OK)
        return weft_fail(status, "%s: %s", r->source, weft_error_message());
    status = weft__dataset_join(p->train, rest, weight);
    if (status == WEFT_OK)
        status = weft__dataset_join(p->validation, chosen, 1);
    weft_dataset_free(rest);
    weft_dataset_free(chosen);
    return status;
}

static weft_status check_source(const weft__reader *r, const parts *p)
{
    const weft_dataset_info *rows = &r->rows->info;
    const int64_t samples = p->train->info.samples + rows->samples;
    if (samples == 0 && rows->dropped > 0)
        return weft_fail(WEFT_INVALID,
                         "%s: the dataset is empty: its samples are longer than %lld tokens and "
                         "left out",
                         r->source, (long long)r->rows->limit);
    if (samples == 0 && rows->empty > 0)
        return weft_fail(WEFT_INVALID, "%s: there is nothing to learn in its %lld samples",
                         r->source, (long long)rows->empty);
    if (samples == 0)
        return weft_fail(WEFT_INVALID, "%s: the dataset is empty", r->source);
    if (p->split > 0 && rows->samples == 0 && p->validation->info.samples == 0)
        return weft_fail(WEFT_INVALID, "%s: too short to keep some for validation", r->source);
    return WEFT_OK;
}

static weft_status make_parts(const weft_dataset_options *o, double split, parts *p)
{
    p->split = split;
    weft_status status = new_dataset(o, &p->train);
    if (status == WEFT_OK && split != 0)
        status = new_dataset(o, &p->validation);
    return status;
}

static void free_parts(parts *p)
{
    weft_dataset_free(p->train);
    weft_dataset_free(p->validation);
}

/* Adds a source's samples to `all`: from `data` or, if it is NULL, from the source's files. */
static weft_status add_source(const weft_data_source *source, const char *data, size_t size,
                              const weft_tokenizer *tokenizer, const weft_dataset_options *options,
                              parts *all)
{
    weft__reader r;
    parts p = {0};
    const double weight = source->weight != 0 ? source->weight : 1;
    weft_status status = open_reader(&r, source->path, tokenizer, options);
    r.said = all->said;
    r.context = &p;
    if (status == WEFT_OK)
        status = make_parts(&r.o, all->split, &p);
    if (status == WEFT_OK)
        status = data ? weft__reader_add_bytes(&r, data, size) : weft__reader_add_files(&r, source);
    for (int i = 0; status == WEFT_OK && i < WEFT_DATA_FORMATS; i++)
        p.train->info.files[i] = r.files[i];
    if (status == WEFT_OK)
        status = check_source(&r, &p);
    if (status == WEFT_OK && p.split == WEFT_SPLIT_AUTO)
        status = split_auto(&r, &p);
    if (status == WEFT_OK)
        report(&r);
    if (status == WEFT_OK)
        status = weft__dataset_join(all->train, p.train, weight);
    if (status == WEFT_OK && all->validation)
        status = weft__dataset_join(all->validation, p.validation, 1);
    if (status == WEFT_OK)
        status = join_rows(&r, p.split, all, weight);
    free_parts(&p);
    close_reader(&r);
    return status;
}

static weft_status check_arguments(const weft_data_source *sources, int n, double split,
                                   weft_dataset **validation)
{
    for (int i = 0; i < n; i++) {
        if (!(sources[i].weight >= 0 && isfinite(sources[i].weight)))
            return weft_fail(WEFT_INVALID, "%s: weight: expected a positive number, got %g",
                             sources[i].path, sources[i].weight);
    }
    if (n < 1)
        return weft_fail(WEFT_INVALID, "dataset: expected a source");
    const bool known = (split >= 0 && split < 1) || split == WEFT_SPLIT_AUTO;
    if (!known || (split != 0 && validation == NULL))
        return weft_fail(WEFT_INVALID, "%s: validation split: expected a share in [0, 1), got %g",
                         sources[0].path, split);
    return WEFT_OK;
}

static void report_duplicates(const weft_data_source *source, const parts *all)
{
    const int64_t n = weft_dataset_duplicates(all->validation, all->train);
    if (n > 0)
        weft__data_warn(all->said,
                        "%s: %lld of %lld validation samples are also trained: the validation "
                        "loss is too low",
                        source->path, (long long)n, (long long)all->validation->info.samples);
}

/* Reads all sources: from memory if `data` is given, else from files. */
static weft_status read_all(const weft_data_source *sources, int n, const char *data, size_t size,
                            const weft_tokenizer *tokenizer, const weft_dataset_options *o,
                            parts *all)
{
    weft_status status = make_parts(o, all->split, all);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        status = add_source(&sources[i], data, size, tokenizer, o, all);
    if (status == WEFT_OK && all->validation)
        report_duplicates(sources, all);
    return status;
}

/* Writes the cache file. A failure is only logged. */
static void keep_in_cache(const char *folder, const char *path, const parts *all)
{
    weft__folder f;
    weft_status status = weft__folder_open(folder, &f);
    if (status == WEFT_OK)
        status = weft__dataset_cache_write(path, all->train, all->validation, all->said);
    if (weft__folder_close(&f, status) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "the cache of tokens is not written: %s",
                         weft_error_message());
}

static weft_status load_through_cache(const weft_data_source *sources, int n,
                                      const weft_tokenizer *tokenizer,
                                      const weft_dataset_options *o, parts *all)
{
    char *path;
    weft_status status = weft__dataset_cache_name(sources, n, tokenizer, o, all->split, &path);
    if (status != WEFT_OK)
        return status;
    if (path == NULL)
        return read_all(sources, n, NULL, 0, tokenizer, o, all);
    if (!weft__dataset_cache_open(path, &all->train, all->split != 0 ? &all->validation : NULL)) {
        status = read_all(sources, n, NULL, 0, tokenizer, o, all);
        if (status == WEFT_OK)
            keep_in_cache(o->cache, path, all);
    }
    weft_free(path);
    return status;
}

static weft_status load(const weft_data_source *sources, int n, const char *data, size_t size,
                        const weft_tokenizer *tokenizer, const weft_dataset_options *options,
                        double split, weft_dataset **out, weft_dataset **validation)
{
    const weft_dataset_options none = {0}, *o = options ? options : &none;
    weft__said said = {.n = 0};
    parts all = {.split = split, .said = &said};
    *out = NULL;
    if (validation)
        *validation = NULL;
    weft_status status = check_arguments(sources, n, split, validation);
    if (status == WEFT_OK)
        status = data ? read_all(sources, n, data, size, tokenizer, o, &all)
                      : load_through_cache(sources, n, tokenizer, o, &all);
    if (status != WEFT_OK) {
        free_parts(&all);
        return status;
    }
    *out = all.train;
    if (all.validation && weft_dataset_info_of(all.validation).samples > 0)
        *validation = all.validation;
    else
        weft_dataset_free(all.validation);
    return WEFT_OK;
}

weft_status weft_dataset_load_mixture(const weft_data_source *sources, int n,
                                      const weft_tokenizer *tokenizer,
                                      const weft_dataset_options *options, double split,
                                      weft_dataset **out, weft_dataset **validation)
{
    return load(sources, n, NULL, 0, tokenizer, options, split, out, validation);
}

weft_status weft_dataset_load(const char *path, const weft_tokenizer *tokenizer,
                              const weft_dataset_options *options, double split, weft_dataset **out,
                              weft_dataset **validation)
{
    const weft_data_source source = {.path = path};
    return load(&source, 1, NULL, 0, tokenizer, options, split, out, validation);
}

weft_status weft_dataset_parse(const char *data, size_t size, const char *name,
                               const weft_tokenizer *tokenizer, const weft_dataset_options *options,
                               double split, weft_dataset **out, weft_dataset **validation)
{
    const weft_data_source source = {.path = name};
    return load(&source, 1, data ? data : "", size, tokenizer, options, split, out, validation);
}
