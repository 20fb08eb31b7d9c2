/* serve/convert.h -- conversations of other APIs as messages of a chat. */
#ifndef SERVE_CONVERT_H
#define SERVE_CONVERT_H

#include "serve/server.h"

/* Add to an array what the body of a request to Anthropic's messages or to OpenAI's responses has:
 * its system text, texts, reasoning, calls and their results. */
weft_status serve_convert_anthropic(json_object *body, json_object *messages);
weft_status serve_convert_responses(json_object *body, json_object *messages);

#endif
