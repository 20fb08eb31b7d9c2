/* core/io/safetensors_folder.c -- selects the safetensors files of a checkpoint folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json_object.h>
#include <json-c/linkhash.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "core/list.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

/* File names within a folder, sorted. */
typedef struct names {
    char **at;
    int n;
} names;

static void names_free(names *list)
{
    for (int i = 0; i < list->n; i++)
        weft_free(list->at[i]);
    weft_free(list->at);
    *list = (names){0};
}

static bool names_add(names *list, const char *name)
{
    if (!weft__list_more(list->at, list->n))
        return false;
    list->at[list->n] = weft_strdup(name);
    return list->at[list->n] && ++list->n;
}

/* Sorts the names and removes duplicates. */
static void names_sort(names *list)
{
    int kept = 0;
    if (list->n > 0)
        qsort(list->at, (size_t)list->n, sizeof *list->at, weft__by_text);
    for (int i = 0; i < list->n; i++) {
        if (kept > 0 && strcmp(list->at[kept - 1], list->at[i]) == 0)
            weft_free(list->at[i]);
        else
            list->at[kept++] = list->at[i];
    }
    list->n = kept;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- with an index -------------------------------------------------------------------------- */

static weft_status index_shards(const weft__json *map, names *shards)
{
    weft_status status = weft__json_as_object(map);
    if (status != WEFT_OK)
        return status;
    json_object_object_foreach(map->value, key, value)
    {
        (void)value;
        const char *shard;
        status = weft__json_get_string(map, key, &shard);
        if (status != WEFT_OK)
            return status;
        if (*shard == '\0' || *shard == '.' || strchr(shard, '/'))
            return weft__json_fail(map, WEFT_INVALID, "%s: '%s' is not a file name", key,
                                   weft_printable(shard));
        if (!names_add(shards, shard))
            return weft__json_fail(map, WEFT_MEMORY, "out of memory");
    }
    names_sort(shards);
    return WEFT_OK;
}

static weft_status add_shard(weft_safetensors *file, const char *folder, const char *name,
                             const char *index)
{
    char *path = weft_format("%s/%s", folder, name);
    if (path == NULL)
        return weft__out_of_memory(folder, "opening the checkpoint");
    weft_status status;
    if (index && !exists(path))
        status = weft_fail(WEFT_IO, "%s: the shard '%s', which %s names, is missing", folder,
                           weft_printable(name), index);
    else
        status = weft__safetensors_add(file, path, true);
    weft_free(path);
    return status;
}

static weft_status check_index(const weft_safetensors *file, const weft__json *map)
{
    json_object_object_foreach(map->value, key, value)
    {
        const char *shard = json_object_get_string(value);
        const int i = weft_safetensors_find(file, key);
        const char *path = i < 0 ? NULL : file->tensors[i].entry.path;
        if (path && strcmp(strrchr(path, '/') + 1, shard) == 0)
            continue;
        return weft__json_fail(map, WEFT_INVALID, "tensor '%s': expected in %s, found in %s",
                               weft_printable(key), shard, path ? path : "no shard");
    }
    return WEFT_OK;
}

static weft_status add_indexed(weft_safetensors *file, const char *folder, const char *index)
{
    weft__json_doc doc;
    weft__json map;
    names shards = {0};
    weft_status status = weft__json_read(index, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = weft__json_get(&root, "weight_map", &map);
    if (status == WEFT_OK)
        status = index_shards(&map, &shards);
    for (int i = 0; i < shards.n && status == WEFT_OK; i++)
        status = add_shard(file, folder, shards.at[i], index_name);
    if (status == WEFT_OK)
        status = weft__safetensors_sort(file);
    if (status == WEFT_OK)
        status = check_index(file, &map);
    names_free(&shards);
    weft__json_free(&doc);
    return status;
}

/* ---- without one ---------------------------------------------------------------------------- */

/* Lists the folder's *.safetensors files that begin with `prefix`. */
static weft_status list_folder(const char *folder, const char *prefix, names *list)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return weft_fail(WEFT_IO, "%s: open folder: %s", folder, strerror(errno));
    weft_status status = WEFT_OK;
    for (struct dirent *e = readdir(dir); e && status == WEFT_OK; e = readdir(dir)) {
        if (*e->d_name == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
            !weft__ends_with(e->d_name, ".safetensors"))
            continue;
        if (!names_add(list, e->d_name))
            status = weft__out_of_memory(folder, "opening the checkpoint");
    }
    closedir(dir);
    names_sort(list);
    return status;
}

/* There are no safetensors files: names weights in other formats. */
static weft_status fail_without(const char *folder)
{
    static const struct {
        const char *end, *what;
    } formats[] = {
        {".bin", "PyTorch pickles, which can run code"},
        {".pth", "PyTorch pickles, which can run code"},
        {".pt", "PyTorch pickles, which can run code"},
        {".ckpt", "PyTorch pickles, which can run code"},
        {".h5", "weights of TensorFlow"},
        {".msgpack", "weights of Flax"},
        {".onnx", "an ONNX graph"},
    };
    DIR *dir = opendir(folder);
    weft_status status = weft_fail(WEFT_IO, "%s: there is no .safetensors file", folder);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL && status == WEFT_IO;)
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            if (weft__ends_with(e->d_name, formats[i].end) &&
                strcmp(e->d_name, "training_args.bin") != 0)
                status = weft_fail(WEFT_UNSUPPORTED,
                                   "%s: expected .safetensors files, found %s (%s): save the model "
                                   "with transformers' save_pretrained",
                                   folder, weft_printable(e->d_name), formats[i].what);
    if (dir)
        closedir(dir);
    return status;
}

/* Uses model.safetensors alone if it exists, else model*.safetensors, else all. So an adapter or a
 * second copy in another form in the same folder is ignored. */
static weft_status add_listed(weft_safetensors *file, const char *folder)
{
    names list = {0};
    weft_status status = list_folder(folder, "model", &list);
    for (int i = 0; i < list.n; i++) {
        if (strcmp(list.at[i], single_name) == 0) {
            names_free(&list);
            return add_shard(file, folder, single_name, NULL);
        }
    }
    if (status == WEFT_OK && list.n == 0)
        status = list_folder(folder, "", &list);
    if (status == WEFT_OK && list.n == 0)
        status = fail_without(folder);
    for (int i = 0; i < list.n && status == WEFT_OK; i++)
        status = add_shard(file, folder, list.at[i], NULL);
    names_free(&list);
    return status;
}

weft_status weft_safetensors_open_folder(const char *path, weft_safetensors **out)
{
    *out = NULL;
    struct stat info;
    if (stat(path, &info) != 0)
        return weft_fail(WEFT_IO, "%s: open: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return weft_safetensors_open(path, out);
    weft_safetensors *file = weft_calloc(1, sizeof *file);
    char *index = weft_format("%s/%s", path, index_name);
    weft_status status;
    if (file == NULL || index == NULL)
        status = weft__out_of_memory(path, "opening the checkpoint");
    else if (exists(index))
        status = add_indexed(file, path, index);
    else
        status = add_listed(file, path);
    if (status == WEFT_OK)
        status = weft__safetensors_sort(file);
    weft_free(index);
    if (status != WEFT_OK) {
        weft_safetensors_close(file);
        return status;
    }
    *out = file;
    return WEFT_OK;
}
