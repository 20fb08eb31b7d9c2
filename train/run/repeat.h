/* train/run/repeat.h -- compares the results of repeated updates with those of their run. */
#ifndef WEFT_TRAIN_RUN_REPEAT_H
#define WEFT_TRAIN_RUN_REPEAT_H

#include "core/io/text.h"
#include "train/trainer.h"

typedef struct weft__repeated {
    bool same;              /* all bytes are */
    bool same_files;        /* those without tensors, and the metadata of the others */
    weft__text differences; /* JSON strings, separated by commas; owns its text */
    double losses;          /* the largest relative difference of a loss */
    double weights;         /* the norm of the difference of the trained parameters by their norm */
} weft__repeated;

/* Compares updates `from` (0: with the validation before them) to `to` of the run in folder `own`
 * with the same in `recorded`: metrics.jsonl and the checkpoint of `to`. */
weft_status weft__repeated_compare(const weft_trainer *trainer, const char *recorded,
                                   const char *own, int64_t from, int64_t to, weft__repeated *out);

#endif
