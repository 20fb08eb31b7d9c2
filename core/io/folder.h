/* core/io/folder.h -- folders that are complete or absent.
 *
 *     weft__folder f;
 *     weft_status status = weft__folder_open_beside(path, &f);
 *     if (status == WEFT_OK)
 *         status = write_files(f.path);
 *     status = weft__folder_replace(&f, path, status);
 */
#ifndef WEFT_CORE_IO_FOLDER_H
#define WEFT_CORE_IO_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* A folder that is being written. */
typedef struct weft__folder {
    char *path;      /* where to write; NULL: not open */
    size_t existing; /* length of the part of the path that existed before */
    bool locked;     /* a temporary folder, which `lock` holds */
    int lock;
} weft__folder;

/* Creates `path` and its parents. On failure nothing that it created remains, and f->path is
 * NULL. */
weft_status weft__folder_open(const char *path, weft__folder *f);

/* Creates a temporary folder (core/io/temporary.h), in which to write what is to become `path`. */
weft_status weft__folder_open_beside(const char *path, weft__folder *f);

/* The same if `path` does not exist, so that it appears complete; otherwise opens `path`. */
weft_status weft__folder_open_new(const char *path, weft__folder *f);

/* Deletes the folders that were created, with their contents, and forgets the path. Accepts a
 * folder that is not open. */
void weft__folder_discard(weft__folder *f);

/* Ends writing. If `status` is a failure, discards the folder. Returns `status` and keeps its
 * message. Accepts a folder that is not open. */
weft_status weft__folder_close(weft__folder *f, weft_status status);

/* If `status` is WEFT_OK, renames a temporary folder to `path`, and deletes what was there.
 * Otherwise, or when that fails, weft__folder_close. Returns `status`, or the failure. */
weft_status weft__folder_replace(weft__folder *f, const char *path, weft_status status);

/* Syncs a folder, so that renames in it are durable. File systems that cannot sync folders are
 * ignored. */
void weft__folder_sync(const char *path);

/* WEFT_INVALID if `input` is `out`, is in the folder `out`, or is a folder with the file `out`
 * (except a GGUF file, which may be beside other files of a model). Links are followed. */
weft_status weft__check_output(const char *out, const char *input);

/* WEFT_INVALID if the folder has one of the n names but not `marker`, the file by which a folder of
 * this kind is recognized: the names would be overwritten. */
weft_status weft__check_names(const char *folder, const char *marker, const char *const *names,
                              int n);

/* Whether `path` exists; links are not followed. */
bool weft__exists(const char *path);

/* Deletes a file, or a folder with its contents; links are not followed. */
weft_status weft__folder_remove(const char *path);

#endif
