/* weft/tool/data.h -- data as the command measures it. Unstable. */
#ifndef WEFT_TOOL_DATA_H
#define WEFT_TOOL_DATA_H

#include "weft/objective.h"
#include "weft/task.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the texts of n sources: of files that are one text, and of rows with "text", each of which
 * ends a line. The caller frees *text with weft_free. Fails as weft_task_rows_load, also for rows
 * of other kinds. */
WEFT_NODISCARD WEFT_API weft_status weft_data_text(const weft_data_source *sources, int n,
                                                   const weft_task_options *options, char **text,
                                                   size_t *length) WEFT_NONNULL(1, 4, 5);

/* Makes a batch of samples one of the objective's examples, with zeros in the columns that it
 * reads and the batch lacks, to measure memory and time. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_batch_complete(weft_batch *batch,
                                                        const weft_objective *objective)
    WEFT_NONNULL(1, 2);

/* Makes the completions of each group in a batch of completions share their prompt, so that an
 * update computes it once, as weft_trainer_run does. Groups are num_generations samples each, of
 * which the last may have fewer, with equal tokens before their first targets. Nothing changes if
 * the batch or the trainer has other examples, if the model or the options do not allow it, or if
 * it saves too little. */
WEFT_NODISCARD WEFT_API weft_status weft_batch_share(const weft_trainer *trainer, weft_batch *batch)
    WEFT_NONNULL(1, 2);

/* The bytes of the KV caches, in float32, of a running batch without a budget that computes `rows`
 * sequences of `tokens` at the same time; 0: unknown. */
WEFT_API int64_t weft_batch_cache_bytes(weft_model *model, int64_t rows, int64_t tokens)
    WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
