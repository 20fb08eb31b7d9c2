/* train/data/cache.c -- caches tokenized datasets in files.
 *
 * A file has a header, the training part, the validation part (each with its samples, mixture
 * parts, ids and weights as they are in memory) and the warnings that were logged while reading the
 * data. The file is memory-mapped, so only the parts in use are read. Files of another version of
 * Weft or another kind of machine, and damaged files, are replaced. */
#include "train/data/cache.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/gguf.h"
#include "core/io/safetensors.h"
#include "core/io/temporary.h"
#include "train/data/reader.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/version.h"

void weft__data_warn(weft__said *said, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    weft_log_message(WEFT_LOG_WARNING, "%s", line);
    const size_t n = strlen(line);
    if (said && said->n + n + 2 < sizeof said->text) {
        memcpy(said->text + said->n, line, n);
        said->n += n;
        said->text[said->n++] = '\n';
    }
}

#define ENDING ".tokens"

/* Increase the version when the file format or the conversion of rows changes. */
static const char magic[16] = "weft tokens 4\n";

/* ---- the key -------------------------------------------------------------------------------- */

typedef struct key {
    uint64_t a, b;
} key;

static void add_word(key *k, uint64_t word)
{
    k->a ^= word;
    k->b += word * 0x9ddfea08eb382d69U;
    k->a = weft__draw_seed(&k->a);
    k->b = weft__draw_seed(&k->b);
}

static void add_bytes(key *k, const void *data, size_t size)
{
    const char *at = data;
    uint64_t word;
    add_word(k, size);
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        add_word(k, word);
    }
    word = 0;
    if (size > 0)
        memcpy(&word, at, size);
    add_word(k, word);
}

static void add_text(key *k, const char *text)
{
    add_bytes(k, text ? text : "", text ? strlen(text) : 0);
}

static weft_status add_file(key *k, const char *path)
{
    weft__mapping *mapping;
    const weft_status status = weft__mapping_open(path, &mapping);
    if (status != WEFT_OK)
        return status;
    add_bytes(k, mapping->address, mapping->size);
    weft__mapping_unref(mapping);
    return WEFT_OK;
}

/* Adds a source's files. Names are included, since they determine formats and messages. */
static weft_status add_source(key *k, const weft_data_source *source)
{
    weft__data_files files;
    weft_status status = weft__data_files_find(source, &files);
    if (status != WEFT_OK)
        return status;
    add_bytes(k, &source->weight, sizeof source->weight);
    for (int i = 0; status == WEFT_OK && i < files.n; i++) {
        add_text(k, files.at[i]);
        status = add_file(k, files.at[i]);
    }
    weft__data_files_free(&files);
    return status;
}

/* Adds the GGUF file, or the files of a folder that define the tokenizer and the chat template. A
 * path to tokenizer.json stands for its folder. */
static weft_status add_tokenizer(key *k, const char *path)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    struct stat about;
    char *gguf = NULL;
    weft_status status = weft__gguf_find(path, &gguf);
    if (status == WEFT_OK && gguf)
        status = add_file(k, gguf);
    const bool done = gguf != NULL;
    weft_free(gguf);
    if (status != WEFT_OK || done)
        return status;
    const bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    const char *slash = strrchr(path, '/');
    const int parent = folder ? (int)strlen(path) : slash ? (int)(slash - path) + 1 : 0;
    if (!folder)
        status = add_file(k, path);
    for (int i = folder ? 0 : 1; status == WEFT_OK && i < 3; i++) {
        char *name = weft_format("%.*s%s%s", parent, path, folder ? "/" : "", names[i]);
        if (name == NULL)
            return weft__out_of_memory(path, NULL);
        const bool there = stat(name, &about) == 0;
        add_text(k, there ? names[i] : "");
        status = there ? add_file(k, name) : WEFT_OK;
        weft_free(name);
    }
    return status;
}

/* Adds tokens that were added to the tokenizer and are not in its files. */
static void add_further(key *k, const weft_tokenizer *tokenizer)
{
    const int32_t end = weft_tokenizer_vocab_size(tokenizer);
    for (int32_t id = end - weft_tokenizer_further(tokenizer); id < end; id++)
        add_text(k, weft_tokenizer_id_to_token(tokenizer, id));
}

static void add_options(key *k, const weft_dataset_options *o, double split)
{
    const int64_t numbers[] = {
        (int64_t)o->format, o->length,       o->stride,    o->eos,           (int64_t)o->longer,
        o->max_bad_rows,    o->learn_prompt, o->last_turn, (int64_t)o->seed, (int64_t)o->examples};
    add_bytes(k, numbers, sizeof numbers);
    add_bytes(k, &split, sizeof split);
    add_text(k, WEFT_VERSION);
    add_text(k, magic);
    for (int i = 0; o->labels && i < o->labels->n; i++)
        add_text(k, o->labels->at[i]);
    for (int i = 0; o->chat && i < 2; i++)
        add_text(k, weft_chat_source(o->chat, i ? "tool_use" : NULL));
}

