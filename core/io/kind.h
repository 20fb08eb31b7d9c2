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

/* Whether `path` may be replaced by a file of the kind that `marker` identifies: it does not exist,
 * is not a regular file, is empty, or is of that kind. A marker that begins with [ or { is how such
 * a file begins, without white space; [] is an empty list of any kind. What follows a ^ is how it
 * begins. Others are in its first 4096 bytes, those that begin with a quote in the header of a
 * safetensors file. */
static inline bool weft__file_is_kind(const char *path, const char *marker)
{
    char begin[4096] = "";
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, begin, sizeof begin);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    if (*marker == '[' || *marker == '{')
        return weft__begins_with(begin, (size_t)n, marker) ||
               (*marker == '[' && weft__begins_with(begin, (size_t)n, "[]"));
    if (*marker == '^')
        return strncmp(begin, marker + 1, strlen(marker + 1)) == 0;
    enum { HEADER = 8 }; /* where it begins, after its length */
    return (*marker != '"' || (n > HEADER && begin[HEADER] == '{')) &&
           memmem(begin, (size_t)n, marker, strlen(marker)) != NULL;
}

#endif
