/* train/data/parquet/parquet.h -- internal interface for reading Parquet files.
 *
 *     weft__parquet *file;
 *     json_object *row;
 *     const char *bad;
 *     weft_status status = weft__parquet_open(data, size, path, &file);
 *     while (status == WEFT_OK && (status = weft__parquet_next(file, &row, &bad)) == WEFT_OK &&
 *            (row != NULL || bad != NULL))
 *         ... json_object_put(row);
 *     weft__parquet_close(file);
 *
 * All sizes and counts in a file are untrusted. A page of each column is in memory at a time. */
#ifndef WEFT_TRAIN_PARQUET_H
#define WEFT_TRAIN_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json_object.h>

#include "weft/status.h"

/* ---- the footer: footer.c ------------------------------------------------------------------- */

/* Physical types, by their numbers in the format. */
typedef enum weft__parquet_type {
    WEFT__PARQUET_BOOLEAN = 0,
    WEFT__PARQUET_INT32,
    WEFT__PARQUET_INT64,
    WEFT__PARQUET_INT96,
    WEFT__PARQUET_FLOAT,
    WEFT__PARQUET_DOUBLE,
    WEFT__PARQUET_BYTES,
    WEFT__PARQUET_FIXED, /* byte arrays of one length */
    WEFT__PARQUET_TYPES
} weft__parquet_type;

/* What a value means: its logical type or, in older files, its converted type. */
typedef enum weft__parquet_meaning {
    WEFT__PARQUET_PLAIN = 0, /* what the physical type says */
    WEFT__PARQUET_TEXT,
    WEFT__PARQUET_UNSIGNED,
    WEFT__PARQUET_DECIMAL,
    WEFT__PARQUET_DATE,
    WEFT__PARQUET_TIME,
    WEFT__PARQUET_TIMESTAMP,
    WEFT__PARQUET_HALF,
    WEFT__PARQUET_UUID,
    WEFT__PARQUET_LIST,
    WEFT__PARQUET_MAP,
    WEFT__PARQUET_IGNORED, /* bytes without a meaning as text: BSON, intervals and so on */
} weft__parquet_meaning;

typedef enum weft__parquet_repetition {
    WEFT__PARQUET_REQUIRED = 0,
    WEFT__PARQUET_OPTIONAL,
    WEFT__PARQUET_REPEATED,
} weft__parquet_repetition;

/* An element of the schema, which lists the tree of groups and leaves in depth-first order. */
typedef struct weft__parquet_element {
    const uint8_t *name; /* in the footer */
    size_t n_name;
    int64_t type;   /* a weft__parquet_type; -1: a group */
    int64_t length; /* of WEFT__PARQUET_FIXED */
    int64_t repetition, children;
    int64_t scale; /* of WEFT__PARQUET_DECIMAL */
    weft__parquet_meaning meaning;
    int digits;   /* of a fraction of a second: 3, 6 or 9 */
    bool zulu;    /* a timestamp in UTC */
    bool logical; /* `meaning` is from the logical type, and not from the converted one */
} weft__parquet_element;

/* The part of a row group with the values of one leaf. */
typedef struct weft__parquet_chunk {
    int64_t type, codec, entries;
    int64_t bytes, data_offset, dictionary_offset; /* 0: none */
    bool encrypted, elsewhere;
} weft__parquet_chunk;

typedef struct weft__parquet_group {
    int64_t rows;
    weft__parquet_chunk *chunks; /* one for each leaf */
    size_t n_chunks;
} weft__parquet_group;

typedef struct weft__parquet_footer {
    weft__parquet_element *elements;
    size_t n_elements;
    weft__parquet_group *groups;
    size_t n_groups;
    size_t size; /* bytes of the file before the footer */
} weft__parquet_footer;

/* Reads the footer of a file in memory, which must outlive it. WEFT_INVALID: malformed.
 * WEFT_UNSUPPORTED: encrypted. Free also after a failure. */
