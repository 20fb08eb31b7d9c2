/* text/tokenizer/buffer.h -- growing arrays of bytes and ids. Zeroed is empty. */
#ifndef WEFT_TEXT_TOKENIZER_BUFFER_H
#define WEFT_TEXT_TOKENIZER_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef struct text_buffer {
    char *data;
    size_t length, capacity;
} text_buffer;

typedef struct id_buffer {
    int32_t *data;
    size_t length, capacity;
} id_buffer;

/* A string that need not be NUL-terminated. */
typedef struct text_string {
    const char *text;
    size_t length;
} text_string;

/* Makes room for `more` elements of `size` bytes after the first `length` in *data. On WEFT_MEMORY
 * nothing changes. */
weft_status weft__bytes_grow(void **data, size_t *capacity, size_t length, size_t more,
                             size_t size);

weft_status weft__bytes_append(text_buffer *buffer, const char *text, size_t length);
weft_status weft__bytes_reserve(text_buffer *buffer, size_t more);
void weft__bytes_release(text_buffer *buffer);

weft_status weft__ids_append(id_buffer *buffer, int32_t id);
weft_status weft__ids_append_all(id_buffer *buffer, const int32_t *ids, size_t count);
void weft__ids_release(id_buffer *buffer);

#endif
