/* train/run/identity.h -- hashes that identify the model, data and tokenizer of a run. */
#ifndef WEFT_TRAIN_IDENTITY_H
#define WEFT_TRAIN_IDENTITY_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "train/trainer.h"
#include "weft/train.h"

enum { WEFT__HASH_TEXT = 17 };

/* Hashes are hexadecimal; "" means unknown. */
typedef struct weft__identity {
    char base[WEFT__HASH_TEXT];      /* configuration and weights: names, sizes, some contents */
    char tokenizer[WEFT__HASH_TEXT]; /* tokenizer.json */
    char data[WEFT__HASH_TEXT];      /* ids and weights of all samples */
    char teacher[WEFT__HASH_TEXT];   /* of distillation: like the base, or its stored entries */
    int64_t batch_size;
    uint64_t order; /* seed of the order of the batches */
    int64_t ranks;  /* ranks that share the batches */
    const weft_objective *objective;
    weft_objective_options objective_options; /* with defaults set */
    /* What weft_trainer_verify compares and --resume does not; NULL: not written. */
    const weft_device *device;       /* of the trained parameters, for the member "build" */
    struct weft__contents *contents; /* the member "files" */
    const weft_dataset *samples;     /* the member "samples": sums over their hashes */
    char *settings;                  /* the members "options" and "command" */
} weft__identity;

/* train/data/batches.c: the hash of all samples, the batch size, and the seed of the order of
 * batches. */
void weft__batches_identify(const weft_batches *batches, uint64_t *hash, int64_t *batch_size,
                            uint64_t *seed);

/* train/data/batches.c: continues a hash with the samples of a dataset. */
uint64_t weft__dataset_hash(uint64_t hash, const weft_dataset *dataset);
uint64_t weft__dataset_hash_part(uint64_t hash, const weft_dataset *dataset, int64_t from,
                                 int64_t to);

void weft__write_hash(char out[WEFT__HASH_TEXT], uint64_t hash);
uint64_t weft__hash_bytes(uint64_t hash, const char *bytes, size_t n);

/* Hashes the name, size and contents of a file; of a large file, some blocks at equal distances.
 * Only the name of an unreadable file is hashed. */
uint64_t weft__hash_file(uint64_t hash, const char *path, const char *name);

/* The hash of a source's files. False if they cannot be read twice, such as standard input. */
bool weft__identity_of_data(const weft_data_source *source, char out[WEFT__HASH_TEXT]);

/* The identity of a run with these options and batches. A base_name that is not a path has no
 * hashes. */
void weft__identity_of(const weft_trainer_options *options, const weft_batches *batches,
                       weft__identity *out);

/* The same with device and settings and, with `contents`, the hashes of all files. Free it with
 * weft__identity_free. */
weft_status weft__identity_of_run(const weft_trainer *trainer, const weft__plan *plan,
                                  const weft_batches *batches, bool contents, weft__identity *out);
void weft__identity_free(weft__identity *identity);

/* Writes the identity as members of a JSON object, each followed by a comma. */
void weft__identity_write(weft__text *t, const weft__identity *identity);

/* WEFT_INVALID, naming the difference, if the members of a JSON object belong to another run. */
weft_status weft__identity_check(const weft__identity *now, const weft__json *object);

#endif
