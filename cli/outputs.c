/* cli/outputs.c -- what commands may overwrite. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common.h"
#include "core/io/kind.h"

weft_status cli_check_input(const char *out, const char *input)
{
    struct stat a, b;
    if (out == NULL || input == NULL || stat(out, &a) != 0 || stat(input, &b) != 0 ||
        a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: it is read: choose another file to write",
                     weft_printable(out));
}

/* Only regular files and folders are checked; writing to other kinds of files, such as devices, is
 * allowed. */
weft_status cli_check_out(const char *out, bool force)
{
    struct stat info;
    if (out == NULL || force || stat(out, &info) != 0 ||
        !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
        return WEFT_OK;
    DIR *folder = S_ISDIR(info.st_mode) ? opendir(out) : NULL;
    int n = 0;
    while (folder && n < 3 && readdir(folder) != NULL) /* "." and ".." always exist */
        n++;
    const bool empty = folder && n < 3;
    if (folder)
        closedir(folder);
    return empty ? WEFT_OK
                 : weft_fail(WEFT_INVALID, "%s: is there already; --force replaces it",
                             weft_printable(out));
}

weft_status cli_check_file(const char *out, const char *marker, bool force)
{
    if (out == NULL || force || weft__file_is_kind(out, marker))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: is there already, with other contents; --force replaces it",
                     weft_printable(out));
}
