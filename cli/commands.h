/* cli/commands.h -- the subcommands, each defined in the file with its name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

extern const cli_command cli_bench, cli_chat, cli_classify, cli_convert, cli_data, cli_discover,
    cli_embed, cli_fuse, cli_generate, cli_inspect, cli_pull, cli_train, cli_eval, cli_tokenize,
    cli_logits, cli_info, cli_help, cli_report, cli_serve, cli_verify;

#endif
