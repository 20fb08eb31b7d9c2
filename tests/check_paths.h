/* tests/check_paths.h -- interface between check.c and check_paths.c. */
#ifndef TESTS_CHECK_PATHS_H
#define TESTS_CHECK_PATHS_H

/* Removes the temporary folder, if there is one, and frees every path that was handed out. */
void check_paths_release(void);

#endif
