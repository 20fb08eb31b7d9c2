/* train/run/contents.h -- hashes of the files that a run reads. A thread computes the SHA-256 while
 * the run works: hashing a large model takes seconds. */
#ifndef WEFT_TRAIN_RUN_CONTENTS_H
#define WEFT_TRAIN_RUN_CONTENTS_H

#include "core/io/text.h"
#include "weft/train.h"

typedef struct weft__contents weft__contents;

/* Lists the files of the base model, the adapter that training begins with, the tokenizer, the
 * rewards and the data, and begins to hash them. */
weft_status weft__contents_start(const weft_trainer_options *options, weft__contents **out);

/* Waits for all hashes. */
void weft__contents_wait(weft__contents *contents);

/* Stops hashing and frees. NULL is accepted. */
void weft__contents_free(weft__contents *contents);

/* Waits up to 10 seconds for the hashes and writes the member "files" of a JSON object, followed by
 * a comma: [{"of": "base", "name": ..., "quick": ..., "size": ..., "sha256": ..., "lines": ...},
 * ...]. "of" is "base", "teacher", "adapter", "tokenizer", "reward", "data" or "validation";
 * "quick" is the hash of some blocks; "lines" (of text files of rows) are those of
 * weft__sums_write. Files that could not be hashed, or not in time, have no "size", "sha256" and
 * "lines". */
void weft__contents_write(weft__text *t, weft__contents *contents);

/* The files in a model's folder that decide what it computes, sorted: its configuration and its
 * weights. Returns their number; the caller frees each name and the list. */
int weft__model_files(const char *folder, char ***names);

#endif
