/* tests/cli/launcher.c -- runs `weft train` under mpirun. */
#include "tests/cli/launcher.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

/* As root, with more ranks than cores, without spinning where ranks wait, and with
 * $SECONDS_TO_SAVE after a signal, which the launcher always waits for after a failure: Open MPI's
 * settings (PRTE's since 5.0), which others ignore. MPI's own memory is not looked at. */
static const char settings[] = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                               "OMPI_MCA_rmaps_base_oversubscribe=1 "
                               "OMPI_MCA_odls_base_sigkill_timeout=${SECONDS_TO_SAVE:-1} "
                               "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
                               "PRTE_MCA_odls_base_sigkill_timeout=${SECONDS_TO_SAVE:-1} "
                               "OMPI_MCA_mpi_yield_when_idle=1 WEFT_THREADS=1 "
                               "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0";

const char *launcher_data(void)
{
    static char text[9000];
    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), 200,
                 "{\"prompt\": \"Story %d: \", \"completion\": \"The fox had %d cubs.%.*s\"}\n", i,
                 i % 7, 4 * (i % 9), " He ran to the old tree in the far wood.");
    return text_file("rows.jsonl", text);
}

const char *launcher_command(int n, const char *arguments)
{
    static char commands[4][3000];
    static int next;
    char *command = commands[next++ % 4];
    if (n == 0)
        snprintf(command, sizeof commands[0], "env %s %s train %s %s", settings,
                 check_built("cli/weft"), model(), arguments);
    else
        snprintf(command, sizeof commands[0],
                 "env %s timeout 400 mpirun -n %d sh -c 'R=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
                 "echo $$ >%s.$R; echo $PPID >%s.launcher; exec %s train %s %s'",
                 settings, n, check_temporary("pid"), check_temporary("pid"),
                 check_built("cli/weft"), model(), arguments);
    return command;
}

output launch(int n, const char *format, ...)
{
    char text[2000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return shell_command(NULL, "%s", launcher_command(n, text));
}

bool launcher_is_there(void)
{
    static int known = -1;
    if (known < 0) {
        known = shell_command(NULL, "command -v mpirun").code == 0;
        if (known && strstr(launch(2, "--data none --out none").err, "built without MPI"))
            known = -2;
    }
    if (known == 0)
        check_skip("there is no mpirun: install openmpi-bin");
    if (known == -2)
        check_skip("this build is without MPI: install libopenmpi-dev and configure it anew");
    return known == 1;
}
