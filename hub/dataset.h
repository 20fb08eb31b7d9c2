/* hub/dataset.h -- internal interface of datasets: the header of their card, and their data files.
 */
#ifndef WEFT_HUB_DATASET_H
#define WEFT_HUB_DATASET_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* The files of a split in a configuration of a dataset, as the card states them. */
typedef struct weft__hub_data_files {
    char *config, *split;
    char *pattern; /* of paths in the repository; split NULL: a folder, "" for the whole repository,
                    * whose files name their splits */
    bool chosen;   /* the configuration is marked as the default */
} weft__hub_data_files;

typedef struct weft__hub_card {
    weft__hub_data_files *at;
    int n;
} weft__hub_card;

/* Reads "configs" from the YAML header of a README.md; *out is empty if there is none.
 * WEFT_INVALID: malformed. WEFT_UNSUPPORTED: this build cannot read YAML. hub/card.c */
weft_status weft__hub_card_parse(const char *text, size_t length, const char *path,
                                 weft__hub_card *out);
void weft__hub_card_free(weft__hub_card *card);

/* Whether a path has the extension of a file of rows or text, perhaps compressed. */
bool weft__hub_is_data(const char *path);

#endif
