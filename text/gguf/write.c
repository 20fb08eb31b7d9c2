/* text/gguf/write.c -- writes a checkpoint's tokenizer and chat templates as GGUF metadata. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "text/chat/chat.h"
#include "text/gguf/gguf.h"
#include "text/tokenizer/parts.h"
#include "weft/memory.h"

enum { SMALL = 32, KEY = 160 };

struct weft__gguf_text {
    weft_gguf_value *values;
    int n, capacity;
    /* memory of the values; values copied from a GGUF file belong to `file` */
    weft_gguf *file;
    weft_tokenizer *tokenizer;
    weft_chat *chat;
    text_parts_made made;
    weft_gguf_string *tokens, *merges, *names, *sources;
    char (*keys)[KEY];
    int n_keys;
    weft_gguf_string texts[SMALL];
    uint32_t ids[SMALL];
    uint8_t flags[SMALL];
    int n_texts, n_ids, n_flags;
};

/* ---- values --------------------------------------------------------------------------------- */

static void put(weft__gguf_text *t, weft_gguf_value value)
{
    if (t->n < t->capacity)
        t->values[t->n++] = value;
}

static void put_text(weft__gguf_text *t, const char *key, const char *text)
{
    weft_gguf_string *at = &t->texts[t->n_texts++];
    *at = (weft_gguf_string){text, strlen(text)};
    put(t, (weft_gguf_value){.key = key, .type = WEFT_GGUF_STRING, .count = 1, .strings = at});
}

static void put_id(weft__gguf_text *t, const char *key, int32_t id)
{
    if (id < 0)
        return;
    t->ids[t->n_ids] = (uint32_t)id;
    put(t, (weft_gguf_value){
               .key = key, .type = WEFT_GGUF_UINT32, .count = 1, .data = &t->ids[t->n_ids++]});
}

static void put_flag(weft__gguf_text *t, const char *key, text_choice choice)
{
    if (choice == TEXT_DEFAULT)
        return;
    t->flags[t->n_flags] = choice == TEXT_YES;
    put(t, (weft_gguf_value){
               .key = key, .type = WEFT_GGUF_BOOL, .count = 1, .data = &t->flags[t->n_flags++]});
}

static weft_status put_list(weft__gguf_text *t, const char *key, const text_string *list, size_t n,
                            weft_gguf_string **memory)
{
    *memory = weft_calloc(n ? n : 1, sizeof **memory);
    if (*memory == NULL)
        return weft__out_of_memory(t->made.parts.name, "its tokenizer");
    for (size_t i = 0; i < n; i++)
        (*memory)[i] = (weft_gguf_string){list[i].text, list[i].length};
    put(t, (weft_gguf_value){.key = key,
                             .type = WEFT_GGUF_STRING,
                             .is_array = true,
                             .count = (int64_t)n,
                             .strings = *memory});
    return WEFT_OK;
}

static void put_numbers(weft__gguf_text *t, const char *key, weft_gguf_type type, const void *data)
{
    if (data)
        put(t, (weft_gguf_value){.key = key,
                                 .type = type,
                                 .is_array = true,
                                 .count = (int64_t)t->made.parts.token_count,
                                 .data = data});
}

/* ---- tokenizer ------------------------------------------------------------------------------ */

/* Writes the tokenizer's own end-of-sequence id first, then the model's others. */
static void put_ends(weft__gguf_text *t, int32_t own, const int32_t *eos, int n)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int used = 0;
    if (own >= 0)
        put_id(t, keys[used++], own);
    for (int i = 0; i < n && used < 3; i++) {
        if (eos[i] != own)
            put_id(t, keys[used++], eos[i]);
    }
}

static weft_status put_tokenizer(weft__gguf_text *t, const int32_t *eos, int n)
{
    const text_parts *p = &t->made.parts;
    put_text(t, "tokenizer.ggml.model", p->model);
    if (p->pre)
        put_text(t, "tokenizer.ggml.pre", p->pre);
    weft_status status =
        put_list(t, "tokenizer.ggml.tokens", p->tokens, p->token_count, &t->tokens);
    put_numbers(t, "tokenizer.ggml.scores", WEFT_GGUF_FLOAT32, p->scores);
    put_numbers(t, "tokenizer.ggml.token_type", WEFT_GGUF_INT32, p->types);
    if (status == WEFT_OK && p->merge_count > 0)
        status = put_list(t, "tokenizer.ggml.merges", p->merges, p->merge_count, &t->merges);
    put_id(t, "tokenizer.ggml.bos_token_id", p->bos);
    put_ends(t, p->eos, eos, n);
    put_id(t, "tokenizer.ggml.unknown_token_id", p->unknown);
    put_id(t, "tokenizer.ggml.padding_token_id", p->pad);
    put_flag(t, "tokenizer.ggml.add_bos_token", p->add_bos);
    put_flag(t, "tokenizer.ggml.add_eos_token", p->add_eos);
    put_flag(t, "tokenizer.ggml.add_space_prefix", p->add_space_prefix);
    put_id(t, "tokenizer.ggml.cls_token_id", p->cls);
    put_id(t, "tokenizer.ggml.seperator_token_id", p->sep);
    put_flag(t, "tokenizer.ggml.normalizer.lowercase", p->lowercase);
    put_flag(t, "tokenizer.ggml.normalizer.strip_accents", p->strip_accents);
    put_flag(t, "tokenizer.ggml.remove_extra_whitespaces", p->remove_spaces);
    if (p->charsmap)
        put(t, (weft_gguf_value){.key = "tokenizer.ggml.precompiled_charsmap",
                                 .type = WEFT_GGUF_UINT8,
                                 .is_array = true,
                                 .count = (int64_t)p->charsmap_size,
                                 .data = p->charsmap});
    return status;
}

