/* core/io/folder.c -- makes, replaces and deletes folders. */
#include "core/io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/eval/pause.h"
#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/temporary.h"
#include "core/io/text.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { FOLDER_MODE = 0777 };

bool weft__exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

void weft__folder_sync(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    weft__pause(WEFT_PAUSE_DISK);
    fsync(fd);
    close(fd);
    weft__pause(WEFT_PAUSE_DISK_DONE);
}

/* ---- what may be overwritten ---------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_in(const char *path, const char *folder)
{
    char *a = realpath(path, NULL), *b = realpath(folder, NULL);
    const size_t n = b ? strlen(b) : 0;
    const bool in = a && b && strncmp(a, b, n) == 0 && a[n] == '/';
    free(a);
    free(b);
    return in;
}

weft_status weft__check_output(const char *out, const char *input)
{
    struct stat info;
    if (is_same(out, input))
        return weft_fail(WEFT_INVALID, "%s: it is read: choose another place to write", out);
    if (is_in(input, out))
        return weft_fail(WEFT_INVALID,
                         "%s: it has %s, which is read: choose another place to write", out, input);
    if (is_in(out, input) && stat(out, &info) == 0 && S_ISREG(info.st_mode) &&
        !weft__ends_with(out, ".gguf"))
        return weft_fail(WEFT_INVALID,
                         "%s: it is a file of %s, which is read: choose another place "
                         "to write",
                         out, input);
    return WEFT_OK;
}

weft_status weft__check_names(const char *folder, const char *marker, const char *const *names,
                              int n)
{
    weft__text list = {0};
    int found = 0;
    bool own = false;
    for (int i = -1; i < n && !own; i++) {
        char *path = weft_format("%s/%s", folder, i < 0 ? marker : names[i]);
        const bool exists = path && weft__exists(path);
        own = i < 0 && exists;
        if (i >= 0 && exists)
            weft__text_list(&list, found++, names[i]);
        weft_free(path);
    }
    weft__text_list_end(&list, found);
    weft_status status = WEFT_OK;
    if (found > 0 && list.failed)
        status = weft__out_of_memory(folder, NULL);
    else if (found > 0)
        status = weft_fail(WEFT_INVALID,
                           "%s: it has files that would be overwritten, but no %s: %s; choose "
                           "another folder",
                           folder, marker, list.at);
    weft_free(list.at);
    return status;
}

/* ---- making --------------------------------------------------------------------------------- */

static weft_status make_one(const char *path)
{
    struct stat info;
    if (mkdir(path, FOLDER_MODE) == 0)
        return WEFT_OK;
    if (errno == EEXIST && stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return WEFT_OK;
        errno = ENOTDIR;
    }
    return weft__fail_errno(path, "make folder");
}

weft_status weft_folder_make(const char *path)
{
    char *part = weft_strdup(path);
    if (part == NULL)
        return weft__out_of_memory(path, "making the folder");
    weft_status status = WEFT_OK;
    for (char *at = part + 1; *part && *at && status == WEFT_OK; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        status = make_one(part);
        *at = '/';
    }
    if (status == WEFT_OK)
        status = make_one(part);
    weft_free(part);
    return status;
}

/* ---- deleting ------------------------------------------------------------------------------- */

/* Another process may delete the same leftover. */
static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

static bool remove_all(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || !weft__exists(path);
}

weft_status weft__folder_remove(const char *path)
{
    return remove_all(path) ? WEFT_OK : weft__fail_errno(path, "remove");
}

/* ---- writing a folder ----------------------------------------------------------------------- */

/* The length of the longest prefix of the path that exists. */
static size_t existing(char *path)
{
    struct stat info;
    size_t n = strlen(path);
    while (n > 0) {
        const char end = path[n];
        path[n] = '\0';
        const bool found = stat(path, &info) == 0;
        path[n] = end;
        if (found)
            break;
        while (n > 0 && path[--n] != '/')
            ;
    }
    return n;
}

static void forget(weft__folder *f)
{
    if (f->locked)
        close(f->lock);
    weft_free(f->path);
    *f = (weft__folder){.path = NULL};
}

/* Deletes the folder if it was created, and then those of its parents that were created and are
 * empty. */
void weft__folder_discard(weft__folder *f)
{
    size_t n = f->path ? strlen(f->path) : 0;
    if (n > f->existing)
        (void)remove_all(f->path);
    for (; n > f->existing; n--) {
        if (f->path[n] != '\0' && f->path[n] != '/')
            continue;
        f->path[n] = '\0';
        if (rmdir(f->path) != 0 && errno != ENOENT)
            break;
    }
    forget(f);
}

weft_status weft__folder_open(const char *path, weft__folder *f)
{
    *f = (weft__folder){.path = weft_strdup(path)};
    if (f->path == NULL)
        return weft__out_of_memory(path, "making the folder");
    f->existing = existing(f->path);
    const weft_status status = weft_folder_make(path);
    return status == WEFT_OK ? WEFT_OK : weft__folder_close(f, status);
}

static weft_status make_parents(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return WEFT_OK;
    *slash = '\0';
    const weft_status status = weft_folder_make(path);
    *slash = '/';
    return status;
}

weft_status weft__folder_open_beside(const char *path, weft__folder *f)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    *f = (weft__folder){.path = weft_format("%.*s", (int)n, path)};
    if (f->path == NULL)
        return weft__out_of_memory(path, "making the folder");
    char *name = NULL;
    f->existing = existing(f->path);
    weft_status status = make_parents(f->path);
    if (status == WEFT_OK)
        status = weft__temporary_new(f->path, WEFT__TEMPORARY_FOLDER, &name, &f->lock);
    if (status != WEFT_OK)
        return weft__folder_close(f, status);
    weft_free(f->path);
    f->path = name;
    f->locked = true;
    return WEFT_OK;
}

weft_status weft__folder_open_new(const char *path, weft__folder *f)
{
    return weft__exists(path) ? weft__folder_open(path, f) : weft__folder_open_beside(path, f);
}

weft_status weft__folder_close(weft__folder *f, weft_status status)
{
    if (status != WEFT_OK)
        weft__folder_discard(f);
    else
        forget(f);
    return status;
}

/* ---- replacing a folder --------------------------------------------------------------------- */

/* Replaces in two steps, for file systems that cannot exchange two folders. */
static weft_status move_aside(const char *from, const char *path)
{
    char *old = weft_format("%s" WEFT__TEMPORARY_OLD, from);
    if (old == NULL)
        return weft__out_of_memory(path, "replacing it");
    weft_status status = rename(path, old) == 0 ? WEFT_OK : weft__fail_errno(path, "rename");
    if (status == WEFT_OK && rename(from, path) != 0) {
        status = weft__fail_errno(path, "rename");
        (void)rename(old, path);
    } else if (status == WEFT_OK) {
        status = weft__folder_remove(old);
    }
    weft_free(old);
    return status;
}

static weft_status move(const char *from, const char *path)
{
    if (!weft__exists(path))
        return rename(from, path) == 0 ? WEFT_OK : weft__fail_errno(path, "rename");
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return weft__folder_remove(from);
#endif
    return move_aside(from, path);
}

weft_status weft__folder_replace(weft__folder *f, const char *path, weft_status status)
{
    if (f->locked && status == WEFT_OK) {
        weft__folder_sync(f->path);
        status = move(f->path, path);
    }
    return weft__folder_close(f, status);
}
