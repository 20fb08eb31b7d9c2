/* core/failure.h -- common error messages. */
#ifndef WEFT_CORE_FAILURE_H
#define WEFT_CORE_FAILURE_H

#include <stddef.h>

#include "weft/status.h"

/* Records "WHERE: out of memory", or "WHERE: out of memory for PURPOSE" when purpose is not NULL.
 * Returns WEFT_MEMORY. */
weft_status weft__out_of_memory(const char *where, const char *purpose);

/* Records the failure of an error array, or of NULL, as the thread's message, and returns its
 * status. */
struct weft_array;
weft_status weft__report(const struct weft_array *a);

/* An error array of status WEFT_MEMORY with the message of weft__out_of_memory. */
struct weft_array *weft__memory_error(const char *where, const char *purpose);

/* Copies a message for display, escaping what weft_printable escapes. It is cut only by `size` (at
 * least 16), and then ends with "...". */
void weft__write_printable(char *out, size_t size, const char *text);

#endif
