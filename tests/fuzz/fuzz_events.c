/* tests/fuzz/fuzz_events.c -- a stream of server-sent events, whole and in pieces of other lengths:
 * the same events, or the same failure. The first byte gives the lengths. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A number made of the events so far, and how many more are wanted. */
typedef struct seen {
    uint64_t hash;
    int wanted;
} seen;

static bool take(void *context, const char *data)
{
    seen *s = context;
    const size_t n = strlen(data);
    s->hash = s->hash * 31 + n + 1;
    for (size_t i = 0; i < n; i++)
        s->hash = s->hash * 131 + (unsigned char)data[i];
    return --s->wanted > 0;
}

static weft_status read_all(const uint8_t *data, size_t size, size_t step, seen *s)
{
    cli_events e = {0};
    weft_status status = WEFT_OK;
    for (size_t at = 0; status == WEFT_OK && at < size; at += step) {
        char *piece = malloc(step); /* of its own, so that reads beyond it are found */
        const size_t n = size - at < step ? size - at : step;
        if (piece == NULL)
            abort();
        memcpy(piece, data + at, n);
        status = cli_events_push(&e, piece, n, take, s);
        free(piece);
    }
    cli_events_free(&e);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const int wanted = 1 + (data[0] >> 4);
    const size_t step = 1 + (data[0] & 15);
    seen whole = {.wanted = wanted}, pieces = {.wanted = wanted};
    const weft_status a = read_all(data + 1, size - 1, size, &whole),
                      b = read_all(data + 1, size - 1, step, &pieces);
    if (a != b || whole.hash != pieces.hash || whole.wanted != pieces.wanted)
        abort();
    return 0;
}
