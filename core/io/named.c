/* core/io/named.c -- lists of named arrays, as files contain them. */
#include <string.h>
#include <sys/statvfs.h>

#include "core/graph.h"
#include "core/io/named.h"
#include "core/list.h"
#include "weft/op.h"

void weft_named_arrays_free(weft_named_arrays *arrays)
{
    for (int i = 0; i < arrays->n; i++) {
        weft_free(arrays->names[i]);
    }
    weft_free(arrays->names);
    weft_free(arrays->arrays);
    *arrays = (weft_named_arrays){0};
}

weft_array *weft_named_arrays_find(const weft_named_arrays *arrays, const char *name)
{
    for (int i = 0; i < arrays->n; i++) {
        if (strcmp(arrays->names[i], name) == 0) {
            return arrays->arrays[i];
        }
    }
    return NULL;
}

bool weft__named_arrays_add(weft_named_arrays *list, const char *name, weft_array *a)
{
    if (!weft__list_more(list->names, list->n) || !weft__list_more(list->arrays, list->n)) {
        return false;
    }
    list->names[list->n] = weft_strdup(name);
    list->arrays[list->n] = a;
    return list->names[list->n] && ++list->n;
}

/* The free bytes of the file system where `path` is or will be; -1: unknown. */
static int64_t free_bytes(const char *path)
{
    struct statvfs info;
    char *folder = weft_strdup(path);
    bool known = folder && statvfs(folder, &info) == 0;
    while (folder && !known && strchr(folder, '/') && *folder) {
        *strrchr(folder, '/') = '\0';
        known = statvfs(*folder ? folder : "/", &info) == 0;
    }
    known = known || statvfs(".", &info) == 0;
    weft_free(folder);
    return known ? (int64_t)info.f_bavail * (int64_t)info.f_frsize : -1;
}

static weft_status check_space(const char *path, weft_array *const *arrays, int n)
{
    const int64_t available = free_bytes(path);
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += weft_nbytes(arrays[i]);
    return available < 0 || bytes <= available
               ? WEFT_OK
               : weft_fail(WEFT_IO, "%s: %.1f MB are to be written, but only %.1f MB are free",
                           path, (double)bytes / 1e6, (double)available / 1e6);
}

weft_status weft__named_arrays_check(const char *path, const char *const *names,
                                     weft_array *const *arrays, int n, bool encoded)
{
    for (int i = 0; i < n; i++) {
        const char *error = weft_error(arrays[i]);
        const weft_encoding *e = weft_encoding_of(arrays[i]);
        if (error) {
            return weft_fail(WEFT_INVALID, "%s: array '%s': %s", path, weft_printable(names[i]),
                             error);
        }
        if (e && !encoded) {
            return weft_fail(WEFT_INVALID,
                             "%s: array '%s' is encoded as %s: decode it first (weft_decode)", path,
                             weft_printable(names[i]), e->name);
        }
        for (int j = i + 1; j < n; j++) {
            if (strcmp(names[i], names[j]) == 0) {
                return weft_fail(WEFT_INVALID, "%s: two arrays are called '%s'", path,
                                 weft_printable(names[i]));
            }
        }
    }
    return check_space(path, arrays, n);
}

weft_status weft__with_bytes(weft_array *a, const char *name, weft__take_bytes *use, void *context)
{
    const bool encoded = weft_encoding_of(a) != NULL;
    const size_t size = (size_t)weft_nbytes(a);
    weft_scope_open();
    weft_status status = weft_eval(a);
    const void *data = status != WEFT_OK ? NULL : encoded ? weft__blocks(a) : weft_data(a);
    void *copy = NULL;
    if (status == WEFT_OK && !data && size > 0) {
        copy = weft_malloc(size);
        if (copy == NULL)
            status =
                weft_fail(WEFT_MEMORY, "out of memory for a copy of '%s'", weft_printable(name));
        else
            status = encoded ? weft__read_blocks(a, copy)
                             : weft_read(a, weft_dtype_of(a), copy, weft_size(a));
        data = copy;
    }
    if (status == WEFT_OK) {
        status = use(context, data, size);
    }
    weft_free(copy);
    weft_scope_close(NULL);
    return status;
}

/* ---- values that are not finite -------------------------------------------------------------- */

/* Whether all bits of the exponent are set, for n numbers of 16 or 32 bits. */
static bool any_not_finite(const void *bytes, size_t n, size_t width, uint32_t exponent)
{
    uint32_t found = 0;
    if (width == sizeof(uint32_t)) {
        const uint32_t *at = bytes;
        for (size_t i = 0; i < n; i++)
            found |= (at[i] & exponent) == exponent;
    } else {
        const uint16_t *at = bytes;
        for (size_t i = 0; i < n; i++)
            found |= (at[i] & exponent) == exponent;
    }
    return found != 0;
}

weft_status weft__written_check(const weft__written *w, const char *name, weft_dtype dtype,
                                const void *bytes, size_t size)
{
    enum { PART = 4096 };
    const uint32_t exponent = dtype == WEFT_FLOAT32    ? 0x7f800000
                              : dtype == WEFT_BFLOAT16 ? 0x7f80
                              : dtype == WEFT_FLOAT16  ? 0x7c00
                                                       : 0;
    const size_t width = dtype == WEFT_FLOAT32 ? 4 : 2, n = size / width;
    if (w->progress.not_finite == NULL || exponent == 0)
        return WEFT_OK;
    for (size_t first = 0; first < n; first += PART) {
        const char *part = (const char *)bytes + first * width;
        size_t i = 0;
        if (!any_not_finite(part, n - first < PART ? n - first : PART, width, exponent))
            continue;
        while (!any_not_finite(part + i * width, 1, width, exponent))
            i++;
        return w->progress.not_finite(w->progress.context, name, (int64_t)(first + i));
    }
    return WEFT_OK;
}