/* ---- chat templates ------------------------------------------------------------------------- */

/* Writes the default template under its own key, the others under their names, which a list
 * contains. */
static weft_status put_templates(weft__gguf_text *t)
{
    const size_t n = t->chat->count;
    t->names = weft_calloc(n ? n : 1, sizeof *t->names);
    t->sources = weft_calloc(n ? n : 1, sizeof *t->sources);
    t->keys = weft_calloc(n ? n : 1, sizeof *t->keys);
    if (!t->names || !t->sources || !t->keys)
        return weft__out_of_memory(t->made.parts.name, "its tokenizer");
    for (size_t i = 0; i < n; i++) {
        const chat_template *c = &t->chat->templates[i];
        const bool only = strcmp(c->name, "default") == 0;
        t->sources[i] = (weft_gguf_string){c->source, strlen(c->source)};
        snprintf(t->keys[i], KEY, "tokenizer.chat_template%s%s", only ? "" : ".",
                 only ? "" : c->name);
        put(t, (weft_gguf_value){.key = t->keys[i],
                                 .type = WEFT_GGUF_STRING,
                                 .count = 1,
                                 .strings = &t->sources[i]});
        if (!only)
            t->names[t->n_keys++] = (weft_gguf_string){c->name, strlen(c->name)};
    }
    if (t->n_keys > 0)
        put(t, (weft_gguf_value){.key = "tokenizer.chat_templates",
                                 .type = WEFT_GGUF_STRING,
                                 .is_array = true,
                                 .count = t->n_keys,
                                 .strings = t->names});
    return WEFT_OK;
}

/* ---- all entries ----------------------------------------------------------------------------- */

static weft_status reserve(weft__gguf_text *t, const char *source, int n)
{
    t->values = weft_calloc((size_t)n, sizeof *t->values);
    t->capacity = t->values ? n : 0;
    return t->values ? WEFT_OK : weft__out_of_memory(source, "its tokenizer");
}

static weft_status from_folder(weft__gguf_text *t, const char *source, int64_t size,
                               const int32_t *eos, int n)
{
    weft_status status = weft_tokenizer_load(source, &t->tokenizer);
    if (status == WEFT_OK && size > INT32_MAX)
        status =
            weft_fail(WEFT_UNSUPPORTED, "%s: %lld tokens are too many", source, (long long)size);
    if (status == WEFT_OK)
        status = weft__tokenizer_to_parts(t->tokenizer, (int32_t)size, &t->made);
    if (status == WEFT_OK)
        status = weft__chat_templates(source, NULL, &t->chat);
    if (status == WEFT_OK)
        status = reserve(t, source, SMALL + 1 + (int)t->chat->count);
    if (status == WEFT_OK)
        status = put_tokenizer(t, eos, n);
    return status == WEFT_OK ? put_templates(t) : status;
}

/* Descriptions such as name, author and license, which other programs show. The rest of
 * "general." belongs to tensors or sampling and is written with them. */
static bool is_description(const char *key)
{
    static const char *const others[] = {"architecture", "file_type", "quantization_version",
                                         "alignment", "sampling."};
    if (strncmp(key, "general.", 8) != 0)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strncmp(key + 8, others[i], strlen(others[i])) == 0)
            return false;
    }
    return true;
}

static weft_status from_file(weft__gguf_text *t, const char *path)
{
    weft_status status = weft_gguf_open(path, &t->file);
    if (status == WEFT_OK)
        status = reserve(t, path, weft_gguf_value_count(t->file) + 1);
    for (int i = 0; status == WEFT_OK && i < weft_gguf_value_count(t->file); i++) {
        const weft_gguf_value *v = weft_gguf_value_at(t->file, i);
        const bool model = strcmp(v->key, "tokenizer.ggml.token_type_count") == 0;
        if ((strncmp(v->key, "tokenizer.", 10) == 0 && !model) || is_description(v->key))
            put(t, *v);
    }
    return status;
}

weft_status weft__gguf_text_from(const char *source, int64_t size, const int32_t *eos, int n,
                                 weft__gguf_text **out)
{
    char *gguf;
    *out = weft_calloc(1, sizeof **out);
    if (*out == NULL)
        return weft__out_of_memory(source, "its tokenizer");
    weft_status status = weft__gguf_find(source, &gguf);
    if (status == WEFT_OK)
        status = gguf ? from_file(*out, gguf) : from_folder(*out, source, size, eos, n);
    weft_free(gguf);
    return status;
}

const weft_gguf_value *weft__gguf_text_values(const weft__gguf_text *text, int *n)
{
    *n = text->n;
    return text->values;
}

void weft__gguf_text_free(weft__gguf_text *text)
{
    if (text == NULL)
        return;
    weft__parts_release(&text->made);
    weft_tokenizer_free(text->tokenizer);
    weft_chat_free(text->chat);
    weft_gguf_close(text->file);
    weft_free(text->values);
    weft_free(text->tokens);
    weft_free(text->merges);
    weft_free(text->names);
    weft_free(text->sources);
    weft_free(text->keys);
    weft_free(text);
}
