/* tests/cli/test_cli_pull.c -- weft pull, and --pull of the commands that need a model, from a hub
 * on the loopback. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/hub/tiny.h"
#include "weft/weft.h"

static bool is_built_in(void)
{
    char *folder;
    return weft_hub_pull("a/b", &(weft_hub_options){.endpoint = "http://127.0.0.1:1"}, &folder) !=
           WEFT_UNSUPPORTED;
}

static void missing_models_are_fetched_on_request(void)
{
    if (!is_built_in()) {
        check_skip("built without libcurl");
        return;
    }
    tiny_hub hub;
    server *s =
        tiny_start(&hub, "examples/storyteller/model.safetensors", check_temporary("cache"));
    if (s == NULL)
        return;
    output o = weft_command(NULL, "generate org/tiny -p Once -t 0 -n 2");
    check_one_line(&o, 1);
    CHECK_CONTAINS(o.err, "weft pull fetches one");
    CHECK_EQ_INT(server_requests(s), 0);
    hub.pages[TINY_FILES].fails = 1;
    server_pages(s, hub.pages, TINY_FILES + 1);
    o = weft_command(NULL, "generate org/tiny --pull -p Once -t 0 -n 2");
    CHECK_EQ_INT(o.code, 0);
    CHECK_CONTAINS(o.err, "HTTP 503, trying again in 0.5 s (1 of 5)");
    CHECK_CONTAINS(o.err, "3 of 3: model.safetensors");
    char text[200];
    snprintf(text, sizeof text, "%s", o.out);
    const int requests = server_requests(s);
    CHECK_EQ_INT(requests, TINY_FILES + 2);
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
    tiny_stop(&hub);
}

CHECK_MAIN("cli_pull", CHECK_CASE(missing_models_are_fetched_on_request))
