/* text/gguf/read.c -- reads tokenizers and chat templates from GGUF metadata. */
#include <stdio.h>
#include <string.h>

#include <json-c/json_object.h>

#include "core/failure.h"
#include "text/chat/chat.h"
#include "text/gguf/gguf.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/to_json.h"

typedef struct lists {
    text_string *tokens, *merges;
    float *scores;
    int32_t *types;
    char *model, *pre;
} lists;

static const weft_gguf_value *value(const weft_gguf *file, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", name);
    return weft_gguf_value_find(file, key);
}

static weft_status wrong(const weft_gguf *file, const char *name, const char *expected)
{
    return weft_fail(WEFT_INVALID, "%s: tokenizer.ggml.%s: expected %s", weft_gguf_path(file), name,
                     expected);
}

/* Reads a string. *out stays NULL if the entry is absent. */
static weft_status text(const weft_gguf *file, const char *name, char **out)
{
    weft_gguf_string s;
    const weft_gguf_value *v = value(file, name);
    if (v == NULL)
        return WEFT_OK;
    if (!weft_gguf_value_string(v, 0, &s) || s.n > 1000)
        return wrong(file, name, "a string");
    *out = weft_format("%.*s", (int)s.n, s.at);
    return *out ? WEFT_OK : weft__out_of_memory(weft_gguf_path(file), NULL);
}

static weft_status texts(const weft_gguf *file, const char *name, text_string **out, size_t *n)
{
    const weft_gguf_value *v = value(file, name);
    *n = 0;
    if (v == NULL)
        return WEFT_OK;
    if (!v->is_array || v->type != WEFT_GGUF_STRING)
        return wrong(file, name, "a list of strings");
    *out = weft_calloc(v->count ? (size_t)v->count : 1, sizeof **out);
    if (*out == NULL)
        return weft__out_of_memory(weft_gguf_path(file), "its tokenizer");
    *n = (size_t)v->count;
    for (size_t i = 0; i < *n; i++)
        (*out)[i] = (text_string){v->strings[i].at, v->strings[i].n};
    return WEFT_OK;
}

/* Reads an array of 4-byte numbers, one per token. */
static weft_status numbers(const weft_gguf *file, const char *name, weft_gguf_type type, size_t n,
                           void **out)
{
    const weft_gguf_value *v = value(file, name);
    if (v == NULL)
        return WEFT_OK;
    if (!v->is_array || v->type != type || (size_t)v->count != n)
        return wrong(file, name, "as many numbers as there are tokens");
    *out = weft_malloc(n ? 4 * n : 4);
    if (*out == NULL)
        return weft__out_of_memory(weft_gguf_path(file), "its tokenizer");
    if (n > 0)
        memcpy(*out, v->data, 4 * n);
    return WEFT_OK;
}

/* Points *out to an array of bytes in the file. */
static weft_status bytes(const weft_gguf *file, const char *name, const unsigned char **out,
                         size_t *n)
{
    const weft_gguf_value *v = value(file, name);
    if (v == NULL)
        return WEFT_OK;
    if (!v->is_array || (v->type != WEFT_GGUF_UINT8 && v->type != WEFT_GGUF_INT8))
        return wrong(file, name, "a list of bytes");
    *out = v->data;
    *n = (size_t)v->count;
    return WEFT_OK;
}

/* A token id in the metadata; -1: absent. */
static int32_t id(const weft_gguf *file, const char *name)
{
    int64_t x;
    return weft_gguf_value_int(value(file, name), 0, &x) && x >= 0 && x <= INT32_MAX ? (int32_t)x
                                                                                     : -1;
}

static text_choice choice(const weft_gguf *file, const char *name)
{
    int64_t x;
    return !weft_gguf_value_int(value(file, name), 0, &x) ? TEXT_DEFAULT : x ? TEXT_YES : TEXT_NO;
}

