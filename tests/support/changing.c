/* tests/support/changing.c -- a process that truncates and extends a file until it is ended. */
#include "tests/support/changing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t changing_start(const char *path, const char *bytes, size_t n)
{
    const pid_t child = fork();
    const int fd = child == 0 ? open(path, O_WRONLY) : -1;
    while (child == 0) {
        if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n)
            _exit(1);
    }
    return child;
}

void changing_end(pid_t process)
{
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}
