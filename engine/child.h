/* engine/child.h -- another program that is talked to in lines, over its standard input and output.
 * Whatever it does, no call here waits for longer than it was told, and no zombie is left. */
#ifndef WEFT_ENGINE_CHILD_H
#define WEFT_ENGINE_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

enum { WEFT__CHILD_LINE = 1 << 20 }; /* bytes of a line at most, both ways, without its newline */

typedef struct weft__child weft__child;

/* Starts argv[0], looked up in PATH; messages call it `name`. Without a word from it for `seconds`
 * it is given up. */
weft_status weft__child_start(const char *const *argv, const char *name, double seconds,
                              weft__child **out);

/* Asks it to end by `last` (a line, or NULL) and the end of its input, waits 2 seconds, and kills
 * it. NULL is accepted. */
void weft__child_end(weft__child *child, const char *last);

/* Called every few milliseconds while nothing comes, or nothing is taken. */
typedef weft_status weft__child_idle(void *context);

/* Sends a line of n bytes, without its newline. A longer one than WEFT__CHILD_LINE is WEFT_INVALID.
 * Every other failure, but for that of `idle` (which may be NULL), is the child's end; after one of
 * `idle` a part of the line may be sent, so the child must be given up. */
weft_status weft__child_send(weft__child *child, weft__child_idle *idle, void *context,
                             const char *line, size_t n);

/* The next line, the child's until the next call. After a failure, but for that of `idle` (which
 * may be NULL), the child is dead: killed where it was not. */
weft_status weft__child_receive(weft__child *child, weft__child_idle *idle, void *context,
                                const char **line, size_t *n);

/* Kills it, and says why: "NAME: WHY" and what it last wrote to its standard error. */
weft_status weft__child_give_up(weft__child *child, weft_status status, const char *format, ...)
    WEFT_PRINTF(3, 4);

#endif
