/* serve/text.h -- growing texts, and writing JSON into them. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A text of n bytes, NUL-terminated unless it is empty. `failed`: out of memory. */
typedef struct serve_text {
    char *at;
    size_t n, room;
    bool failed;
} serve_text;

void serve_text_add(serve_text *text, const char *at, size_t n);
/* Adds a JSON string with its quotes. */
void serve_text_quote(serve_text *text, const char *at, size_t n);
void serve_text_free(serve_text *text);

/* Adds a format. An apostrophe becomes a quotation mark, and
 *     %s  const char *: a JSON string, or null    %t  const serve_text *: a JSON string
 *     %r  const char *: as it is                  %o  json_object *
 *     %i  int64_t     %f  double     %b  int: true or false
 */
void serve_put(serve_text *text, const char *format, ...);

#endif
