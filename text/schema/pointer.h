/* text/schema/pointer.h -- JSON pointers in URI fragments, as in $ref. */
#ifndef WEFT_TEXT_SCHEMA_POINTER_H
#define WEFT_TEXT_SCHEMA_POINTER_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes one step of a pointer: the bytes from *at to the next slash or the end, to which *at
 * advances. `out` must have room for all of *at. False: malformed (%, ~). */
bool weft__pointer_step(const char **at, char *out);

/* Whether a step is an array index: digits without a sign, a space or a leading zero. */
bool weft__pointer_index(const char *step, size_t *index);

#endif
