/* generate/stops.h -- finds texts that end a generation, as tokens add text. */
#ifndef WEFT_GENERATE_STOPS_H
#define WEFT_GENERATE_STOPS_H

#include "weft/generate.h"

/* Holds tokens and text back while the text may still become one of n stop texts. */
typedef struct weft__stops weft__stops;

/* The stop texts are copied. `include`: the stop text itself is emitted too. WEFT_INVALID for an
 * empty text. With n = 0 nothing is held back. */
weft_status weft__stops_new(const char *const *texts, int n, bool include, weft__stops **out);
void weft__stops_free(weft__stops *stops); /* NULL is accepted */

/* Adds a token, with the text that it completed. */
weft_status weft__stops_push(weft__stops *stops, const weft_generated *token);
/* There are no further tokens: everything held back may be emitted. */
void weft__stops_finish(weft__stops *stops);

/* Whether a stop text was found. Tokens added afterwards are ignored. */
bool weft__stops_found(const weft__stops *stops);
/* The number of that text. */
int weft__stops_which(const weft__stops *stops);

/* The next token that may be emitted, with its text; or further text of tokens emitted before (id
 * -1). False: nothing for now. The text is valid until the next call. A token is emitted with the
 * first byte of its text; one without text together with the next that has some. */
bool weft__stops_next(weft__stops *stops, weft_generated *out);

#endif
