/* train/data/parquet/thrift.c -- reads Thrift's compact protocol.
 *
 * Format: github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md */
#include "train/data/parquet/thrift.h"

/* Types of the compact protocol. */
enum {
    STOP = 0,
    TRUE = 1, /* also the type of booleans in lists */
    FALSE = 2,
    INT8 = 3,
    INT64 = 6,
    DOUBLE = 7,
    BINARY = 8,
    LIST = 9,
    SET = 10,
    STRUCT = 12,
};

enum { DEPTH = 32 };

static void fail(weft__thrift *t, const char *what)
{
    if (t->error == NULL)
        t->error = what;
    t->at = t->end;
}

static uint8_t read_byte(weft__thrift *t)
{
    if (t->at < t->end)
        return *t->at++;
    fail(t, "it ends too early");
    return 0;
}

static uint64_t read_varint(weft__thrift *t)
{
    uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const uint8_t byte = read_byte(t);
        out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return out;
    }
    fail(t, "it has an integer of more than 64 bits");
    return 0;
}

static int64_t read_zigzag(weft__thrift *t)
{
    const uint64_t n = read_varint(t);
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

bool weft__thrift_next(weft__thrift *t, weft__thrift_field *f)
{
    const uint8_t byte = read_byte(t);
    f->type = byte & 0x0f;
    if (f->type == STOP || t->error) {
        t->depth--;
        return false;
    }
    const int64_t id = byte >> 4 ? f->id + (byte >> 4) : read_zigzag(t);
    if (id < 0 || id > INT16_MAX)
        fail(t, "it has an invalid field");
    f->id = (int16_t)id;
    return t->error == NULL;
}

static bool expect(weft__thrift *t, bool fits)
{
    if (!fits)
        fail(t, "a field has an unexpected type");
    return t->error == NULL;
}

int64_t weft__thrift_int(weft__thrift *t, const weft__thrift_field *f)
{
    if (!expect(t, f->type >= INT8 && f->type <= INT64))
        return 0;
    return f->type == INT8 ? (int8_t)read_byte(t) : read_zigzag(t);
}

bool weft__thrift_bool(weft__thrift *t, const weft__thrift_field *f)
{
    return expect(t, f->type == TRUE || f->type == FALSE) && f->type == TRUE;
}

const uint8_t *weft__thrift_bytes(weft__thrift *t, const weft__thrift_field *f, size_t *n)
{
    *n = 0;
    if (!expect(t, f->type == BINARY))
        return NULL;
    const uint64_t size = read_varint(t);
    if (t->error == NULL && size > (uint64_t)(t->end - t->at))
        fail(t, "it ends too early");
    const uint8_t *bytes = t->at;
    *n = t->error ? 0 : (size_t)size;
    t->at += *n;
    return bytes;
}

void weft__thrift_struct(weft__thrift *t, const weft__thrift_field *f)
{
    if (expect(t, f->type == STRUCT) && ++t->depth > DEPTH)
        fail(t, "it is nested too deep");
}

size_t weft__thrift_list(weft__thrift *t, const weft__thrift_field *f, weft__thrift_field *item)
{
    *item = (weft__thrift_field){0};
    if (!expect(t, f->type == LIST || f->type == SET))
        return 0;
    const uint8_t byte = read_byte(t);
    const uint64_t n = byte >> 4 == 15 ? read_varint(t) : byte >> 4;
    item->type = byte & 0x0f;
    if (t->error == NULL && n > (uint64_t)(t->end - t->at))
        fail(t, "a list is longer than the data");
    return t->error ? 0 : (size_t)n;
}

/* Skips the items of a list, in which booleans take a byte each. */
static void skip_items(weft__thrift *t, const weft__thrift_field *f)
{
    weft__thrift_field item;
    const size_t n = weft__thrift_list(t, f, &item);
    if (++t->depth > DEPTH)
        fail(t, "it is nested too deep");
    for (size_t i = 0; i < n && t->error == NULL; i++) {
        if (item.type == TRUE || item.type == FALSE)
            read_byte(t);
        else
            weft__thrift_skip(t, &item);
    }
    t->depth--;
}

void weft__thrift_skip(weft__thrift *t, const weft__thrift_field *f)
{
    size_t n;
    weft__thrift_field inner = {0};
    if (f->type == TRUE || f->type == FALSE)
        return;
    if (f->type == LIST || f->type == SET) {
        skip_items(t, f);
    } else if (f->type == STRUCT) {
        weft__thrift_struct(t, f);
        while (weft__thrift_next(t, &inner))
            weft__thrift_skip(t, &inner);
    } else if (f->type == BINARY) {
        weft__thrift_bytes(t, f, &n);
    } else if (f->type == DOUBLE) {
        for (int i = 0; i < 8; i++)
            read_byte(t);
    } else {
        weft__thrift_int(t, f); /* Parquet has no maps: an unexpected type */
    }
}
