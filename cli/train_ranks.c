/* cli/train_ranks.c -- distributed training: weft train as one of several processes started by
 * mpirun. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/train.h"

static weft_group *group;
static int device_sharers = 1;

static void drop_message(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
}

weft_status train_open_ranks(void)
{
    const weft_status status = weft_group_open(&group);
    if (status == WEFT_OK && !train_is_first()) {
        weft_set_log(drop_message, NULL);
        cli_be_quiet();
    }
    return status;
}

/* A rank that fails alone joins the others at their next weft_group_agree, so that all of them
 * fail. SIGTERM is ignored from then on, since the launcher may send it to the remaining ranks once
 * one has exited with a failure. */
void train_close_ranks(int code)
{
    if (weft_group_info_of(group).size > 1) {
        (void)weft_group_agree(group, code == CLI_OK ? WEFT_OK : WEFT_INVALID, NULL);
        signal(SIGTERM, SIG_IGN);
    }
    weft_group_close(group);
    group = NULL;
}

weft_group *train_ranks(void)
{
    return group;
}

bool train_is_first(void)
{
    return weft_group_info_of(group).rank == 0;
}

/* ---- the machine ---------------------------------------------------------------------------- */

/* The host and the cores on which a rank may run. */
typedef struct cores {
    char host[256];
    cpu_set_t allowed;
} cores;

/* Counts the ranks, including this one, that may use exactly the same cores as this one: all ranks
 * of the machine, unless the launcher has bound them to different cores. */
static weft_status count_sharing(int *sharing)
{
    const int size = weft_group_info_of(group).size;
    cores own;
    memset(&own, 0, sizeof own);
    gethostname(own.host, sizeof own.host - 1);
    sched_getaffinity(0, sizeof own.allowed, &own.allowed);
    weft_status status;
    cores *all = cli_gather(group, &own, sizeof own, &status);
    *sharing = 0;
    for (int r = 0; status == WEFT_OK && r < size; r++)
        *sharing += memcmp(&all[r], &own, sizeof own) == 0;
    weft_free(all);
    return status;
}

/* The number of devices of a backend. */
static int count_devices(const char *backend)
{
    char name[64];
    const size_t length = strlen(backend);
    int n = 0;
    for (int i = 0; weft_device_at(i, name, sizeof name); i++)
        n += strncmp(name, backend, length) == 0 && (name[length] == '\0' || name[length] == ':');
    return n;
}

/* A card that was chosen is this rank's alone. */
int train_device_sharers(const train_values *v)
{
    const bool own = v->place.device == NULL && strcmp(cli_device(&v->place), "cpu") != 0;
    return own ? 1 : device_sharers;
}

weft_status train_share_machine(train_values *v, weft_status status)
{
    static char device[64];
    const weft_group_info place = weft_group_info_of(group);
    const bool together = train_objective(v)->compare != NULL; /* ranks share every batch */
    if (v->trainer.accumulate == 0)
        v->trainer.accumulate = together ? 1 : place.size;
    if (together)
        v->batch_size *= place.size;
    status = weft_group_agree(group, status, NULL);
    if (status != WEFT_OK || place.size == 1)
        return status;
    const char *given = cli_device(&v->place);
    if (cli_has_several_devices(&v->place))
        return weft_fail(WEFT_INVALID,
                         "--device %s: several devices are for one process: with mpirun each "
                         "process computes on its own",
                         weft_printable(given));
    const int n = strcmp(given, "cpu") == 0 ? 1 : count_devices(given);
    device_sharers = place.local_size;
    if (n > 1) {
        const int own = place.local_rank % n;
        snprintf(device, sizeof device, "%.40s:%d", given, own);
        v->place.device = device;
        device_sharers = (place.local_size - own + n - 1) / n;
    }
    int sharing;
    status = count_sharing(&sharing);
    const bool chosen = v->place.threads != CLI_ABSENT || getenv("WEFT_THREADS") != NULL;
    if (status == WEFT_OK && !chosen && sharing > 1)
        weft_set_threads(weft_threads() > sharing ? weft_threads() / sharing : 1);
    return status;
}
