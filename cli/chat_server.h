/* cli/chat_server.h -- weft chat with a model of a server. */
#ifndef CLI_CHAT_SERVER_H
#define CLI_CHAT_SERVER_H

#include "cli/chat.h"

/* Connects run->server to --server, and chooses MODEL, or the first model that the server lists;
 * then makes the session, whose answers come from there. */
weft_status chat_server_open(chat_run *run);
void chat_server_free(chat_server *server); /* NULL is accepted */

/* The model that answers. */
const char *chat_server_model(const chat_server *server);
/* Lists the models, or chooses one (a name that is not empty). */
weft_status chat_server_choose(chat_run *run, const char *name);

/* Answers as the chosen model's base, then as itself. */
void chat_server_compare(chat_run *run, const char *text);

/* The session that is answered next, instead of run->session. */
void chat_server_use(chat_server *server, weft_session *session);

#endif
