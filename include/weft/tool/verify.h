/* weft/tool/verify.h -- checks a training run: whether its inputs are unchanged, and whether
 * repeating a stretch of it gives the same bytes. Unstable. */
#ifndef WEFT_TOOL_VERIFY_H
#define WEFT_TOOL_VERIFY_H

#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_verify_options {
    /* The checkpoint to begin from, and the one to compare with. `from` below 0: the beginning,
     * which messages call 0, as the command does.
     * Both 0: the shortest stretch between two checkpoints, or from the beginning to the first.
     * `from` alone 0: the one before `to`. `to` alone 0: the newest. */
    int64_t from, to;
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
 * training.safetensors and the other files of the checkpoint. The trainer's callback is called
 * before the first update with an estimate in `remaining` and `from` in `step`, and for each
 * update; `steps` is `to`.
 *
 * *report is a JSON object, which the caller frees with weft_free:
 *   state       "verified": nothing differs, and the repeated updates have the same bytes (with
 *               hashes_only: everything is equal); "agrees": the build differs or is unknown, the
 *               results are within the tolerance and other files are equal (with hashes_only also:
 *               some files are equal by quick hashes); "unknown" (with hashes_only): something is
 *               not recorded; or "differs"
 *   checkpoint  the update of checkpoint `to`
 *   items       for "base", "tokenizer", "rows", "options" and "build": a "state" ("equal",
 *               "quick": equal, but some files only in a hash of some blocks; "unknown": something
 *               is not recorded, as in runs of older versions; or "differs") and "differences", a
 *               list of texts
 *   updates     null, or what repeating found: "from", "to", "seconds", "same_bytes", "differences"
 *               (texts; the first differing update and tensor), "loss_difference" (the largest
 *               relative difference of a loss) and "weights_difference" (of a trained tensor
 *               the norm of the difference by its norm, where that is largest)
 *
 * WEFT_OK whatever the state is. *report is NULL after a failure. WEFT_INVALID without such
 * checkpoints, and if `from` is 0 and the updates would take more than 15 minutes. WEFT_CANCELLED
 * if the trainer's callback or `cancel` stopped it. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_verify(weft_trainer *trainer,
                                                        weft_batches *batches,
                                                        const weft_dataset *validation,
                                                        const weft_verify_options *options,
                                                        char **report) WEFT_NONNULL(1, 2, 5);

#ifdef __cplusplus
}
#endif
#endif
