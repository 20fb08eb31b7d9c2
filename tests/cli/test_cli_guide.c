/* tests/cli/test_cli_guide.c -- the commands of the guides in docs/, run as they are written. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* Runs the blocks of a document that are marked sh, one after another, in an empty folder with
 * `weft` in the path. *folder receives its path. */
static output run_guide(const char *document, char *folder, size_t size)
{
    char command[1024], source[1024];
    snprintf(folder, size, "%s", check_temporary("guide"));
    snprintf(source, sizeof source, "%s", check_source(document));
    snprintf(command, sizeof command, "%s", check_built("cli/weft"));
    char *slash = strrchr(command, '/');
    if (!CHECK(slash != NULL))
        return (output){.code = -1};
    *slash = '\0';
    const output o =
        shell_command(NULL,
                      "rm -rf %s && mkdir -p %s && cd %s && awk '/^```sh$/ { inside = 1; next } "
                      "/^```$/ { inside = 0 } inside' %s > guide.sh && test -s guide.sh && "
                      "PATH=%s:\"$PATH\" bash -euo pipefail guide.sh",
                      folder, folder, folder, source, command);
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s: %s", document, o.err);
    return o;
}

static void fine_tuning(void)
{
    char folder[1024];
    const output o = run_guide("docs/fine-tuning.md", folder, sizeof folder);
    /* The results that the guide states. */
    CHECK_CONTAINS(o.out, "+  I will wait until the moon is high.");
    CHECK_CONTAINS(o.out, "trainable  162,816 of");
    CHECK_CONTAINS(o.out, "Use run/best");
    CHECK_EQ_INT(
        shell_command(NULL,
                      "cd %s && ls run/last run/report.html run/metrics.jsonl run/run.json "
                      "run/config.json fused/config.json fused.gguf adapter.gguf "
                      "adapter-mlx/adapters.safetensors wider/best marked/last/tokenizer.json "
                      "marked-fused/tokenizer.json",
                      folder)
            .code,
        0);
    CHECK_EQ_INT(shell_command(NULL, "grep -q 'The hen said:' %s/run/report.html", folder).code, 0);
}

static void first_fine_tune(void)
{
    char folder[1024];
    const output o = run_guide("docs/first-fine-tune.md", folder, sizeof folder);
    /* The answer that the guide promises, after the run. */
    const char *end = strstr(o.out, "Use run/best");
    if (CHECK(end != NULL))
        CHECK_CONTAINS(end, " I will wait until");
}

/* Trained questions and new ones are all answered word for word. */
static void teaching_facts(void)
{
    char folder[1024];
    const output o = run_guide("docs/teaching-facts.md", folder, sizeof folder);
    CHECK_CONTAINS(o.out, "exact 100.00% +/- 0.00, over 6 rows");
    CHECK_CONTAINS(o.out, "exact 100.00% +/- 0.00, over 2 rows");
}

/* The text that the guide shows is what the command prints, a line `...` leaving lines out. */
static void data(void)
{
    char folder[1024];
    const output o = run_guide("docs/data.md", folder, sizeof folder);
    CHECK_CONTAINS(o.out, "samples    3, 114 tokens, 31 trained\n"
                          "lengths    median 27, 95% at most 63, longest 63\n");
    CHECK_CONTAINS(o.out, "  Who lives in the tower?<|im_end|>\n  <|im_start|>assistant\n"
                          "+ An old king lives there.<|im_end|>\n");
    CHECK_CONTAINS(o.out, "bad rows   1 skipped");
}

static void qlora(void)
{
    char folder[1024];
    const output o = run_guide("docs/qlora.md", folder, sizeof folder);
    CHECK_CONTAINS(o.out, "trainable  162,816 of");
    CHECK_EQ_INT(shell_command(NULL, "ls %s/fused-4bit/config.json", folder).code, 0);
}

static void deploying(void)
{
    char folder[1024];
    const output o = run_guide("docs/deploying.md", folder, sizeof folder);
    CHECK_CONTAINS(o.out, "fused.gguf");
    CHECK_EQ_INT(
        shell_command(NULL, "cd %s && ls adapter.gguf adapter-mlx/adapters.safetensors", folder)
            .code,
        0);
}

static void generating(void)
{
    char folder[1024];
    const output o = run_guide("docs/generating.md", folder, sizeof folder);
    CHECK_CONTAINS(o.out, "\"id\": \"b\"");
    CHECK_CONTAINS(o.out, "\"age\":");
    CHECK_EQ_INT(shell_command(NULL, "ls %s/attention.safetensors", folder).code, 0);
}

CHECK_MAIN("cli_guide", CHECK_CASE(fine_tuning), CHECK_CASE(first_fine_tune), CHECK_CASE(data),
           CHECK_CASE(qlora), CHECK_CASE(deploying), CHECK_CASE(generating),
           CHECK_CASE(teaching_facts))
