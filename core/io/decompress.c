/* core/io/decompress.c -- decompresses gzip (zlib), Zstandard (libzstd) and Snappy (libsnappy). */
#include "core/io/decompress.h"

#include "core/failure.h"
#include "weft/memory.h"

#ifdef WEFT_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef WEFT_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef WEFT_HAVE_SNAPPY
#include <snappy-c.h>
#endif

/* Size of the pieces that a sink receives. */
enum { PIECE = 1 << 16 };

typedef struct job {
    const char *data, *where;
    size_t size;
    weft__bytes_fn *sink;
    void *context;
} job;

#if !defined(WEFT_HAVE_ZLIB) || !defined(WEFT_HAVE_ZSTD) || !defined(WEFT_HAVE_SNAPPY)
static weft_status without(const job *j, const char *library)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: this build of Weft has no %s", j->where, library);
}
#endif

/* ---- gzip ----------------------------------------------------------------------------------- */

#ifdef WEFT_HAVE_ZLIB

static weft_status gzip_failure(const job *j, const z_stream *z, int code)
{
    if (code == Z_MEM_ERROR)
        return weft__out_of_memory(j->where, "decompression");
    if (code == Z_BUF_ERROR)
        return weft_fail(WEFT_INVALID, "%s: gzip: the data ends too early", j->where);
    return weft_fail(WEFT_INVALID, "%s: gzip: corrupt data: %s", j->where,
                     z->msg ? z->msg : "expected a gzip or zlib header");
}

/* Decompresses one piece. *code is Z_STREAM_END after the last member. */
static weft_status gzip_piece(const job *j, z_stream *z, size_t *fed, int *code, char *piece)
{
    if (z->avail_in == 0 && *fed < j->size) {
        const size_t left = j->size - *fed;
        z->next_in = (Bytef *)(j->data + *fed);
        z->avail_in = left < (1U << 30) ? (uInt)left : 1U << 30;
        *fed += z->avail_in;
    }
    z->next_out = (Bytef *)piece;
    z->avail_out = PIECE;
    *code = inflate(z, Z_NO_FLUSH);
    if (*code != Z_OK && *code != Z_STREAM_END)
        return gzip_failure(j, z, *code);
    weft_status status = j->sink(j->context, piece, PIECE - z->avail_out);
    if (status == WEFT_OK && *code == Z_STREAM_END && (z->avail_in > 0 || *fed < j->size)) {
        *code = inflateReset(z); /* another member follows */
        if (*code != Z_OK)
            status = gzip_failure(j, z, *code);
    }
    return status;
}

static weft_status gzip(const job *j, char *piece)
{
    enum { ANY_HEADER = 32 }; /* added to the window's bits: gzip or zlib, by the header */
    z_stream z = {0};
    size_t fed = 0;
    int code = inflateInit2(&z, MAX_WBITS + ANY_HEADER);
    if (code != Z_OK)
        return weft__out_of_memory(j->where, "decompression");
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && code != Z_STREAM_END)
        status = gzip_piece(j, &z, &fed, &code, piece);
    inflateEnd(&z);
    return status;
}

#else

static weft_status gzip(const job *j, char *piece)
{
    (void)piece;
    return without(j, "zlib");
}

#endif

/* ---- Zstandard ------------------------------------------------------------------------------ */

#ifdef WEFT_HAVE_ZSTD

static weft_status zstd(const job *j, char *piece)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (stream == NULL)
        return weft__out_of_memory(j->where, "decompression");
    ZSTD_inBuffer in = {j->data, j->size, 0};
    ZSTD_outBuffer out = {piece, PIECE, PIECE};
    weft_status status = WEFT_OK;
    size_t left = 1; /* 0 at the end of a frame */
    while (status == WEFT_OK && (in.pos < in.size || (out.pos == out.size && left != 0))) {
        const size_t before = in.pos;
        out.pos = 0;
        left = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(left))
            status = weft_fail(WEFT_INVALID, "%s: zstd: corrupt data: %s", j->where,
                               ZSTD_getErrorName(left));
        else if (in.pos == before && out.pos == 0)
            break;
        else
            status = j->sink(j->context, piece, out.pos);
    }
    ZSTD_freeDStream(stream);
    if (status == WEFT_OK && left != 0)
        status = weft_fail(WEFT_INVALID, "%s: zstd: the data ends too early", j->where);
    return status;
}

#else

static weft_status zstd(const job *j, char *piece)
{
    (void)piece;
    return without(j, "libzstd");
}

#endif

/* ---- Snappy --------------------------------------------------------------------------------- */

#ifdef WEFT_HAVE_SNAPPY

static weft_status snappy(const job *j)
{
    enum { MOST_EXPANSION = 32 }; /* a copy of up to 64 bytes takes at least 2 */
    size_t size = 0;
    if (snappy_uncompressed_length(j->data, j->size, &size) != SNAPPY_OK ||
        size > WEFT__SNAPPY_MOST || size / MOST_EXPANSION > j->size)
        return weft_fail(WEFT_INVALID, "%s: snappy: corrupt data: invalid length", j->where);
    char *out = weft_malloc(size + 1);
    if (out == NULL)
        return weft__out_of_memory(j->where, "decompression");
    weft_status status = WEFT_OK;
    if (snappy_uncompress(j->data, j->size, out, &size) != SNAPPY_OK)
        status = weft_fail(WEFT_INVALID, "%s: snappy: corrupt data", j->where);
    else
        status = j->sink(j->context, out, size);
    weft_free(out);
    return status;
}

#else

static weft_status snappy(const job *j)
{
    return without(j, "libsnappy");
}

#endif

weft_status weft__decompress(weft__codec codec, const void *data, size_t size, const char *where,
                             weft__bytes_fn *sink, void *context)
{
    const job j = {.data = data, .where = where, .size = size, .sink = sink, .context = context};
    if (codec == WEFT__UNCOMPRESSED)
        return sink(context, data, size);
    if (codec == WEFT__SNAPPY)
        return snappy(&j);
    char *piece = weft_malloc(PIECE);
    if (piece == NULL)
        return weft__out_of_memory(where, "decompression");
    const weft_status status = codec == WEFT__GZIP ? gzip(&j, piece) : zstd(&j, piece);
    weft_free(piece);
    return status;
}
