/* models/text/model.c -- reads "model" and "added_tokens" of a tokenizer.json. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/linkhash.h>

#include "core/io/utf8.h"
#include "models/text/tokenizer.h"
#include "weft/memory.h"

/* A member of an object of hundreds of thousands, named only when it fails. */
static weft__json member(const weft__json *object, const char *key, json_object *value)
{
    weft__json at = *object;
    at.value = value;
    const size_t used = strlen(at.path);
    snprintf(at.path + used, sizeof at.path - used, "[\"%s\"]", key);
    return at;
}

static weft_status check_id(const weft__json *at, int64_t id)
{
    if (id < 0 || id > VOCAB_MAX_ID)
        return weft__json_fail(at, WEFT_INVALID, "id %" PRId64 " is not within 0 and %d", id,
                               VOCAB_MAX_ID);
    return WEFT_OK;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* The largest id of "vocab" and "added_tokens", and how many tokens they have together. */
static weft_status measure(const weft__json *vocab, const weft__json *added, int64_t *largest,
                           size_t *count)
{
    weft_status status = weft__json_as_object(vocab);
    if (status)
        return status;
    *largest = -1;
    *count = (size_t)json_object_object_length(vocab->value);
    json_object_object_foreach(vocab->value, key, value)
    {
        weft__json at;
        int64_t id = -1;
        if (json_object_is_type(value, json_type_int)) {
            id = json_object_get_int64(value);
        } else {
            at = member(vocab, key, value);
            status = weft__json_as_int(&at, &id);
        }
        if (!status && (id < 0 || id > VOCAB_MAX_ID)) {
            at = member(vocab, key, value);
            status = check_id(&at, id);
        }
        if (status)
            return status;
        *largest = id > *largest ? id : *largest;
    }
    size_t extra = 0;
    if (added->value)
        status = weft__json_length(added, &extra);
    *count += extra;
    for (size_t i = 0; i < extra && !status; i++) {
        weft__json item;
        int64_t id = -1;
        status = weft__json_at(added, i, &item);
        if (!status)
            status = weft__json_get_int(&item, "id", &id);
        if (!status)
            status = check_id(&item, id);
        *largest = id > *largest ? id : *largest;
    }
    return status;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static weft_status load_vocab(const weft__json *vocab, text_vocab *out)
{
    json_object_object_foreach(vocab->value, key, value)
    {
        const int32_t id = (int32_t)json_object_get_int64(value);
        const vocab_token *other = weft__vocab_token(out, id);
        if (other) {
            const weft__json at = member(vocab, key, value);
            return weft__json_fail(&at, WEFT_INVALID, "id %d is already that of \"%s\"", id,
                                   weft__vocab_text(out, other));
        }
        const weft_status status = weft__vocab_add(out, id, key, strlen(key), TOKEN_IN_MODEL);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status load_added(const weft__json *item, text_vocab *out)
{
    weft__json content;
    const char *text = NULL;
    size_t length = 0;
    int64_t id = 0;
    bool special = false;
    weft_status status = weft__json_get(item, "content", &content);
    if (!status)
        status = weft__json_as_string(&content, &text, &length);
    if (!status)
        status = weft__json_get_int(item, "id", &id);
    if (!status)
        status = weft__json_find_bool(item, "special", &special);
    if (status || length == 0)
        return status;
    const int32_t known = weft__vocab_find(out, text, length);
    const vocab_token *other = weft__vocab_token(out, (int32_t)id);
    if (known >= 0 && known != id)
        return weft__json_fail(item, WEFT_INVALID, "\"%s\" has id %" PRId64 " here and %d before",
                               text, id, known);
    if (known < 0 && other)
        return weft__json_fail(item, WEFT_INVALID, "id %" PRId64 " is already that of \"%s\"", id,
                               weft__vocab_text(out, other));
    if (known < 0)
        status = weft__vocab_add(out, (int32_t)id, text, length, 0);
    if (!status)
        out->tokens[id].flags |= (uint8_t)(TOKEN_ADDED | (special ? TOKEN_SPECIAL : 0));
    return status;
}

static weft_status load_tokens(const weft__json *root, const weft__json *at, text_vocab *out)
{
    weft__json vocab, added, item;
    int64_t largest = -1;
    size_t count = 0, extra = 0;
    weft_status status = weft__json_get(at, "vocab", &vocab);
    if (!status)
        status = weft__json_find(root, "added_tokens", &added);
    if (!status)
        status = measure(&vocab, &added, &largest, &count);
    if (!status)
        status = weft__vocab_init(out, (int32_t)largest + 1, count);
    if (!status)
        status = load_vocab(&vocab, out);
    if (!status && added.value)
        status = weft__json_length(&added, &extra);
    for (size_t i = 0; i < extra && !status; i++) {
        status = weft__json_at(&added, i, &item);
        if (!status)
            status = load_added(&item, out);
    }
    return status;
}

/* ---- merges --------------------------------------------------------------------------------- */

/* Both forms of a merge: "a b" and ["a", "b"]. */
static bool merge_parts(json_object *value, const char *part[2], size_t length[2])
{
    if (json_object_is_type(value, json_type_string)) {
        part[0] = json_object_get_string(value);
        const size_t size = (size_t)json_object_get_string_len(value);
        const char *space = memchr(part[0], ' ', size);
        if (!space)
            return false;
        length[0] = (size_t)(space - part[0]);
        part[1] = space + 1;
        length[1] = size - length[0] - 1;
        return !memchr(part[1], ' ', length[1]);
    }
    if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) != 2)
        return false;
    for (size_t i = 0; i < 2; i++) {
        json_object *item = json_object_array_get_idx(value, i);
        if (!json_object_is_type(item, json_type_string))
            return false;
        part[i] = json_object_get_string(item);
        length[i] = (size_t)json_object_get_string_len(item);
    }
    return true;
}

static weft_status unknown_token(const weft__json *merges, size_t index, const char *text,
                                 size_t length)
{
    weft__json at;
    const weft_status status = weft__json_at(merges, index, &at);
    return status ? status
                  : weft__json_fail(&at, WEFT_INVALID, "\"%.*s\" is not in the vocabulary",
                                    length > 64 ? 64 : (int)length, text);
}

static weft_status load_merge(const weft__json *merges, size_t index, text_buffer *joined,
                              bpe_model *model)
{
    const char *part[2];
    size_t length[2];
    int32_t id[2];
    json_object *value = json_object_array_get_idx(merges->value, index);
    if (!merge_parts(value, part, length)) {
        weft__json at;
        const weft_status status = weft__json_at(merges, index, &at);
        return status ? status
                      : weft__json_fail(&at, WEFT_INVALID,
                                        "expected \"a b\" or [\"a\", \"b\"], got %s",
                                        json_object_to_json_string(value));
    }
    joined->length = 0;
    for (int i = 0; i < 2; i++) {
        id[i] = weft__vocab_find_in_model(&model->vocab, part[i], length[i]);
        if (id[i] < 0)
            return unknown_token(merges, index, part[i], length[i]);
        const weft_status status = weft__bytes_append(joined, part[i], length[i]);
        if (status)
            return status;
    }
    const int32_t whole = weft__vocab_find_in_model(&model->vocab, joined->data, joined->length);
    if (whole < 0)
        return unknown_token(merges, index, joined->data, joined->length);
    weft__merges_set(
        &model->merges,
        (text_merge){.left = id[0], .right = id[1], .rank = (uint32_t)index, .id = whole});
    return WEFT_OK;
}

static weft_status load_merges(const weft__json *at, bpe_model *model)
{
    weft__json merges;
    size_t count = 0;
    weft_status status = weft__json_get(at, "merges", &merges);
    if (!status)
        status = weft__json_length(&merges, &count);
    if (!status)
        status = weft__merges_init(&model->merges, count);
    text_buffer joined = {0};
    if (!status)
        status = weft__bytes_reserve(&joined, 64);
    for (size_t i = 0; i < count && !status; i++)
        status = load_merge(&merges, i, &joined, model);
    weft__bytes_release(&joined);
    return status;
}

/* ---- options -------------------------------------------------------------------------------- */

static weft_status refuse(const weft__json *at)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = "BPE";
    double dropout = 0;
    weft_status status = weft__json_find_string(at, "type", &type);
    if (!status && strcmp(type, "BPE") != 0)
        status = weft__json_fail(at, WEFT_UNSUPPORTED, "model type \"%s\" is unsupported", type);
    if (!status)
        status = weft__json_find_number(at, "dropout", &dropout);
    if (!status && dropout != 0)
        status = weft__json_fail(at, WEFT_UNSUPPORTED, "dropout is unsupported");
    for (int i = 0; i < 2 && !status; i++) {
        const char *affix = "";
        status = weft__json_find_string(at, affixes[i], &affix);
        if (!status && *affix)
            status = weft__json_fail(at, WEFT_UNSUPPORTED, "%s is unsupported", affixes[i]);
    }
    return status;
}

static weft_status load_unknown(const weft__json *at, bpe_model *model)
{
    const char *text = NULL;
    model->unknown = -1;
    weft_status status = weft__json_find_string(at, "unk_token", &text);
    if (status || !text)
        return status;
    model->unknown = weft__vocab_find_in_model(&model->vocab, text, strlen(text));
    if (model->unknown < 0)
        return weft__json_fail(at, WEFT_INVALID, "unk_token \"%s\" is not in the vocabulary", text);
    return WEFT_OK;
}

weft_status weft__model_load(const weft__json *root, bool byte_level, bpe_model *model)
{
    *model = (bpe_model){.byte_level = byte_level, .unknown = -1};
    weft__json at;
    weft_status status = weft__json_get(root, "model", &at);
    if (!status)
        status = refuse(&at);
    if (!status)
        status = load_tokens(root, &at, &model->vocab);
    if (!status)
        status = load_merges(&at, model);
    if (!status)
        status = load_unknown(&at, model);
    if (!status)
        status = weft__json_find_bool(&at, "fuse_unk", &model->fuse_unknown);
    if (!status)
        status = weft__json_find_bool(&at, "byte_fallback", &model->byte_fallback);
    if (!status)
        status = weft__json_find_bool(&at, "ignore_merges", &model->ignore_merges);
    if (!status)
        weft__bpe_find_bytes(model);
    return status;
}

void weft__model_release(bpe_model *model)
{
    weft__vocab_release(&model->vocab);
    weft__merges_release(&model->merges);
    weft_free(model->ranks);
    model->ranks = NULL;
}
