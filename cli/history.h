/* cli/history.h -- the lines that were typed in weft chat, kept in a file for later runs:
 * $XDG_STATE_HOME/weft/chat_history, or ~/.local/state/weft/chat_history.
 *
 * The file is readable by its owner alone. It keeps about 1,000 lines of at most 4 KB. Where it
 * cannot be read or written, nothing is kept, without a message. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

/* Calls `each` with every kept line, the oldest first. */
typedef void cli_history_fn(void *context, const char *line);
void cli_history_load(cli_history_fn *each, void *context);

/* Adds a line, which may contain line breaks. */
void cli_history_add(const char *line);

#endif
