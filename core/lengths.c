/* core/lengths.c -- the accessors of array lengths, with and without recording. */
#define WEFT__NOTE_LENGTHS
#include "core/lengths.h"

#include <stdio.h>

#include "core/graph.h"
#include "core/list.h"
#include "core/shape.h"

/* ---- without recording ----------------------------------------------------------------------- */

int64_t weft__dim(const weft_array *a, int axis)
{
    const weft_dims shape = weft__shape(a);
    const int front = a ? weft__axis_front(axis, shape.n) : -1;
    return front < 0 ? 1 : shape.at[front];
}

weft_dims weft__shape(const weft_array *a)
{
    return a ? weft_node_spec(a, 0)->shape : (weft_dims){0};
}

int64_t weft__size(const weft_array *a)
{
    return a ? weft__shape_size(&weft_node_spec(a, 0)->shape) : 0;
}

/* ---- with recording -------------------------------------------------------------------------- */

weft__length_log *weft__length_reads(void)
{
    return weft__current_recording ? weft__current_recording->lengths : NULL;
}

static void keep(weft__length_log *log, int64_t value)
{
    if (weft__list_more(log->values, log->n)) {
        log->values[log->n++] = value;
    } else {
        log->no_memory = true;
    }
}

static void note(const char *function, const weft_array *a, int64_t value)
{
    weft__length_log *log = weft__length_reads();
    const int64_t i = log->n;
    keep(log, value);
    if (!log->expected || log->differs || (i < log->n_expected && log->expected[i] == value)) {
        return;
    }
    char shape[WEFT_SHAPE_TEXT];
    const weft_dims dims = weft__shape(a);
    log->differs = true;
    snprintf(log->text, sizeof log->text, "%s of a %s %s array", function,
             weft_dtype_name(weft_dtype_of(a)), weft__shape_text(&dims, shape));
}

int64_t weft_dim(const weft_array *a, int axis)
{
    const int64_t length = weft__dim(a, axis);
    if (weft__length_reads()) {
        note("weft_dim", a, length);
    }
    return length;
}

weft_dims weft_shape(const weft_array *a)
{
    const weft_dims shape = weft__shape(a);
    for (int i = 0; weft__length_reads() && i < shape.n; i++) {
        note("weft_shape", a, shape.at[i]);
    }
    return shape;
}

int64_t weft_size(const weft_array *a)
{
    const int64_t size = weft__size(a);
    if (weft__length_reads()) {
        note("weft_size", a, size);
    }
    return size;
}
