/* cli/profile.h -- --profile and --trace: measures the time of a command by device, op and kernel.
 */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include <stdio.h>

#include "cli/common.h"

/* Whether --profile or --trace is given. */
bool cli_profile_asked(const cli_place *place);

/* Starts measuring the devices of the place, if --profile or --trace is given. */
weft_status cli_profile_start(const cli_place *place);

/* Measures the ceilings of the place's devices if --profile is given, so that the tables have
 * shares of them. Call before cli_profile_start. */
weft_status cli_profile_ceilings(const cli_place *place);

/* Ends a phase: the measurements since the previous one are shown under `name` (borrowed). Without
 * phases everything is shown together. Does nothing unless measuring has started. */
weft_status cli_profile_phase(const char *name);

/* Discards the measurements since the last phase. */
weft_status cli_profile_restart(void);

/* Prints tables to standard error if --profile was given. */
void cli_profile_print(void);

/* Writes the same as `, "profile": {...}`, a further member of a JSON object. */
void cli_profile_json(FILE *file);

/* Writes the file of --trace, if it was given. */
weft_status cli_profile_save_trace(void);

/* ---- Interface between profile.c and profile_print.c ---------------------------------------- */

enum { PROFILE_DEVICES = WEFT_MODEL_DEVICES + 1, PROFILE_PHASES = 4 };
enum { PROFILE_OPS = 512, PROFILE_KERNELS = 512, PROFILE_COUNTERS = 32 };

/* Measurements of one device. */
typedef struct profile_device {
    const char *name;
    weft_op_report ops[PROFILE_OPS];
    int n_ops;
    weft_kernel_report kernels[PROFILE_KERNELS];
    int n_kernels;
    weft_totals totals;
    weft_counts ran; /* counts over all ops */
    int64_t nodes, fallbacks, nanoseconds;
    weft_counter counters[PROFILE_COUNTERS];
    int n_counters;
    const weft_ceiling *ceilings; /* NULL: not measured */
} profile_device;

typedef struct profile_phase {
    const char *name; /* NULL: the only phase */
    profile_device devices[PROFILE_DEVICES];
    int n;
} profile_phase;

/* The number of nodes of an op that the CPU computed for another device. */
int64_t profile_fallbacks(const weft_counts *ran);

/* The phases, *n of them; one without a name if none was ended. */
profile_phase *const *profile_phases(int *n);

/* The share of the ceiling that the kernels reach: the time that their operations or their bytes
 * need at the ceiling, whichever is longer, divided by their time; 0: unknown. */
double profile_share(const profile_device *d, const weft_kernel_report *k);

#endif
