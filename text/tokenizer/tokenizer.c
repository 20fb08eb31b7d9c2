/* text/tokenizer/tokenizer.c -- weft_tokenizer: loading, and encoding of texts. */
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/utf8.h"
#include "text/gguf/gguf.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- loading -------------------------------------------------------------------------------- */

static weft_status load_parts(const weft__json *root, weft_tokenizer *t)
{
    weft_status status = weft__json_as_object(root);
    if (!status)
        status = weft__normalizer_load(root, &t->normalizer);
    if (!status)
        status = weft__splitter_load(root, &t->splitter);
    if (!status)
        status = weft__model_load(root, t->splitter.byte_level, &t->model);
    if (!status)
        status = weft__added_load(root, t);
    if (!status)
        status = weft__postprocessor_load(root, t);
    if (!status)
        status = weft__decoder_load(root, &t->decoder);
    return status;
}

weft_status weft__tokenizer_new(const char *name, weft_tokenizer **out)
{
    weft_tokenizer *t = weft_calloc(1, sizeof *t);
    if (t) {
        t->bos = t->eos = t->pad = -1;
        t->name = weft_strdup(name);
        t->pool = weft_calloc(1, sizeof *t->pool);
    }
    if (t && t->pool)
        pthread_mutex_init(&t->pool->mutex, NULL);
    *out = t;
    if (t && t->name && t->pool)
        return WEFT_OK;
    weft_tokenizer_free(t);
    *out = NULL;
    return weft__out_of_memory(name, NULL);
}

/* The tree of tokenizer.json was parsed without the lists. */
static weft_status build(const char *json, size_t length, const weft__json_doc *config,
                         weft_tokenizer *t)
{
    weft__json_doc rest = {0};
    weft_status status = weft__lists_read(json, length, t->name, &t->model, &rest);
    if (!status) {
        const weft__json root = weft__json_root(&rest);
        status = load_parts(&root, t);
    }
    if (!status && config) {
        const weft__json root = weft__json_root(config);
        status = weft__special_load(&root, t);
    }
    weft__json_free(&rest);
    return status;
}

static weft_status parse(const char *json, size_t length, const weft__json_doc *config,
                         const char *name, weft_tokenizer **out)
{
    weft_tokenizer *t = NULL;
    weft_status status = weft__tokenizer_new(name, &t);
    if (!status)
        status = build(json, length, config, t);
    if (status)
        weft_tokenizer_free(t);
    else
        *out = t;
    return status;
}

weft_status weft_tokenizer_parse(const char *json, size_t length, const char *config,
                                 size_t config_length, const char *name, weft_tokenizer **out)
{
    *out = NULL;
    weft__json_doc doc = {0};
    weft_status status = WEFT_OK;
    if (config)
        status = weft__config_read(config, config_length, "tokenizer_config.json", &doc);
    if (!status)
        status = parse(json, length, config ? &doc : NULL, name, out);
    weft__json_free(&doc);
    return status;
}

weft_status weft__tokenizer_files(const char *path, char **tokenizer, char **config)
{
    struct stat info;
    const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(path, '/');
    const int parent = slash ? (int)(slash - path) + 1 : 0;
    *tokenizer = folder ? weft_format("%s/tokenizer.json", path) : weft_strdup(path);
    *config = folder ? weft_format("%s/tokenizer_config.json", path)
                     : weft_format("%.*stokenizer_config.json", parent, path);
    return *tokenizer && *config ? WEFT_OK : weft__out_of_memory(path, NULL);
}

static weft_status load_json(const char *path, weft_tokenizer **out)
{
    char *name = NULL, *config_name = NULL, *json = NULL, *config = NULL;
    size_t length = 0, config_length = 0;
    weft__json_doc doc = {0};
    weft_status status = weft__tokenizer_files(path, &name, &config_name);
    if (!status)
        status = weft_file_read(name, WEFT__JSON_MAX_BYTES, &json, &length);
    const bool has_config = !status && access(config_name, F_OK) == 0;
    if (has_config)
        status = weft_file_read(config_name, WEFT__JSON_MAX_BYTES, &config, &config_length);
    if (!status && has_config)
        status = weft__config_read(config, config_length, config_name, &doc);
    if (!status)
        status = parse(json, length, has_config ? &doc : NULL, name, out);
    weft__json_free(&doc);
    weft_free(json);
    weft_free(config);
    weft_free(name);
    weft_free(config_name);
    return status;
}

