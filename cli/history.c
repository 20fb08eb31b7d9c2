/* cli/history.c -- the lines that were typed in weft chat, kept in a file for later runs.
 *
 * An entry is a line of the file, with \n for a line break and \\ for a backslash. It is appended
 * in one write when it is typed, so that several chats can add to the file. */
#include "cli/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/utf8.h"

/* A file with more than MOST entries is cut to the last KEPT when it is loaded. */
enum { KEPT = 500, MOST = 1000, LONGEST = 4096, PATH_SIZE = 4096 };

/* ---- the file ------------------------------------------------------------------------------- */

/* The path of the file, with `more` at its end; false if neither XDG_STATE_HOME nor HOME is set. */
static bool path_of(const char *more, char *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state != NULL && *state == '/')
        n = snprintf(out, PATH_SIZE, "%s/weft/chat_history%s", state, more);
    else if (home != NULL && *home == '/')
        n = snprintf(out, PATH_SIZE, "%s/.local/state/weft/chat_history%s", home, more);
    return n > 0 && n < PATH_SIZE;
}

static void make_folders(const char *path)
{
    char part[PATH_SIZE];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        (void)mkdir(part, 0700); /* a failure shows when the file is opened */
    }
}

/* Opens a regular file that belongs to the user, for the user alone; -1: not possible. */
static int open_file(const char *path, int flags)
{
    struct stat info;
    const int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        ((info.st_mode & 077) == 0 || fchmod(fd, 0600) == 0))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* The entry as a line of the file, with its newline; NULL: too long, or no memory. */
static char *encode(const char *line)
{
    const size_t length = strlen(line);
    char *out = length <= LONGEST ? malloc(2 * length + 2) : NULL, *end = out;
    for (const char *at = line; out != NULL && *at != '\0'; at++) {
        if (*at == '\n' || *at == '\\')
            *end++ = '\\';
        *end++ = *at == '\n' ? 'n' : *at;
    }
    if (out != NULL)
        memcpy(end, "\n", 2);
    return out;
}

/* Decodes a line of the file in place. False for one that was not written by this file's code. */
static bool decode(char *line)
{
    char *end = line;
    if (weft__utf8_valid(line, strlen(line)) < strlen(line))
        return false;
    for (char *at = line; *at != '\0'; at++) {
        if (*at == '\\' && at[1] != 'n' && at[1] != '\\')
            return false;
        const bool escaped = *at == '\\';
        at += escaped;
        *end++ = escaped && *at == 'n' ? '\n' : *at;
    }
    *end = '\0';
    return *line != '\0';
}

/* ---- loading -------------------------------------------------------------------------------- */

/* The last entries of the file, as a ring. */
typedef struct entries {
    char *lines[KEPT];
    size_t n; /* all that were read */
} entries;

static void read_entries(FILE *file, entries *e)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        char *copy = length <= 2 * LONGEST + 1 ? strdup(line) : NULL;
        if (copy == NULL)
            continue;
        free(e->lines[e->n % KEPT]);
        e->lines[e->n++ % KEPT] = copy;
    }
    free(line);
}

/* Replaces the file by the last entries. */
static void shorten(const entries *e)
{
    char path[PATH_SIZE], next[PATH_SIZE];
    if (!path_of("", path) || !path_of(".new", next))
        return;
    (void)unlink(next); /* of a run that was killed */
    const int fd = open_file(next, O_WRONLY | O_CREAT | O_EXCL);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL)
        return;
    for (size_t i = e->n - KEPT; i < e->n; i++)
        fprintf(file, "%s\n", e->lines[i % KEPT]);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed || rename(next, path) != 0)
        (void)unlink(next);
}

void cli_history_load(cli_history_fn *each, void *context)
{
    char path[PATH_SIZE];
    entries e = {.n = 0};
    const int fd = path_of("", path) ? open_file(path, O_RDONLY) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL)
        return;
    read_entries(file, &e);
    fclose(file);
    if (e.n > MOST)
        shorten(&e);
    for (size_t i = e.n > KEPT ? e.n - KEPT : 0; i < e.n; i++) {
        if (decode(e.lines[i % KEPT]))
            each(context, e.lines[i % KEPT]);
    }
    for (size_t i = 0; i < KEPT; i++)
        free(e.lines[i]);
}

void cli_history_add(const char *line)
{
    char path[PATH_SIZE];
    char *text = path_of("", path) ? encode(line) : NULL;
    if (text == NULL)
        return;
    make_folders(path);
    const int fd = open_file(path, O_WRONLY | O_APPEND | O_CREAT);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        errno = 0; /* the disk is full, for example: the line is not kept */
    if (fd >= 0)
        close(fd);
    free(text);
}
