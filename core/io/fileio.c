/* core/io/fileio.c -- opens and reads files, and writes files atomically. */
#include "core/io/fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/kind.h"
#include "core/io/temporary.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { DEFAULT_LIMIT = 256 << 20, FILE_MODE = 0666 };

struct weft__writer {
    int fd;
    char *path;
    char *temporary; /* the temporary file being written */
};

weft_status weft__fail_errno(const char *path, const char *what)
{
    const int error = errno;
    return weft_fail(error == ENOMEM ? WEFT_MEMORY : WEFT_IO, "%s: %s: %s", path, what,
                     strerror(error));
}

/* ---- opening -------------------------------------------------------------------------------- */

static const char not_regular[] = "not a regular file";

/* A path that names an open descriptor of the process, as in `weft ... <(command)` or for a pipe at
 * /dev/stdin. Opening it does not block, and the caller of the program chose what it reads. */
static bool is_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* Opens without blocking. `descriptors`: also accepts pipes and devices under a descriptor's name.
 */
static int open_for(const char *path, int flags, bool descriptors, const char **why)
{
    struct stat info;
    *why = NULL;
    const int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, FILE_MODE);
    if (fd < 0 || fstat(fd, &info) != 0) {
        *why = errno == ENXIO ? not_regular : strerror(errno); /* ENXIO: a socket */
    } else if (!S_ISREG(info.st_mode)) {
        if (S_ISDIR(info.st_mode))
            *why = strerror(EISDIR);
        else if (!descriptors || !is_descriptor(path))
            *why = not_regular;
        else if (fcntl(fd, F_SETFL, 0) != 0) /* makes reads block again */
            *why = strerror(errno);
    }
    if (fd >= 0 && *why != NULL)
        close(fd);
    return *why == NULL ? fd : -1;
}

static weft_status fail_to_open(const char *path, const char *why)
{
    return weft_fail(WEFT_IO, why == not_regular ? "%s: %s" : "%s: open: %s", path, why);
}

weft_status weft__file_open(const char *path, int flags, int *fd)
{
    const char *why;
    *fd = open_for(path, flags, false, &why);
    return *fd >= 0 ? WEFT_OK : fail_to_open(path, why);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void writer_free(weft__writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    weft_free(w->path);
    weft_free(w->temporary);
    weft_free(w);
}

weft_status weft__writer_open(const char *path, weft__writer **out)
{
    struct stat there;
    *out = NULL;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return fail_to_open(path, S_ISDIR(there.st_mode) ? strerror(EISDIR) : not_regular);
    weft__writer *w = weft_calloc(1, sizeof *w);
    if (w == NULL)
        return weft__out_of_memory(path, "writing it");
    w->fd = -1;
    w->path = weft_strdup(path);
    const weft_status status =
        w->path ? weft__temporary_new(path, WEFT__TEMPORARY_FILE, &w->temporary, &w->fd)
                : weft__out_of_memory(path, "writing it");
    if (status == WEFT_OK)
        *out = w;
    else
        writer_free(w);
    if (status == WEFT_OK)
        weft__pause(WEFT_PAUSE_DISK);
    return status;
}

weft_status weft__writer_write(weft__writer *writer, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        /* One call writes at most 2 GiB on Linux; a short count is normal. */
        const ssize_t written = write(writer->fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        const char *source = written < 0 && errno == EFAULT ? weft_mapped_file_at(at) : NULL;
        if (source != NULL)
            return weft_fail(WEFT_IO, "%s: it was truncated while it was in use", source);
        if (written < 0)
            return weft__fail_errno(writer->path, "write");
        at += written;
        size -= (size_t)written;
    }
    return WEFT_OK;
}

const char *weft__writer_temporary_path(const weft__writer *writer)
{
    return writer->temporary;
}

weft_status weft__writer_written(weft__writer *writer)
{
    struct stat made, now;
    if (fstat(writer->fd, &made) == 0 && stat(writer->temporary, &now) == 0 &&
        made.st_dev == now.st_dev && made.st_ino == now.st_ino)
        return WEFT_OK;
    close(writer->fd);
    writer->fd = open(writer->temporary, O_RDONLY | O_CLOEXEC);
    if (writer->fd < 0)
        return weft__fail_errno(writer->path, "write");
    (void)flock(writer->fd, LOCK_EX | LOCK_NB);
    return WEFT_OK;
}

static void sync_folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path ? 1 : 0] = '\0';
    weft__folder_sync(slash ? path : ".");
}

