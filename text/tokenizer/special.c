/* text/tokenizer/special.c -- reads special tokens from tokenizer.json and its config: added
 * tokens, post-processor, bos, eos, pad. */
#include <inttypes.h>
#include <string.h>

#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

/* ---- added tokens --------------------------------------------------------------------------- */

weft_status weft__added_enter(weft_tokenizer *t, const added_token *token, bool normalized)
{
    if (!normalized)
        return weft__added_add(&t->raw, token);
    added_token own = *token;
    text_buffer scratch[2] = {{0}};
    const char *form = token->text;
    weft_status status = weft__normalize(&t->normalizer, token->text, token->length, scratch, &form,
                                         &own.length, NULL);
    if (!status && own.length > 0) {
        own.text = (char *)form;
        if (own.length != token->length || memcmp(form, token->text, own.length) != 0)
            t->model.vocab.tokens[own.id].flags |= TOKEN_RENAMED;
        status = weft__added_add(&t->normalized, &own);
    }
    weft__bytes_release(&scratch[0]);
    weft__bytes_release(&scratch[1]);
    return status;
}

static weft_status load_added(const weft__json *item, weft_tokenizer *t)
{
    weft__json content;
    const char *text = NULL;
    bool normalized = false;
    added_token token = {0};
    weft_status status = weft__json_get(item, "content", &content);
    if (!status)
        status = weft__json_as_string(&content, &text, &token.length);
    if (!status)
        status = weft__json_find_bool(item, "single_word", &token.single_word);
    if (!status)
        status = weft__json_find_bool(item, "lstrip", &token.lstrip);
    if (!status)
        status = weft__json_find_bool(item, "rstrip", &token.rstrip);
    if (!status)
        status = weft__json_find_bool(item, "normalized", &normalized);
    if (status || token.length == 0)
        return status;
    token.text = (char *)text;
    token.id = weft__vocab_find(&t->model.vocab, text, token.length);
    return weft__added_enter(t, &token, normalized);
}

weft_status weft__added_load(const weft__json *root, weft_tokenizer *tokenizer)
{
    weft__json list, item;
    size_t count = 0;
    weft_status status = weft__json_find(root, "added_tokens", &list);
    if (!status && list.value)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = load_added(&item, tokenizer);
    }
    weft__added_sort(&tokenizer->raw);
    weft__added_sort(&tokenizer->normalized);
    return status;
}

/* ---- post-processor ------------------------------------------------------------------------- */

/* Appends the ids of a template's special token. */
static weft_status load_special(const weft__json *at, const weft__json *special,
                                const weft_tokenizer *t, id_buffer *out)
{
    weft__json table, entry, ids, item;
    const char *name = NULL;
    size_t count = 0;
    weft_status status = weft__json_get_string(special, "id", &name);
    if (!status)
        status = weft__json_get(at, "special_tokens", &table);
    if (!status)
        status = weft__json_get(&table, name, &entry);
    if (!status)
        status = weft__json_get(&entry, "ids", &ids);
    if (!status)
        status = weft__json_length(&ids, &count);
    for (size_t i = 0; i < count && !status; i++) {
        int64_t id = 0;
        status = weft__json_at(&ids, i, &item);
        if (!status)
            status = weft__json_as_int(&item, &id);
        if (!status && (id < 0 || id >= t->model.vocab.size))
            status = weft__json_fail(&item, WEFT_INVALID,
                                     "id %" PRId64 " is outside the vocabulary of %d", id,
                                     t->model.vocab.size);
        if (!status)
            status = weft__ids_append(out, (int32_t)id);
    }
    return status;
}

/* Reads the pieces before and after the text of a template, around those of a nested template. */
static weft_status load_template(const weft__json *at, weft_tokenizer *t)
{
    weft__json list, item, piece;
    size_t count = 0, texts = 0;
    id_buffer before = {0};
    weft_status status = weft__json_get(at, "single", &list);
    if (!status)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = weft__json_find(&item, "SpecialToken", &piece);
        if (!status && piece.value)
            status = load_special(at, &piece, t, texts == 0 ? &before : &t->suffix);
        else if (!status)
            texts++;
    }
    if (!status && texts != 1)
        status = weft__json_fail(&list, WEFT_UNSUPPORTED,
                                 "expected the text once in the template, got %zu times", texts);
    for (size_t i = 0; i < t->prefix.length && !status; i++)
        status = weft__ids_append(&before, t->prefix.data[i]);
    weft__ids_release(&t->prefix);
    t->prefix = before;
    return status;
}

