/* cli/chat_body.h -- requests of weft chat to a server. */
#ifndef CLI_CHAT_BODY_H
#define CLI_CHAT_BODY_H

#include "cli/chat.h"

/* Writes the body of a request for a streamed answer to `messages`, JSON of a conversation, with
 * the options that the user has given. The caller frees *out with weft_free. An assistant's message
 * at the end is continued. */
weft_status chat_body(const chat_values *values, const char *model, const char *messages,
                      weft_thinking thinking, char **out);

#endif
