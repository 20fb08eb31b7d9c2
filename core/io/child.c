/* core/io/child.c -- a child process that exchanges lines: starting, sending, receiving, ending. */
#include "core/io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/failure.h"
#include "weft/memory.h"

extern char **environ;

enum { SLICE = 5, TAIL = 2000, PATIENCE = 2 }; /* milliseconds, bytes, seconds */

struct weft__child {
    char *name;
    double seconds;
    pid_t pid;  /* 0: already waited for */
    int status; /* exit status, valid once pid is 0 */
    int socket; /* its standard input and output */
    int errors; /* its standard error */
    char *line; /* received bytes, from `start` to `end` */
    size_t start, end;
    char tail[TAIL + 1]; /* end of its standard error */
    size_t n_tail;
};

static void sleep_slice(void)
{
    nanosleep(&(struct timespec){.tv_nsec = SLICE * 1000000L}, NULL);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Reads the child's standard error and keeps the last bytes. */
static void read_errors(weft__child *c)
{
    char bytes[1024];
    ssize_t n;
    while (c->errors >= 0 && (n = read(c->errors, bytes, sizeof bytes)) != 0) {
        if (n < 0)
            return; /* nothing available now */
        const size_t keep = c->n_tail + (size_t)n > TAIL ? TAIL - (size_t)n : c->n_tail;
        memmove(c->tail, c->tail + (c->n_tail - keep), keep);
        memcpy(c->tail + keep, bytes, (size_t)n);
        c->n_tail = keep + (size_t)n;
    }
}

/* Whether the child has ended. If so, kills the processes that it has started, whose group's number
 * cannot be another's before the child is reaped, and reaps it. */
static bool has_ended(weft__child *c)
{
    siginfo_t info = {0};
    if (c->pid == 0)
        return true;
    const int found = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (found == 0 && info.si_pid == 0)
        return false;
    if (found == 0)
        kill(-c->pid, SIGKILL);
    else if (errno != ECHILD)
        return false;
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
        continue;
    c->pid = 0;
    return true;
}

static bool wait_until(weft__child *c, double deadline)
{
    while (!has_ended(c) && weft__seconds() < deadline) {
        read_errors(c); /* otherwise the child could block on a full pipe */
        sleep_slice();
    }
    return c->pid == 0;
}

/* Kills the child and the processes that it has started. */
static void kill_it(weft__child *c)
{
    if (has_ended(c))
        return;
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
        continue;
    c->pid = 0;
}

/* Formats the last lines of the child's standard error as one line without control characters. */
static void last_words(const weft__child *c, char *out, size_t size)
{
    size_t n = 0, from = c->n_tail > size / 2 ? c->n_tail - size / 2 : 0;
    for (size_t i = from; i < c->n_tail && n + 4 < size; i++) {
        const char b = c->tail[i];
        if (b == '\n' && i + 1 < c->n_tail && n > 0)
            n += (size_t)snprintf(out + n, size - n, " | ");
        else if ((unsigned char)b >= 0x20 && b != 0x7f)
            out[n++] = b;
    }
    out[n] = '\0';
}

void weft__child_kill(weft__child *child)
{
    if (child != NULL)
        kill_it(child);
}

weft_status weft__child_give_up(weft__child *child, weft_status status, const char *format, ...)
{
    char why[400], words[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    kill_it(child);
    read_errors(child);
    last_words(child, words, sizeof words);
    return weft_fail(status, "%s: %s%s%s", child->name, why, *words != '\0' ? ": " : "", words);
}

static weft_status ended(weft__child *c)
{
    if (!wait_until(c, weft__seconds() + (double)PATIENCE))
        return weft__child_give_up(c, WEFT_IO, "the program closed its output");
    if (WIFSIGNALED(c->status))
        return weft__child_give_up(c, WEFT_IO, "the program was ended by signal %d",
                                   WTERMSIG(c->status));
    return weft__child_give_up(c, WEFT_IO, "the program ended with status %d",
                               WEXITSTATUS(c->status));
}

void weft__child_end(weft__child *child, const char *last)
{
    weft__child *c = child;
    if (c == NULL)
        return;
    if (c->pid != 0 && last != NULL) {
        char line[64];
        const int n = snprintf(line, sizeof line, "%s\n", last);
        const ssize_t sent = send(c->socket, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; /* closing its input also asks it to end */
    }
    if (c->socket >= 0)
        shutdown(c->socket, SHUT_WR);
    const double deadline = weft__seconds() + (double)PATIENCE;
    while (!has_ended(c) && weft__seconds() < deadline) {
        char bytes[4096]; /* discards output so that the child does not block */
        while (recv(c->socket, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            continue;
        read_errors(c);
        sleep_slice();
    }
    kill_it(c);
    if (c->socket >= 0)
        close(c->socket);
    if (c->errors >= 0)
        close(c->errors);
    weft_free(c->line);
    weft_free(c->name);
    weft_free(c);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Moves a descriptor above the standard ones, so that dup2 overwrites no other. */
static int above(int fd)
{
    const int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd >= 0)
        close(fd);
    return moved;
}

/* Starts the child with default signal handlers, and in a new process group so that a terminal's ^C
 * does not reach it. */
static int spawn(weft__child *c, const char *const *argv, int socket, int errors)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&how) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    int error = posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, socket, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
    if (error == 0)
        error = posix_spawnp(&c->pid, argv[0], &files, &how, (char *const *)argv, environ);
    if (error != 0)
        c->pid = 0;
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static int start(weft__child *c, const char *const *argv)
{
    int sockets[2] = {-1, -1}, errors[2] = {-1, -1}, error = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 ||
        pipe2(errors, O_CLOEXEC) != 0)
        error = errno;
    c->socket = above(sockets[0]);
    c->errors = above(errors[0]);
    const int its_socket = above(sockets[1]), its_errors = above(errors[1]);
    if (error == 0 && (c->socket < 0 || c->errors < 0 || its_socket < 0 || its_errors < 0))
        error = EMFILE;
    if (error == 0 && fcntl(c->errors, F_SETFL, O_NONBLOCK) != 0)
        error = errno;
    if (error == 0)
        error = spawn(c, argv, its_socket, its_errors);
    if (its_socket >= 0)
        close(its_socket);
    if (its_errors >= 0)
        close(its_errors);
    return error;
}

weft_status weft__child_start(const char *const *argv, const char *name, double seconds,
                              weft__child **out)
{
    *out = NULL;
    weft__child *c = weft_calloc(1, sizeof *c);
    if (c == NULL)
        return weft__out_of_memory(name, NULL);
    c->socket = c->errors = -1;
    c->seconds = seconds;
    c->name = weft_strdup(name);
    c->line = weft_malloc(WEFT__CHILD_LINE + 1);
    const int error = c->name != NULL && c->line != NULL ? start(c, argv) : ENOMEM;
    if (error == 0) {
        *out = c;
        return WEFT_OK;
    }
    weft__child_end(c, NULL);
    return weft_fail(error == ENOMEM ? WEFT_MEMORY : WEFT_IO, "%s: cannot run %s: %s", name,
                     argv[0], strerror(error));
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Waits briefly until the socket is ready for `what`, and reads the standard error meanwhile. */
static bool is_ready(weft__child *c, short what)
{
    struct pollfd both[2] = {{.fd = c->socket, .events = what},
                             {.fd = c->errors, .events = POLLIN}};
    poll(both, 2, SLICE);
    if (both[1].revents & POLLIN)
        read_errors(c);
    else if (both[1].revents != 0 && both[0].revents == 0)
        sleep_slice(); /* standard error is closed, which poll reports every time */
    return (both[0].revents & (what | POLLHUP | POLLERR)) != 0;
}

static weft_status no_answer(weft__child *c, const char *what)
{
    return weft__child_give_up(c, WEFT_IO, "the program %s for %g seconds and was ended", what,
                               c->seconds);
}

/* Moves the received bytes to the front and appends those that are there now. Returns their number,
 * 0 at the end, or -1 as recv. */
static ssize_t receive_some(weft__child *c)
{
    memmove(c->line, c->line + c->start, c->end - c->start);
    c->end -= c->start;
    c->start = 0;
    if (c->end > WEFT__CHILD_LINE) {
        errno = EAGAIN;
        return -1;
    }
    const ssize_t got =
        recv(c->socket, c->line + c->end, WEFT__CHILD_LINE + 1 - c->end, MSG_DONTWAIT);
    c->end += got > 0 ? (size_t)got : 0;
    return got;
}

static weft_status send_all(weft__child *c, weft__child_idle *idle, void *context,
                            const char *bytes, size_t n)
{
    double deadline = weft__seconds() + c->seconds;
    while (n > 0) {
        const ssize_t sent = send(c->socket, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            bytes += sent;
            n -= (size_t)sent;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return ended(c);
        } else if (errno != EAGAIN && errno != EINTR) {
            return weft__child_give_up(c, WEFT_IO, "write: %s", strerror(errno));
        } else if (weft__seconds() > deadline) {
            return no_answer(c, "read nothing");
        } else {
            const weft_status status = idle != NULL ? idle(context) : WEFT_OK;
            if (status != WEFT_OK)
                return status;
            is_ready(c, c->end < WEFT__CHILD_LINE ? POLLOUT | POLLIN : POLLOUT);
            const ssize_t got = receive_some(c);
            if (got == 0 || (got < 0 && errno == ECONNRESET))
                return ended(c);
            deadline = got > 0 ? weft__seconds() + c->seconds : deadline;
        }
    }
    return WEFT_OK;
}

weft_status weft__child_send(weft__child *child, weft__child_idle *idle, void *context,
                             const char *line, size_t n)
{
    if (n > WEFT__CHILD_LINE)
        return weft_fail(WEFT_INVALID, "%s: a request of %zu bytes: at most %d can be sent",
                         child->name, n, WEFT__CHILD_LINE);
    if (child->pid == 0)
        return weft_fail(WEFT_IO, "%s: the program has ended", child->name);
    const weft_status status = send_all(child, idle, context, line, n);
    return status == WEFT_OK ? send_all(child, idle, context, "\n", 1) : status;
}

/* Takes a complete line from the received bytes; false if there is none. */
static bool take_line(weft__child *c, const char **line, size_t *n)
{
    char *end = memchr(c->line + c->start, '\n', c->end - c->start);
    if (end == NULL)
        return false;
    *line = c->line + c->start;
    *n = (size_t)(end - *line);
    *end = '\0';
    c->start += *n + 1;
    return true;
}

bool weft__child_take(weft__child *child, const char **line, size_t *n)
{
    while (!take_line(child, line, n)) {
        if (receive_some(child) <= 0)
            return false;
    }
    return true;
}

weft_status weft__child_receive(weft__child *child, weft__child_idle *idle, void *context,
                                const char **line, size_t *n)
{
    weft__child *c = child;
    double deadline = weft__seconds() + c->seconds;
    const bool over = c->pid == 0; /* what it wrote before may still be there */
    while (!take_line(c, line, n)) {
        if (c->end - c->start > WEFT__CHILD_LINE)
            return weft__child_give_up(c, WEFT_INVALID, "a line of more than %d bytes",
                                       WEFT__CHILD_LINE);
        const weft_status status = idle != NULL ? idle(context) : WEFT_OK;
        if (status != WEFT_OK)
            return status;
        if (weft__seconds() > deadline)
            return no_answer(c, "said nothing");
        if (!is_ready(c, POLLIN)) {
            if (over)
                return weft_fail(WEFT_IO, "%s: the program has ended", c->name);
            (void)has_ended(c); /* processes that it has started may still have its output */
            continue;
        }
        const ssize_t got = receive_some(c);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return ended(c);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return weft__child_give_up(c, WEFT_IO, "read: %s", strerror(errno));
    }
    return WEFT_OK;
}
