/* core/io/fileio.h -- opening regular files, and files written whole or not at all.
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

/* ---- Reading -------------------------------------------------------------------------------- */

/* Opens a regular file and never waits for the other end of a FIFO. `flags` are O_RDONLY, or O_RDWR
 * and perhaps O_CREAT. WEFT_IO when the path cannot be opened, and "PATH: not a regular file" when
 * it is a FIFO, device or socket. The caller closes *fd; it is -1 on failure. */
weft_status weft__file_open(const char *path, int flags, int *fd);

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct weft__writer weft__writer;

/* Opens a file beside `path`. On failure *out is NULL. WEFT_IO when `path` is there and is not a
 * regular file: a rename would replace the device or the FIFO. */
weft_status weft__writer_open(const char *path, weft__writer **out);

weft_status weft__writer_write(weft__writer *writer, const void *data, size_t size);

/* The file being written, for a library that writes it by its name; weft__writer_written then takes
 * what is there under that name. */
const char *weft__writer_beside(const weft__writer *writer);
weft_status weft__writer_written(weft__writer *writer);

/* With WEFT_OK: syncs the file and renames it to its path. With anything else, or when that fails:
 * removes it. Returns `status`, or the failure. NULL is accepted. */
weft_status weft__writer_close(weft__writer *writer, weft_status status);

#endif
