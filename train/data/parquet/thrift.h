/* train/data/parquet/thrift.h -- reads Thrift's compact protocol, in which the headers of Parquet
 * files are written.
 *
 *     weft__thrift_field f = {0};
 *     while (weft__thrift_next(t, &f))
 *         if (f.id == 1)
 *             n = weft__thrift_int(t, &f);
 *         else
 *             weft__thrift_skip(t, &f);
 *
 * After malformed input `error` says what is wrong, all reads return zeros, and weft__thrift_next
 * returns false, so it is checked once at the end. */
#ifndef WEFT_TRAIN_PARQUET_THRIFT_H
#define WEFT_TRAIN_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__thrift {
    const uint8_t *at, *end;
    const char *error; /* NULL: none */
    int depth;         /* of structs */
} weft__thrift;

/* Zeroed before the first weft__thrift_next of a struct. */
typedef struct weft__thrift_field {
    int16_t id;
    uint8_t type; /* of the compact protocol */
} weft__thrift_field;

/* Advances to the next field of a struct. False after the last field. */
bool weft__thrift_next(weft__thrift *t, weft__thrift_field *f);

/* The value of the field, which must be read or skipped before the next field. A value of another
 * type than the function's is malformed. */
int64_t weft__thrift_int(weft__thrift *t, const weft__thrift_field *f);
bool weft__thrift_bool(weft__thrift *t, const weft__thrift_field *f);
const uint8_t *weft__thrift_bytes(weft__thrift *t, const weft__thrift_field *f, size_t *n);
void weft__thrift_skip(weft__thrift *t, const weft__thrift_field *f);

/* Begins a struct: the fields until weft__thrift_next returns false are its. */
void weft__thrift_struct(weft__thrift *t, const weft__thrift_field *f);

/* The length of a list; `item` is the field of each of its items, to which the functions above
 * apply. The list has at least one byte for each item. */
size_t weft__thrift_list(weft__thrift *t, const weft__thrift_field *f, weft__thrift_field *item);

#endif
