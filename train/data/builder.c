/* train/data/builder.c -- builds a sample from pieces. */
#include "train/data/builder.h"

#include <string.h>

#include "core/failure.h"
#include "weft/memory.h"

static bool reserve(weft__builder *b, int64_t n)
{
    if (n <= b->capacity)
        return true;
    const size_t capacity = 2 * (size_t)n + 64;
    int32_t *ids = weft_realloc(b->ids, capacity * sizeof *ids);
    if (ids == NULL)
        return false;
    b->ids = ids;
    float *weights = weft_realloc(b->weights, capacity * sizeof *weights);
    if (weights == NULL)
        return false;
    b->weights = weights;
    b->capacity = (int64_t)capacity;
    return true;
}

weft_status weft__builder_add(weft__builder *builder, const int32_t *ids, size_t n, float weight)
{
    if (!reserve(builder, builder->n + (int64_t)n))
        return weft__out_of_memory("dataset", "a sample");
    for (size_t i = 0; i < n; i++) {
        builder->ids[builder->n] = ids[i];
        builder->weights[builder->n++] = weight;
    }
    return WEFT_OK;
}

weft_status weft__builder_add_text(weft__builder *builder, const weft_tokenizer *tokenizer,
                                   const char *text, size_t length, float weight)
{
    int32_t *ids;
    size_t n;
    weft_status status = weft_tokenizer_encode(tokenizer, text, length, 0, &ids, &n);
    if (status != WEFT_OK)
        return status;
    status = weft__builder_add(builder, ids, n, weight);
    weft_free(ids);
    return status;
}

weft_status weft__builder_finish(weft__builder *builder, int64_t group, weft_dataset *out)
{
    const weft_sample sample = {builder->ids, builder->weights, builder->n, group};
    builder->n = 0;
    return weft_dataset_add_sample(out, &sample);
}

void weft__builder_free(weft__builder *builder)
{
    weft_free(builder->ids);
    weft_free(builder->weights);
    *builder = (weft__builder){0};
}
