/* train/run/identity.c -- hashes that identify the model, data and tokenizer of a run. */
#include "train/run/identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/text.h"
#include "train/data/dataset.h"
#include "train/data/reader.h"
#include "train/run/build.h"
#include "train/run/contents.h"
#include "train/run/settings.h"
#include "train/run/sums.h"
#include "weft/tool/run.h"

/* Of large files only this many blocks are hashed, spread over the file. */
enum { BLOCK = 1 << 16, BLOCKS = 32 };

uint64_t weft__hash_bytes(uint64_t hash, const char *bytes, size_t n)
{
    for (; n >= sizeof(uint64_t); bytes += sizeof(uint64_t), n -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        hash = weft__mix(hash, word);
    }
    uint64_t rest = n;
    for (size_t i = 0; i < n; i++)
        rest = rest << 8 | (unsigned char)bytes[i];
    return weft__mix(hash, rest);
}

uint64_t weft__hash_file(uint64_t hash, const char *path, const char *name)
{
    struct stat info;
    hash = weft__hash_bytes(hash, name, strlen(name));
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *block = weft_malloc(BLOCK);
    if (file >= 0 && block && fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        hash = weft__mix(hash, (uint64_t)info.st_size);
        const int64_t whole = ((int64_t)info.st_size + BLOCK - 1) / BLOCK;
        const int64_t n = whole < BLOCKS ? whole : BLOCKS;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = n < 2 ? 0 : i * (whole - 1) / (n - 1);
            const ssize_t got = pread(file, block, BLOCK, (off_t)(at * BLOCK));
            hash = weft__hash_bytes(hash, block, got > 0 ? (size_t)got : 0);
        }
    }
    if (file >= 0)
        close(file);
    weft_free(block);
    return hash;
}

void weft__write_hash(char out[WEFT__HASH_TEXT], uint64_t hash)
{
    snprintf(out, WEFT__HASH_TEXT, "%016" PRIx64, hash);
}

