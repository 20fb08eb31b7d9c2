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

bool train_in_chats(const train_run *r)
{
    return r->chat && r->data_info.rendered > 0;
}

/* The text that the model continues: the prompt, or in chats a conversation in which the prompt is
 * the message of the user, rendered by the chat template. */
static weft_status rendered(const train_run *r, const char *prompt, char **out)
{
    const weft_chat_message user = {.role = "user", .content = prompt};
    const weft_chat_options o = {.generation_prompt = true};
    char *json = NULL;
    *out = NULL;
    if (!train_in_chats(r)) {
        *out = weft_strdup(prompt);
        return *out ? WEFT_OK : weft_fail(WEFT_MEMORY, "train: out of memory for a sample");
    }
    weft_status status = weft_chat_messages(&user, 1, &json);
    if (status == WEFT_OK)
        status = weft_chat_render(r->chat, json, &o, out, NULL);
    weft_free(json);
    return status;
}

static weft_status generate(train_run *r, const char *prompt, weft_train_sample *sample)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const bool chat = train_in_chats(r);
    char *text = weft_strdup(""), *all = NULL, *end = NULL;
    weft_status status = text ? rendered(r, prompt, &all)
                              : weft_fail(WEFT_MEMORY, "train: out of memory for a sample");
    if (status == WEFT_OK && chat)
        status = cli_end_of_turn(r->chat, &end);
    const unsigned special = chat ? 0 : WEFT_TOKENIZER_ADD_SPECIAL;
    /* Greedy decoding: samples of different updates differ only because of training. The end of a
     * turn may be a special token. */
    const weft_generate_options o = {.max_tokens = SAMPLE_TOKENS,
                                     .stop_texts = (const char *const[]){end},
                                     .n_stop_texts = end != NULL,
                                     .keep_special = chat};
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(r->tokenizer, all, strlen(all), special, &ids, &n);
    if (status == WEFT_OK)
        status = weft_generate(r->model, r->tokenizer, ids, n, &o, append, &text, NULL);
    weft_free(ids);
    weft_free(end);
    *sample = (weft_train_sample){.prompt = all, .text = text};
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
        status = generate(r, prompts->at[i], &r->samples[i]);
        r->n_samples = i + 1;
    }
    *samples = r->samples;
    *n = r->n_samples;
    return status;
}

void train_free_samples(train_run *r)
{
    for (int i = 0; i < r->n_samples; i++) {
        weft_free((void *)r->samples[i].prompt);
        weft_free((void *)r->samples[i].text);
    }
    free(r->samples);
    r->samples = NULL;
    r->n_samples = 0;
}
