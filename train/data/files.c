/* train/data/files.c -- finds the data files of a path, a folder or a pattern, and decompresses
 * them. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* Maximum nesting of folders. */
enum { DEPTH = 16 };

/* Most bytes of a file that is decompressed as a whole. */
#define LARGEST ((size_t)2 << 30)

/* An open folder, and its parent. */
typedef struct opened {
    const struct opened *parent; /* NULL: none */
    dev_t device;
    ino_t inode;
    int depth;
} opened;

void weft__data_files_free(weft__data_files *files)
{
    for (int i = 0; i < files->n; i++)
        weft_free(files->at[i]);
    weft_free(files->at);
    *files = (weft__data_files){0};
}

/* Adds `path`, of which it takes ownership. NULL means out of memory. */
static weft_status add(weft__data_files *files, char *path)
{
    if (path == NULL || !weft__list_more(files->at, files->n)) {
        weft_free(path);
        return weft__out_of_memory("dataset", "its list of files");
    }
    files->at[files->n++] = path;
    return WEFT_OK;
}

static weft_status add_folder(weft__data_files *files, const char *folder, const struct stat *about,
                              const opened *parent);

/* Adds an entry of a folder if it is a file with a known extension, or the files in it if it is a
 * folder. Links are followed. */
static weft_status add_entry(weft__data_files *files, char *path, const opened *in)
{
    struct stat about;
    weft_data_format format;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        const weft_status status = add_folder(files, path, &about, in);
        weft_free(path);
        return status;
    }
    /* Known formats that Weft cannot read are errors; other files are ignored. */
    const weft_status status = weft__data_format_named(path, &format);
    if (status == WEFT_OK && format != WEFT_DATA_AUTO)
        return add(files, path);
    weft_free(path);
    return status;
}

/* Whether the folder is being read already, through a link to one of its parents. */
static bool is_open(const opened *in, const struct stat *about)
{
    for (; in; in = in->parent) {
        if (in->device == about->st_dev && in->inode == about->st_ino)
            return true;
    }
    return false;
}

static weft_status add_folder(weft__data_files *files, const char *folder, const struct stat *about,
                              const opened *parent)
{
    const opened here = {parent, about->st_dev, about->st_ino, parent ? parent->depth + 1 : 0};
    if (is_open(parent, about))
        return WEFT_OK;
    DIR *open = here.depth < DEPTH ? opendir(folder) : NULL;
    if (open == NULL)
        return weft_fail(WEFT_IO, "%s: cannot read the folder: %s", folder,
                         here.depth < DEPTH ? strerror(errno) : "folders are nested too deep");
    weft_status status = WEFT_OK;
    for (struct dirent *e = readdir(open); status == WEFT_OK && e; e = readdir(open)) {
        if (e->d_name[0] == '.')
            continue;
        char *path = weft_format("%s/%s", folder, e->d_name);
        status = path ? add_entry(files, path, &here) : weft__out_of_memory(folder, NULL);
    }
    closedir(open);
    return status;
}

static weft_status add_matches(weft__data_files *files, const char *pattern)
{
    glob_t found;
    const int code = glob(pattern, 0, NULL, &found);
    if (code == GLOB_NOMATCH)
        return weft_fail(WEFT_IO, "%s: no file matches the pattern", pattern);
    if (code != 0)
        return weft_fail(code == GLOB_NOSPACE ? WEFT_MEMORY : WEFT_IO,
                         "%s: cannot look for the files of the pattern", pattern);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < found.gl_pathc; i++) {
        struct stat about;
        const char *path = found.gl_pathv[i];
        status = stat(path, &about) == 0 && S_ISDIR(about.st_mode)
                     ? add_folder(files, path, &about, NULL)
                     : add(files, weft_strdup(path));
    }
    if (status == WEFT_OK && files->n == 0)
        status = weft_fail(WEFT_IO, "%s: the folders of the pattern have no file of data", pattern);
    globfree(&found);
    return status;
}

