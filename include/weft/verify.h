/* weft/verify.h -- checks a training run: whether its inputs are unchanged, and whether repeating a
 * stretch of it gives the same bytes. */
#ifndef WEFT_VERIFY_H
#define WEFT_VERIFY_H

#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_verify_options {
    int64_t from; /* the checkpoint to begin from; 0: the one before `to`; below 0: the beginning */
    int64_t to;   /* the checkpoint to compare with; 0: the newest */
    double tolerance; /* relative, for runs of another build or machine; 0: 0.05 */
    bool hashes_only; /* repeat no update */
} weft_verify_options;

/* Checks the run in the trainer's folder, which is only read. The trainer has been made with the
 * run's options, and the batches and validation data (or NULL) are those of the run. NULL options:
 * all zero.
 *
 * Compares what checkpoint `to` records of base model, tokenizer, rows, options and build with what
 * there is now. If none but the build differs, repeats the updates after checkpoint `from`, in a
 * temporary folder (in TMPDIR, else /tmp), and compares the losses in metrics.jsonl, the tensors in
 * training.safetensors and the other files of the checkpoint.
 *
 * *report is a JSON object, which the caller frees with weft_free:
 *   state       "verified": everything is equal, and the repeated updates have the same bytes (with
 *               hashes_only: everything is equal); "agrees": the build differs or is unknown, and
 *               the results are within the tolerance; or "differs"
 *   checkpoint  the update of checkpoint `to`
 *   items       for "base", "tokenizer", "rows", "options" and "build": a "state" ("equal",
 *               "differs", or "unknown" for runs of older versions) and "differences", a list of
 *               texts
 *   updates     null, or what repeating found: "from", "to", "seconds", "same_bytes", "differences"
 *               (texts; the first differing update and tensor), "loss_difference" (the largest
 *               relative difference of a loss) and "weights_difference" (of a trained tensor
 *               the norm of the difference by its norm, where that is largest)
 *
 * WEFT_OK whatever the state is. *report is NULL after a failure. WEFT_INVALID without such
 * checkpoints, and without `from` if there is no checkpoint before `to` and the run took more than
 * 10 minutes until then. WEFT_CANCELLED if the trainer's callback or `cancel` stopped it. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_verify(weft_trainer *trainer,
                                                        weft_batches *batches,
                                                        const weft_dataset *validation,
                                                        const weft_verify_options *options,
                                                        char **report) WEFT_NONNULL(1, 2, 5);

#ifdef __cplusplus
}
#endif
#endif
