/* cli/fuse.h -- between fuse.c, which merges, and fuse_losses.c, which measures the result. */
#ifndef CLI_FUSE_H
#define CLI_FUSE_H

#include "cli/data_options.h"
#include "cli/progress.h"

typedef struct fuse_values {
    const char *model, *adapter, *out;
    cli_data_source source;
    int type;
    int64_t quantize, adapted_bits;
    bool force, json;
} fuse_values;

/* Losses over the data, in nats a token. base is NaN where the adapter adds tokens. */
typedef struct fuse_losses {
    double base, adapted, fused;
} fuse_losses;

/* Evaluates the base at `path`, the same with the adapter, and the model that was written. */
weft_status fuse_measure(const fuse_values *v, const char *path, cli_progress *progress,
                         fuse_losses *out);

/* A line, and members of a JSON object with a comma in front. */
void fuse_print_losses(const fuse_losses *losses);
void fuse_losses_json(const fuse_losses *losses);

#endif
