/* core/io/named.h -- functions shared by the file formats for named arrays. */
#ifndef CORE_IO_NAMED_H
#define CORE_IO_NAMED_H

#include "weft/io.h"

/* Evaluates `a` and passes its row-major bytes, or the blocks of an encoded array, to `take`, in a
 * scope of its own. */
typedef weft_status weft__take_bytes(void *context, const void *bytes, size_t size);
weft_status weft__with_bytes(weft_array *a, const char *name, weft__take_bytes *take,
                             void *context);

/* Appends a name (copied) and an array; false: out of memory. */
bool weft__named_arrays_add(weft_named_arrays *list, const char *name, weft_array *a);

/* WEFT_INVALID when an array has failed, when two have the same name or, unless the format supports
 * them, when one is encoded; WEFT_IO when there is not enough free space for them at `path`. */
weft_status weft__named_arrays_check(const char *path, const char *const *names,
                                     weft_array *const *arrays, int n, bool encoded);

/* A callback for the progress of writing. */
typedef struct weft__written {
    weft_save_progress progress;
    int64_t bytes, total;
} weft__written;

/* Calls progress.not_finite for the bytes of an array, if it has such a value. */
weft_status weft__written_check(const weft__written *w, const char *name, weft_dtype dtype,
                                const void *bytes, size_t size);

static inline void weft__written_more(weft__written *w, int64_t bytes)
{
    w->bytes += bytes;
    if (w->progress.report)
        w->progress.report(w->progress.context, w->bytes, w->total);
}

#endif
