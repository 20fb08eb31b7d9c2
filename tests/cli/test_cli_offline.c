/* tests/cli/test_cli_offline.c -- the commands of a fine-tune open no internet socket: the kernel
 * would kill them. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/cli/command.h"

/* Runs a command line of the shell under tests/cli/offline.c, in a folder of its own. */
static output offline(const char *command)
{
    return shell_command(NULL, "mkdir -p %s && cd %s && %s sh -c '%s'", check_temporary("offline"),
                         check_temporary("offline"), check_built("tests/offline"), command);
}

static bool is_permitted(void)
{
    const output o = offline("true");
    if (o.code == 77)
        check_skip("the system permits no filter of system calls: %s", o.err);
    return o.code != 77;
}

/* The filter kills a program that opens a socket, so the other case can fail. */
static void a_download_is_killed(void)
{
    if (!is_permitted())
        return;
    char command[2048];
    snprintf(command, sizeof command,
             "HF_HUB_CACHE=cache HF_ENDPOINT=http://127.0.0.1:9 %s pull org/model",
             check_built("cli/weft"));
    const output o = offline(command);
    if (strstr(o.err, "without libcurl"))
        check_skip("%s", o.err);
    else
        CHECK_EQ_INT(o.code, 128 + SIGSYS);
}

static void a_fine_tune_opens_no_socket(void)
{
    static const char *const commands[] = {
        "data base train.txt",
        "train base --data train.txt --steps 4 --save-every 2 --length 32 --val-split 0.2 --out "
        "run",
        "train --out run --resume --steps 6",
        "verify run",
        "report run",
        "generate base --adapter run/last --prompt Once --max-tokens 8",
        "eval base --adapter run/last --data train.txt",
        "fuse base run/last fused",
        "convert fused fused.gguf",
        "info fused.gguf",
        "discover .",
    };
    if (!is_permitted())
        return;
    char line[4096];
    snprintf(line, sizeof line,
             "cp -r %s base && seq 400 | sed \"s/.*/Tale & was told./\" > train.txt",
             check_source("examples/storyteller"));
    output o = offline(line);
    CHECK_EQ_INT(o.code, 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(line, sizeof line, "%s %s", check_built("cli/weft"), commands[i]);
        o = offline(line);
        if (!CHECK_EQ_INT(o.code, 0))
            CHECK_FAIL("%s: %s", commands[i], o.err);
    }
}

CHECK_MAIN("cli_offline", CHECK_CASE(a_download_is_killed), CHECK_CASE(a_fine_tune_opens_no_socket))
