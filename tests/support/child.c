/* tests/support/child.c -- runs a part of a test in a separate process. */
#include "tests/support/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int in_child(const char *variable, const char *value, void (*body)(void), char *said, size_t size)
{
    int ends[2], status = -1;
    if (pipe(ends) != 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv(variable, value, 1);
        body();
        fflush(stderr);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t n;
    while (length + 1 < size && (n = read(ends[0], said + length, size - 1 - length)) > 0) {
        length += (size_t)n;
    }
    said[length] = '\0';
    close(ends[0]);
    return waitpid(child, &status, 0) == child ? status : -1;
}
