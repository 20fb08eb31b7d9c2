/* hub/list.c -- the file list of a repository, and selection of wanted files. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "hub/dataset.h"
#include "hub/hub.h"
#include "weft/memory.h"

enum { MOST_FILES = 100000 };
/* Limited so that the sum of all sizes cannot overflow. */
#define LARGEST_FILE (INT64_MAX / MOST_FILES)

/* ---- parsing the hub's response -------------------------------------------------------------- */

/* Reads the name of the blob: "lfs.sha256" for files in LFS, else "blobId". */
static weft_status read_hash(const weft__json *at, weft__hub_file *file)
{
    weft__json lfs;
    const char *hash;
    weft_status status = weft__json_find(at, "lfs", &lfs);
    const bool large = status == WEFT_OK && lfs.value != NULL;
    if (status == WEFT_OK)
        status = large ? weft__json_get_string(&lfs, "sha256", &hash)
                       : weft__json_get_string(at, "blobId", &hash);
    if (status == WEFT_OK && large)
        status = weft__json_find_int(&lfs, "size", &file->size);
    if (status == WEFT_OK && !weft__hub_is_hex(hash, large ? 64 : 40))
        return weft__json_fail(at, WEFT_INVALID, "expected a hash of %d digits, got '%s'",
                               large ? 64 : 40, weft_printable(hash));
    if (status == WEFT_OK)
        snprintf(file->hash, sizeof file->hash, "%s", hash);
    return status;
}

static weft_status read_file(const weft__json *at, weft__hub_file *file)
{
    const char *path;
    file->size = -1;
    weft_status status = weft__json_get_string(at, "rfilename", &path);
    if (status == WEFT_OK && !weft__hub_is_path(path))
        return weft__json_fail(at, WEFT_INVALID, "rfilename: '%s' is no place for a file",
                               weft_printable(path));
    if (status == WEFT_OK)
        status = weft__json_get_int(at, "size", &file->size);
    if (status == WEFT_OK)
        status = read_hash(at, file);
    if (status == WEFT_OK && (file->size < 0 || file->size > LARGEST_FILE))
        return weft__json_fail(at, WEFT_INVALID, "size: expected 0 to %lld",
                               (long long)LARGEST_FILE);
    if (status != WEFT_OK)
        return status;
    file->path = weft_strdup(path);
    return file->path != NULL ? WEFT_OK : weft__json_fail(at, WEFT_MEMORY, "out of memory");
}

static weft_status read_list(const weft__json *root, weft__hub_list *out)
{
    weft__json files, at;
    const char *commit;
    size_t n = 0;
    weft_status status = weft__json_get_string(root, "sha", &commit);
    if (status == WEFT_OK && !weft__hub_is_hex(commit, 40))
        return weft__json_fail(root, WEFT_INVALID, "sha: expected a commit, got '%s'",
                               weft_printable(commit));
    if (status == WEFT_OK)
        status = weft__json_get(root, "siblings", &files);
    if (status == WEFT_OK)
        status = weft__json_length(&files, &n);
    if (status != WEFT_OK)
        return status;
    snprintf(out->commit, sizeof out->commit, "%s", commit);
    if (n > MOST_FILES)
        return weft__json_fail(&files, WEFT_INVALID, "expected at most %d files, got %zu",
                               MOST_FILES, n);
    out->files = weft_calloc(n > 0 ? n : 1, sizeof *out->files);
    if (out->files == NULL)
        return weft__json_fail(&files, WEFT_MEMORY, "out of memory for %zu files", n);
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        status = weft__json_at(&files, i, &at);
        if (status == WEFT_OK)
            status = read_file(&at, &out->files[out->n]);
        out->n += status == WEFT_OK;
    }
    return status;
}

