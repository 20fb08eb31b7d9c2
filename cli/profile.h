/* cli/profile.h -- --profile: where the time of a command goes, by device and op. */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include <stdio.h>

#include "cli/common.h"

/* From here on the place's devices are measured, if it says so. */
weft_status cli_profile_start(const cli_place *place);

/* What was measured, as tables on standard error; nothing unless it was started. */
void cli_profile_print(void);

/* The same as `, "profile": {...}`, behind what an object has already. */
void cli_profile_json(FILE *file);

#endif
