/* cli/events.h -- reads a stream of server-sent events. */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* The data of an event, NUL-terminated. Return false to stop. */
typedef bool cli_event_fn(void *context, const char *data);

/* All zero: at the beginning. */
typedef struct cli_events {
    char *line, *data; /* what has come of the line and of the event */
    size_t n_line, line_room, n_data, data_room;
    bool has_data, stopped, after_return; /* after_return: CR ended a line, and LF may follow */
} cli_events;

/* Takes the next bytes, of any number, and calls the function for each event that they complete,
 * until it returns false. WEFT_INVALID for an event of more than 16 MiB, WEFT_MEMORY. */
weft_status cli_events_push(cli_events *events, const char *bytes, size_t n, cli_event_fn *call,
                            void *context);
void cli_events_free(cli_events *events);

#endif
