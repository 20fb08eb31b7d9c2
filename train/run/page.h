/* train/run/page.h -- parts of the pages about runs: escaped text, tables, plots. */
#ifndef WEFT_TRAIN_RUN_PAGE_H
#define WEFT_TRAIN_RUN_PAGE_H

#include <json-c/json_object.h>

#include "core/io/text.h"
#include "train/run/curve.h"

/* Begins a page up to its body; the title is escaped. Ends it with the script. */
void weft__page_begin(weft__text *t, const char *title);
void weft__page_end(weft__text *t);

/* Appends text from models, data or file names without markup, control characters and characters
 * that change the direction of text. */
void weft__page_escape(weft__text *t, const char *text);
void weft__page_escape_n(weft__text *t, const char *text, size_t n);
/* The same of a value of JSON: "path a.jsonl, weight 2" for objects. */
void weft__page_value(weft__text *t, json_object *value);

/* The last component of a path, without slashes at its end. */
const char *weft__page_base(const char *path, size_t *n);

/* Numbers as text: 1,234,567; 1.2 MB; 1:02:03 or 5.2 s; up to four decimals. */
void weft__page_count(weft__text *t, double value);
void weft__page_bytes(weft__text *t, double value);
void weft__page_time(weft__text *t, double seconds);
void weft__page_number(weft__text *t, double value);

/* Writes the page. Replaces only files of its kind; WEFT_INVALID, WEFT_IO. Frees the text. */
weft_status weft__page_write(weft__text *t, const char *path);

#endif
