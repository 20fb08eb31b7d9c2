/* train/dataset_load.c -- reading samples from files of text. */
#include <limits.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "train/dataset.h"
#include "train/dataset_builder.h"
#include "train/dataset_chat.h"

/* What every line needs. */
typedef struct reader {
    const char *path;
    const char *where; /* for messages: the path, or path:line */
    const weft_tokenizer *tokenizer;
    weft_dataset_options o;
    int32_t *prefix; /* ids that the tokenizer puts in front of a text */
    size_t n_prefix;
    weft__builder sample;
    int64_t row; /* rows so far */
} reader;

/* The ids that stand around an empty text, up to the first that ends one. */
static weft_status find_prefix(reader *r)
{
    size_t n;
    const weft_status status =
        weft_tokenizer_encode(r->tokenizer, "", 0, WEFT_TOKENIZER_ADD_SPECIAL, &r->prefix, &n);
    if (status != WEFT_OK)
        return status;
    while (r->n_prefix < n && r->prefix[r->n_prefix] != r->o.eos)
        r->n_prefix++;
    return WEFT_OK;
}

static weft_status open_reader(reader *r, const char *path, const weft_tokenizer *tokenizer,
                               const weft_dataset_options *options)
{
    *r = (reader){.path = path, .where = path, .tokenizer = tokenizer};
    if (options)
        r->o = *options;
    if (r->o.eos == 0)
        r->o.eos = weft_tokenizer_eos(tokenizer);
    return find_prefix(r);
}

static void close_reader(reader *r)
{
    weft_free(r->prefix);
    weft__builder_free(&r->sample);
}

/* ---- putting a sample together -------------------------------------------------------------- */

/* Adds the ids of a text; `first` puts the prefix in front, unless the text itself has it. */
static weft_status push_text(reader *r, const char *text, size_t length, bool first, float weight)
{
    int32_t *ids;
    size_t n;
    weft_status status = weft_tokenizer_encode(r->tokenizer, text, length, 0, &ids, &n);
    if (status != WEFT_OK)
        return weft_fail(status, "%s: %s", r->where, weft_error_message());
    const size_t bytes = r->n_prefix * sizeof *ids;
    const bool has_prefix = n >= r->n_prefix && memcmp(ids, r->prefix, bytes) == 0;
    if (first && !has_prefix)
        status = weft__builder_add(&r->sample, r->prefix, r->n_prefix, weight);
    if (status == WEFT_OK)
        status = weft__builder_add(&r->sample, ids, n, weight);
    weft_free(ids);
    return status;
}

static weft_status push_end(reader *r)
{
    const weft__builder *s = &r->sample;
    if (r->o.eos < 0 || (s->n > 0 && s->ids[s->n - 1] == r->o.eos))
        return WEFT_OK;
    return weft__builder_add(&r->sample, &r->o.eos, 1, 1);
}

/* ---- JSON lines ----------------------------------------------------------------------------- */

static weft_status text_member(const weft__json *line, const char *key, const char **text,
                               size_t *length)
{
    weft__json at;
    const weft_status status = weft__json_get(line, key, &at);
    return status == WEFT_OK ? weft__json_as_string(&at, text, length) : status;
}

/* A conversation, or else an error about the keys. */
static weft_status add_chat(reader *r, const weft__json *line, weft_dataset *out)
{
    weft__json list;
    weft_status status = weft__json_find(line, "messages", &list);
    if (status == WEFT_OK && list.value == NULL)
        status = weft__json_find(line, "conversations", &list);
    if (status != WEFT_OK)
        return status;
    if (list.value == NULL)
        return weft__json_fail(line, WEFT_INVALID,
                               "expected \"text\", \"prompt\" and \"completion\", or "
                               "\"messages\"");
    return weft__dataset_add_chat(&r->o, r->tokenizer, line, &list, ++r->row, out);
}

