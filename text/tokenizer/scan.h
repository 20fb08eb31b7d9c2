/* text/tokenizer/scan.h -- a cursor over JSON text, for the long lists of a tokenizer.json, which
 * would be slow to parse to a tree. */
#ifndef WEFT_TEXT_TOKENIZER_SCAN_H
#define WEFT_TEXT_TOKENIZER_SCAN_H

#include <stdbool.h>

#include "text/tokenizer/buffer.h"

/* A syntax error only sets `malformed`; the strict parser of core/io/json.h then produces the
 * message. All functions return whether they succeeded. */
typedef struct json_scan {
    const char *at, *end;
    bool malformed;
} json_scan;

/* Skips white space, then the character if it is next. */
bool weft__scan_take(json_scan *scan, char c);

/* Skips white space and returns the next character; '\0' at the end. */
char weft__scan_peek(json_scan *scan);

/* Reads a string. *out points into the text, or into `scratch` if there are escapes. */
bool weft__scan_string(json_scan *scan, text_buffer *scratch, text_string *out);

/* Reads an integer of at most nine digits; otherwise the cursor stays, and the text is not yet
 * considered malformed. */
bool weft__scan_digits(json_scan *scan, int32_t *out);

/* Skips any value without validating it. *out is its text. */
bool weft__scan_value(json_scan *scan, text_string *out);

/* After an element of a list that ends with `close`: true for a comma, false at the end. */
bool weft__scan_more(json_scan *scan, char close);

/* Reads a value of the outline below and advances past it. */
typedef weft_status scan_reader(void *context, json_scan *scan);

/* A long value: an object or array at `key`, or at `parent`.`key`. */
typedef struct scan_member {
    const char *parent, *key;
    char open; /* '{' or '['; other values are left in place */
    scan_reader *read;
} scan_member;

/* Walks the object `text`, calls the readers of its long values, and appends to `rest` the object
 * with {} and [] in their places. WEFT_INVALID with `scan->malformed` has no message. */
weft_status weft__scan_outline(json_scan *scan, const scan_member *members, size_t count,
                               void *context, text_buffer *rest);

#endif
