/* tests/hub/tiny.h -- a hub with one model, org/tiny: the storyteller. */
#ifndef TESTS_HUB_TINY_H
#define TESTS_HUB_TINY_H

#include "tests/hub/server.h"

enum { TINY_FILES = 3 };

typedef struct tiny_hub {
    server *server;
    server_page pages[TINY_FILES + 1]; /* of config.json, tokenizer.json and model.safetensors, then
                                        * the list of files */
    char *bodies[TINY_FILES], paths[TINY_FILES][100], list[1500];
} tiny_hub;

/* Starts the hub, and sets the environment so that commands use it with a cache folder. `weights`:
 * the file that it sends as model.safetensors, below the source folder. NULL, and a failed check,
 * when it does not start. */
server *tiny_start(tiny_hub *hub, const char *weights, const char *cache);
void tiny_stop(tiny_hub *hub);

#endif
