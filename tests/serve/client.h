/* tests/serve/client.h -- a server of the storyteller in this process, and an HTTP client. */
#ifndef TESTS_SERVE_CLIENT_H
#define TESTS_SERVE_CLIENT_H

#include <json-c/json.h>

#include "serve/serve.h"

/* Starts a server of the storyteller, with ChatML, and waits until it is ready. `options` lacks the
 * model. NULL, and a failed check, when it does not start. */
serve_server *client_server(serve_options options);

/* An answer: status, headers as sent, and the body without its chunks. */
typedef struct client_reply {
    int status;
    char *head, *body;
    size_t length;
} client_reply;

/* Opens a connection and sends a request; `headers` are complete lines (NULL: none), `body` may be
 * NULL. Returns the socket, or -1. Makes no check, so it may be called in any thread. */
int client_open(int port, const char *method, const char *path, const char *headers,
                const char *body);
/* Reads the answer to its end and closes the socket. */
client_reply client_read(int socket);
client_reply client_ask(int port, const char *method, const char *path, const char *body);
void client_free(client_reply *reply);

/* Sends a request, checks the status, and parses the body; the caller frees it with
 * json_object_put. */
json_object *client_json(int port, const char *path, const char *body, int status);

/* The value at a path of members and indices, as in "choices.0.text"; NULL: absent. */
json_object *client_at(json_object *root, const char *path);
const char *client_text(json_object *root, const char *path);

/* The next event of a stream that is not a comment: *data is set to its JSON or text,
 * NUL-terminated in place. Returns the rest, or NULL at the end. */
char *client_event(char *at, char **data);

/* The text that the storyteller continues a prompt with, alone; the caller frees it. */
char *client_alone(const char *prompt, const weft_generate_options *options);
/* The same with an adapter; NULL: none. */
char *client_alone_with(const char *adapter, const char *prompt,
                        const weft_generate_options *options);

/* The value of a metric, or -1. */
double client_metric(int port, const char *name);

#endif