weft_status weft_tokenizer_load(const char *path, weft_tokenizer **out)
{
    char *gguf;
    *out = NULL;
    weft_status status = weft__gguf_find(path, &gguf);
    if (!status)
        status = gguf ? weft__gguf_tokenizer(gguf, out) : load_json(path, out);
    weft_free(gguf);
    return status;
}

static void scratch_free(encode_scratch *scratch)
{
    weft__bpe_release(&scratch->bpe);
    weft__bytes_release(&scratch->normalized[0]);
    weft__bytes_release(&scratch->normalized[1]);
    for (int i = 0; i < SPLITTER_MAX_STEPS; i++)
        weft__bytes_release(&scratch->pieces[i]);
    weft_free(scratch);
}

static void pool_free(scratch_pool *pool)
{
    while (pool && pool->idle) {
        encode_scratch *first = pool->idle;
        pool->idle = first->next;
        scratch_free(first);
    }
    if (pool)
        pthread_mutex_destroy(&pool->mutex);
    weft_free(pool);
}

void weft_tokenizer_free(weft_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    pool_free(tokenizer->pool);
    weft__model_release(&tokenizer->model);
    weft__added_release(&tokenizer->raw);
    weft__added_release(&tokenizer->normalized);
    weft__normalizer_release(&tokenizer->normalizer);
    weft__splitter_release(&tokenizer->splitter);
    weft__decoder_release(&tokenizer->decoder);
    weft__ids_release(&tokenizer->prefix);
    weft__ids_release(&tokenizer->suffix);
    weft_free(tokenizer->json);
    weft_free(tokenizer->config);
    weft_free(tokenizer->name);
    weft_free(tokenizer);
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* Scratch memory for one call; NULL when out of memory. */
static encode_scratch *scratch_take(scratch_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    encode_scratch *scratch = pool->idle;
    if (scratch)
        pool->idle = scratch->next;
    pthread_mutex_unlock(&pool->mutex);
    return scratch ? scratch : weft_calloc(1, sizeof *scratch);
}

/* After a long text only the memory for words is kept. */
static void scratch_give(scratch_pool *pool, encode_scratch *scratch)
{
    enum { KEPT = 1 << 20 };
    text_buffer *const all[] = {&scratch->normalized[0], &scratch->normalized[1],
                                &scratch->pieces[0], &scratch->bpe.spelling};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->capacity > KEPT)
            weft__bytes_release(all[i]);
    }
    weft__bpe_trim(&scratch->bpe, KEPT);
    pthread_mutex_lock(&pool->mutex);
    scratch->next = pool->idle;
    pool->idle = scratch;
    pthread_mutex_unlock(&pool->mutex);
}

typedef struct encoding {
    const weft_tokenizer *tokenizer;
    encode_scratch *scratch;
    id_buffer ids;
} encoding;

/* Encodes a segment between added tokens; `first`: it starts the text. */
typedef weft_status stretch_function(encoding *e, const char *text, size_t length, bool first);

static weft_status encode_word(void *context, const char *word, size_t length)
{
    encoding *e = context;
    return weft__bpe_encode(&e->tokenizer->model, &e->scratch->bpe, word, length, &e->ids);
}

static weft_status encode_words(encoding *e, const char *text, size_t length, bool first)
{
    return weft__split(&e->tokenizer->splitter, text, length, first, e->scratch->pieces,
                       encode_word, e);
}

/* Appends the ids of the added tokens in a text, and passes the segments between them on. */
static weft_status encode_around(encoding *e, const added_set *set, const char *text, size_t length,
                                 bool first, stretch_function *between)
{
    size_t done = 0, position = 0;
    added_match match;
    weft_status status = WEFT_OK;
    while (!status && weft__added_next(set, text, length, done, &position, &match)) {
        if (match.start > done)
            status = between(e, text + done, match.start - done, first && done == 0);
        if (!status)
            status = weft__ids_append(&e->ids, match.id);
        done = match.end;
    }
    if (!status && done < length)
        status = between(e, text + done, length - done, first && done == 0);
    return status;
}

