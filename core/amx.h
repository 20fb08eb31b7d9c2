/* core/amx.h -- whether this process may use the AMX tiles of the processor. */
#ifndef WEFT_CORE_AMX_H
#define WEFT_CORE_AMX_H

#include <stdbool.h>

/* Asks the kernel for the tile registers, which it saves only for processes that ask (Linux 5.16).
 * True if tiles and products of bfloat16 can be used by every thread from then on. */
bool weft__amx_usable(void);

#endif
