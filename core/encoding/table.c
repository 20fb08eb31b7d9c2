/* core/encoding/table.c -- the table of encodings, and lookups by number, name and properties. */
#include "core/encoding/encoding.h"
#include "weft/quantize.h"

const weft_encoding *weft_encoding_at(int i)
{
    if (i >= 0 && i < weft__affine_encoding_count) {
        return &weft__affine_encodings[i];
    }
    i -= weft__affine_encoding_count;
    if (i >= 0 && i < weft__float_encoding_count) {
        return &weft__float_encodings[i];
    }
    i -= weft__float_encoding_count;
    return i >= 0 && i < weft__ggml_encoding_count ? &weft__ggml_encodings[i] : NULL;
}

const weft_encoding *weft_encoding_find(const char *name)
{
    for (int i = 0; weft_encoding_at(i); i++) {
        if (strcmp(weft_encoding_at(i)->name, name) == 0) {
            return weft_encoding_at(i);
        }
    }
    return NULL;
}

const weft_encoding *weft_encoding_of_kind(weft_encoding_kind kind, int64_t bits, int64_t group,
                                           weft_dtype scale)
{
    for (int i = 0; weft_encoding_at(i); i++) {
        const weft_encoding *e = weft_encoding_at(i);
        if (e->kind == kind && e->bits == bits && e->block == group &&
            (e->kind != WEFT_ENCODING_AFFINE || e->scale == scale)) {
            return e;
        }
    }
    return NULL;
}
