/* train/data/cache.c -- caches tokenized datasets in files.
 *
 * A file has a header, the training part, the validation part (each with its samples, mixture
 * parts, ids and weights as they are in memory) and the warnings that were logged while reading the
 * data. The file is read, not mapped: it may be truncated by others while it is in use. Files of
 * another version of Weft or another kind of machine, and damaged files, are replaced. */
#include "train/data/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/folder.h"
#include "core/io/gguf.h"
#include "core/io/temporary.h"
#include "train/columns.h"
#include "train/data/reader.h"
#include "train/examples.h"
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
static const char magic[16] = "weft tokens 8\n";

/* Reads `size` bytes, or fewer at the end of the file. */
static weft_status read_up_to(int fd, const char *path, void *data, size_t size, size_t *n)
{
    for (*n = 0; *n < size;) {
        const ssize_t got = read(fd, (char *)data + *n, size - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft__fail_errno(path, "read");
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return WEFT_OK;
}

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
    enum { PIECE = 1 << 20 };
    int fd;
    weft_status status = weft__file_open(path, O_RDONLY, &fd);
    if (status != WEFT_OK)
        return status;
    char *data = weft_malloc(PIECE);
    size_t n = PIECE;
    if (data == NULL)
        status = weft__out_of_memory(path, "reading it");
    while (status == WEFT_OK && n == PIECE) {
        status = read_up_to(fd, path, data, PIECE, &n);
        if (status == WEFT_OK)
            add_bytes(k, data, n);
    }
    weft_free(data);
    close(fd);
    return status;
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
 * path to tokenizer.json means its folder. */
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
    const int64_t numbers[] = {(int64_t)o->format, o->length,
                               o->stride,          o->eos ? *o->eos : INT32_MIN,
                               (int64_t)o->longer, o->max_bad_rows,
                               o->learn_prompt,    o->last_turn,
                               (int64_t)o->seed,   (int64_t)o->examples,
                               o->vocabulary};
    add_bytes(k, numbers, sizeof numbers);
    add_bytes(k, &split, sizeof split);
    add_text(k, WEFT_VERSION);
    add_text(k, magic);
    for (int i = 0; o->labels && i < o->labels->n; i++)
        add_text(k, o->labels->at[i]);
    add_text(k, o->system);
    add_text(k, o->query_prompt);
    add_text(k, o->passage_prompt);
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
    uint64_t check; /* hash of all other bytes */
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

/* The four arrays of a dataset. */
typedef struct block {
    void **at;
    int64_t size; /* in bytes */
} block;

static void blocks_of(weft_dataset *d, block out[4])
{
    out[0] = (block){(void **)&d->samples, d->info.samples * (int64_t)sizeof *d->samples};
    out[1] = (block){(void **)&d->parts, d->n_parts * (int64_t)sizeof *d->parts};
    out[2] = (block){(void **)&d->ids, d->n_ids * (int64_t)sizeof *d->ids};
    out[3] = (block){(void **)&d->weights, d->n_ids * (int64_t)sizeof *d->weights};
}

static void hash_dataset(key *k, const weft_dataset *d)
{
    block blocks[4];
    blocks_of((weft_dataset *)d, blocks);
    for (int i = 0; i < 4; i++)
        add_bytes(k, *blocks[i].at, (size_t)blocks[i].size);
}

/* The value of `check`; `validation` may be NULL. */
static uint64_t check_of(header h, const weft_dataset *train, const weft_dataset *validation,
                         const char *said)
{
    key k = {3, 4};
    h.check = 0;
    add_bytes(&k, &h, sizeof h);
    hash_dataset(&k, train);
    if (validation)
        hash_dataset(&k, validation);
    add_bytes(&k, said, (size_t)h.n_said);
    return k.a ^ k.b;
}

static weft_status write_dataset(weft__writer *w, const weft_dataset *d)
{
    block blocks[4];
    weft_status status = WEFT_OK;
    blocks_of((weft_dataset *)d, blocks);
    for (int i = 0; i < 4 && status == WEFT_OK; i++)
        status = weft__writer_write(w, *blocks[i].at, (size_t)blocks[i].size);
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
    h.check = check_of(h, train, validation, said->text);
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

/* Checks a header against the size of its file. */
static bool is_whole(const header *h, int64_t size)
{
    static const kept none;
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->header_size == sizeof *h &&
           h->size == size && (h->has_validation == 0 || h->has_validation == 1) &&
           is_sound(&h->parts[0]) &&
           (h->has_validation ? is_sound(&h->parts[1])
                              : memcmp(&h->parts[1], &none, sizeof none) == 0) &&
           h->n_said >= 0 && h->n_said < (int64_t)sizeof((weft__said *)0)->text &&
           h->size == h->header_size + bytes_of(&h->parts[0]) + bytes_of(&h->parts[1]) + h->n_said;
}

/* Checks the sums of the information, which the samples determine. */
static bool is_summed(const weft_dataset *d)
{
    int64_t tokens = 0, targets = 0, longest = 0;
    for (int64_t i = 0; i < d->info.samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        tokens += s.length;
        targets += weft__sample_targets(&s);
        longest = s.length > longest ? s.length : longest;
    }
    return tokens == d->info.tokens && targets == d->info.targets && longest == d->info.longest;
}

/* The bytes of a bool may be neither 0 nor 1. */
static bool is_flag(const bool *flag)
{
    return *(const unsigned char *)flag <= 1;
}

/* Checks that every sample is within the ids and every part within the samples. */
static bool is_consistent(const weft_dataset *d)
{
    for (int64_t i = 0; i < d->info.samples; i++) {
        const weft__dataset_sample *s = &d->samples[i];
        if (s->start < 0 || s->length < 2 || s->start > d->n_ids ||
            s->length > d->n_ids - s->start || s->length > d->limit || !is_flag(&s->cut) ||
            !is_flag(&s->undesirable) || !isfinite(s->score))
            return false;
    }
    for (int64_t i = 0; i < d->n_ids; i++) {
        if (d->ids[i] < 0 || !(d->weights[i] >= 0 && d->weights[i] <= FLT_MAX))
            return false;
    }
    const bool texts = d->info.examples == WEFT_EXAMPLES_TEXTS;
    if (d->info.examples < WEFT_EXAMPLES_SINGLE || d->info.examples > WEFT_EXAMPLES_TEXTS ||
        (texts ? d->info.texts < 2 || d->info.texts > WEFT__MOST_TEXTS : d->info.texts != 0) ||
        !is_flag(&d->info.scored) || (d->info.scored && !texts) ||
        d->info.samples % weft__example_samples(d) != 0 ||
        (d->n_parts > 0 && d->parts[0].first != 0))
        return false;
    for (int64_t i = 0; i < d->n_parts; i++) {
        if (d->parts[i].first < (i ? d->parts[i - 1].first : 0) ||
            d->parts[i].first > d->info.samples ||
            d->parts[i].first % weft__example_samples(d) != 0 ||
            !(d->parts[i].weight >= 0 && d->parts[i].weight <= MOST_WEIGHT))
            return false;
    }
    return is_summed(d);
}

/* Reads `size` bytes; false: there are fewer, or it fails. */
static bool read_exactly(int fd, const char *path, void *data, size_t size)
{
    size_t n;
    return read_up_to(fd, path, data, size, &n) == WEFT_OK && n == size;
}

/* Reads a dataset, unchecked. NULL: the file is shorter, or out of memory. */
static weft_dataset *read_dataset(int fd, const char *path, const kept *k)
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
    block blocks[4];
    blocks_of(d, blocks);
    for (int i = 0; i < 4; i++) {
        if (blocks[i].size == 0)
            continue;
        *blocks[i].at = weft_malloc((size_t)blocks[i].size);
        if (*blocks[i].at == NULL ||
            !read_exactly(fd, path, *blocks[i].at, (size_t)blocks[i].size)) {
            weft_dataset_free(d);
            return NULL;
        }
    }
    return d;
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

/* Reads a file whose header is `h` into *train and, if it has one, *validation. */
static bool read_datasets(int fd, const char *path, const header *h, weft_dataset **train,
                          weft_dataset **validation)
{
    weft__said said;
    *train = read_dataset(fd, path, &h->parts[0]);
    if (*train && h->has_validation)
        *validation = read_dataset(fd, path, &h->parts[1]);
    if (*train == NULL || (h->has_validation && *validation == NULL) ||
        !read_exactly(fd, path, said.text, (size_t)h->n_said) ||
        h->check != check_of(*h, *train, *validation, said.text) || !is_consistent(*train) ||
        (*validation && !is_consistent(*validation)))
        return false;
    say_again(said.text, (size_t)h->n_said);
    return true;
}

bool weft__dataset_cache_open(const char *path, weft_dataset **train, weft_dataset **validation)
{
    struct stat about;
    header h;
    int fd;
    weft_dataset *chosen = NULL;
    *train = NULL;
    if (validation)
        *validation = NULL;
    if (!weft__exists(path) || weft__file_open(path, O_RDONLY, &fd) != WEFT_OK)
        return false;
    const bool fine = fstat(fd, &about) == 0 && read_exactly(fd, path, &h, sizeof h) &&
                      is_whole(&h, about.st_size) &&
                      (h.has_validation != 0) == (validation != NULL) &&
                      read_datasets(fd, path, &h, train, &chosen);
    close(fd);
    if (fine) {
        if (validation)
            *validation = chosen;
        return true;
    }
    weft_dataset_free(*train);
    weft_dataset_free(chosen);
    *train = NULL;
    weft_log_message(WEFT_LOG_WARNING, "%s: the file of cached tokens is damaged and written anew",
                     path);
    return false;
}