static weft_status encode_stretch(encoding *e, const char *text, size_t length, bool first)
{
    const weft_tokenizer *t = e->tokenizer;
    const weft_status status = weft__normalize(&t->normalizer, text, length, e->scratch->normalized,
                                               &text, &length, &first);
    if (status)
        return status;
    return encode_around(e, &t->normalized, text, length, first, encode_words);
}

static weft_status append_all(id_buffer *out, const id_buffer *ids)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ids->length && !status; i++)
        status = weft__ids_append(out, ids->data[i]);
    return status;
}

static weft_status encode_all(encoding *e, const char *text, size_t length, bool special)
{
    const weft_tokenizer *t = e->tokenizer;
    weft_status status = special ? append_all(&e->ids, &t->prefix) : WEFT_OK;
    if (!status)
        status = encode_around(e, &t->raw, text, length, true, encode_stretch);
    if (!status && special)
        status = append_all(&e->ids, &t->suffix);
    return status;
}

weft_status weft_tokenizer_encode(const weft_tokenizer *tokenizer, const char *text, size_t length,
                                  unsigned flags, int32_t **ids, size_t *count)
{
    *ids = NULL;
    *count = 0;
    const size_t valid = weft__utf8_valid(text, length);
    if (valid < length)
        return weft_fail(WEFT_INVALID, "tokenizer: text: invalid UTF-8 at byte %zu", valid);
    encoding e = {.tokenizer = tokenizer, .scratch = scratch_take(tokenizer->pool)};
    if (!e.scratch)
        return weft__out_of_memory(tokenizer->name, "encoding");
    /* Allocated even for an empty text: the result is never NULL. */
    void *data = NULL;
    weft_status status =
        weft__bytes_grow(&data, &e.ids.capacity, 0, length / 4 + 8, sizeof *e.ids.data);
    e.ids.data = data;
    if (!status)
        status = encode_all(&e, text, length, flags & WEFT_TOKENIZER_ADD_SPECIAL);
    scratch_give(tokenizer->pool, e.scratch);
    if (status) {
        weft__ids_release(&e.ids);
        return status;
    }
    *ids = e.ids.data;
    *count = e.ids.length;
    return WEFT_OK;
}

/* ---- queries --------------------------------------------------------------------------------- */

const char *weft__token_text(const weft_tokenizer *tokenizer, int32_t id, size_t *length)
{
    const vocab_token *token = weft__vocab_token(&tokenizer->model.vocab, id);
    if (!token)
        return NULL;
    const added_set *set = &tokenizer->normalized;
    for (size_t i = 0; i < set->count && token->flags & TOKEN_RENAMED; i++) {
        if (set->tokens[i].id == id) {
            *length = set->tokens[i].length;
            return set->tokens[i].text;
        }
    }
    *length = token->length;
    return weft__vocab_text(&tokenizer->model.vocab, token);
}

int32_t weft_tokenizer_vocab_size(const weft_tokenizer *tokenizer)
{
    return tokenizer->model.vocab.size;
}

int32_t weft_tokenizer_token_to_id(const weft_tokenizer *tokenizer, const char *token)
{
    return weft__vocab_find(&tokenizer->model.vocab, token, strlen(token));
}

const char *weft_tokenizer_id_to_token(const weft_tokenizer *tokenizer, int32_t id)
{
    size_t length;
    return weft__token_text(tokenizer, id, &length);
}

size_t weft_tokenizer_truncate(const weft_tokenizer *tokenizer, int32_t *ids, size_t count,
                               size_t most)
{
    const size_t suffix = tokenizer->suffix.length, special = tokenizer->prefix.length + suffix;
    if (most < special)
        most = special;
    if (count <= most)
        return count;
    memmove(ids + most - suffix, ids + count - suffix, suffix * sizeof *ids);
    return most;
}

int weft_tokenizer_is_special(const weft_tokenizer *tokenizer, int32_t id)
{
    const vocab_token *token = weft__vocab_token(&tokenizer->model.vocab, id);
    return token && token->flags & TOKEN_SPECIAL;
}

int32_t weft_tokenizer_bos(const weft_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t weft_tokenizer_eos(const weft_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int32_t weft_tokenizer_pad(const weft_tokenizer *tokenizer)
{
    return tokenizer->pad;
}
