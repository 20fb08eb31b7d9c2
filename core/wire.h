/* core/wire.h -- locks array memory in physical memory. */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/buffer.h"

/* Called for owned buffers under the lock of core/buffer.c. weft__wire locks the buffer's pages if
 * the limit allows (a refusal by the system is ignored); weft__unwire unlocks them. */
void weft__wire(weft__buffer *b);
void weft__unwire(weft__buffer *b);

/* Calls `change` for every owned buffer, live and cached, under that lock (core/buffer.c). */
void weft__buffer_each(void (*change)(weft__buffer *b));

#endif
