/* tests/fuzz/fuzz_card.c -- the card of a dataset (README.md), whose header names data files. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hub/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft__hub_card card;
    if (weft__hub_card_parse((const char *)data, size, "README.md", &card) != WEFT_OK)
        return 0;
    for (int i = 0; i < card.n; i++) {
        if (card.at[i].config == NULL || card.at[i].pattern == NULL)
            abort();
    }
    weft__hub_card_free(&card);
    return 0;
}
