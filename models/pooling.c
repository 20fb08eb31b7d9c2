/* models/pooling.c -- the pooling of a checkpoint of sentence-transformers, in its files or in a
 * GGUF file. */
#include "models/pooling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/text.h"

weft_status weft__settings_file(const char *folder, const char *name, weft__json_doc *doc,
                                weft__json *root)
{
    char *path = weft_format("%s/%s", folder, name);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, NULL);
    *doc = (weft__json_doc){0};
    if (status == WEFT_OK && access(path, F_OK) == 0)
        status = weft__json_read(path, doc);
    if (doc->root)
        *root = weft__json_root(doc);
    weft_free(path);
    return status;
}

static const struct {
    const char *now, *old; /* value of pooling_mode, and the key that was true instead */
    weft_pooling pooling;
} poolings[] = {
    {"cls", "pooling_mode_cls_token", WEFT_POOLING_CLS},
    {"max", "pooling_mode_max_tokens", WEFT_POOLING_MAX},
    {"mean", "pooling_mode_mean_tokens", WEFT_POOLING_MEAN},
    {"lasttoken", "pooling_mode_lasttoken", WEFT_POOLING_LAST},
};
enum { N_POOLINGS = sizeof poolings / sizeof *poolings };

static weft_status named_pooling(const weft__json *at, weft_pooling *out)
{
    const char *name;
    const weft_status status = weft__json_as_string(at, &name, NULL);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < N_POOLINGS; i++) {
        if (strcmp(name, poolings[i].now) == 0) {
            *out = poolings[i].pooling;
            return WEFT_OK;
        }
    }
    return weft__json_fail(at, WEFT_UNSUPPORTED,
                           "'%s' is unsupported (known: cls, max, mean, lasttoken)",
                           weft_printable(name));
}

/* The older form: a key for each kind, of which one is true; none: mean. */
static weft_status flagged_pooling(const weft__json *root, weft_pooling *out)
{
    static const char *const others[] = {"pooling_mode_mean_sqrt_len_tokens",
                                         "pooling_mode_weightedmean_tokens"};
    weft_status status = WEFT_OK;
    int n = 0;
    for (int i = 0; i < N_POOLINGS && status == WEFT_OK; i++) {
        bool flag = false;
        status = weft__json_find_bool(root, poolings[i].old, &flag);
        n += flag;
        *out = flag ? poolings[i].pooling : *out;
    }
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        bool flag = false;
        status = weft__json_find_bool(root, others[i], &flag);
        if (status == WEFT_OK && flag)
            status = weft__json_fail(root, WEFT_UNSUPPORTED, "%s is unsupported", others[i]);
    }
    if (status == WEFT_OK && n > 1)
        status = weft__json_fail(root, WEFT_UNSUPPORTED,
                                 "several kinds of pooling together are unsupported");
    return status;
}

weft_status weft__settings_pooling(const char *folder, const char *path, weft_pooling *out,
                                   bool *excludes_prompts)
{
    bool included = true;
    char *name = weft_format("%s/config.json", path);
    weft__json_doc doc = {0};
    weft__json root, mode;
    weft_status status =
        name ? weft__settings_file(folder, name, &doc, &root) : weft__out_of_memory(path, 0);
    if (status == WEFT_OK && doc.root == NULL)
        status = weft_fail(WEFT_INVALID, "%s: %s is missing", folder, name);
    if (status == WEFT_OK)
        status = weft__json_find(&root, "pooling_mode", &mode);
    if (status == WEFT_OK)
        status = mode.value ? named_pooling(&mode, out) : flagged_pooling(&root, out);
    if (status == WEFT_OK)
        status = weft__json_find_bool(&root, "include_prompt", &included);
    *excludes_prompts = !included;
    weft__json_free(&doc);
    weft_free(name);
    return status;
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

/* pooling_type in files. */
static const int numbers[] = {
    [WEFT_POOLING_MEAN] = 1, [WEFT_POOLING_CLS] = 2, [WEFT_POOLING_LAST] = 3};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

int weft__pooling_number(weft_pooling pooling)
{
    return (int)pooling < N_NUMBERS ? numbers[pooling] : 0;
}

/* Of an open file: whether it says the pooling. */
static bool pooling_of(const weft_gguf *file, weft_pooling *out)
{
    weft_gguf_string name;
    int64_t number = 0;
    char key[96];
    if (!weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &name))
        return false;
    snprintf(key, sizeof key, "%.*s.pooling_type", (int)(name.n < 63 ? name.n : 63), name.at);
    weft_gguf_value_int(weft_gguf_value_find(file, key), 0, &number);
    for (int i = 0; i < N_NUMBERS; i++) {
        *out = (weft_pooling)i;
        if (number > 0 && numbers[i] == number)
            return true;
    }
    return false;
}

/* The folder of the second module of modules.json, "" without that file; owned. */
static weft_status pooling_folder(const char *folder, char **out)
{
    weft__json_doc doc;
    weft__json root, item;
    const char *path = "";
    weft_status status = weft__settings_file(folder, "modules.json", &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_at(&root, 1, &item);
    if (status == WEFT_OK && doc.root)
        status = weft__json_get_string(&item, "path", &path);
    *out = status == WEFT_OK ? weft_strdup(path) : NULL;
    if (status == WEFT_OK && *out == NULL)
        status = weft__out_of_memory(folder, NULL);
    weft__json_free(&doc);
    return status;
}

weft_status weft__pooling_of(const char *source, bool *found, weft_pooling *out)
{
    char *path = NULL;
    weft_gguf *file = NULL;
    bool excludes;
    *found = false;
    weft_status status = weft__gguf_find(source, &path);
    if (status == WEFT_OK && path) {
        status = weft_gguf_open(path, &file);
        *found = status == WEFT_OK && pooling_of(file, out);
        weft_gguf_close(file);
    } else if (status == WEFT_OK) {
        status = pooling_folder(source, &path);
        *found = status == WEFT_OK && *path != '\0';
        if (*found)
            status = weft__settings_pooling(source, path, out, &excludes);
    }
    weft_free(path);
    return status;
}
