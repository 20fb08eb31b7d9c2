/* core/io/fileio.h -- opens regular files, and writes files atomically.
 *
 *     weft__writer *w;
 *     weft_status status = weft__writer_open(path, &w);
 *     if (status == WEFT_OK)
 *         status = weft__writer_write(w, data, size);
 *     return weft__writer_close(w, status);
 */
#ifndef WEFT_CORE_IO_FILEIO_H
#define WEFT_CORE_IO_FILEIO_H

#include <stddef.h>

#include "weft/status.h"

/* Records "PATH: WHAT: " and the text of errno. Returns WEFT_IO, or WEFT_MEMORY for ENOMEM. */
weft_status weft__fail_errno(const char *path, const char *what);

/* ---- Reading -------------------------------------------------------------------------------- */

/* Opens a regular file, and never blocks on a FIFO. `flags` are O_RDONLY, or O_RDWR with or without
 * O_CREAT. WEFT_IO when the path cannot be opened, and "PATH: not a regular file" for a FIFO,
 * device or socket. The caller closes *fd; it is -1 on failure. */
weft_status weft__file_open(const char *path, int flags, int *fd);

/* WEFT_INVALID unless weft__file_is_kind (core/io/kind.h): the file would be overwritten by `what`.
 */
weft_status weft__file_check_kind(const char *path, const char *marker, const char *what);

/* WEFT_INVALID if the file's first bytes are those of a Git LFS pointer, the text that a repository
 * cloned without Git LFS has in place of a large file. */
weft_status weft__file_check_lfs(const char *path, const void *bytes, size_t n);

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct weft__writer weft__writer;

/* Opens a temporary file (core/io/temporary.h) next to `path`. On failure *out is NULL. WEFT_IO
 * when `path` exists and is not a regular file, since a rename would replace the device or FIFO. */
weft_status weft__writer_open(const char *path, weft__writer **out);

weft_status weft__writer_write(weft__writer *writer, const void *data, size_t size);

/* The path of the temporary file, for libraries that write to a path. Call weft__writer_written
 * afterwards, which opens what they wrote. The file is locked: they must not lock it. */
const char *weft__writer_temporary_path(const weft__writer *writer);
weft_status weft__writer_written(weft__writer *writer);

weft_status weft__writer_sync(weft__writer *writer);

/* If `status` is WEFT_OK, syncs the file and renames it to its path. Otherwise, or when that fails,
 * removes it. Returns `status`, or the failure. NULL is accepted. */
weft_status weft__writer_close(weft__writer *writer, weft_status status);

#endif
