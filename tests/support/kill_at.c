/* tests/support/kill_at.c -- a library for LD_PRELOAD that ends the process at a chosen change of
 * the file system, as a kill there would.
 *
 *   WEFT_KILL_AT     the number of the change (from 1) before which the process ends, with status
 * 137; a negative number: half-way through it, if it is a write, else after it WEFT_KILL_COUNT  a
 * file that gets the number of changes when the process exits WEFT_KILL_PID    what getpid returns:
 * process ids repeat in containers
 *
 * Changes are calls that make, write, sync, rename or delete. */
#undef _FILE_OFFSET_BITS /* so that open and open64 are two functions */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (!real)                                                                                     \
    *(void **)&real = dlsym(RTLD_NEXT, name)

static atomic_long changes;

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* exit_group, since SIGKILL from itself does not end the first process of a container. */
static void end(void)
{
    syscall(SYS_exit_group, 137);
}

/* Counts a change; true: the process ends half-way through it. */
static int change(void)
{
    const long at = setting("WEFT_KILL_AT"), now = atomic_fetch_add(&changes, 1) + 1;
    if (at == now)
        end();
    return at == -now;
}

__attribute__((destructor)) static void write_count(void)
{
    const char *path = getenv("WEFT_KILL_COUNT");
    char text[32];
    const int fd =
        path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (fd < 0)
        return;
    const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&changes));
    (void)!syscall(SYS_write, fd, text, n);
    close(fd);
}

#pragma GCC visibility push(default)

pid_t getpid(void)
{
    const long pid = setting("WEFT_KILL_PID");
    return pid > 0 ? (pid_t)pid : (pid_t)syscall(SYS_getpid);
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return real(fd, data, size);
    if (change()) {
        (void)!real(fd, data, size / 2);
        end();
    }
    return real(fd, data, size);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    const int ends = (flags & (O_CREAT | O_TRUNC)) != 0 && change();
    const int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (ends)
        end();
    return fd;
}

#define OPEN(name, first, folder)                                                                  \
    int name(first const char *path, int flags, ...)                                               \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;                     \
        va_end(rest);                                                                              \
        return open_at(folder, path, flags, mode);                                                 \
    }
#define NOTHING
#define FOLDER int folder,
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
OPEN(openat, FOLDER, folder)
OPEN(openat64, FOLDER, folder)

/* A call that returns 0 or -1. */
#define CALL(name, parameters, ...)                                                                \
    int name parameters                                                                            \
    {                                                                                              \
        const int ends = change();                                                                 \
        const long result = syscall(__VA_ARGS__);                                                  \
        if (ends)                                                                                  \
            end();                                                                                 \
        return (int)result;                                                                        \
    }
CALL(fsync, (int fd), SYS_fsync, fd)
CALL(rename, (const char *from, const char *to), SYS_renameat, AT_FDCWD, from, AT_FDCWD, to)
CALL(renameat2, (int a, const char *from, int b, const char *to, unsigned flags), SYS_renameat2, a,
     from, b, to, flags)
CALL(mkdir, (const char *path, mode_t mode), SYS_mkdirat, AT_FDCWD, path, mode)
CALL(unlink, (const char *path), SYS_unlinkat, AT_FDCWD, path, 0)
CALL(rmdir, (const char *path), SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
CALL(symlink, (const char *target, const char *path), SYS_symlinkat, target, AT_FDCWD, path)
CALL(ftruncate, (int fd, off_t size), SYS_ftruncate, fd, size)
CALL(ftruncate64, (int fd, off64_t size), SYS_ftruncate, fd, size)

int remove(const char *path)
{
    const int ends = change();
    long result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result != 0 && (errno == EISDIR || errno == EPERM))
        result = syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    if (ends)
        end();
    return (int)result;
}

#pragma GCC visibility pop
