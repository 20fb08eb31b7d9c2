/* weft/task.h -- rows that a model is measured on: prompts with their answers or choices, and
 * texts.
 *
 *     weft_task_rows rows;
 *     weft_task_rows_load(&(weft_data_source){.path = "questions.csv"}, 1, NULL, &rows);
 *     ... rows.at[0].prompt, rows.at[0].texts[0] ...
 *     weft_task_rows_free(&rows);
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which rows are read. */
typedef enum weft_task_kind {
    WEFT_TASK_ANSWERS,  /* prompts with answers */
    WEFT_TASK_COMPARED, /* texts to be compared: an anchor, a positive, and perhaps negatives */
    WEFT_TASK_DOCUMENTS /* a text each */
} weft_task_kind;

typedef struct weft_task_options {
    weft_data_format format;
    int64_t max_bad_rows; /* skipped with a warning; 0: the first one fails */
    int64_t most_rows;    /* only the first rows; 0: all */
    bool choices;         /* rows have "choices" */
    bool prompts;         /* rows may lack an answer, which may be a number, and keep their JSON */
    const char *system;   /* with prompts: the system text of rows without one; NULL: none */
    weft_task_kind kind;
} weft_task_options;

typedef struct weft_task_row {
    char *where;    /* "file:line" or "file: row N", for messages */
    int64_t number; /* of its line or row, from 1 */
    char *prompt;   /* the text to continue; NULL: only a chat template can render the row */
    char *messages; /* the same for a chat template: a JSON array */
    char *tools, *variables; /* JSON for the template; NULL: none */
    bool spoken;             /* training would use the template, if the model has one */
    char **texts;            /* (n_texts) accepted answers, choices, or the texts of other kinds */
    int n_texts;
    int answer; /* index of the right choice */
    char *json; /* with prompts: the row, a JSON object */
} weft_task_row;

typedef struct weft_task_rows {
    weft_task_row *at;
    size_t n, capacity;
} weft_task_rows;

/* Reads the rows of n sources, in all formats of weft_dataset_load; free *out with
 * weft_task_rows_free, also after a failure. NULL options: all zero.
 *
 * A row has one of prompt, question, instruction, messages and conversations, with the members that
 * belong to it in training, and an "answer": a text or an array of texts. Without "answer", it is
 * that of the training row: completion, output or response, or the last message, which must be the
 * assistant's. With `prompts` that message may be another's, and the row has no answer then. With
 * choices, a row has "choices", an array of two or more texts, and "answer": one
 * of them or its index. In tables, an array is a cell with JSON.
 *
 * Rows of WEFT_TASK_COMPARED are those of WEFT_EXAMPLES_TEXTS without scores; documents have "text"
 * or one of the names of a positive there.
 *
 * WEFT_INVALID ("file:line: what") for a malformed row and without rows; otherwise fails as
 * weft_dataset_load. */
WEFT_NODISCARD WEFT_API weft_status weft_task_rows_load(const weft_data_source *sources, int n,
                                                        const weft_task_options *options,
                                                        weft_task_rows *out) WEFT_NONNULL(1, 4);
WEFT_API void weft_task_rows_free(weft_task_rows *rows) WEFT_NONNULL(1);

/* Loads prompts, for which weft_trainer_run samples completions (weft_trainer_options.sampling),
 * from n sources: rows as above with `prompts`. A prompt is rendered by the options' chat template
 * if training would do so, else it is a text with the tokenizer's special tokens. Of the options
 * format, length (of a prompt; 0: 512), longer, max_bad_rows, chat, system and vocabulary are used.
 * A longer prompt is WEFT_INVALID, or left out with WEFT_LONG_DROP. Fails as weft_task_rows_load.
 * Free *out with weft_dataset_free; `tokenizer` is used during this call only. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_prompts(
    const weft_data_source *sources, int n, const weft_tokenizer *tokenizer,
    const weft_dataset_options *options, weft_dataset **out) WEFT_NONNULL(1, 3, 5);

#ifdef __cplusplus
}
#endif
#endif
