/* cli/fuse.h -- interface between fuse.c (merging) and fuse_losses.c (evaluation of the result). */
#ifndef CLI_FUSE_H
#define CLI_FUSE_H

#include "cli/data_options.h"
#include "cli/progress.h"

typedef struct fuse_values {
    const char *model, *adapter, *out;
    cli_data_source source;
    int type;
    int64_t quantize, adapted_bits;
    bool text_only, force, json;
} fuse_values;

/* Losses on the data, in nats per token. `base` is NaN if the adapter adds tokens. */
typedef struct fuse_losses {
    double base, adapted, fused;
} fuse_losses;

/* Evaluates the base model at `path` without and with the adapter, and the fused model. */
weft_status fuse_measure(const fuse_values *v, const char *path, cli_progress *progress,
                         fuse_losses *out);

/* Print the losses as a line, and as members of a JSON object, each after a comma. */
void fuse_print_losses(const fuse_losses *losses);
void fuse_losses_json(const fuse_losses *losses);

#endif
