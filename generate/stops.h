/* generate/stops.h -- texts that end a generation, found as tokens bring their text. */
#ifndef WEFT_GENERATE_STOPS_H
#define WEFT_GENERATE_STOPS_H

#include "weft/generate.h"

/* Holds tokens and text back for as long as the text may still become one of n stop texts. */
typedef struct weft__stops weft__stops;

/* The texts are copied. `include`: the stop text itself is given too. WEFT_INVALID for an empty
 * text. n 0: nothing is ever held back. */
weft_status weft__stops_new(const char *const *texts, int n, bool include, weft__stops **out);
void weft__stops_free(weft__stops *stops); /* NULL is accepted */

/* A token came, with the text that it completed. */
weft_status weft__stops_push(weft__stops *stops, const weft_generated *token);
/* No further one will: what was held back is free. */
void weft__stops_finish(weft__stops *stops);

/* Whether a stop text has come. What is pushed afterwards is ignored. */
bool weft__stops_found(const weft__stops *stops);

/* The next token that may be given to the caller, with text that may; or text of tokens that were
 * given before (id -1). False: nothing more for now. The text is valid until the next call. A token
 * is given when a byte of its text is; one without text together with the next that has some. */
bool weft__stops_next(weft__stops *stops, weft_generated *out);

#endif
