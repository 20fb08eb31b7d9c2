/* tests/fuzz/fuzz_token_cache.c -- the bytes of a file of cached tokens, whose samples are read.
 * The size and the hash in its header are corrected first, so that what they protect is tested too.
 */

/* The hash is computed by functions of that file: no other code may make a damaged file valid. */
#include "train/data/cache.c" /* NOLINT(bugprone-suspicious-include) */

#include <stdlib.h>

#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Points the arrays of a dataset to the bytes of a file. */
static const uint8_t *point(weft_dataset *d, const kept *k, const uint8_t *at)
{
    block blocks[4];
    d->info = k->info;
    d->n_ids = k->n_ids;
    d->n_parts = k->n_parts;
    blocks_of(d, blocks);
    for (int i = 0; i < 4; i++) {
        *blocks[i].at = (void *)at;
        at += blocks[i].size;
    }
    return at;
}

static void correct(uint8_t *bytes, size_t size)
{
    header h;
    if (size < sizeof h)
        return;
    memcpy(&h, bytes, sizeof h);
    h.size = (int64_t)size;
    if (is_whole(&h, h.size)) {
        weft_dataset d[2] = {{0}, {0}};
        const uint8_t *at = point(&d[0], &h.parts[0], bytes + sizeof h);
        at = point(&d[1], &h.parts[1], at);
        h.check = check_of(h, &d[0], h.has_validation ? &d[1] : NULL, (const char *)at);
    }
    memcpy(bytes, &h, sizeof h);
}

/* Reads everything; aborts at what no later code checks again. */
static void use(weft_dataset *d)
{
    volatile double sum = 0;
    for (int64_t i = 0; d && i < weft_dataset_info_of(d).samples; i++) {
        const weft_sample s = weft_dataset_at(d, i);
        sum = sum + d->samples[i].cut + d->samples[i].undesirable;
        for (int64_t j = 0; j < s.length; j++) {
            sum = sum + s.weights[j];
            if (s.ids[j] < 0)
                abort();
        }
    }
    for (int64_t i = 0; d && i < d->n_parts; i++) {
        if (d->parts[i].first < 0 || d->parts[i].first > d->info.samples)
            abort();
    }
    weft_dataset_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL)
        return 0;
    weft_set_log(input_drop_log, NULL);
    memcpy(copy, data, size);
    correct(copy, size);
    const char *path = input_file(copy, size);
    free(copy);
    weft_dataset *train, *validation = NULL;
    for (int k = 0; path && k < 2; k++) {
        if (weft__dataset_cache_open(path, &train, k ? &validation : NULL)) {
            use(train);
            use(validation);
        }
    }
    return 0;
}