weft_status weft__hub_list_parse(const char *json, size_t length, const char *where,
                                 weft__hub_list *out)
{
    weft__json_doc doc;
    *out = (weft__hub_list){0};
    weft_status status = weft__json_parse(json, length, where, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = read_list(&root, out);
    weft__json_free(&doc);
    if (status != WEFT_OK)
        weft__hub_list_free(out);
    return status;
}

void weft__hub_list_free(weft__hub_list *list)
{
    for (int i = 0; i < list->n; i++)
        weft_free(list->files[i].path);
    weft_free(list->files);
    *list = (weft__hub_list){0};
}

/* ---- shared blobs ---------------------------------------------------------------------------- */

static int by_blob(const void *a, const void *b)
{
    const weft__hub_file *const *x = a, *const *y = b;
    const int hash = strcmp((*x)->hash, (*y)->hash);
    if (hash != 0)
        return hash;
    if ((*x)->size != (*y)->size)
        return (*x)->size < (*y)->size ? -1 : 1;
    return *x < *y ? -1 : 1; /* keeps the list's order */
}

weft_status weft__hub_list_share(weft__hub_list *list, const char *where)
{
    const size_t n = (size_t)list->n;
    weft__hub_file **sorted = weft_malloc((n + 1) * sizeof *sorted);
    if (sorted == NULL)
        return weft__out_of_memory(where, NULL);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &list->files[i];
    qsort(sorted, n, sizeof *sorted, by_blob);
    for (size_t i = 0; i < n; i++) {
        const bool same = i > 0 && sorted[i]->size == sorted[i - 1]->size &&
                          strcmp(sorted[i]->hash, sorted[i - 1]->hash) == 0;
        sorted[i]->first = same ? sorted[i - 1]->first : (int)(sorted[i] - list->files);
    }
    weft_free(sorted);
    return WEFT_OK;
}

/* ---- selection ------------------------------------------------------------------------------- */

static bool fits(const char *path, const char *pattern, size_t n)
{
    char one[256];
    if (n == 0 || n >= sizeof one)
        return false;
    snprintf(one, sizeof one, "%.*s", (int)n, pattern);
    return fnmatch(one, path, 0) == 0;
}

/* Whether one of the comma-separated patterns matches. */
static bool fits_one(const char *path, const char *patterns)
{
    for (const char *at = patterns;;) {
        const size_t n = strcspn(at, ",");
        if (fits(path, at, n))
            return true;
        if (at[n] == '\0')
            return false;
        at += n + 1;
    }
}

/* The card of a dataset, which says what its files are. */
static bool is_card(const char *path)
{
    return strcmp(path, "README.md") == 0;
}

static bool is_of_model(const char *path)
{
    static const char names[] =
        "config.json,generation_config.json,tokenizer*,chat_template*,special_tokens_map.json,"
        "added_tokens.json,vocab.json,merges.txt,"
        "modules.json,sentence_bert_config.json,config_sentence_transformers.json";
    static const char templates[] = "additional_chat_templates/";
    if (strchr(path, '/') == NULL)
        return fits_one(path, names);
    return strncmp(path, templates, sizeof templates - 1) == 0
               ? fits_one(path, "*.jinja")
               : fnmatch("[0-9]_*/config.json", path, FNM_PATHNAME) == 0 ||
                     fnmatch("[0-9]_*/model.safetensors", path, FNM_PATHNAME) == 0; /* 1_Pooling */
}

/* Whether the list has weights with the usual names. */
static bool has_usual(const weft__hub_list *list)
{
    for (int i = 0; i < list->n; i++) {
        if (fits_one(list->files[i].path, "model*.safetensors"))
            return true;
    }
    return false;
}

/* Whether it is a weights file: safetensors at the top level, without duplicates under Mistral's
 * names. */
static bool is_weights(const char *path, bool usual)
{
    if (strchr(path, '/') != NULL || (usual && fits_one(path, "consolidated*")))
        return false;
    return fits_one(path, "*.safetensors,*.safetensors.index.json");
}

/* Finds the only GGUF file if there are no safetensors files; *index is -1 if there are some. */
static weft_status find_gguf(const weft__hub_list *list, bool usual, const char *where, int *index)
{
    weft__text names = {0};
    int n = 0;
    *index = -1;
    for (int i = 0; i < list->n; i++) {
        if (is_weights(list->files[i].path, usual)) {
            weft_free(names.at);
            *index = -1;
            return WEFT_OK;
        }
        if (!fits_one(list->files[i].path, "*.gguf"))
            continue;
        weft__text_list(&names, n++, list->files[i].path);
        *index = i;
    }
    weft_status status = WEFT_OK;
    weft__text_list_end(&names, n);
    if (n > 1)
        status = weft_fail(WEFT_INVALID, "%s: %d GGUF files: %s; choose by --include", where, n,
                           names.at != NULL ? names.at : "");
    if (n == 0)
        status = weft_fail(WEFT_INVALID, "%s: it has no *.safetensors and no *.gguf", where);
    weft_free(names.at);
    return status;
}

weft_status weft__hub_list_choose(weft__hub_list *list, const char *include, bool dataset,
                                  const char *where)
{
    int gguf = -1, kept = 0;
    const bool usual = has_usual(list);
    weft_status status =
        include == NULL && !dataset ? find_gguf(list, usual, where, &gguf) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    bool *wanted = weft_calloc(list->n > 0 ? (size_t)list->n : 1, sizeof *wanted);
    if (wanted == NULL)
        return weft__out_of_memory(where, NULL);
    for (int i = 0; i < list->n; i++) {
        const char *path = list->files[i].path;
        wanted[i] = include != NULL ? fits_one(path, include) || (dataset && is_card(path))
                    : dataset
                        ? weft__hub_is_data(path) || is_card(path)
                        : i == gguf || is_of_model(path) || (gguf < 0 && is_weights(path, usual));
    }
    for (int i = 0; i < list->n; i++) {
        if (wanted[i])
            list->files[kept++] = list->files[i];
        else
            weft_free(list->files[i].path);
    }
    list->n = kept;
    weft_free(wanted);
    return kept > 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: no file fits '%s'", where, weft_printable(include));
}
