/* cli/events.c -- reads a stream of server-sent events, of which only the data is used: lines that
 * end with LF, CRLF or CR, and a blank line after each event (WHATWG HTML, 9.2.6). */
#include "cli/events.h"

#include <string.h>

#include "weft/memory.h"

enum { MOST = 16 << 20 };

static weft_status add(char **text, size_t *n, size_t *room, const char *bytes, size_t more)
{
    if (more > MOST - *n)
        return weft_fail(WEFT_INVALID, "the server sent an event of more than %d bytes", (int)MOST);
    if (*n + more + 1 > *room) {
        const size_t larger = 2 * *room + more + 256;
        char *moved = weft_realloc(*text, larger);
        if (moved == NULL)
            return weft_fail(WEFT_MEMORY, "no memory for an event of the server");
        *text = moved;
        *room = larger;
    }
    memcpy(*text + *n, bytes, more);
    *n += more;
    (*text)[*n] = '\0';
    return WEFT_OK;
}

/* Takes a whole line, without its end. */
static weft_status take_line(cli_events *e, cli_event_fn *call, void *context)
{
    static const char key[] = "data:";
    const size_t n = e->n_line;
    const char *line = e->line != NULL ? e->line : "";
    e->n_line = 0;
    if (n == 0) {
        e->stopped = e->has_data && !call(context, e->data);
        e->has_data = false;
        e->n_data = 0;
        return WEFT_OK;
    }
    if (n < sizeof key - 1 || memcmp(line, key, sizeof key - 1) != 0)
        return WEFT_OK; /* a comment, the event's name, ... */
    const size_t from = sizeof key - 1 + (line[sizeof key - 1] == ' ');
    weft_status status = WEFT_OK;
    if (e->has_data)
        status = add(&e->data, &e->n_data, &e->data_room, "\n", 1);
    if (status == WEFT_OK)
        status = add(&e->data, &e->n_data, &e->data_room, line + from, n - from);
    e->has_data = true;
    return status;
}

weft_status cli_events_push(cli_events *e, const char *bytes, size_t n, cli_event_fn *call,
                            void *context)
{
    weft_status status = WEFT_OK;
    const char *at = bytes, *end = bytes + n;
    while (status == WEFT_OK && !e->stopped && at < end) {
        const char *stop = at;
        if (e->after_return && *at == '\n')
            at = ++stop;
        e->after_return = false;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        status = add(&e->line, &e->n_line, &e->line_room, at, (size_t)(stop - at));
        if (status != WEFT_OK || stop == end)
            break;
        e->after_return = *stop == '\r';
        status = take_line(e, call, context);
        at = stop + 1;
    }
    return status;
}

void cli_events_free(cli_events *e)
{
    weft_free(e->line);
    weft_free(e->data);
    *e = (cli_events){0};
}