weft_status weft__parquet_footer_read(const uint8_t *data, size_t size, const char *path,
                                      weft__parquet_footer *out);
void weft__parquet_footer_free(weft__parquet_footer *footer);

/* ---- the schema: schema.c ------------------------------------------------------------------- */

typedef enum weft__parquet_kind {
    WEFT__PARQUET_LEAF = 0,
    WEFT__PARQUET_STRUCT, /* children: members */
    WEFT__PARQUET_ITEMS,  /* one child: the type of the items */
    WEFT__PARQUET_PAIRS,  /* items that are structs of a key, which is a text, and a value */
} weft__parquet_kind;

/* A value as rows have it: the groups by which the format expresses lists are resolved. */
typedef struct weft__parquet_node {
    const struct weft__parquet_node *parent; /* NULL: the root */
    struct weft__parquet_node *child, *next; /* the first child, the next sibling */
    const weft__parquet_element *element;
    char *name;
    weft__parquet_kind kind;
    bool ignored;          /* itself, or all children */
    int above;             /* the definition level with which its parent is present */
    int present;           /* the one with which it is not null */
    int item;              /* of a list: the one with which it has an item */
    int repeated;          /* of a list: the repetition level of a further item */
    int rep;               /* of a leaf: the largest repetition level */
    size_t leaf, n_leaves; /* its leaves, which are numbered by their order */
} weft__parquet_node;

typedef struct weft__parquet_schema {
    weft__parquet_node *nodes; /* the root first */
    size_t n_nodes;
    weft__parquet_node **leaves;
    size_t n_leaves;
} weft__parquet_schema;

/* Free also after a failure, before the footer. */
weft_status weft__parquet_schema_build(const weft__parquet_footer *footer, const char *path,
                                       weft__parquet_schema *out);
void weft__parquet_schema_free(weft__parquet_schema *schema);

/* The names from a column to a node, separated by points, for messages. */
const char *weft__parquet_path(const weft__parquet_node *node, char out[160]);

/* ---- encodings ------------------------------------------------------------------------------ */

/* Integers of `width` bits as runs of equal values and groups of packed ones. runs.c */
typedef struct weft__parquet_runs {
    const uint8_t *at, *end;
    int width;
    bool only_packed; /* without headers, with the highest bit first */
    bool packed;      /* the current run */
    uint64_t left;    /* values left of it */
    uint32_t value;
    uint64_t bit; /* offset of the next packed value from `at` */
} weft__parquet_runs;

/* False when the data ends too early. */
bool weft__parquet_runs_next(weft__parquet_runs *r, uint32_t *out);

/* The bits [from, from + width) of data[0, n), lowest bit first; bits after the end are 0. */
uint64_t weft__parquet_bits(const uint8_t *data, size_t n, uint64_t from, int width);

/* DELTA_BINARY_PACKED: integers as differences, packed with few bits. delta.c */
typedef struct weft__parquet_delta {
    const uint8_t *at, *end;
    const uint8_t *widths; /* of the block's miniblocks */
    uint64_t left;         /* values */
    uint64_t per_mini, minis, mini, in_mini;
    uint64_t value, least;
    bool first;
} weft__parquet_delta;

/* False, with *error set, when the header is malformed. */
bool weft__parquet_delta_open(weft__parquet_delta *d, const uint8_t *at, const uint8_t *end,
                              const char **error);
bool weft__parquet_delta_next(weft__parquet_delta *d, int64_t *out, const char **error);
/* Finds the first byte after the encoded integers, and their sum if none is negative. */
bool weft__parquet_delta_end(weft__parquet_delta d, const uint8_t **end, uint64_t *sum,
                             const char **error);

/* A value of a physical type. */
typedef struct weft__parquet_value {
    int64_t whole;        /* BOOLEAN, INT32, INT64 */
    double number;        /* FLOAT, DOUBLE */
    const uint8_t *bytes; /* INT96, BYTES, FIXED: valid until the next value is read */
    size_t n;
} weft__parquet_value;

