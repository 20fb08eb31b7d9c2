/* core/io/child.h -- a child process that exchanges lines over its standard input and output. No
 * call blocks longer than its limit, whatever the child does, and no zombie is left. The processes
 * that the child has started end with it. */
#ifndef WEFT_CORE_IO_CHILD_H
#define WEFT_CORE_IO_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

enum {
    WEFT__CHILD_LINE = 1 << 20
}; /* most bytes of a line in either direction, without its
    * newline */

typedef struct weft__child weft__child;

/* Starts argv[0], looked up in PATH; `name` is for messages. The child is killed if it sends
 * nothing for `seconds`. */
weft_status weft__child_start(const char *const *argv, const char *name, double seconds,
                              weft__child **out);

/* Asks the child to end: sends `last` (a line, or NULL), closes its input, waits 2 seconds, and
 * kills it. NULL is accepted. */
void weft__child_end(weft__child *child, const char *last);

/* Called every few milliseconds while waiting to receive or send. */
typedef weft_status weft__child_idle(void *context);

/* Sends a line of n bytes, without its newline, and receives meanwhile, so that a child may answer
 * before it reads. WEFT_INVALID for lines longer than
 * WEFT__CHILD_LINE. Any other failure kills the child, except a failure of `idle` (which may be
 * NULL); in that case a part of the line may have been sent, so the child must be given up. */
weft_status weft__child_send(weft__child *child, weft__child_idle *idle, void *context,
                             const char *line, size_t n);

/* The next line, if it was received while lines were sent, valid until the next call. */
bool weft__child_take(weft__child *child, const char **line, size_t *n);

/* Receives the next line, valid until the next call. After a failure the child has been killed,
 * except a failure of `idle` (which may be NULL). */
weft_status weft__child_receive(weft__child *child, weft__child_idle *idle, void *context,
                                const char **line, size_t *n);

/* Kills the child and the processes that it has started. NULL is accepted. */
void weft__child_kill(weft__child *child);

/* Kills the child and fails with "NAME: WHY" and the end of its standard error. */
weft_status weft__child_give_up(weft__child *child, weft_status status, const char *format, ...)
    WEFT_PRINTF(3, 4);

#endif
