/* core/io/temporary.c -- temporary files, folders and links beside the paths that they replace. */
#include "core/io/temporary.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/folder.h"
#include "weft/memory.h"

#define PART ".part"

enum { FILE_MODE = 0666, FOLDER_MODE = 0777 };

/* ---- leftovers ------------------------------------------------------------------------------ */

/* Reads a dash and digits; NULL if the text is something else. */
static const char *skip_number(const char *text)
{
    const char *end = text + 1;
    while (*text == '-' && isdigit((unsigned char)*end))
        end++;
    return *text == '-' && end > text + 1 ? end : NULL;
}

/* What follows NAME.part-PID-COUNT in a name, or NULL; *n is the length of NAME. Earlier versions
 * gave folders and links the name NAME.part-PID: then *counted is false. */
static const char *rest_of(const char *name, size_t *n, bool *counted)
{
    const char *part = NULL, *at = name;
    while ((at = strstr(at, PART "-")) != NULL)
        part = at++;
    const char *end = part ? skip_number(part + strlen(PART)) : NULL;
    const char *second = end ? skip_number(end) : NULL;
    *n = end ? (size_t)(part - name) : 0;
    *counted = second != NULL;
    return second ? second : end;
}

/* Whether the rest of a name is that of a file which libzip writes: a dot and six characters. */
static bool is_of_library(const char *rest)
{
    size_t n = 0;
    while (rest[0] == '.' && isalnum((unsigned char)rest[n + 1]))
        n++;
    return n == 6 && rest[n + 1] == '\0';
}

/* Locks a file or folder; -1: a process holds it, or it cannot be locked. */
static int try_lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Deletes what is at `path` unless a process holds it. */
static void remove_unlocked(const char *path)
{
    const int fd = try_lock(path);
    if (fd < 0)
        return;
    (void)weft__folder_remove(path);
    close(fd);
}

static bool is_held(const char *path)
{
    const int fd = weft__exists(path) ? try_lock(path) : -1;
    if (fd >= 0)
        close(fd);
    return fd < 0 && weft__exists(path);
}

/* Deletes an entry of a folder if it is the leftover of a chosen name. What was moved aside is
 * moved back instead, unless its successor is in place. `old` selects these; they come first. */
static void clean_one(const char *folder, const char *name, weft__temporary_choice *chosen,
                      const void *context, bool old)
{
    struct stat info;
    size_t n;
    bool counted;
    const char *rest = rest_of(name, &n, &counted);
    if (rest == NULL || n == 0)
        return;
    char *path = weft_format("%s/%s", folder, name);
    char *part = weft_format("%s/%.*s", folder, (int)(rest - name), name);
    char *target = weft_format("%s/%.*s", folder, (int)n, name);
    const bool known = path && part && target && lstat(path, &info) == 0 &&
                       chosen(name, n, counted || !S_ISREG(info.st_mode), context);
    if (known && old && strcmp(rest, WEFT__TEMPORARY_OLD) == 0 && !is_held(part)) {
        if (weft__exists(target) || rename(path, target) != 0)
            remove_unlocked(path);
    } else if (known && !old && *rest == '\0' && S_ISLNK(info.st_mode)) {
        unlink(path);
    } else if (known && !old && *rest == '\0') {
        remove_unlocked(path);
    } else if (known && !old && counted && is_of_library(rest) && !is_held(part)) {
        unlink(path);
    }
    weft_free(path);
    weft_free(part);
    weft_free(target);
}

void weft__temporary_clean(const char *folder, weft__temporary_choice *chosen, const void *context)
{
    for (int pass = 0; pass < 2; pass++) {
        DIR *dir = opendir(folder);
        const struct dirent *entry;
        while (dir && (entry = readdir(dir)) != NULL)
            if (strstr(entry->d_name, PART "-"))
                clean_one(folder, entry->d_name, chosen, context, pass == 0);
        if (dir)
            closedir(dir);
    }
}

/* ---- new names ------------------------------------------------------------------------------ */

static bool is_name(const char *name, size_t n, bool certain, const void *context)
{
    return certain && strlen(context) == n && strncmp(name, context, n) == 0;
}

static void clean_for(const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    char *folder = weft_format("%.*s", n, slash ? path : ".");
    if (folder)
        weft__temporary_clean(folder, is_name, slash ? slash + 1 : path);
    weft_free(folder);
}

/* The next name for `path`; NULL: out of memory. Another process may have used it. */
static char *next_name(const char *path)
{
    static atomic_uint counter;
    return weft_format("%s" PART "-%ld-%u", path, (long)getpid(), atomic_fetch_add(&counter, 1));
}

static int make(const char *name, weft__temporary_kind kind)
{
    if (kind == WEFT__TEMPORARY_FILE)
        return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (mkdir(name, FOLDER_MODE) != 0)
        return -1;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        rmdir(name);
        errno = error;
    }
    return fd;
}

/* Locks what was made. False: another process took it for a leftover. */
static bool hold(int fd, const char *name)
{
    struct stat made, now;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &made) == 0 && lstat(name, &now) == 0 && made.st_dev == now.st_dev &&
           made.st_ino == now.st_ino;
}

weft_status weft__temporary_new(const char *path, weft__temporary_kind kind, char **name, int *fd)
{
    clean_for(path);
    *fd = -1;
    while ((*name = next_name(path)) != NULL) {
        *fd = make(*name, kind);
        if (*fd >= 0 && hold(*fd, *name))
            return WEFT_OK;
        const bool taken = *fd >= 0 || errno == EEXIST;
        weft_status status = WEFT_OK;
        if (!taken)
            status = weft__fail_errno(path, kind == WEFT__TEMPORARY_FILE ? "cannot be written"
                                                                         : "make folder");
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        weft_free(*name);
        *name = NULL;
        if (status != WEFT_OK)
            return status;
    }
    return weft__out_of_memory(path, "writing it");
}

weft_status weft__link_replace(const char *target, const char *path)
{
    char *name = NULL;
    clean_for(path);
    do {
        weft_free(name);
        name = next_name(path);
    } while (name && symlink(target, name) != 0 && errno == EEXIST);
    weft_status status = WEFT_OK;
    if (name == NULL)
        status = weft__out_of_memory(path, "writing it");
    else if (rename(name, path) != 0)
        status = weft__fail_errno(path, "link");
    if (name && status != WEFT_OK)
        unlink(name);
    weft_free(name);
    return status;
}
