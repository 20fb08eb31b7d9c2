/* cli/inspect_tokens.c -- the tokens of a text that weft inspect shows. */
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"

static weft_status split(const weft_tokenizer *tokenizer, inspect_tokens *out)
{
    weft_detokenizer *stream = NULL;
    weft_status status = weft_detokenizer_new(tokenizer, 0, &stream);
    out->texts = calloc(out->n + 1, sizeof *out->texts);
    for (size_t i = 0; status == WEFT_OK && out->texts != NULL && i < out->n; i++) {
        const char *text = "", *rest = "";
        status = weft_detokenizer_push(stream, out->ids[i], &text, NULL);
        char *copy = status == WEFT_OK ? strdup(text) : NULL;
        if (copy != NULL && i + 1 == out->n)
            status = weft_detokenizer_finish(stream, &rest, NULL);
        out->texts[i] = copy != NULL ? realloc(copy, strlen(copy) + strlen(rest) + 1) : NULL;
        if (out->texts[i] != NULL)
            strcat(out->texts[i], rest);
        else
            free(copy);
        if (status == WEFT_OK && out->texts[i] == NULL)
            status = weft_fail(WEFT_MEMORY, "inspect: no memory for the tokens");
    }
    weft_detokenizer_free(stream);
    return status == WEFT_OK && out->texts == NULL ? weft_fail(WEFT_MEMORY, "inspect: no memory")
                                                   : status;
}

weft_status inspect_tokens_read(const inspect_values *v, const char *path, const char *text,
                                size_t length, inspect_tokens *out)
{
    weft_tokenizer *tokenizer = NULL;
    *out = (inspect_tokens){0};
    weft_status status = weft_adapter_tokenizer(path, v->adapter, &tokenizer);
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(tokenizer, text, length,
                                       v->no_special ? 0 : WEFT_TOKENIZER_ADD_SPECIAL, &out->ids,
                                       &out->n);
    if (status == WEFT_OK)
        status = split(tokenizer, out);
    weft_tokenizer_free(tokenizer);
    return status;
}

void inspect_tokens_free(inspect_tokens *tokens)
{
    for (size_t i = 0; tokens->texts != NULL && i < tokens->n; i++)
        free(tokens->texts[i]);
    free(tokens->texts);
    weft_free(tokens->ids);
    *tokens = (inspect_tokens){0};
}

char *inspect_token_shown(const char *text, int columns)
{
    char *out = malloc(3 * strlen(text) + 8), *end = out;
    int used = 0;
    for (const char *at = text; out != NULL && *at != '\0';) {
        size_t n = 1;
        while ((at[n] & 0xC0) == 0x80)
            n++;
        const char *sign = *at == '\n'   ? "\u21B5"
                           : *at == '\t' ? "\u2192"
                           : *at == '\r' ? ""
                                         : NULL;
        const size_t size = sign != NULL ? strlen(sign) : n;
        used += cli_svg_columns(sign != NULL ? sign : at, size);
        if (used > columns - (at[n] != '\0')) {
            memcpy(end, "\u2026", 3);
            end += 3;
            break;
        }
        memcpy(end, sign != NULL ? sign : at, size);
        end += size;
        at += n;
    }
    if (out != NULL && end == out) /* a part of a character */
        end = stpcpy(out, "\u00B7");
    if (out != NULL)
        *end = '\0';
    return out;
}

const char *inspect_name(const char *path, int parts)
{
    const char *at = path + strlen(path);
    while (at > path && at[-1] == '/')
        at--;
    for (; at > path; at--) {
        if (at[-1] == '/' && --parts == 0)
            break;
    }
    return at;
}
