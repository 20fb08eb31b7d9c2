/* engine/program.h -- between the files of backends that are other programs. */
#ifndef WEFT_ENGINE_PROGRAM_H
#define WEFT_ENGINE_PROGRAM_H

#include "core/io/json.h"
#include "weft/inspect.h"

/* The text of engine/bridge.py, which the build embeds. */
extern const char weft__bridge[];

/* What an answer to "inspect" tells of: its folder ("path") with a file for each layer's keys
 * ("shapes": heads, tokens, size) and, where there are "query_shapes", queries; "sources" and "ids"
 * may be there. The files are taken away. `architecture` is borrowed. */
weft_status weft__inspection_read(const weft__json *answer, const char *architecture,
                                  weft_inspection **out);

#endif
