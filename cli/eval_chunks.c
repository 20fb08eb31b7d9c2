/* cli/eval_chunks.c -- weft eval --context: perplexity by chunks, as llama.cpp reports it. */
#include "cli/eval.h"

static bool show(void *context, const weft_perplexity *so_far, int64_t chunks)
{
    cli_progress_show(context, (double)so_far->chunks / (double)chunks, false,
                      "%s of %s chunks, perplexity %.2f", cli_count(so_far->chunks),
                      cli_count(chunks), so_far->perplexity);
    return true;
}

/* Encodes the whole text. *bos is the begin token that the tokenizer adds, which is then the first
 * id; -1: none. */
static weft_status read_ids(const eval_values *v, const weft_tokenizer *tokenizer, int32_t **ids,
                            size_t *n, int32_t *bos)
{
    char *text = NULL;
    size_t length = 0;
    int32_t *around = NULL, *inside = NULL;
    size_t n_around = 0;
    weft_status status =
        weft_tokenizer_encode(tokenizer, "", 0, WEFT_TOKENIZER_ADD_SPECIAL, &around, &n_around);
    if (status == WEFT_OK) {
        const int32_t id = weft_tokenizer_bos(tokenizer);
        *bos = n_around > 0 && around[0] == id ? id : -1;
        status = eval_text_read(v, &text, &length);
    }
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, text, length, 0, &inside, n);
    if (status == WEFT_OK) {
        const size_t front = *bos >= 0;
        *ids = weft_malloc((*n + front) * sizeof **ids + 1);
        if (*ids == NULL)
            status = weft_fail(WEFT_MEMORY, "%s: no memory for %zu tokens",
                               weft_printable(cli_data_first(&v->source)), *n);
        if (status == WEFT_OK && front)
            (*ids)[0] = *bos;
        for (size_t i = 0; status == WEFT_OK && i < *n; i++)
            (*ids)[i + front] = inside[i];
        *n += front;
    }
    weft_free(inside);
    weft_free(around);
    weft_free(text);
    return status;
}

weft_status eval_perplexity(const eval_run *run, weft_perplexity *out)
{
    const eval_values *v = run->values;
    int32_t *ids = NULL, bos = -1;
    size_t n = 0;
    weft_status status = read_ids(v, run->tokenizer, &ids, &n, &bos);
    if (status == WEFT_OK) {
        const weft_perplexity_options o = {.context = v->context,
                                           .chunks = v->chunks != CLI_ABSENT ? v->chunks : 0,
                                           .bos = bos >= 0 ? &bos : NULL,
                                           .batch.tokens = v->batch_size * v->context,
                                           .callback = show,
                                           .callback_context = run->progress};
        status = weft_perplexity_chunks(run->model, ids, n, &o, out);
    }
    weft_free(ids);
    return status;
}
