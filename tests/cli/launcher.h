/* tests/cli/launcher.h -- runs `weft train` under mpirun. */
#ifndef TESTS_CLI_LAUNCHER_H
#define TESTS_CLI_LAUNCHER_H

#include <stdbool.h>

#include "tests/cli/command.h"

/* A file with completions of different lengths. */
const char *launcher_data(void);

/* `weft train MODEL ...` on n ranks, in a shell where $R is the rank; its process is in pid.$R, and
 * the launcher's in pid.launcher, of the temporary folder. 0: without a launcher. launcher_command
 * is the text, and launch runs it. */
const char *launcher_command(int n, const char *arguments);
output launch(int n, const char *format, ...) WEFT_PRINTF(2, 3);

/* Whether there is a launcher and a build for it; otherwise the case is skipped. */
bool launcher_is_there(void);

#endif
