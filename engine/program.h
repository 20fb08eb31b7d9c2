/* engine/program.h -- between the files of backends that are other programs. */
#ifndef WEFT_ENGINE_PROGRAM_H
#define WEFT_ENGINE_PROGRAM_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/engine.h"
#include "weft/inspect.h"

/* ---- program_request.c ---------------------------------------------------------------------- */

/* WEFT_UNSUPPORTED for what the protocol has no words for, WEFT_INVALID for numbers that JSON or
 * the protocol has none for. `name` is the backend's. */
weft_status weft__program_check(const char *name, const weft_generate_options *o);
/* max_tokens, or the default. */
int64_t weft__program_most_tokens(const weft_generate_options *o);

/* Adds to an object that is open: ', "KEY": "VALUE"', or nothing for NULL. */
void weft__program_add_text(weft__text *line, const char *key, const char *value);
/* The same for a request's messages, ids or text. */
weft_status weft__program_add_prompt(weft__text *line, const char *name,
                                     const weft_engine_request *r);
/* The whole of a request to generate. After a failure the caller frees line->at, too. */
weft_status weft__program_generate(weft__text *line, const char *name,
                                   const weft_engine_request *r);

/* ---- the bridge ----------------------------------------------------------------------------- */

/* The text of engine/bridge.py, which the build embeds. */
extern const char weft__bridge[];

/* ---- program_inspect.c ---------------------------------------------------------------------- */

/* What an answer to "inspect" tells of: its folder ("path") with a file for each layer's keys
 * ("shapes": heads, tokens, size) and, where there are "query_shapes", queries; "sources" and "ids"
 * may be there. The files are taken away. `architecture` is borrowed. */
weft_status weft__inspection_read(const weft__json *answer, const char *architecture,
                                  weft_inspection **out);

#endif
