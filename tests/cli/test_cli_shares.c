/* tests/cli/test_cli_shares.c -- full training under mpirun, where each rank updates a share of the
 * parameters: the weights of one process, and a rank that is killed. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "tests/cli/launcher.h"

static const char *options(int steps, int batches)
{
    static char text[600];
    snprintf(text, sizeof text,
             "--data %s --full --steps %d --accumulate %d --batch-size 2 --length 48 --lr 2e-4 "
             "--clip 0.5 --val-split 0.1 --save-every 3 --overwrite",
             launcher_data(), steps, batches);
    return text;
}

static void check_same_weights(const char *a, const char *b)
{
    const output o =
        shell_command(NULL, "cmp %s/last/model.safetensors %s/last/model.safetensors", a, b);
    if (!CHECK_EQ_INT(o.code, 0))
        printf("%s%s\n", o.out, o.err);
}

static void check_launch(const output *o)
{
    if (!CHECK_EQ_INT(o->code, 0))
        printf("%s\n", o->err);
}

/* With a batch for each rank the sums are added in the order of one process, in memory that ranks
 * share and in messages. */
static void full_training_has_the_weights_of_one_process(void)
{
    static const char *const optimizers[] = {"adamw", "muon"};
    if (!launcher_is_there())
        return;
    for (int n = 2; n <= 3; n++) {
        const char *one = check_temporary("one"), *many = check_temporary("many");
        const char *optimizer = optimizers[n - 2];
        output o = launch(0, "%s --optimizer %s --out %s", options(3, n), optimizer, one);
        check_launch(&o);
        for (int shared = 0; shared < 2; shared++) {
            setenv("WEFT_MPI_SHARED", shared ? "1" : "0", 1);
            o = launch(n, "%s --optimizer %s --out %s", options(3, n), optimizer, many);
            check_launch(&o);
            check_same_weights(one, many);
        }
        unsetenv("WEFT_MPI_SHARED");
    }
}

/* Whenever a rank is killed after a checkpoint, the run is resumed from the states of all ranks and
 * ends with the bytes of one that was left alone; so does one that had ended before. */
static void a_killed_rank_loses_no_states(void)
{
    enum { STEPS = 12 };
    if (!launcher_is_there())
        return;
    const char *whole = check_temporary("left-alone"), *killed = check_temporary("killed");
    output o = launch(2, "%s --out %s", options(STEPS, 2), whole);
    check_launch(&o);
    for (int rank = 0; rank < 2; rank++) {
        char arguments[900];
        snprintf(arguments, sizeof arguments, "%s --out %s", options(STEPS, 2), killed);
        o = shell_command(
            NULL,
            "rm -rf %s %s.*; %s & p=$!; until [ -e %s/step-%d ] || ! kill -0 $p 2>/dev/null; do "
            "sleep 0.01; done; kill -9 $(cat %s.%d); wait $p",
            killed, check_temporary("pid"), launcher_command(2, arguments), killed, 3 + 3 * rank,
            check_temporary("pid"), rank);
        CHECK(o.code != 124); /* timeout's */
        if (o.code != 0) {
            o = launch(2, "--out %s --resume", killed);
            check_launch(&o);
        }
        check_same_weights(whole, killed);
    }
}

CHECK_MAIN("cli_shares", CHECK_CASE(full_training_has_the_weights_of_one_process),
           CHECK_CASE(a_killed_rank_loses_no_states))
