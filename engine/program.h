/* engine/program.h -- shared by the files for backends that are other programs. */
#ifndef WEFT_ENGINE_PROGRAM_H
#define WEFT_ENGINE_PROGRAM_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/engine.h"
#include "weft/inspect.h"

/* ---- program_request.c ---------------------------------------------------------------------- */

/* WEFT_UNSUPPORTED for options that the protocol does not have, WEFT_INVALID for numbers that JSON
 * or the protocol cannot represent. `name` is the backend's. */
weft_status weft__program_check(const char *name, const weft_generate_options *o);
/* max_tokens, or its default. */
int64_t weft__program_most_tokens(const weft_generate_options *o);

/* Appends to an open object: ', "KEY": "VALUE"', or nothing for NULL. */
void weft__program_add_text(weft__text *line, const char *key, const char *value);
/* Appends a request's messages, ids or text. */
weft_status weft__program_add_prompt(weft__text *line, const char *name,
                                     const weft_engine_request *r);
/* The complete request to generate. The caller frees line->at, also after a failure. */
weft_status weft__program_generate(weft__text *line, const char *name,
                                   const weft_engine_request *r);

/* ---- the bridge ----------------------------------------------------------------------------- */

/* The text of engine/bridge.py, which the build embeds. */
extern const char weft__bridge[];

/* ---- program_inspect.c ----------------------------------------------------------------------- */

/* Reads the files described by an answer to "inspect": its folder ("path") has a file for each
 * layer's keys ("shapes": heads, tokens, size) and, with "query_shapes", for queries; "sources" and
 * "ids" are optional. Deletes the files. `architecture` is borrowed. */
weft_status weft__inspection_read(const weft__json *answer, const char *architecture,
                                  weft_inspection **out);

#endif
