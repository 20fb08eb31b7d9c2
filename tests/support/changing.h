/* tests/support/changing.h -- a process that truncates and extends a file until it is ended. */
#ifndef TESTS_SUPPORT_CHANGING_H
#define TESTS_SUPPORT_CHANGING_H

#include <sys/types.h>

/* Starts a process that truncates the file to 0 bytes and writes the bytes again, repeatedly. */
pid_t changing_start(const char *path, const char *bytes, size_t n);
void changing_end(pid_t process);

#endif