/* Whether a template's output depends on the date. */
static bool writes_date(const weft_chat *chat)
{
    for (int i = 0; chat && i < 2; i++) {
        const char *source = weft_chat_source(chat, i ? "tool_use" : NULL);
        if (source && strstr(source, "strftime_now"))
            return true;
    }
    return false;
}

/* Whether the path can be read only once. */
static bool is_stream(const char *path)
{
    struct stat about;
    return strcmp(path, "-") == 0 ||
           (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode));
}

weft_status weft__dataset_cache_name(const weft_data_source *sources, int n,
                                     const weft_tokenizer *tokenizer,
                                     const weft_dataset_options *options, double split, char **out)
{
    key k = {1, 2};
    *out = NULL;
    if (options->cache == NULL || options->tokenizer_path == NULL || writes_date(options->chat))
        return WEFT_OK;
    for (int i = 0; i < n; i++) {
        if (is_stream(sources[i].path))
            return WEFT_OK;
    }
    weft_status status = add_tokenizer(&k, options->tokenizer_path);
    add_further(&k, tokenizer);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        status = add_source(&k, &sources[i]);
    if (status != WEFT_OK)
        return status;
    add_options(&k, options, split);
    *out = weft_format("%s/%016llx%016llx" ENDING, options->cache, (unsigned long long)k.a,
                       (unsigned long long)k.b);
    return *out ? WEFT_OK : weft__out_of_memory("dataset", "its cache");
}

/* ---- the file ------------------------------------------------------------------------------- */

static const double MOST_WEIGHT = 1e9;

/* Header of one dataset in a file. */
typedef struct kept {
    int64_t limit, n_ids, n_parts;
    int64_t longer;
    weft_dataset_info info;
} kept;

typedef struct header {
    char magic[16];
    int64_t size;        /* size of the file */
    int64_t header_size; /* size of this struct, which depends on machine and version */
    int64_t n_said;
    int64_t has_validation;
    kept parts[2];
} header;

static kept kept_of(const weft_dataset *d)
{
    return (kept){d->limit, d->n_ids, d->n_parts, (int64_t)d->longer, d->info};
}

static int64_t bytes_of(const kept *k)
{
    return k->info.samples * (int64_t)sizeof(weft__dataset_sample) +
           k->n_parts * (int64_t)sizeof(weft__dataset_part) +
           k->n_ids * (int64_t)(sizeof(int32_t) + sizeof(float));
}

static weft_status write_dataset(weft__writer *w, const weft_dataset *d)
{
    weft_status status =
        weft__writer_write(w, d->samples, (size_t)d->info.samples * sizeof *d->samples);
    if (status == WEFT_OK)
        status = weft__writer_write(w, d->parts, (size_t)d->n_parts * sizeof *d->parts);
    if (status == WEFT_OK)
        status = weft__writer_write(w, d->ids, (size_t)d->n_ids * sizeof *d->ids);
    if (status == WEFT_OK)
        status = weft__writer_write(w, d->weights, (size_t)d->n_ids * sizeof *d->weights);
    return status;
}

static bool is_cache(const char *name, size_t n, bool certain, const void *context)
{
    const size_t end = strlen(ENDING);
    (void)context;
    return certain && n > end && strncmp(name + n - end, ENDING, end) == 0;
}

/* Deletes what killed writers left of any dataset: its own may never be written again. */
static void clean_folder_of(const char *path)
{
    char *folder = weft_format("%.*s", (int)(strrchr(path, '/') - path), path);
    if (folder)
        weft__temporary_clean(folder, is_cache, NULL);
    weft_free(folder);
}

