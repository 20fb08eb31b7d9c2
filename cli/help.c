/* cli/help.c -- weft help: prints the list of commands, the help of one, the manual page, or the
 * completion script of a shell. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/pages.h"

typedef struct help_values {
    const char *command;
    bool man;
    int completion;
} help_values;

static const cli_argument arguments[] = {
    {"COMMAND", offsetof(help_values, command), true},
};

static const cli_option options[] = {
    {.name = "man",
     .kind = CLI_FLAG,
     .offset = offsetof(help_values, man),
     .help = "print the manual page: weft help --man | man -l -",
     .hidden = true},
    {.name = "completion",
     .kind = CLI_CHOICE,
     .value = CLI_SHELLS,
     .offset = offsetof(help_values, completion),
     .help = "print a script that completes weft's commands and options"},
};

static int run(void *context)
{
    const help_values *v = context;
    if (v->man) {
        cli_print_man(stdout);
    } else if (v->completion >= 0) {
        cli_print_completion(stdout, v->completion);
    } else if (v->command != NULL) {
        const cli_command *command = cli_find(v->command);
        if (command == NULL)
            return cli_unknown_command(v->command);
        cli_print_help(stdout, command);
    } else {
        cli_print_overview(stdout);
    }
    return CLI_OK;
}

const cli_command cli_help = {
    .name = "help",
    .summary = "show the help of a command",
    .description = "Lists the commands, or shows the help of one.",
    .example = "weft help train\n"
               "source <(weft help --completion bash)\n"
               "weft help --completion fish >~/.config/fish/completions/weft.fish",
    CLI_TABLE(help_values, arguments, options),
    .run = run,
};
