/* core/io/npy.h -- the npy format, for files and archive entries. */
#ifndef CORE_IO_NPY_H
#define CORE_IO_NPY_H

#include "core/io/text.h"
#include "weft/io.h"

typedef struct weft__npy {
    weft_dtype dtype;
    weft_dims shape;
    bool fortran, swapped; /* column-major; big-endian */
    size_t begin, bytes;   /* position of the elements */
} weft__npy;

/* Parses the header at the start of `size` bytes. `where` names them in messages. */
weft_status weft__npy_parse(const char *data, size_t size, const char *where, weft__npy *out);

/* The array of a parsed file. `release(context)` is called when the bytes are no longer needed,
 * also on failure. */
weft_array *weft__npy_array(char *data, const weft__npy *npy, void (*release)(void *context),
                            void *context);

/* Appends the header of an array. */
void weft__npy_header(weft__text *t, weft_array *a);

#endif