static weft_status make(const weft_gguf *file, lists *l, weft_tokenizer **out)
{
    text_parts p = {.name = weft_gguf_path(file),
                    .bos = id(file, "bos_token_id"),
                    .eos = id(file, "eos_token_id"),
                    .unknown = id(file, "unknown_token_id"),
                    .pad = id(file, "padding_token_id"),
                    .cls = id(file, "cls_token_id"),
                    .sep = id(file, "seperator_token_id"),
                    .lowercase = choice(file, "normalizer.lowercase"),
                    .strip_accents = choice(file, "normalizer.strip_accents"),
                    .remove_spaces = choice(file, "remove_extra_whitespaces"),
                    .add_bos = choice(file, "add_bos_token"),
                    .add_eos = choice(file, "add_eos_token"),
                    .add_space_prefix = choice(file, "add_space_prefix")};
    void *scores = NULL, *types = NULL;
    weft_status status = text(file, "model", &l->model);
    if (status == WEFT_OK && l->model == NULL)
        status = weft_fail(WEFT_INVALID, "%s: the file has no tokenizer", p.name);
    if (status == WEFT_OK)
        status = text(file, "pre", &l->pre);
    if (status == WEFT_OK)
        status = texts(file, "tokens", &l->tokens, &p.token_count);
    if (status == WEFT_OK)
        status = texts(file, "merges", &l->merges, &p.merge_count);
    if (status == WEFT_OK)
        status = numbers(file, "scores", WEFT_GGUF_FLOAT32, p.token_count, &scores);
    l->scores = scores;
    if (status == WEFT_OK)
        status = numbers(file, "token_type", WEFT_GGUF_INT32, p.token_count, &types);
    l->types = types;
    if (status == WEFT_OK)
        status = bytes(file, "precompiled_charsmap", &p.charsmap, &p.charsmap_size);
    p.model = l->model;
    p.pre = l->pre;
    p.tokens = l->tokens;
    p.merges = l->merges;
    p.scores = l->scores;
    p.types = l->types;
    return status == WEFT_OK ? weft__tokenizer_from_parts(&p, out) : status;
}

weft_status weft__gguf_tokenizer(const char *path, weft_tokenizer **out)
{
    weft_gguf *file;
    lists l = {0};
    *out = NULL;
    weft_status status = weft_gguf_open(path, &file);
    if (status != WEFT_OK)
        return status;
    status = make(file, &l, out);
    weft_free(l.tokens);
    weft_free(l.merges);
    weft_free(l.scores);
    weft_free(l.types);
    weft_free(l.model);
    weft_free(l.pre);
    weft_gguf_close(file);
    return status;
}

weft_status weft__gguf_tokenizer_json(const weft_gguf *file, const weft_tokenizer *tokenizer,
                                      weft__text *out)
{
    char pre[64] = "";
    weft_gguf_string name;
    if (weft_gguf_value_string(value(file, "pre"), 0, &name))
        snprintf(pre, sizeof pre, "%.*s", (int)(name.n < 63 ? name.n : 63), name.at);
    return weft__tokenizer_to_json(tokenizer, *pre ? pre : NULL, out);
}

/* ---- chat templates ------------------------------------------------------------------------- */

static weft_status add_token(const weft_gguf *file, weft_chat *chat, const char *key,
                             const char *name)
{
    weft_gguf_string text;
    const int32_t at = id(file, key);
    if (at < 0 || !weft_gguf_value_string(value(file, "tokens"), at, &text) || text.n > INT32_MAX)
        return WEFT_OK;
    json_object *string = json_object_new_string_len(text.at, (int)text.n);
    if (string && json_object_object_add(chat->tokens, name, string) == 0)
        return WEFT_OK;
    json_object_put(string);
    return weft__out_of_memory(weft_gguf_path(file), NULL);
}

weft_status weft__gguf_chat(const weft_gguf *file, weft_chat *chat)
{
    static const char key[] = "tokenizer.chat_template";
    static const char *const tokens[][2] = {{"bos_token_id", "bos_token"},
                                            {"eos_token_id", "eos_token"},
                                            {"unknown_token_id", "unk_token"},
                                            {"padding_token_id", "pad_token"}};
    const size_t n = sizeof key - 1;
    weft_status status = WEFT_OK;
    for (int i = 0; i < weft_gguf_value_count(file) && status == WEFT_OK; i++) {
        const weft_gguf_value *v = weft_gguf_value_at(file, i);
        weft_gguf_string text;
        if (strncmp(v->key, key, n) != 0 || (v->key[n] != '\0' && v->key[n] != '.') ||
            !weft_gguf_value_string(v, 0, &text))
            continue;
        status = weft__chat_add(chat, v->key[n] ? v->key + n + 1 : "default", chat->where, text.at,
                                text.n);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && status == WEFT_OK; i++)
        status = add_token(file, chat, tokens[i][0], tokens[i][1]);
    return status;
}
