/* train/adapter/card.h -- what a base model's card states, for the cards of models made from it. */
#ifndef WEFT_TRAIN_ADAPTER_CARD_H
#define WEFT_TRAIN_ADAPTER_CARD_H

#include "core/io/text.h"

/* Texts of the header of README.md, which starts and ends with "---"; NULL: not stated. */
typedef struct weft__base_card {
    char *license, *license_name, *license_link;
    char *name; /* ORG/NAME of the base: where the path is in the hub's cache */
} weft__base_card;

/* Reads README.md in a model's folder, or beside a model's file. A card that is absent or cannot be
 * read states nothing. */
void weft__base_card_read(const char *model, weft__base_card *out);
void weft__base_card_free(weft__base_card *card);

/* Writes the lines "license: ...", "license_name: ..." and "license_link: ..." that are stated. */
void weft__base_card_write(weft__text *t, const weft__base_card *card);

#endif
