/* cli/train_sample.c -- generates samples for --sample-prompt after every validation. */
#include <stdlib.h>
#include <string.h>

#include "cli/train.h"

enum { SAMPLE_TOKENS = 48 };

static bool append(void *context, const weft_generated *token)
{
    char **text = context;
    char *more = weft_format("%s%.*s", *text, (int)token->length, token->text);
    if (more == NULL)
        return false;
    weft_free(*text);
    *text = more;
    return true;
}

static weft_status generate(train_run *r, const char *prompt, char **out)
{
    int32_t *ids = NULL;
    size_t n = 0;
    *out = weft_strdup("");
    if (*out == NULL)
        return weft_fail(WEFT_MEMORY, "train: out of memory for a sample");
    weft_status status = weft_tokenizer_encode(r->tokenizer, prompt, strlen(prompt),
                                               WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n);
    /* Greedy decoding: samples of different updates differ only because of training. */
    const weft_generate_options o = {.max_tokens = SAMPLE_TOKENS};
    if (status == WEFT_OK)
        status = weft_generate(r->model, r->tokenizer, ids, n, &o, append, out, NULL);
    weft_free(ids);
    return status;
}

weft_status train_sample(void *context, int64_t step, const weft_train_sample **samples, int *n)
{
    (void)step;
    train_run *r = context;
    const cli_texts *prompts = &r->values->sample_prompts;
    weft_status status = WEFT_OK;
    train_free_samples(r);
    r->samples = calloc((size_t)prompts->n, sizeof *r->samples);
    if (r->samples == NULL)
        return weft_fail(WEFT_MEMORY, "train: out of memory for samples");
    for (int i = 0; status == WEFT_OK && i < prompts->n; i++) {
        char *text;
        status = generate(r, prompts->at[i], &text);
        r->samples[i] = (weft_train_sample){prompts->at[i], text};
        r->n_samples = i + 1;
    }
    *samples = r->samples;
    *n = r->n_samples;
    return status;
}

void train_free_samples(train_run *r)
{
    for (int i = 0; i < r->n_samples; i++)
        weft_free((void *)r->samples[i].text);
    free(r->samples);
    r->samples = NULL;
    r->n_samples = 0;
}
