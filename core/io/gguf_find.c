/* core/io/gguf_find.c -- finds the GGUF file that a path names: the file itself or the only one in
 * a folder. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "weft/memory.h"

/* The names in a folder that have a given suffix. */
typedef struct found {
    int n;
    weft__text names;
    char *first;
} found;

static weft_status look(const char *path, found *gguf, found *others)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return weft_fail(WEFT_IO, "%s: %s", path, strerror(errno));
    bool memory = true;
    for (struct dirent *e = readdir(folder); e && memory; e = readdir(folder)) {
        found *f = weft__ends_with(e->d_name, ".gguf")          ? gguf
                   : weft__ends_with(e->d_name, ".safetensors") ? others
                                                                : NULL;
        if (f == NULL)
            continue;
        weft__text_list(&f->names, f->n++, e->d_name);
        if (f->first == NULL)
            f->first = weft_strdup(e->d_name);
        memory = f->first != NULL && !f->names.failed;
    }
    closedir(folder);
    weft__text_list_end(&gguf->names, gguf->n);
    weft__text_list_end(&others->names, others->n);
    memory = memory && !gguf->names.failed && !others->names.failed;
    return memory ? WEFT_OK : weft__out_of_memory(path, "its files' names");
}

static weft_status choose(const char *path, const found *gguf, const found *others, char **out)
{
    if (gguf->n == 0)
        return WEFT_OK;
    if (gguf->n > 1)
        return weft_fail(WEFT_INVALID, "%s: %d GGUF files: %s; name one of them", path, gguf->n,
                         gguf->names.at);
    if (others->n > 0)
        return weft_fail(WEFT_INVALID, "%s: a GGUF file, %s, and safetensors files, %s; name one",
                         path, gguf->names.at, others->names.at);
    *out = weft_format("%s/%s", path, gguf->first);
    return *out ? WEFT_OK : weft__out_of_memory(path, NULL);
}

weft_status weft__gguf_find(const char *path, char **out)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        if (!weft__ends_with(path, ".gguf"))
            return WEFT_OK;
        *out = weft_strdup(path);
        return *out ? WEFT_OK : weft__out_of_memory(path, NULL);
    }
    found gguf = {0}, others = {0};
    weft_status status = look(path, &gguf, &others);
    if (status == WEFT_OK)
        status = choose(path, &gguf, &others, out);
    weft_free(gguf.names.at);
    weft_free(gguf.first);
    weft_free(others.names.at);
    weft_free(others.first);
    return status;
}
