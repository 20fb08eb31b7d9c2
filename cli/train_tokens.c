/* cli/train_tokens.c -- weft train --train-tokens and --add-tokens: finds the tokens, and extends
 * the tokenizer. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/text.h"
#include "cli/train.h"

/* Words that point into `text`. */
typedef struct word_list {
    char *text;
    const char **at;
    int n;
} word_list;

static void free_words(word_list *words)
{
    weft_free(words->text);
    free(words->at);
}

/* Splits `text`, whose ownership it takes, at any of the characters; skips empty words. */
static weft_status cut(char *text, const char *separators, word_list *out)
{
    char *rest = NULL;
    int room = 0;
    *out = (word_list){.text = text};
    if (text == NULL)
        return weft_fail(WEFT_MEMORY, "train: out of memory for a list of tokens");
    for (char *word = strtok_r(text, separators, &rest); word != NULL;
         word = strtok_r(NULL, separators, &rest)) {
        if (out->n == room) {
            room = 2 * room + 64;
            const char **more = realloc(out->at, (size_t)room * sizeof *more);
            if (more == NULL)
                return weft_fail(WEFT_MEMORY, "train: out of memory for a list of tokens");
            out->at = more;
        }
        out->at[out->n++] = word;
    }
    return WEFT_OK;
}

/* Reads the new tokens: the lines of a file, or the words of a list. */
static weft_status read_new(const char *value, word_list *out)
{
    struct stat info;
    char *text = NULL;
    size_t size;
    *out = (word_list){.n = 0};
    const bool file = stat(value, &info) == 0 && S_ISREG(info.st_mode);
    if (!file && (cli_ends_with(value, ".txt") || cli_ends_with(value, ".json")))
        return weft_fail(WEFT_IO, "--add-tokens: %s: there is no such file", weft_printable(value));
    if (!file)
        return cut(weft_strdup(value), ", ", out);
    weft_status status = weft_file_read(value, 0, &text, &size);
    if (status == WEFT_OK && strlen(text) != size) {
        status = weft_fail(WEFT_INVALID, "--add-tokens: %s: a 0 byte at %zu of %zu",
                           weft_printable(value), strlen(text), size);
        weft_free(text);
    }
    if (status == WEFT_OK)
        status = cut(text, "\r\n", out);
    if (status == WEFT_OK && out->n == 0)
        status = weft_fail(WEFT_INVALID, "--add-tokens: %s: expected a token a line, got none",
                           weft_printable(value));
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------------- */

weft_status train_open_tokenizer(const train_values *v, train_run *r)
{
    word_list words = {.n = 0};
    if (r->tokenizer != NULL)
        return WEFT_OK;
    weft_status status = weft_adapter_tokenizer_path(r->path, v->init_adapter, &r->text_path);
    if (status == WEFT_OK && v->add_tokens == NULL)
        return weft_tokenizer_load(r->text_path, &r->tokenizer);
    if (status == WEFT_OK)
        status = read_new(v->add_tokens, &words);
    if (status == WEFT_OK)
        status = weft_tokenizer_extend(r->text_path, words.at, words.n, &r->tokenizer);
    free_words(&words);
    return status;
}

void train_put_tokenizer(const train_values *v, const train_run *r, weft_trainer_options *o)
{
    const bool own = r->text_path && strcmp(r->text_path, r->path) != 0;
    o->tokenizer_path =
        own || v->add_tokens || v->full || v->task == TRAIN_EMBED ? r->text_path : NULL;
    o->tokenizer = v->add_tokens ? r->tokenizer : NULL;
    o->chat_template = v->source.template_file && r->chat ? weft_chat_source(r->chat, NULL) : NULL;
}

/* ---- their rows ----------------------------------------------------------------------------- */

/* Finds the ids of --train-tokens and --add-tokens; the caller frees *ids. */
static weft_status find_ids(const train_values *v, const weft_tokenizer *tokenizer, int32_t **ids,
                            int *n)
{
    word_list words = {.n = 0};
    const int32_t end = weft_tokenizer_vocab_size(tokenizer);
    const int further = weft_tokenizer_further(tokenizer);
    weft_status status =
        v->train_tokens ? cut(weft_strdup(v->train_tokens), ", ", &words) : WEFT_OK;
    *n = 0;
    *ids = malloc((size_t)(words.n + further + 1) * sizeof **ids);
    if (status == WEFT_OK && *ids == NULL)
        status = weft_fail(WEFT_MEMORY, "train: out of memory for a list of tokens");
    for (int i = 0; status == WEFT_OK && i < words.n; i++) {
        (*ids)[*n] = weft_tokenizer_token_to_id(tokenizer, words.at[i]);
        if ((*ids)[(*n)++] < 0)
            status = weft_fail(WEFT_INVALID, "--train-tokens: the vocabulary has no token '%s'",
                               weft_printable(words.at[i]));
    }
    for (int32_t id = end - further; status == WEFT_OK && id < end; id++)
        (*ids)[(*n)++] = id;
    free_words(&words);
    return status;
}

weft_status train_add_tokens(const train_values *v, train_run *r)
{
    int32_t *ids = NULL;
    int n = 0;
    if (v->train_tokens == NULL && v->add_tokens == NULL)
        return WEFT_OK;
    weft_status status = train_open_tokenizer(v, r);
    if (status == WEFT_OK)
        status = find_ids(v, r->tokenizer, &ids, &n);
    if (status == WEFT_OK) {
        const int32_t end = weft_tokenizer_vocab_size(r->tokenizer);
        status =
            weft_adapter_add_tokens(r->model, ids, n, end - weft_tokenizer_further(r->tokenizer));
    }
    free(ids);
    return status;
}

void train_print_tokens(const train_run *r)
{
    const int32_t further = r->tokenizer ? weft_tokenizer_further(r->tokenizer) : 0;
    if (further > 0)
        fprintf(stderr,
                "tokens  %s new, ids %d to %d; their rows start as the mean of the others\n",
                cli_count(further), weft_tokenizer_vocab_size(r->tokenizer) - further,
                weft_tokenizer_vocab_size(r->tokenizer) - 1);
}
