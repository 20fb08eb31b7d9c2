/* core/io/safetensors_shards.c -- writes a checkpoint folder: one file, or shards with an index. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/named.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/op.h"

static const int64_t default_shard = 5000000000;

typedef struct shards {
    const char *folder;
    const char *const *names;
    weft_array *const *arrays;
    int n, files;
    const weft_save_folder_options *options;
    int *starts; /* index of each file's first array, and n at the end */
    weft__written written;
} shards;

/* Assigns arrays to files in order; a new file begins when the next array would exceed the limit.
 */
static weft_status part(shards *s)
{
    const int64_t most = s->options->shard_bytes > 0 ? s->options->shard_bytes : default_shard;
    int64_t bytes = 0;
    s->starts = weft_calloc((size_t)s->n + 2, sizeof *s->starts);
    if (s->starts == NULL)
        return weft__out_of_memory(s->folder, "saving it");
    s->files = 1;
    for (int i = 0; i < s->n; i++) {
        const int64_t size = weft_nbytes(s->arrays[i]);
        s->written.total += size;
        if (bytes > 0 && bytes + size > most) {
            s->starts[s->files++] = i;
            bytes = 0;
        }
        bytes += size;
    }
    s->starts[s->files] = s->n;
    return WEFT_OK;
}

static void file_name(const shards *s, int file, char name[64])
{
    if (s->files == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05d-of-%05d.safetensors", file + 1, s->files);
}

static weft_status write_file(shards *s, int file)
{
    char name[64];
    const weft_save_folder_options *o = s->options;
    const int first = s->starts[file];
    file_name(s, file, name);
    char *path = weft_format("%s/%s", s->folder, name);
    if (path == NULL)
        return weft__out_of_memory(s->folder, "saving it");
    const weft_status status = weft__safetensors_save(path, s->names + first, s->arrays + first,
                                                      s->starts[file + 1] - first, o->metadata,
                                                      o->n_metadata, &s->written);
    weft_free(path);
    return status;
}

static weft_status write_index(const shards *s)
{
    weft__text text = {0};
    weft__text_format(&text, "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {",
                      (long long)s->written.total);
    for (int file = 0; file < s->files; file++) {
        char name[64];
        file_name(s, file, name);
        for (int i = s->starts[file]; i < s->starts[file + 1]; i++) {
            weft__text_format(&text, "%s\n    ", i ? "," : "");
            weft__text_quote(&text, s->names[i]);
            weft__text_format(&text, ": \"%s\"", name);
        }
    }
    weft__text_format(&text, "\n  }\n}\n");
    char *path = weft_format("%s/model.safetensors.index.json", s->folder);
    const weft_status status = text.failed || !path ? weft__out_of_memory(s->folder, "saving it")
                                                    : weft_file_write(path, text.at, text.n);
    weft_free(path);
    weft_free(text.at);
    return status;
}

/* Whether the file of that name belongs to a checkpoint with another number of files. */
static bool is_stale(const shards *s, const char *name)
{
    int file, files, end = 0;
    if (strcmp(name, "model.safetensors") == 0)
        return s->files > 1;
    if (strcmp(name, "model.safetensors.index.json") == 0)
        return s->files == 1;
    return sscanf(name, "model-%5d-of-%5d.safetensors%n", &file, &files, &end) == 2 && end > 0 &&
           name[end] == '\0' && files != s->files;
}

/* Removes the files of an earlier checkpoint, which readers could take for this one's. */
static weft_status remove_stale(const shards *s)
{
    weft_status status = WEFT_OK;
    DIR *folder = opendir(s->folder);
    for (struct dirent *e; folder && status == WEFT_OK && (e = readdir(folder)) != NULL;) {
        if (!is_stale(s, e->d_name))
            continue;
        char *path = weft_format("%s/%s", s->folder, e->d_name);
        status = !path               ? weft__out_of_memory(s->folder, "saving it")
                 : unlink(path) == 0 ? WEFT_OK
                                     : weft_fail(WEFT_IO, "%s: %s", path, strerror(errno));
        weft_free(path);
    }
    if (folder)
        closedir(folder);
    return status;
}

weft_status weft_safetensors_save_folder(const char *folder, const char *const *names,
                                         weft_array *const *arrays, int n,
                                         const weft_save_folder_options *options, int *files)
{
    static const weft_save_folder_options defaults = {0};
    shards s = {.folder = folder,
                .names = names,
                .arrays = arrays,
                .n = n,
                .options = options ? options : &defaults};
    s.written.progress = s.options->progress;
    /* Checked here, since saving checks duplicates only within a file. */
    weft_status status = weft__named_arrays_check(folder, names, arrays, n, false);
    weft__folder f = {.path = NULL};
    if (status == WEFT_OK)
        status = weft__folder_open_new(folder, &f);
    s.folder = f.path;
    if (status == WEFT_OK)
        status = part(&s);
    for (int i = 0; i < s.files && status == WEFT_OK; i++)
        status = write_file(&s, i);
    if (status == WEFT_OK && s.files > 1)
        status = write_index(&s);
    if (status == WEFT_OK)
        status = remove_stale(&s);
    if (files)
        *files = s.files;
    weft_free(s.starts);
    return weft__folder_replace(&f, folder, status);
}
