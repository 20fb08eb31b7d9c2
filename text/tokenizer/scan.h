/* text/tokenizer/scan.h -- a cursor over JSON text, for the lists of a tokenizer.json that are too
 * long to become a tree first. */
#ifndef WEFT_TEXT_TOKENIZER_SCAN_H
#define WEFT_TEXT_TOKENIZER_SCAN_H

#include <stdbool.h>

#include "text/tokenizer/buffer.h"

/* What is found to be no JSON is only noted: `malformed` is set, and the strict parser of
 * core/io/json.h is asked for a message. All functions return whether they succeeded. */
typedef struct json_scan {
    const char *at, *end;
    bool malformed;
} json_scan;

/* Skips white space, then takes the character if it is the next one. */
bool weft__scan_take(json_scan *scan, char c);

/* Skips white space; the next character, '\0' at the end. */
char weft__scan_peek(json_scan *scan);

/* Takes a string. *out points into the text, or into `scratch` where there are escapes. */
bool weft__scan_string(json_scan *scan, text_buffer *scratch, text_string *out);

/* Takes an integer of at most nine digits; with anything else the cursor stays, and nothing is
 * malformed yet. */
bool weft__scan_digits(json_scan *scan, int32_t *out);

/* Takes any value without looking at it closely. *out is its text. */
bool weft__scan_value(json_scan *scan, text_string *out);

/* Behind an element of a list that `close` ends: a comma (true), or the end. */
bool weft__scan_more(json_scan *scan, char close);

/* Reads a value of the outline below and moves the cursor behind it. */
typedef weft_status scan_reader(void *context, json_scan *scan);

/* A value that is too long for a tree: an object or array at `key`, or at `parent`.`key`. */
typedef struct scan_member {
    const char *parent, *key;
    char open; /* '{' or '['; another value stays where it is */
    scan_reader *read;
} scan_member;

/* Walks the object `text`, has its long values read, and appends to `rest` the same object with {}
 * and [] in their places. WEFT_INVALID with `scan->malformed` has no message. */
weft_status weft__scan_outline(json_scan *scan, const scan_member *members, size_t count,
                               void *context, text_buffer *rest);

#endif
