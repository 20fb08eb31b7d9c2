/* core/transforms/call.c -- calls a function of arrays that decides its number of results. */
#include "core/failure.h"
#include "core/transforms/transforms.h"

weft_status weft__call_function(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                weft__results *out)
{
    int room = out->room > WEFT_RESULT_ROOM ? out->room : WEFT_RESULT_ROOM;
    for (int attempt = 0; attempt < 2; attempt++) {
        weft_free(out->at);
        *out = (weft__results){.room = room};
        out->at = weft_calloc((size_t)room, sizeof(weft_array *));
        if (!out->at) {
            return weft__out_of_memory("a function", "its results");
        }
        out->n = fn(context, in, n_in, out->at, room);
        if (out->n <= room) {
            out->n = out->n < 0 ? 0 : out->n;
            return WEFT_OK;
        }
        room = out->n;
    }
    out->n = 0;
    return weft_fail(WEFT_INVALID,
                     "a function returned %d results after it had asked for room for %d", room,
                     out->room);
}

/* The message names the first missing result. */
static weft_array *missing(const char *what, int n, int expected)
{
    return weft__failed("%s: expected %d result%s, the function has %d", what, expected,
                        expected == 1 ? "" : "s", n);
}

void weft__call_into(weft_function *fn, void *context, weft_array *const *in, int n_in,
                     weft_array **out, int n_out, const char *what)
{
    weft__results results = {.room = n_out};
    weft_status status = weft__call_function(fn, context, in, n_in, &results);
    weft_array *failed = status != WEFT_OK   ? weft__failed_as(status, "%s", weft_error_message())
                         : results.n < n_out ? missing(what, results.n, n_out)
                                             : NULL;
    for (int i = 0; i < n_out; i++) {
        out[i] = i < results.n ? results.at[i] : failed;
    }
    weft_free(results.at);
}

int weft__return_results(weft_status status, const weft__results *results, weft_array **out,
                         int room, const char *what)
{
    weft_array *failed = NULL;
    if (status != WEFT_OK) {
        failed = weft__failed_as(status, "%s", weft_error_message());
    } else if (results->n > room) {
        failed = weft__failed("%s: the function has %d results, there is room for %d", what,
                              results->n, room);
    }
    for (int i = 0; i < room; i++) {
        out[i] = failed ? failed : i < results->n ? results->at[i] : NULL;
    }
    return status == WEFT_OK ? results->n : room;
}
