/* core/failpoint.h -- allocation counting for tests; buffers take part too. */
#ifndef CORE_FAILPOINT_H
#define CORE_FAILPOINT_H

#include <stdbool.h>

/* Counts one allocation and says whether a test wants it to fail. */
bool weft__allocation_fails(void);

#endif
