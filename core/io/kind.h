/* core/io/kind.h -- of which kind an existing file is. The functions are inline, since the command
 * uses them too. */
#ifndef WEFT_CORE_IO_KIND_H
#define WEFT_CORE_IO_KIND_H

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether `text` without white space begins with the marker. */
static inline bool weft__begins_with(const char *text, size_t n, const char *marker)
{
    for (size_t i = 0; i < n && *marker != '\0'; i++) {
        if (strchr(" \t\r\n", text[i]) == NULL && text[i] != *marker++)
            return false;
    }
    return *marker == '\0';
}

/* Whether `path` may be replaced by a file of the kind that `marker` tells: it does not exist, is
 * not a regular file, has at most 3 bytes, or is of that kind. A marker that begins with [ or { is
 * how such a file begins, without white space; others are in its first 4096 bytes. */
static inline bool weft__file_is_kind(const char *path, const char *marker)
{
    char begin[4096];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 4)
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, begin, sizeof begin);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    return strchr("[{", *marker) != NULL ? weft__begins_with(begin, (size_t)n, marker)
                                         : memmem(begin, (size_t)n, marker, strlen(marker)) != NULL;
}

#endif
