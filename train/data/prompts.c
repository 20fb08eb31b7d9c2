/* train/data/prompts.c -- reads prompts for which completions are sampled. */
#include <string.h>

#include "core/failure.h"
#include "train/data/dataset.h"

/* The row's prompt as the model reads it, with the ids. The caller frees both. */
static weft_status render(const weft_task_row *row, const weft_dataset_options *o,
                          const weft_tokenizer *tokenizer, char **text, int32_t **ids, size_t *n)
{
    const weft_chat_options chat = {
        .generation_prompt = true, .tools = row->tools, .variables = row->variables};
    const bool spoken = row->prompt == NULL || (row->spoken && o->chat != NULL);
    weft_status status = WEFT_OK;
    if (spoken && o->chat == NULL)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: a row with messages needs a chat template, and the model has none",
                         row->where);
    if (spoken)
        status = weft_chat_render(o->chat, row->messages, &chat, text, NULL);
    else if ((*text = weft_strdup(row->prompt)) == NULL)
        return weft__out_of_memory(row->where, "a prompt");
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, *text, strlen(*text),
                                       spoken ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, ids, n);
    return status == WEFT_OK ? status
                             : weft_fail(status, "%s: %s", row->where, weft_error_message());
}

/* Adds the prompt of a row as a sample without targets. *kept: it is not left out. */
static weft_status add(weft_dataset *d, const weft_dataset_options *o,
                       const weft_tokenizer *tokenizer, weft_task_row *row, bool *kept)
{
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status = render(row, o, tokenizer, &text, &ids, &n);
    *kept = status == WEFT_OK && (int64_t)n <= d->limit;
    if (status == WEFT_OK && n == 0)
        status = weft_fail(WEFT_INVALID, "%s: the prompt has no tokens", row->where);
    if (status == WEFT_OK && !*kept && o->longer != WEFT_LONG_DROP)
        status = weft_fail(WEFT_INVALID,
                           "%s: the prompt has %zu tokens, more than the length %lld: expected a "
                           "larger length, or the policy drop",
                           row->where, n, (long long)d->limit);
    float *weights = weft_calloc(n + 1, sizeof *weights);
    if (status == WEFT_OK && weights == NULL)
        status = weft__out_of_memory(row->where, "a prompt");
    const weft_sample sample = {ids, weights, (int64_t)n, 0};
    if (status == WEFT_OK)
        status = weft__dataset_check_sample(d, &sample);
    if (status == WEFT_INVALID && n > 0 && *kept)
        status = weft_fail(status, "%s: %s", row->where, weft_error_message());
    if (status == WEFT_OK && *kept)
        status = weft__dataset_append(d, &sample, false);
    if (status == WEFT_OK && *kept) {
        weft_free(row->prompt);
        row->prompt = text;
        text = NULL;
    }
    d->info.dropped += status == WEFT_OK && !*kept;
    d->info.rendered += status == WEFT_OK && *kept && (row->spoken && o->chat != NULL);
    weft_free(weights);
    weft_free(ids);
    weft_free(text);
    return status;
}

weft_status weft_dataset_load_prompts(const weft_data_source *sources, int n,
                                      const weft_tokenizer *tokenizer,
                                      const weft_dataset_options *options, weft_dataset **out)
{
    const weft_dataset_options none = {0}, *o = options ? options : &none;
    const weft_task_options rows = {
        .format = o->format, .max_bad_rows = o->max_bad_rows, .prompts = true, .system = o->system};
    weft_dataset *d = NULL;
    *out = NULL;
    weft_status status = weft_dataset_new(o->length, &d);
    if (status != WEFT_OK)
        return status;
    d->info.examples = WEFT_EXAMPLES_PROMPTS;
    d->vocabulary = o->vocabulary;
    status = weft_task_rows_load(sources, n, &rows, &d->rows);
    size_t kept = 0;
    for (size_t i = 0; status == WEFT_OK && i < d->rows.n; i++) {
        bool keep;
        status = add(d, o, tokenizer, &d->rows.at[i], &keep);
        const weft_task_row row = d->rows.at[i]; /* those that are left out move to the end */
        d->rows.at[i] = d->rows.at[kept];
        d->rows.at[kept] = row;
        kept += keep;
    }
    if (status == WEFT_OK && kept == 0)
        status = weft_fail(WEFT_INVALID, "%s: every prompt is longer than %lld tokens",
                           sources->path, (long long)d->limit);
    if (status == WEFT_OK && d->info.dropped > 0)
        weft_log_message(WEFT_LOG_WARNING,
                         "%s: %lld of %zu prompts are longer than %lld tokens and left out",
                         sources->path, (long long)d->info.dropped, d->rows.n, (long long)d->limit);
    if (status == WEFT_OK)
        *out = d;
    else
        weft_dataset_free(d);
    return status;
}
