/* cli/chat_input.h -- what weft chat reads as JSON: messages, a line each, and tools. */
#ifndef CLI_CHAT_INPUT_H
#define CLI_CHAT_INPUT_H

#include "cli/chat.h"

/* Takes a message: a text of the user's, an object with role and content, or one with messages,
 * which replace the conversation. What the user says, and the last result that the model waits for,
 * is answered. */
void chat_read_message(chat_run *run, const char *line);

/* Reads tools: {"type": "function", "function": {...}}, or the inner object alone. */
weft_status chat_read_tools(chat_run *run, const char *path);
void chat_free_tools(chat_run *run);

#endif
