/* tests/support/hidden.h -- a second backend, made through the public headers only: its buffers
 * cannot be read by the host, and it has one kernel; everything else must find its way. */
#ifndef TESTS_SUPPORT_HIDDEN_H
#define TESTS_SUPPORT_HIDDEN_H

#include "weft/backend.h"

/* The device "hidden", registered on the first call; NULL when that failed. */
weft_device *hidden_device(void);

/* Buffers that are allocated now. */
int hidden_live_buffers(void);

#endif
