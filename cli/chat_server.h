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

/* The name of the chosen model's base, or else of the first other model, which the caller frees;
 * NULL: the server has no other one. */
weft_status chat_server_other(chat_run *run, char **other);
/* As chat_answer_of, by another model. */
void chat_server_answer_of(chat_run *run, char *model, weft_session *session, const char *text);

/* The session that is answered next, instead of run->session. */
void chat_server_use(chat_server *server, weft_session *session);

#endif
