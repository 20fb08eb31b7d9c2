/* core/failure.h -- messages that many files need. */
#ifndef WEFT_CORE_FAILURE_H
#define WEFT_CORE_FAILURE_H

#include <stddef.h>

#include "weft/status.h"

/* Records "WHERE: out of memory", or "WHERE: out of memory for PURPOSE" when purpose is not NULL.
 * Returns WEFT_MEMORY. */
weft_status weft__out_of_memory(const char *where, const char *purpose);

/* Records the failure of an error array, or of NULL, and returns its status. */
struct weft_array;
weft_status weft__report(const struct weft_array *a);

/* An error array of status WEFT_MEMORY with the message of weft__out_of_memory. */
struct weft_array *weft__memory_error(const char *where, const char *purpose);

/* A whole message as it is shown: what weft_printable escapes is escaped, nothing but `size` (at
 * least 16) cuts it, and "..." ends what was cut. */
void weft__write_printable(char *out, size_t size, const char *text);

#endif
