/* tests/support/child.h -- runs a part of a test in a separate process. */
#ifndef TESTS_SUPPORT_CHILD_H
#define TESTS_SUPPORT_CHILD_H

#include <stddef.h>

/* Runs `body` in a child process with an environment variable set. Fills `said` with what it writes
 * to stderr; returns the status that waitpid gives. */
int in_child(const char *variable, const char *value, void (*body)(void), char *said, size_t size);

#endif