/* Reads the id of a member such as ["[SEP]", 102]. */
static weft_status load_pair(const weft__json *at, const char *key, const weft_tokenizer *t,
                             int32_t *out)
{
    weft__json pair, item;
    const char *text = NULL;
    int64_t id = 0;
    weft_status status = weft__json_get(at, key, &pair);
    if (!status)
        status = weft__json_at(&pair, 0, &item);
    if (!status)
        status = weft__json_as_string(&item, &text, NULL);
    if (!status)
        status = weft__json_at(&pair, 1, &item);
    if (!status)
        status = weft__json_as_int(&item, &id);
    if (!status && (id < 0 || id >= t->model.vocab.size))
        status =
            weft__json_fail(&item, WEFT_INVALID, "id %" PRId64 " is outside the vocabulary of %d",
                            id, t->model.vocab.size);
    *out = (int32_t)id;
    return status;
}

/* BertProcessing and RobertaProcessing: "cls" before the text and "sep" after it. */
static weft_status load_pairs(const weft__json *at, weft_tokenizer *t)
{
    int32_t before = -1, behind = -1;
    weft_status status = load_pair(at, "cls", t, &before);
    if (!status)
        status = load_pair(at, "sep", t, &behind);
    id_buffer prefix = {0};
    if (!status)
        status = weft__ids_append(&prefix, before);
    if (!status)
        status = weft__ids_append_all(&prefix, t->prefix.data, t->prefix.length);
    weft__ids_release(&t->prefix);
    t->prefix = prefix;
    return status ? status : weft__ids_append(&t->suffix, behind);
}

/* Recursive; the JSON parser limits the nesting. */
static weft_status load_processor(const weft__json *at, void *tokenizer)
{
    const char *type = NULL;
    const weft_status status = weft__json_get_string(at, "type", &type);
    if (status)
        return status;
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(at, tokenizer);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return load_pairs(at, tokenizer);
    if (strcmp(type, "ByteLevel") == 0) /* affects only offsets, which are not computed */
        return WEFT_OK;
    if (strcmp(type, "Sequence") == 0)
        return weft__json_each(at, "processors", load_processor, tokenizer);
    return weft__json_fail(at, WEFT_UNSUPPORTED, "post-processor type \"%s\" is unsupported",
                           weft_printable(type));
}

weft_status weft__postprocessor_load(const weft__json *root, weft_tokenizer *tokenizer)
{
    weft__json at;
    const weft_status status = weft__json_find(root, "post_processor", &at);
    return status || !at.value ? status : load_processor(&at, tokenizer);
}

/* ---- tokenizer_config.json ------------------------------------------------------------------ */

/* A token's name, or an object with "content". A name that is not in the vocabulary is ignored. */
static weft_status load_named(const weft__json *config, const char *key, weft_tokenizer *t,
                              int32_t *out)
{
    weft__json at;
    const char *text = NULL;
    weft_status status = weft__json_find(config, key, &at);
    if (status || !at.value)
        return status;
    if (json_object_is_type(at.value, json_type_object))
        status = weft__json_get_string(&at, "content", &text);
    else
        status = weft__json_as_string(&at, &text, NULL);
    if (!status)
        *out = weft__vocab_find(&t->model.vocab, text, strlen(text));
    return status;
}

weft_status weft__special_load(const weft__json *config, weft_tokenizer *tokenizer)
{
    weft_status status = load_named(config, "bos_token", tokenizer, &tokenizer->bos);
    if (!status)
        status = load_named(config, "eos_token", tokenizer, &tokenizer->eos);
    if (!status)
        status = load_named(config, "pad_token", tokenizer, &tokenizer->pad);
    return status;
}
