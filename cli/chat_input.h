/* cli/chat_input.h -- JSON input of weft chat: messages, one per line, and tools. */
#ifndef CLI_CHAT_INPUT_H
#define CLI_CHAT_INPUT_H

#include "cli/chat.h"

/* Adds a message: a user's text, an object with role and content, or an object with messages, which
 * replace the conversation. The model answers a user message, and the last tool result that it
 * waits for. */
void chat_read_message(chat_run *run, const char *line);

/* Reads tools: {"type": "function", "function": {...}}, or the inner object alone. */
weft_status chat_read_tools(chat_run *run, const char *path);
void chat_free_tools(chat_run *run);

#endif