static weft_status add_object(reader *r, const weft__json *line, weft_dataset *out)
{
    weft__json text, prompt;
    weft_status status = weft__json_find(line, "text", &text);
    if (status == WEFT_OK)
        status = weft__json_find(line, "prompt", &prompt);
    if (status != WEFT_OK)
        return status;
    if (text.value == NULL && prompt.value == NULL)
        return add_chat(r, line, out);
    const char *first, *second = NULL;
    size_t n_first, n_second = 0;
    status = text_member(line, text.value ? "text" : "prompt", &first, &n_first);
    if (status == WEFT_OK && text.value == NULL)
        status = text_member(line, "completion", &second, &n_second);
    r->sample.n = 0;
    if (status == WEFT_OK)
        status = push_text(r, first, n_first, true, second == NULL || r->o.learn_prompt);
    if (status == WEFT_OK && second)
        status = push_text(r, second, n_second, false, 1);
    if (status == WEFT_OK)
        status = push_end(r);
    return status == WEFT_OK ? weft__builder_finish(&r->sample, 0, out) : status;
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

static weft_status add_line(reader *r, const char *text, size_t length, int64_t number,
                            weft_dataset *out)
{
    if (is_blank(text, length))
        return WEFT_OK;
    char *name = weft_format("%s:%lld", r->path, (long long)number);
    if (name == NULL)
        return weft__out_of_memory(r->path, "its samples");
    r->where = name;
    weft__json_doc doc;
    weft_status status = weft__json_parse(text, length, name, &doc);
    if (status == WEFT_OK) {
        const weft__json line = weft__json_root(&doc);
        status = add_object(r, &line, out);
        weft__json_free(&doc);
    }
    r->where = r->path;
    weft_free(name);
    return status;
}

static weft_status add_lines(reader *r, const char *data, size_t size, weft_dataset *out)
{
    const char *end = data + size;
    weft_status status = WEFT_OK;
    int64_t number = 1;
    for (const char *at = data; status == WEFT_OK && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        status = add_line(r, at, (size_t)(stop - at), number, out);
        at = stop + 1;
    }
    return status;
}

static weft_status load_lines(reader *r, const char *data, size_t size, double split,
                              weft_dataset **out, weft_dataset **validation)
{
    weft_dataset *all;
    weft_status status = weft_dataset_new(r->o.length, &all);
    if (status != WEFT_OK)
        return status;
    status = add_lines(r, data, size, all);
    if (status == WEFT_OK && split > 0) {
        status = weft__dataset_split(all, split, r->o.seed, out, validation);
        if (status != WEFT_OK)
            weft_fail(status, "%s: %s", r->path, weft_error_message());
    } else if (status == WEFT_OK) {
        *out = all;
        return WEFT_OK;
    }
    weft_dataset_free(all);
    return status;
}

/* ---- one text ------------------------------------------------------------------------------- */

static weft_status load_windows(reader *r, const char *text, size_t length, weft_dataset **out)
{
    r->sample.n = 0;
    weft_status status = weft_dataset_new(r->o.length, out);
    if (status == WEFT_OK)
        status = push_text(r, text, length, true, 1);
    if (status == WEFT_OK)
        status = weft_dataset_add_windows(*out, r->sample.ids, r->sample.n, r->o.stride);
    return status;
}

/* The byte where the first (1 - share) of the characters of a UTF-8 text end. */
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

static weft_status load_text(reader *r, const char *data, size_t size, double split,
                             weft_dataset **out, weft_dataset **validation)
{
    const size_t cut = split > 0 ? cut_of(data, size, split) : size;
    weft_status status = load_windows(r, data, cut, out);
    if (status != WEFT_OK || split == 0)
        return status;
    status = load_windows(r, data + cut, size - cut, validation);
    if (status == WEFT_OK && weft_dataset_info_of(*validation).samples == 0)
        return weft_fail(WEFT_INVALID, "%s: too short to keep some for validation", r->path);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_lines(const reader *r)
{
    if (r->o.format != WEFT_DATA_AUTO)
        return r->o.format == WEFT_DATA_JSONL;
    return ends_in(r->path, ".jsonl") || ends_in(r->path, ".ndjson") || ends_in(r->path, ".json");
}

static weft_status check_samples(const char *path, const weft_dataset *d)
{
    const weft_dataset_info info = weft_dataset_info_of(d);
    if (info.samples == 0 && info.empty > 0)
        return weft_fail(WEFT_INVALID, "%s: there is nothing to learn in its %lld samples", path,
                         (long long)info.empty);
    if (info.samples == 0)
        return weft_fail(WEFT_INVALID, "%s: the dataset is empty", path);
    return WEFT_OK;
}

static void report(const reader *r, const weft_dataset *d)
{
    const weft_dataset_info info = weft_dataset_info_of(d);
    if (info.truncated > 0)
        weft_log_message(
            WEFT_LOG_WARNING,
            "%s: %lld of %lld samples are longer than %lld tokens; their ends are kept", r->path,
            (long long)info.truncated, (long long)info.samples, (long long)info.longest);
    if (info.empty > 0)
        weft_log_message(WEFT_LOG_WARNING, "%s: %lld samples with nothing to learn are left out",
                         r->path, (long long)info.empty);
}

/* A file whose name says that it is a table would be trained as raw text, commas included. */
static weft_status refuse_tables(const reader *r)
{
    static const char *const names[] = {".csv", ".tsv", ".parquet"};
    for (size_t i = 0; r->o.format == WEFT_DATA_AUTO && i < sizeof names / sizeof *names; i++) {
        if (ends_in(r->path, names[i]))
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: expected JSON lines or plain text: %s files cannot be read",
                             r->path, names[i]);
    }
    return WEFT_OK;
}

/* Skips the byte order mark that some editors put in front of UTF-8. */
static void skip_mark(const char **data, size_t *size)
{
    if (*size >= 3 && memcmp(*data, "\xef\xbb\xbf", 3) == 0) {
        *data += 3;
        *size -= 3;
    }
}

static weft_status parse(reader *r, const char *data, size_t size, double split, weft_dataset **out,
                         weft_dataset **validation)
{
    const weft_status refused = refuse_tables(r);
    if (refused != WEFT_OK)
        return refused;
    skip_mark(&data, &size);
    const weft_status status = is_lines(r) ? load_lines(r, data, size, split, out, validation)
                                           : load_text(r, data, size, split, out, validation);
    return status == WEFT_OK ? check_samples(r->path, *out) : status;
}

weft_status weft_dataset_parse(const char *data, size_t size, const char *name,
                               const weft_tokenizer *tokenizer, const weft_dataset_options *options,
                               double split, weft_dataset **out, weft_dataset **validation)
{
    weft_dataset *part = NULL;
    *out = NULL;
    if (validation)
        *validation = NULL;
    if (!(split >= 0 && split < 1) || (split > 0 && validation == NULL))
        return weft_fail(WEFT_INVALID, "%s: validation split: expected a share in [0, 1), got %g",
                         name, split);
    reader r;
    weft_status status = open_reader(&r, name, tokenizer, options);
    if (status == WEFT_OK)
        status = parse(&r, data, size, split, out, &part);
    close_reader(&r);
    if (status != WEFT_OK) {
        weft_dataset_free(*out);
        weft_dataset_free(part);
        *out = NULL;
        return status;
    }
    report(&r, *out);
    if (part) {
        report(&r, part);
        *validation = part;
    }
    return WEFT_OK;
}

weft_status weft_dataset_load(const char *path, const weft_tokenizer *tokenizer,
                              const weft_dataset_options *options, double split, weft_dataset **out,
                              weft_dataset **validation)
{
    char *data;
    size_t size;
    *out = NULL;
    if (validation)
        *validation = NULL;
    weft_status status = weft_file_read(path, SIZE_MAX / 4, &data, &size);
    if (status != WEFT_OK)
        return status;
    status = weft_dataset_parse(data, size, path, tokenizer, options, split, out, validation);
    weft_free(data);
    return status;
}
