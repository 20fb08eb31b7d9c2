/* tests/support/hidden.h -- a second backend, made through the public headers only: the host cannot
 * read its buffers, and it has one kernel; all other ops use fallbacks. */
#ifndef TESTS_SUPPORT_HIDDEN_H
#define TESTS_SUPPORT_HIDDEN_H

#include "weft/backend.h"

/* The device "hidden", registered on the first call; NULL when that failed. "hidden:1" is another
 * one. */
weft_device *hidden_device(void);

/* The number of allocated buffers, and of bytes that the host has read. */
int hidden_live_buffers(void);
int64_t hidden_bytes_read(void);

/* Called by each addition before it computes; a failure fails it. NULL: nothing. Set it while
 * nothing is evaluated. */
extern weft_status (*hidden_watch)(weft_device *device);

#endif