/* Hashes a model's file, or the configuration and weights in its folder. */
void weft_run_base_hash(const char *path, char out[17])
{
    struct stat info;
    out[0] = '\0';
    if (stat(path, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        weft__write_hash(out, weft__hash_file(0, path, ""));
        return;
    }
    char **names;
    const int n = weft__model_files(path, &names);
    uint64_t hash = 0;
    for (int i = 0; i < n; i++) {
        char *file = weft_format("%s/%s", path, names[i]);
        if (file)
            hash = weft__hash_file(hash, file, names[i]);
        weft_free(file);
        weft_free(names[i]);
    }
    weft_free(names);
    if (n > 0)
        weft__write_hash(out, hash);
}

/* Hashes the entries of a stored teacher, or the files of another. */
static void identify_teacher(const weft_trainer_options *o, const weft_batches *batches,
                             weft__identity *out)
{
    const weft_dataset *d = weft__batches_dataset(batches);
    if (d && d->top)
        weft__write_hash(out->teacher, weft__top_hash(d->top));
    else if (o->objective_options.teacher_name)
        weft_run_base_hash(o->objective_options.teacher_name, out->teacher);
}

/* Hashes tokenizer.json of the base or, if the run has its own tokenizer, of that one with its
 * added tokens. */
static void identify_tokenizer(const weft_trainer_options *o, weft__identity *out)
{
    const char *folder = o->tokenizer_path ? o->tokenizer_path : o->base_name;
    const int32_t end = o->tokenizer ? weft_tokenizer_vocab_size(o->tokenizer) : 0;
    const int32_t n = o->tokenizer ? weft_tokenizer_further(o->tokenizer) : 0;
    char *name = weft_format("%s/tokenizer.json", folder), *text;
    uint64_t hash = 0;
    size_t size;
    const bool there =
        name && access(name, R_OK) == 0 && weft_file_read(name, 0, &text, &size) == WEFT_OK;
    if (there) {
        hash = weft__hash_bytes(hash, text, size);
        weft_free(text);
    }
    weft_free(name);
    for (int32_t id = end - n; id < end; id++) {
        const char *token = weft_tokenizer_id_to_token(o->tokenizer, id);
        hash = weft__hash_bytes(hash, token ? token : "", token ? strlen(token) : 0);
    }
    if (there || n > 0)
        weft__write_hash(out->tokenizer, hash);
}

void weft__identity_of(const weft_trainer_options *options, const weft_batches *batches,
                       weft__identity *out)
{
    uint64_t data;
    *out = (weft__identity){.ranks = weft_group_info_of(options->group).size,
                            .objective = options->objective,
                            .objective_options = options->objective_options};
    weft__batches_identify(batches, &data, &out->batch_size, &out->order);
    weft__write_hash(out->data, data);
    identify_tokenizer(options, out);
    identify_teacher(options, batches, out);
    weft_run_base_hash(options->base_name, out->base);
}

weft_status weft__identity_of_run(const weft_trainer *trainer, const weft__plan *plan,
                                  const weft_batches *batches, bool contents, weft__identity *out)
{
    weft__text t = {0};
    weft__identity_of(&trainer->o, batches, out);
    weft__settings_write(&t, trainer, plan);
    out->samples = weft__batches_dataset(batches);
    out->settings = t.at;
    out->device = weft_device_of(*trainer->slots.slots[0]);
    if (t.failed)
        return weft__out_of_memory("training", "the run's records");
    return contents ? weft__contents_start(&trainer->o, &out->contents) : WEFT_OK;
}

void weft__identity_free(weft__identity *identity)
{
    weft_free(identity->settings);
    weft__contents_free(identity->contents);
}

bool weft__identity_of_data(const weft_data_source *source, char out[WEFT__HASH_TEXT])
{
    weft__data_files files;
    uint64_t hash = 0;
    struct stat info;
    if (strcmp(source->path, "-") == 0 || weft__data_files_find(source, &files) != WEFT_OK)
        return false;
    bool regular = files.n > 0;
    for (int i = 0; i < files.n && regular; i++) {
        regular = stat(files.at[i], &info) == 0 && S_ISREG(info.st_mode);
        hash = weft__hash_file(hash, files.at[i], "");
    }
    weft__data_files_free(&files);
    weft__write_hash(out, hash);
    return regular;
}

/* ---- as JSON -------------------------------------------------------------------------------- */

/* Writes sums over the samples' hashes, by which a changed sample is found. */
static void write_samples(weft__text *t, const weft_dataset *d)
{
    const int64_t n = weft_dataset_info_of(d).samples;
    weft__sums sums = {.n = 0};
    for (int64_t i = 0; i < n; i++)
        weft__sums_add(&sums, weft__dataset_hash_part(0, d, i, i + 1));
    weft__text_format(t, "\"samples\": ");
    weft__sums_write(t, &sums);
    weft__text_format(t, ", ");
}

void weft__identity_write(weft__text *t, const weft__identity *id)
{
    weft__text_format(t,
                      "\"base\": \"%s\", \"tokenizer\": \"%s\", \"data\": \"%s\", "
                      "\"batch_size\": %lld, \"order\": \"%llu\", \"ranks\": %lld, ",
                      id->base, id->tokenizer, id->data, (long long)id->batch_size,
                      (unsigned long long)id->order, (long long)id->ranks);
    weft__objective_write(t, id->objective, &id->objective_options);
    if (id->teacher[0] != '\0')
        weft__text_format(t, "\"teacher\": \"%s\", ", id->teacher);
    if (id->device)
        weft__build_write(t, id->device);
    if (id->samples)
        write_samples(t, id->samples);
    if (id->contents)
        weft__contents_write(t, id->contents);
    if (id->settings)
        weft__text_append(t, id->settings, strlen(id->settings));
}

static weft_status expect_same(const weft__json *object, const char *key, const char *what,
                               const char *now)
{
    const char *then = "";
    const weft_status status = weft__json_find_string(object, key, &then);
    if (status != WEFT_OK || then[0] == '\0' || now[0] == '\0' || strcmp(then, now) == 0)
        return status;
    return weft_fail(WEFT_INVALID,
                     "%s: the %s has changed since the run began (hash %s, now %s): it cannot be "
                     "resumed with another",
                     object->name, what, weft_printable(then), now);
}

/* Checks the number of ranks. Runs of one process may lack the member. */
static weft_status check_ranks(const weft__identity *now, const weft__json *object)
{
    int64_t then = 1;
    const weft_status status = weft__json_find_int(object, "ranks", &then);
    if (status != WEFT_OK || then == now->ranks)
        return status;
    return weft_fail(WEFT_INVALID,
                     "%s: ranks: expected the run's %lld, got %lld: it cannot be resumed with "
                     "another number of processes",
                     object->name, (long long)then, (long long)now->ranks);
}

weft_status weft__identity_check(const weft__identity *now, const weft__json *object)
{
    weft_status status =
        weft__objective_check_same(object, now->objective, &now->objective_options);
    if (status == WEFT_OK)
        status = expect_same(object, "base", "base model", now->base);
    if (status == WEFT_OK)
        status = expect_same(object, "tokenizer", "tokenizer", now->tokenizer);
    if (status == WEFT_OK)
        status = expect_same(object, "data", "data", now->data);
    if (status == WEFT_OK)
        status = expect_same(object, "teacher", "teacher", now->teacher);
    char order[32];
    snprintf(order, sizeof order, "%llu", (unsigned long long)now->order);
    if (status == WEFT_OK)
        status = expect_same(object, "order", "seed of the batches", order);
    int64_t batch_size = now->batch_size;
    if (status == WEFT_OK) /* before sizes that depend on them */
        status = check_ranks(now, object);
    if (status == WEFT_OK)
        status = weft__json_find_int(object, "batch_size", &batch_size);
    if (status == WEFT_OK && batch_size != now->batch_size)
        status = weft_fail(WEFT_INVALID,
                           "%s: batch size: expected the run's %lld, got %lld: it cannot be "
                           "resumed with another",
                           object->name, (long long)batch_size, (long long)now->batch_size);
    return status;
}
