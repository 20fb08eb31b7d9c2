/* tests/cli/test_cli_guide.c -- the commands of docs/fine-tuning.md, run as they are written. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* The blocks marked sh, one after another, in an empty folder with `weft` in the path. */
static void the_guide_runs(void)
{
    char folder[1024], command[1024];
    snprintf(folder, sizeof folder, "%s", check_temporary("guide"));
    snprintf(command, sizeof command, "%s", check_built("cli/weft"));
    char *slash = strrchr(command, '/');
    if (!CHECK(slash != NULL))
        return;
    *slash = '\0';
    const output o = shell_command(
        NULL,
        "mkdir -p %s && cd %s && awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } "
        "inside' %s > guide.sh && PATH=%s:\"$PATH\" bash -euo pipefail guide.sh",
        folder, folder, check_source("docs/fine-tuning.md"), command);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    /* What the guide says of the results. */
    CHECK_CONTAINS(o.out, "+  I will wait until the moon is high.");
    CHECK_CONTAINS(o.out, "trainable  162,816 of");
    CHECK_CONTAINS(o.out, "Use run/best");
    CHECK_EQ_INT(
        shell_command(NULL,
                      "cd %s && ls run/last run/report.html run/metrics.jsonl run/run.json "
                      "run/config.json fused/config.json fused.gguf adapter.gguf "
                      "adapter-mlx/adapters.safetensors wider/best",
                      folder)
            .code,
        0);
    CHECK_EQ_INT(shell_command(NULL, "grep -q 'The hen said:' %s/run/report.html", folder).code, 0);
}

CHECK_MAIN("cli_guide", CHECK_CASE(the_guide_runs))