weft_status weft__dataset_cache_write(const char *path, const weft_dataset *train,
                                      const weft_dataset *validation, const weft__said *said)
{
    header h;
    memset(&h, 0, sizeof h); /* zeroes the padding too */
    memcpy(h.magic, magic, sizeof magic);
    h.header_size = sizeof h;
    h.n_said = (int64_t)said->n;
    h.has_validation = validation != NULL;
    h.parts[0] = kept_of(train);
    if (validation)
        h.parts[1] = kept_of(validation);
    h.size = h.header_size + bytes_of(&h.parts[0]) + bytes_of(&h.parts[1]) + h.n_said;
    weft__writer *w;
    clean_folder_of(path);
    weft_status status = weft__writer_open(path, &w);
    if (status == WEFT_OK)
        status = weft__writer_write(w, &h, sizeof h);
    if (status == WEFT_OK)
        status = write_dataset(w, train);
    if (status == WEFT_OK && validation)
        status = write_dataset(w, validation);
    if (status == WEFT_OK)
        status = weft__writer_write(w, said->text, said->n);
    return weft__writer_close(w, status);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Checks that the counts are possible and that the sizes in bytes do not overflow. */
static bool is_sound(const kept *k)
{
    const int64_t most = (int64_t)1 << 40;
    return k->limit >= 2 && k->n_ids >= 0 && k->n_ids < most && k->info.samples >= 0 &&
           k->info.samples <= k->n_ids && k->n_parts >= 0 && k->n_parts < most && k->longer >= 0 &&
           k->longer < WEFT_LONG_POLICIES;
}

static bool is_whole(const weft__mapping *m)
{
    const header *h = m->address;
    return m->size >= sizeof *h && memcmp(h->magic, magic, sizeof magic) == 0 &&
           h->header_size == sizeof *h && h->size == (int64_t)m->size && is_sound(&h->parts[0]) &&
           (!h->has_validation || is_sound(&h->parts[1])) && h->n_said >= 0 &&
           h->n_said < (int64_t)sizeof((weft__said *)0)->text &&
           h->size == h->header_size + bytes_of(&h->parts[0]) + bytes_of(&h->parts[1]) + h->n_said;
}

/* Checks that every sample is within the ids and every part within the samples. */
static bool is_consistent(const weft_dataset *d)
{
    for (int64_t i = 0; i < d->info.samples; i++) {
        const weft__dataset_sample *s = &d->samples[i];
        if (s->start < 0 || s->length < 2 || s->start > d->n_ids ||
            s->length > d->n_ids - s->start || s->length > d->info.longest)
            return false;
    }
    for (int64_t i = 0; i < d->n_ids; i++) {
        if (d->ids[i] < 0 || !(d->weights[i] >= 0 && d->weights[i] <= FLT_MAX))
            return false;
    }
    const bool pairs = d->info.examples == WEFT_EXAMPLES_PAIRS;
    if (d->info.examples < WEFT_EXAMPLES_SINGLE || d->info.examples > WEFT_EXAMPLES_PAIRS ||
        (pairs && d->info.samples % 2 != 0) || (d->n_parts > 0 && d->parts[0].first != 0))
        return false;
    for (int64_t i = 0; i < d->n_parts; i++) {
        if (d->parts[i].first < (i ? d->parts[i - 1].first : 0) ||
            d->parts[i].first > d->info.samples || (pairs && d->parts[i].first % 2 != 0) ||
            !(d->parts[i].weight >= 0 && d->parts[i].weight <= MOST_WEIGHT))
            return false;
    }
    return true;
}

/* Reads the dataset whose arrays begin at *at, and advances *at past them. */
static weft_dataset *view(weft__mapping *mapping, const kept *k, const char **at)
{
    weft_dataset *d = weft_calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->limit = k->limit;
    d->longer = (weft_long_samples)k->longer;
    d->n_ids = k->n_ids;
    d->n_parts = k->n_parts;
    d->info = k->info;
    d->info.cached = true;
    d->samples = (weft__dataset_sample *)*at;
    d->parts = (weft__dataset_part *)(d->samples + d->info.samples);
    d->ids = (int32_t *)(d->parts + d->n_parts);
    d->weights = (float *)(d->ids + d->n_ids);
    d->mapping = mapping;
    weft__mapping_ref(mapping);
    *at += bytes_of(k);
    if (is_consistent(d))
        return d;
    weft_dataset_free(d);
    return NULL;
}

static void say_again(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        const size_t length = newline ? (size_t)(newline - text) - at : n - at;
        weft_log_message(WEFT_LOG_WARNING, "%.*s", (int)length, text + at);
        at += length + 1;
    }
}

bool weft__dataset_cache_open(const char *path, weft_dataset **train, weft_dataset **validation)
{
    struct stat about;
    weft__mapping *mapping;
    *train = NULL;
    if (validation)
        *validation = NULL;
    if (stat(path, &about) != 0 || weft__mapping_open(path, &mapping) != WEFT_OK)
        return false;
    const header *h = mapping->address;
    bool fine = is_whole(mapping) && (h->has_validation != 0) == (validation != NULL);
    if (fine) {
        const char *at = (const char *)mapping->address + sizeof *h;
        *train = view(mapping, &h->parts[0], &at);
        if (*train && validation)
            *validation = view(mapping, &h->parts[1], &at);
        fine = *train && (validation == NULL || *validation);
        if (fine)
            say_again(at, (size_t)h->n_said);
    }
    weft__mapping_unref(mapping);
    if (fine)
        return true;
    weft_dataset_free(*train);
    *train = NULL;
    weft_log_message(WEFT_LOG_WARNING, "%s: the file of cached tokens is damaged and written anew",
                     path);
    return false;
}
