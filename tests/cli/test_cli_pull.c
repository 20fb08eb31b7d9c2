/* tests/cli/test_cli_pull.c -- weft pull, and --pull of the commands that need a model, from a hub
 * on the loopback. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/hub/server.h"
#include "weft/weft.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
enum { FILES = 3 };

static char list[2000], paths[FILES][100];
static char *bodies[FILES];
static server_page pages[FILES + 1];

/* The storyteller as org/tiny; the caller stops the server and frees the bodies. */
static server *start(void)
{
    size_t n = (size_t)sprintf(list, "{\"sha\": \"" COMMIT "\", \"siblings\": [");
    for (int i = 0; i < FILES; i++) {
        char source[100], hash[65] = "";
        size_t size = 0;
        snprintf(source, sizeof source, "examples/storyteller/%s", names[i]);
        if (!CHECK_OK(weft_file_read(check_source(source), 0, &bodies[i], &size)))
            return NULL;
        output o = shell_command(NULL, "sha256sum %s", check_source(source));
        CHECK(sscanf(o.out, "%64s", hash) == 1);
        snprintf(paths[i], sizeof paths[i], "/org/tiny/resolve/" COMMIT "/%s", names[i]);
        pages[i] = (server_page){.path = paths[i], .body = bodies[i], .length = size};
        n += (size_t)snprintf(list + n, sizeof list - n,
                              "%s{\"rfilename\": \"%s\", \"size\": %zu, \"lfs\": {\"sha256\": "
                              "\"%s\", \"size\": %zu}}",
                              i > 0 ? ", " : "", names[i], size, hash, size);
    }
    snprintf(list + n, sizeof list - n, "]}");
    pages[FILES] = (server_page){.path = "/api/models/org/tiny/revision/main", .body = list};
    server *s = server_start(pages, FILES + 1, NULL);
    if (!CHECK(s != NULL))
        return NULL;
    setenv("HF_ENDPOINT", server_url(s), 1);
    setenv("HF_HUB_CACHE", check_temporary("cache"), 1);
    setenv("HF_TOKEN_PATH", "/nonexistent", 1);
    setenv("no_proxy", "*", 1);
    unsetenv("HF_TOKEN");
    return s;
}

static bool is_built_in(void)
{
    char *folder;
    return weft_hub_pull("a/b", &(weft_hub_options){.endpoint = "http://127.0.0.1:1"}, &folder) !=
           WEFT_UNSUPPORTED;
}

static void missing_models_are_fetched_when_asked(void)
{
    if (!is_built_in()) {
        check_skip("built without libcurl");
        return;
    }
    server *s = start();
    if (s == NULL)
        return;
    output o = weft_command(NULL, "generate org/tiny -p Once -t 0 -n 2");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "weft pull fetches one");
    CHECK_EQ_INT(server_requests(s), 0);
    pages[FILES].fails = 1;
    server_pages(s, pages, FILES + 1);
    o = weft_command(NULL, "generate org/tiny --pull -p Once -t 0 -n 2");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "HTTP 503, trying again in 0.5 s (1 of 5)");
    CHECK_CONTAINS(o.err, "3 of 3: model.safetensors");
    char text[200];
    snprintf(text, sizeof text, "%s", o.out);
    const int requests = server_requests(s);
    CHECK_EQ_INT(requests, FILES + 2);
    o = weft_command(NULL, "generate org/tiny --pull -p Once -t 0 -n 2"); /* from the cache */
    CHECK_STR(o.out, text);
    CHECK_EQ_INT(server_requests(s), requests);
    o = weft_command(NULL, "generate %s --pull -p Once -t 0 -n 2",
                     check_source("examples/storyteller"));
    CHECK_STR(o.out, text);
    o = weft_command(NULL, "generate org/other --pull -p Once");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "HTTP 404");
    o = weft_command(NULL, "generate a/b/c --pull -p Once");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "a/b/c: there is no such model");
    o = weft_command(NULL, "pull org/tiny --json");
    CHECK_CONTAINS(o.out, "\"files\": 3, \"bytes\": ");
    server_stop(s);
    for (int i = 0; i < FILES; i++)
        weft_free(bodies[i]);
}

CHECK_MAIN("cli_pull", CHECK_CASE(missing_models_are_fetched_when_asked))