/* A dictionary: the values of a dictionary page. */
typedef struct weft__parquet_dictionary {
    char *bytes; /* the page */
    size_t size, capacity;
    uint32_t *offsets; /* of BYTES: the offset of each value's length */
    size_t n;
    bool loaded;
} weft__parquet_dictionary;

/* The values of a page, which are decoded one at a time. values.c */
typedef struct weft__parquet_values {
    weft__parquet_type type;
    size_t length; /* of a value in bytes; BYTES: 0 */
    int64_t encoding;
    const uint8_t *at, *end;
    uint64_t index, count;
    weft__parquet_runs runs;
    weft__parquet_delta delta, prefixes;
    const weft__parquet_dictionary *dictionary;
    uint8_t *scratch; /* the bytes of the current value, where the page does not have them */
    size_t n_scratch, capacity;
} weft__parquet_values;

/* Begins to read the values data[0, n). `v` keeps its scratch memory. Fails with *error. */
bool weft__parquet_values_open(weft__parquet_values *v, const weft__parquet_element *element,
                               int64_t encoding, const uint8_t *data, size_t n,
                               const weft__parquet_dictionary *dictionary, const char **error);
bool weft__parquet_values_next(weft__parquet_values *v, weft__parquet_value *out,
                               const char **error);

/* Finds the values of a dictionary page. */
bool weft__parquet_dictionary_open(weft__parquet_dictionary *d,
                                   const weft__parquet_element *element, int64_t n,
                                   const char **error);

/* ---- columns: column.c ---------------------------------------------------------------------- */

/* Reads the entries of a leaf in a row group: each has levels, and a value if it is not null. */
typedef struct weft__parquet_column {
    const char *file;
    const weft__parquet_node *leaf;
    size_t group; /* index of the row group, for messages */
    weft__parquet_chunk chunk;
    const uint8_t *at, *end; /* pages that are not read yet */
    int64_t left;            /* entries on them */
    int64_t in_page;         /* entries left on the current page */
    char *page;
    size_t page_size, page_capacity;
    weft__parquet_dictionary dictionary;
    weft__parquet_runs defs, reps;
    weft__parquet_values values;
    bool peeked;       /* `def` and `rep` are the next entry's levels */
    uint32_t def, rep; /* rep 0: a new row */
} weft__parquet_column;

/* Begins a row group. The column keeps its memory. */
weft_status weft__parquet_column_open(weft__parquet_column *c, const weft__parquet_footer *footer,
                                      const uint8_t *data, size_t group);
/* Reads the levels of the next entry. *end: there is none. */
weft_status weft__parquet_column_peek(weft__parquet_column *c, bool *end);
/* Takes the peeked entry; if `value` is not NULL, with its value. */
weft_status weft__parquet_column_take(weft__parquet_column *c, weft__parquet_value *value);
void weft__parquet_column_free(weft__parquet_column *c);

/* Records "FILE: column NAME, row group N: WHAT", and returns `status`. */
weft_status weft__parquet_column_fail(const weft__parquet_column *c, weft_status status,
                                      const char *what);

/* ---- rows ----------------------------------------------------------------------------------- */

/* Converts a value that is not null. NULL with *error for a value that cannot be converted, or
 * without it when out of memory. json.c */
json_object *weft__parquet_json(const weft__parquet_element *element,
                                const weft__parquet_value *value, const char **error);

typedef struct weft__parquet weft__parquet;

/* Opens a file in memory, which must outlive it. rows.c */
weft_status weft__parquet_open(const void *data, size_t size, const char *path,
                               weft__parquet **out);
/* Reads the next row into *row, an object that the caller releases. Columns of bytes are null. If
 * values of the row are malformed, *row is NULL and *bad the message, "column NAME: WHAT", valid
 * until the next call; later rows can be read. Both are NULL after the last row. Other failures are
 * those of the file. */
weft_status weft__parquet_next(weft__parquet *p, json_object **row, const char **bad);
void weft__parquet_close(weft__parquet *p); /* NULL is accepted */

#endif
