/* tests/cli/test_cli_distill.c -- weft train --objective distill: which models are loaded when,
 * what a resumed run expects of its teacher, what --dry-run measures, and which files are replaced.
 */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

#define OPTIONS                                                                                    \
    "--data rows.jsonl --batch-size 2 --steps 4 --save-every 2 --rank 2 --objective distill"
#define TEACHER OPTIONS " --teacher teacher"

static char folder[1024];

/* A folder with rows and a model that differs from the storyteller, as a teacher. */
static bool prepare(void)
{
    if (folder[0] != '\0')
        return true;
    snprintf(folder, sizeof folder, "%s", check_temporary("distill"));
    const output o = shell_command(
        NULL,
        "mkdir -p %s && cd %s && for w in fox hen wood field day night king queen; do "
        "echo \"{\\\"prompt\\\": \\\"The $w\\\", \\\"completion\\\": \\\" was here.\\\"}\"; "
        "done > rows.jsonl && %s train %s --data rows.jsonl --full --lr 1e-3 --steps 3 "
        "--out taught && cp -rL taught/last teacher",
        folder, folder, check_built("cli/weft"), check_source("examples/storyteller"));
    if (!CHECK_EQ_INT(o.code, 0))
        CHECK_FAIL("%s", o.err);
    return o.code == 0;
}

static output train(const char *options)
{
    return shell_command(NULL, "cd %s && %s train %s %s", folder, check_built("cli/weft"),
                         check_source("examples/storyteller"), options);
}

static output shell(const char *command)
{
    return shell_command(NULL, "cd %s && %s", folder, command);
}

static void expect_code(output o, int code)
{
    if (!CHECK_EQ_INT(o.code, code))
        CHECK_FAIL("%s", o.err);
}

/* A resumed run reads what it has stored: the teacher itself may be gone. */
static void a_resumed_run_reads_the_stored_teacher(void)
{
    if (!prepare())
        return;
    expect_code(train(TEACHER " --teacher-file top.safetensors --out stored"), 0);
    expect_code(shell("cp -r stored whole && rm -r stored/step-4 && "
                      "stat -c '%i %Y' top.safetensors > before && mv teacher gone"),
                0);
    expect_code(shell_command(NULL, "cd %s && %s train --out stored --resume", folder,
                              check_built("cli/weft")),
                0);
    expect_code(shell("stat -c '%i %Y' top.safetensors | cmp - before && cmp "
                      "stored/last/adapter_model.safetensors whole/last/adapter_model.safetensors"),
                0);
    expect_code(shell_command(NULL, "cd %s && %s verify stored", folder, check_built("cli/weft")),
                0);
    expect_code(shell("mv gone teacher"), 0);
}

/* The teacher is a part of the run's identity, its files or what is stored of it. */
static void another_teacher_is_refused(void)
{
    if (!prepare())
        return;
    expect_code(train(TEACHER " --out live"), 0);
    expect_code(train(TEACHER " --teacher-file other.safetensors --out kept"), 0);
    expect_code(shell("rm -r live/step-4 kept/step-4 && cp -r teacher same && printf x | dd "
                      "of=teacher/model.safetensors bs=1 seek=20000 conv=notrunc 2>&1"),
                0);
    output o = shell_command(NULL, "cd %s && %s train --out live --resume", folder,
                             check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "the teacher has changed since the run began (hash ");
    o = shell_command(NULL, "cd %s && %s verify live --to 2 --from 0", folder,
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.out, "base       differs\n           teacher: recorded ");
    /* The last entry of the stored log-probabilities, by another exponent. */
    expect_code(shell("printf '\\300' | dd of=other.safetensors bs=1 conv=notrunc "
                      "seek=$(($(stat -c %s other.safetensors) - 1)) 2>&1"),
                0);
    o = shell_command(NULL, "cd %s && %s train --out kept --resume", folder,
                      check_built("cli/weft"));
    CHECK_EQ_INT(o.code, 1);
    CHECK_CONTAINS(o.err, "the teacher has changed since the run began (hash ");
    expect_code(shell("rm -r teacher && mv same teacher"), 0);
}

/* Only an older stored teacher is replaced; this is checked before the computation. */
static void other_files_are_not_replaced(void)
{
    static const char *const files[] = {"victim/model.safetensors", "rows.jsonl"};
    if (!prepare())
        return;
    expect_code(shell("cp -r teacher victim && cp rows.jsonl rows.before"), 0);
    for (int i = 0; i < 2; i++) {
        char options[512];
        snprintf(options, sizeof options, TEACHER " --out refused --teacher-file %s", files[i]);
        const output o = train(options);
        check_one_line(&o, 1);
        CHECK_CONTAINS(o.err, files[i]);
        CHECK_CONTAINS(o.err, ": it is another file than a stored teacher, and would be overwrit");
    }
    expect_code(shell("cmp victim/model.safetensors teacher/model.safetensors && "
                      "cmp rows.jsonl rows.before && test ! -e refused"),
                0);
    expect_code(train(TEACHER " --teacher-file again.safetensors --out one"), 0);
    expect_code(train(TEACHER " --teacher-file again.safetensors --out two"), 0);
}

static long long number_of(const char *text, const char *name)
{
    long long number = -1;
    const char *at = strstr(text, name);
    if (at == NULL || sscanf(at + strlen(name), "%lld", &number) != 1)
        CHECK_FAIL("no %s in %s", name, text);
    return number;
}

/* --dry-run computes and writes no entries, and counts the teacher and what sampling needs. */
static void a_dry_run_measures_each_part(void)
{
    if (!prepare())
        return;
    output o = train(TEACHER " --teacher-file absent.safetensors --dry-run --json");
    expect_code(o, 0);
    CHECK(number_of(o.out, "\"storing\": ") > 1000000);
    const long long weights = number_of(o.out, "\"weights\": ");
    expect_code(shell("test ! -e absent.safetensors"), 0);
    o = train(TEACHER " --dry-run --json");
    expect_code(o, 0);
    CHECK(number_of(o.out, "\"storing\": ") == 0);
    CHECK(number_of(o.out, "\"sampling\": ") == 0);
    CHECK(number_of(o.out, "\"weights\": ") > weights + weights / 2);
    const long long plain = number_of(o.out, "\"total\": ");
    o = train(TEACHER " --lmbda 0.5 --max-completion-length 40 --dry-run --json");
    expect_code(o, 0);
    const long long some = number_of(o.out, "\"sampling\": ");
    CHECK(some > 0);
    CHECK(number_of(o.out, "\"total\": ") > plain);
    o = train(TEACHER " --lmbda 0.5 --max-completion-length 400 --dry-run --json");
    expect_code(o, 0);
    CHECK(number_of(o.out, "\"sampling\": ") > some);
    CHECK_CONTAINS(o.out, "\"largest_batch\": [2, 40"); /* the prompt, and 400 tokens less one */
}

CHECK_MAIN("cli_distill", CHECK_CASE(a_resumed_run_reads_the_stored_teacher),
           CHECK_CASE(another_teacher_is_refused), CHECK_CASE(other_files_are_not_replaced),
           CHECK_CASE(a_dry_run_measures_each_part))
