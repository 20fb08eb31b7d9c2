/* core/failure.h -- messages that many files need. */
#ifndef WEFT_CORE_FAILURE_H
#define WEFT_CORE_FAILURE_H

#include "weft/status.h"

/* Records "WHERE: out of memory", or "WHERE: out of memory for PURPOSE" when purpose is not NULL.
 * Returns WEFT_MEMORY. */
weft_status weft__out_of_memory(const char *where, const char *purpose);

#endif
