/* core/io/decompress.h -- decompresses gzip (zlib), Zstandard (libzstd) and Snappy (libsnappy). */
#ifndef WEFT_CORE_IO_DECOMPRESS_H
#define WEFT_CORE_IO_DECOMPRESS_H

#include <stddef.h>

#include "weft/status.h"

typedef enum weft__codec {
    WEFT__UNCOMPRESSED = 0,
    WEFT__GZIP,   /* RFC 1952 with any number of members, or zlib's format */
    WEFT__ZSTD,   /* any number of frames */
    WEFT__SNAPPY, /* one block, at most WEFT__SNAPPY_MOST bytes after decompression */
} weft__codec;

enum { WEFT__SNAPPY_MOST = 1 << 30 };

/* Receives the next `n` decompressed bytes. A failure ends the decompression. */
typedef weft_status weft__bytes_fn(void *context, const char *bytes, size_t n);

/* Passes the decompressed contents of `data` to `sink` in pieces, so that gzip and Zstandard take a
 * bounded amount of memory whatever the data expands to.
 *
 * WEFT_INVALID ("WHERE: gzip: ..."): corrupt or truncated data. WEFT_UNSUPPORTED: this build lacks
 * the library. Otherwise the failure of `sink`. */
weft_status weft__decompress(weft__codec codec, const void *data, size_t size, const char *where,
                             weft__bytes_fn *sink, void *context);

#endif
