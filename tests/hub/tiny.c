/* tests/hub/tiny.c -- a hub with one model. */
#include "tests/hub/tiny.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/io.h"
#include "weft/memory.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

/* Makes the page of a file; returns how long its entry in the list is, from `at` on. */
static size_t add_file(tiny_hub *hub, int i, const char *name, const char *source, size_t at)
{
    char hash[65] = "";
    size_t size = 0;
    if (!CHECK_OK(weft_file_read(check_source(source), 0, &hub->bodies[i], &size)))
        return 0;
    const output o = shell_command(NULL, "sha256sum %s", check_source(source));
    CHECK(sscanf(o.out, "%64s", hash) == 1);
    snprintf(hub->paths[i], sizeof hub->paths[i], "/org/tiny/resolve/" COMMIT "/%s", name);
    hub->pages[i] = (server_page){.path = hub->paths[i], .body = hub->bodies[i], .length = size};
    return (size_t)snprintf(hub->list + at, sizeof hub->list - at,
                            "%s{\"rfilename\": \"%s\", \"size\": %zu, \"lfs\": {\"sha256\": "
                            "\"%s\", \"size\": %zu}}",
                            i > 0 ? ", " : "", name, size, hash, size);
}

server *tiny_start(tiny_hub *hub, const char *weights, const char *cache)
{
    const char *const names[TINY_FILES] = {"config.json", "tokenizer.json", "model.safetensors"};
    const char *const sources[TINY_FILES] = {"examples/storyteller/config.json",
                                             "examples/storyteller/tokenizer.json", weights};
    *hub = (tiny_hub){.server = NULL};
    size_t n = (size_t)sprintf(hub->list, "{\"sha\": \"" COMMIT "\", \"siblings\": [");
    for (int i = 0; i < TINY_FILES; i++)
        n += add_file(hub, i, names[i], sources[i], n);
    snprintf(hub->list + n, sizeof hub->list - n, "]}");
    hub->pages[TINY_FILES] =
        (server_page){.path = "/api/models/org/tiny/revision/main", .body = hub->list};
    hub->server = server_start(hub->pages, TINY_FILES + 1, NULL);
    if (!CHECK(hub->server != NULL)) {
        tiny_stop(hub);
        return NULL;
    }
    setenv("HF_ENDPOINT", server_url(hub->server), 1);
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("HF_TOKEN_PATH", "/nonexistent", 1);
    setenv("no_proxy", "*", 1);
    unsetenv("HF_TOKEN");
    return hub->server;
}

void tiny_stop(tiny_hub *hub)
{
    server_stop(hub->server);
    for (int i = 0; i < TINY_FILES; i++)
        weft_free(hub->bodies[i]);
}
