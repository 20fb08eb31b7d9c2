/* cli/main.c -- the `weft` command: finds the subcommand and runs it. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/pages.h"
#include "cli/profile.h"
#include "cli/program.h"
#include "cli/suggest.h"

const cli_command *const cli_commands[] = {
    &cli_generate, &cli_chat,    &cli_serve,  &cli_classify, &cli_embed,    &cli_train,
    &cli_data,     &cli_report,  &cli_verify, &cli_eval,     &cli_tokenize, &cli_convert,
    &cli_fuse,     &cli_inspect, &cli_logits, &cli_bench,    &cli_discover, &cli_pull,
    &cli_info,     &cli_help,    NULL,
};

const cli_command *cli_find(const char *name)
{
    for (int i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    }
    return NULL;
}

int cli_unknown_command(const char *name)
{
    cli_suggestion near = {.word = name};
    cli_suggest_from(&near, "--help");
    cli_suggest_from(&near, "--version");
    for (int i = 0; cli_commands[i] != NULL; i++)
        cli_suggest_from(&near, cli_commands[i]->name);
    fprintf(stderr, "weft: unknown command '%s'", weft_printable(name));
    if (near.name != NULL)
        fprintf(stderr, "; is it %s?", near.name);
    fprintf(stderr, " (%s help lists the commands)\n", cli_program());
    return CLI_USAGE;
}

/* Prints the library's messages. */
static void show_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    if (level >= WEFT_LOG_INFO)
        fprintf(stderr, "weft: %s%s\n", level == WEFT_LOG_WARNING ? "warning: " : "", message);
}

/* Handles SIGBUS of a mapped file that another program has truncated: names it and ends the
 * process. Files of a run are complete at any time. The threads that read the file receive the
 * signal too: the first one reports it, the others wait for the end. Any other SIGBUS ends the
 * process as usual, when the instruction is repeated. */
static void end_by_truncation(int number, siginfo_t *info, void *context)
{
    static const char before[] = "\nweft: ", after[] = ": it was truncated while it was in use\n";
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    const char *path = weft_mapped_file_at(info->si_addr);
    const size_t bar = isatty(STDERR_FILENO) ? 0 : 1; /* on a terminal, ends the line of a bar */
    (void)context;
    if (path == NULL) {
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&reported))
        pause();
    (void)!write(STDERR_FILENO, before + bar, sizeof before - 1 - bar);
    (void)!write(STDERR_FILENO, path, strlen(path));
    (void)!write(STDERR_FILENO, after, sizeof after - 1);
    _exit(CLI_FAILURE);
}

static void catch_truncation(void)
{
    struct sigaction action = {.sa_sigaction = end_by_truncation, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

static int run(const cli_command *command, int argc, char **argv)
{
    void *values = calloc(1, command->size);
    if (values == NULL)
        return cli_fail(command->name, "no memory");
    int code = CLI_USAGE;
    switch (cli_parse(command, argc, argv, values)) {
    case CLI_PARSED_RUN:
        code = command->run(values);
        if (code == CLI_OK)
            code = cli_status(cli_profile_save_trace());
        break;
    case CLI_PARSED_HELP:
        cli_print_help(stdout, command);
        code = CLI_OK;
        break;
    case CLI_PARSED_WRONG:
        break;
    }
    free(values);
    return code;
}

int main(int argc, char **argv)
{
    weft_set_log(show_log, NULL);
    catch_truncation();
    if (argc > 0)
        cli_set_program(argv[0]);
    const char *name = argc > 1 ? argv[1] : NULL;
    int code;
    if (name == NULL) {
        cli_print_overview(stderr);
        return CLI_USAGE;
    }
    const cli_command *command = cli_find(name);
    if (strcmp(name, "--version") == 0) {
        printf("weft %s\n", weft_version());
        code = CLI_OK;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cli_print_overview(stdout);
        code = CLI_OK;
    } else if (command == NULL) {
        return cli_unknown_command(name);
    } else {
        code = run(command, argc - 2, argv + 2);
    }
    /* Buffered output may fail only now, for example on a full disk. */
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK)
        return cli_fail(name, "standard output: %s", errno != 0 ? strerror(errno) : "not written");
    return code;
}