/* Adds only train.jsonl of a folder that has it, as mlx-lm does. */
static weft_status add_train(weft__data_files *files, const char *folder, bool *found)
{
    struct stat about;
    char *path = weft_format("%s/train.jsonl", folder);
    *found = path && stat(path, &about) == 0 && S_ISREG(about.st_mode);
    if (*found || path == NULL)
        return add(files, path);
    weft_free(path);
    return WEFT_OK;
}

weft_status weft__data_files_find(const weft_data_source *source, weft__data_files *out)
{
    struct stat about;
    const char *path = source->path;
    *out = (weft__data_files){0};
    const bool there = stat(path, &about) == 0;
    const bool folder = source->n_files == 0 && there && S_ISDIR(about.st_mode);
    bool whole = false;
    weft_status status = folder ? add_train(out, path, &whole) : WEFT_OK;
    for (int i = 0; i < source->n_files && status == WEFT_OK; i++)
        status = add(out, weft_strdup(source->files[i]));
    if (status != WEFT_OK || source->n_files > 0 || whole) {
        /* they are listed, or only that file */
    } else if (there && S_ISDIR(about.st_mode)) {
        status = add_folder(out, path, &about, NULL);
        if (status == WEFT_OK && out->n == 0)
            status = weft_fail(WEFT_IO, "%s: the folder has no file of a known format: %s", path,
                               weft__data_titles());
    } else if (!there && strpbrk(path, "*?[") != NULL) {
        status = add_matches(out, path);
    } else {
        status = add(out, weft_strdup(path));
    }
    if (status != WEFT_OK)
        weft__data_files_free(out);
    else
        qsort(out->at, (size_t)out->n, sizeof *out->at, weft__by_text);
    return status;
}

/* ---- contents ------------------------------------------------------------------------------- */

void weft__data_skip_mark(const char **data, size_t *size)
{
    if (*size >= 3 && memcmp(*data, "\xef\xbb\xbf", 3) == 0) {
        *data += 3;
        *size -= 3;
    }
}

typedef struct contents {
    const char *path;
    weft__text text;
} contents;

static weft_status append(void *context, const char *bytes, size_t n)
{
    contents *c = context;
    if (n > LARGEST - c->text.n)
        return weft_fail(WEFT_INVALID,
                         "%s: its contents are larger than 2 GiB: decompress it first", c->path);
    weft__text_append(&c->text, bytes, n);
    return c->text.failed ? weft__out_of_memory(c->path, "its contents") : WEFT_OK;
}

weft_status weft__data_decompress(const char *path, weft__codec codec, const char *data,
                                  size_t size, char **out, size_t *n)
{
    contents c = {.path = path};
    const weft_status status = weft__decompress(codec, data, size, path, append, &c);
    *out = status == WEFT_OK ? c.text.at : NULL;
    *n = status == WEFT_OK ? c.text.n : 0;
    if (status != WEFT_OK)
        weft_free(c.text.at);
    return status;
}

weft_status weft__data_read_stdin(char **data, size_t *size)
{
    enum { PIECE = 1 << 16 };
    size_t capacity = 0;
    ssize_t got = 1;
    *data = NULL;
    *size = 0;
    while (got > 0 || (got < 0 && errno == EINTR)) {
        if (capacity - *size < PIECE) {
            capacity = 2 * capacity + PIECE;
            char *moved = weft_realloc(*data, capacity);
            if (moved == NULL) {
                weft_free(*data);
                *data = NULL;
                return weft__out_of_memory("standard input", NULL);
            }
            *data = moved;
        }
        got = read(STDIN_FILENO, *data + *size, PIECE);
        *size += got > 0 ? (size_t)got : 0;
    }
    if (got == 0)
        return WEFT_OK;
    weft_free(*data);
    *data = NULL;
    return weft_fail(WEFT_IO, "standard input: %s", strerror(errno));
}