weft_status weft__writer_sync(weft__writer *writer)
{
    return fsync(writer->fd) == 0 ? WEFT_OK : weft__fail_errno(writer->path, "sync");
}

weft_status weft__writer_close(weft__writer *writer, weft_status status)
{
    if (writer == NULL)
        return status;
    if (status == WEFT_OK)
        status = weft__writer_sync(writer);
    if (status == WEFT_OK && rename(writer->temporary, writer->path) != 0)
        status = weft__fail_errno(writer->path, "rename");
    if (status == WEFT_OK)
        sync_folder_of(writer->path);
    else
        unlink(writer->temporary);
    writer_free(writer);
    weft__pause(WEFT_PAUSE_DISK_DONE);
    return status;
}

weft_status weft_file_write(const char *path, const void *data, size_t size)
{
    weft__writer *writer;
    weft_status status = weft__writer_open(path, &writer);
    if (status == WEFT_OK)
        status = weft__writer_write(writer, data, size);
    return weft__writer_close(writer, status);
}

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status grow(const char *path, char **text, size_t *capacity)
{
    enum { LEAST = 1 << 16 };
    const size_t larger = *capacity < LEAST ? LEAST : *capacity * 2;
    char *moved = weft_realloc(*text, larger);
    if (moved == NULL)
        return weft__out_of_memory(path, "reading it");
    *text = moved;
    *capacity = larger;
    return WEFT_OK;
}

/* Reads to the end, since the size from stat may be 0 (a pipe) or outdated. Less than that size is
 * an error. */
static weft_status read_all(int fd, const char *path, size_t limit, char **data, size_t *size)
{
    struct stat info;
    const bool sized = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    const size_t expected = sized ? (size_t)info.st_size : 0;
    size_t capacity = (expected < limit ? expected : limit) + 2, length = 0;
    char *text = weft_malloc(capacity);
    weft_status status = text ? WEFT_OK : weft__out_of_memory(path, "reading it");
    for (ssize_t got = 1; status == WEFT_OK && got != 0;) {
        got = read(fd, text + length, capacity - 1 - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = weft__fail_errno(path, "read");
        else if ((length += (size_t)got) > limit)
            status = weft_fail(WEFT_INVALID, "%s: more than %zu bytes", path, limit);
        else if (got == 0 && length < expected)
            status = weft_fail(WEFT_IO,
                               "%s: truncated while it was read: expected %zu bytes, got "
                               "%zu",
                               path, expected, length);
        else if (length == capacity - 1)
            status = grow(path, &text, &capacity);
    }
    if (status != WEFT_OK) {
        weft_free(text);
        return status;
    }
    text[length] = '\0';
    *data = text;
    *size = length;
    return WEFT_OK;
}

weft_status weft_file_read(const char *path, size_t limit, char **data, size_t *size)
{
    *data = NULL;
    if (size)
        *size = 0;
    const char *why;
    const int fd = open_for(path, O_RDONLY, true, &why);
    if (fd < 0)
        return fail_to_open(path, why);
    size_t length = 0;
    const weft_status status = read_all(fd, path, limit ? limit : DEFAULT_LIMIT, data, &length);
    close(fd);
    if (size)
        *size = length;
    return status;
}

weft_status weft__file_check_kind(const char *path, const char *marker, const char *what)
{
    return weft__file_is_kind(path, marker)
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: it is not %s: choose another file to write", path,
                           what);
}

weft_status weft__file_check_lfs(const char *path, const void *bytes, size_t n)
{
    static const char mark[] = "version https://git-lfs";
    if (n < sizeof mark - 1 || memcmp(bytes, mark, sizeof mark - 1) != 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "%s: this is a Git LFS pointer in place of the file: fetch the file with "
                     "\"git lfs pull\" or weft pull",
                     path);
}
