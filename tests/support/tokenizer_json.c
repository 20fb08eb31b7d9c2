/* tests/support/tokenizer_json.c -- checks a tokenizer.json by the rules of the tokenizers library.
 */
#include "tests/support/tokenizer_json.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

static char message[400];

WEFT_PRINTF(1, 2) static bool fault(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return false;
}

/* Ids by text: the model's own, and all as the library gives them. */
typedef struct ids {
    json_object *own, *all;
    int n_own, next;
} ids;

static int id_of(json_object *list, const char *text)
{
    json_object *id;
    return json_object_object_get_ex(list, text, &id) ? json_object_get_int(id) : -1;
}

static const char *string_at(json_object *object, const char *key)
{
    const char *text = json_object_get_string(json_object_object_get(object, key));
    return text ? text : "";
}

/* ---- model ---------------------------------------------------------------------------------- */

/* The list of Unigram as an object. */
static json_object *numbered(json_object *pieces)
{
    json_object *out = json_object_new_object();
    for (size_t i = 0; i < json_object_array_length(pieces); i++) {
        json_object *text = json_object_array_get_idx(json_object_array_get_idx(pieces, i), 0);
        json_object_object_add(out, json_object_get_string(text), json_object_new_int((int)i));
    }
    return out;
}

/* Of two equal keys the parser keeps one, so the id of the other is missing. */
static bool read_vocab(json_object *model, ids *out)
{
    json_object *vocab = json_object_object_get(model, "vocab");
    const bool pieces = json_object_is_type(vocab, json_type_array);
    out->own = pieces ? numbered(vocab) : json_object_get(vocab);
    out->all = json_object_new_object();
    out->n_own = out->next =
        pieces ? (int)json_object_array_length(vocab) : json_object_object_length(out->own);
    char *seen = calloc((size_t)out->n_own + 1, 1);
    bool good = seen && out->n_own > 0;
    json_object_object_foreach(out->own, text, value)
    {
        const int id = json_object_get_int(value);
        good = good && id >= 0 && id < out->n_own && !seen[id];
        if (good)
            seen[id] = 1;
        json_object_object_add(out->all, text, json_object_get(value));
    }
    free(seen);
    return good ? good : fault("ids of model.vocab: expected 0 to %d, each once", out->n_own - 1);
}

static bool check_merges(json_object *model, const ids *all)
{
    json_object *merges = json_object_object_get(model, "merges");
    const size_t n = merges ? json_object_array_length(merges) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *merge = json_object_array_get_idx(merges, i);
        const char *left, *right;
        char pair[4096], whole[4096];
        if (json_object_is_type(merge, json_type_array)) {
            left = json_object_get_string(json_object_array_get_idx(merge, 0));
            right = json_object_get_string(json_object_array_get_idx(merge, 1));
        } else {
            snprintf(pair, sizeof pair, "%s", json_object_get_string(merge));
            char *space = strchr(pair, ' ');
            if (space == NULL)
                return fault("model.merges[%zu]: no space", i);
            *space = '\0';
            left = pair;
            right = space + 1;
        }
        snprintf(whole, sizeof whole, "%s%s", left, right);
        if (id_of(all->own, left) < 0 || id_of(all->own, right) < 0 || id_of(all->own, whole) < 0)
            return fault("model.merges[%zu]: '%s' and '%s': not in model.vocab", i, left, right);
    }
    return true;
}

static bool check_unknown(json_object *model, const ids *all)
{
    json_object *unknown = json_object_object_get(model, "unk_token");
    const char *text = unknown ? json_object_get_string(unknown) : NULL;
    return text == NULL || id_of(all->own, text) >= 0 ? true
                                                      : fault("unk_token '%s': not in vocab", text);
}

/* ---- added tokens --------------------------------------------------------------------------- */

static bool read_added(json_object *root, ids *all)
{
    json_object *list = json_object_object_get(root, "added_tokens");
    const size_t n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *one = json_object_array_get_idx(list, i);
        const char *text = string_at(one, "content");
        const int stored = json_object_get_int(json_object_object_get(one, "id"));
        if (*text == '\0')
            return fault("added_tokens[%zu]: empty, which is ignored", i);
        int id = id_of(all->all, text);
        if (id < 0)
            id = all->next;
        if (id >= all->next)
            all->next = id + 1;
        if (id != stored)
            return fault("added_tokens[%zu]: '%s' gets id %d, stored is %d", i, text, id, stored);
        json_object_object_add(all->all, text, json_object_new_int(id));
    }
    return true;
}

static bool is_special(json_object *root, const char *text)
{
    json_object *list = json_object_object_get(root, "added_tokens");
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *one = json_object_array_get_idx(list, i);
        if (strcmp(string_at(one, "content"), text) == 0)
            return json_object_get_boolean(json_object_object_get(one, "special"));
    }
    return false;
}

/* ---- post-processor -------------------------------------------------------------------------- */

static bool check_processor(json_object *processor, const ids *all)
{
    json_object *special = json_object_object_get(processor, "special_tokens");
    json_object *inner = json_object_object_get(processor, "processors");
    for (size_t i = 0; inner && i < json_object_array_length(inner); i++) {
        if (!check_processor(json_object_array_get_idx(inner, i), all))
            return false;
    }
    if (!json_object_is_type(special, json_type_object))
        return true;
    json_object_object_foreach(special, name, token)
    {
        json_object *list = json_object_object_get(token, "ids");
        json_object *texts = json_object_object_get(token, "tokens");
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
            const char *text = json_object_get_string(json_object_array_get_idx(texts, i));
            const int id = json_object_get_int(json_object_array_get_idx(list, i));
            if (text == NULL || id_of(all->all, text) != id)
                return fault("post_processor: %s: token '%s' has not id %d", name, text, id);
        }
    }
    return true;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* A token with the text of a later one cannot be found, so its id is not compared. */
static bool compare(json_object *root, const ids *all, const weft_tokenizer *source)
{
    for (int32_t id = 0; id < weft_tokenizer_vocab_size(source); id++) {
        const char *text = weft_tokenizer_id_to_token(source, id);
        if (text == NULL || *text == '\0' || weft_tokenizer_token_to_id(source, text) != id)
            continue;
        if (id_of(all->all, text) != id)
            return fault("'%s' has id %d, in the source %d", text, id_of(all->all, text), (int)id);
        if (weft_tokenizer_is_special(source, id) && !is_special(root, text))
            return fault("'%s', id %d, is special in the source", text, (int)id);
    }
    return true;
}

const char *tokenizer_json_fault(const char *path, const weft_tokenizer *source)
{
    json_object *root = json_object_from_file(path), *model = NULL;
    ids all = {0};
    snprintf(message, sizeof message, "%s: not a tokenizer", path);
    const bool good = json_object_object_get_ex(root, "model", &model) && read_vocab(model, &all) &&
                      check_merges(model, &all) && check_unknown(model, &all) &&
                      read_added(root, &all) &&
                      check_processor(json_object_object_get(root, "post_processor"), &all) &&
                      (source == NULL || compare(root, &all, source));
    json_object_put(all.own);
    json_object_put(all.all);
    json_object_put(root);
    return good ? NULL : message;
}

bool check_tokenizer_json(const char *folder, const weft_tokenizer *source)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    const char *found = tokenizer_json_fault(path, source);
    return check_that(found == NULL, __FILE__, __LINE__, "%s: %s", path, found ? found : "");
}
