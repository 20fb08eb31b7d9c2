/* tests/fuzz/fuzz_schema.c -- a JSON Schema, NUL, and a text that is checked against it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/schema/machine.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* From every state from which an end can be reached, some byte leads to a state nearer to the
 * end. */
static void check_way_on(machine *m, const frame_list *now)
{
    const int64_t left = weft__machine_distance(now->tops, now->n);
    const frame_mark mark = weft__machine_mark(m);
    bool found = left == 0;
    for (int byte = 0; byte < 256 && !found && !m->status; byte++) {
        weft__machine_step(m, now->tops, now->n, (unsigned char)byte);
        found = weft__machine_distance(m->out.tops, m->out.n) < left;
        weft__machine_release(m, mark);
    }
    if (!found && !m->status)
        abort();
}

static void follow(const weft__schema *schema, const uint8_t *text, size_t n)
{
    machine *m = weft_calloc(1, sizeof *m);
    frame_list now = {0};
    if (!m)
        return;
    weft__machine_open(m, schema);
    const frame *start = weft__machine_start(m);
    bool going = start && weft__frames_append(&now, &start, 1) == WEFT_OK;
    for (size_t i = 0; going && i < n; i++) {
        check_way_on(m, &now);
        weft__machine_step(m, now.tops, now.n, text[i]);
        now.n = 0;
        going = m->out.n > 0 && weft__frames_append(&now, m->out.tops, m->out.n) == WEFT_OK;
    }
    weft_free(now.tops);
    weft__machine_close(m);
    weft_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t length = end ? (size_t)(end - data) : size;
    weft__schema schema;
    const bool open = length % 2 == 0;
    if (weft__schema_parse((const char *)data, length, "fuzz", open, &schema) != WEFT_OK)
        return 0;
    if (end)
        follow(&schema, end + 1, size - length - 1);
    weft__schema_release(&schema);
    return 0;
}
