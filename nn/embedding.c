/* nn/embedding.c -- embeddings, and the embedding matrix as output head. */
#include <math.h>

#include "nn/module.h"

static weft_array *forward(weft_module *self, weft_array *ids)
{
    return weft_embedding(((weft_nn_embedding *)self)->weight, ids);
}

const weft_module_type weft__nn_embedding_type = {
    .name = "embedding",
    .forward = forward,
    .takes_encoded = true,
};

weft_module *weft_nn_embedding_new(int64_t V, int64_t E)
{
    weft_nn_embedding *m = weft_nn_new(weft_nn_embedding, &weft__nn_embedding_type);
    if (m == NULL)
        return NULL;
    const double deviation = E > 0 ? 1.0 / sqrt((double)E) : 0;
    weft_nn_param(m, weight, weft_random_normal(NULL, WEFT_DIMS(V, E), 0, deviation, WEFT_FLOAT32));
    return weft_nn_finish(m);
}

weft_array *weft_nn_embedding_head(weft_module *embedding, weft_array *x)
{
    weft_array *const *weight = weft_nn_find(embedding, "weight"); /* inside an adapter, that of its
                                                                    * base */
    if (weight == NULL)
        return weft_error_array("%s: expected an embedding", embedding->type->name);
    weft_nn_enter_module(embedding, __func__);
    return weft_nn_leave_module(embedding, weft_linear(x, weft__nn_near(*weight, x), NULL));
}
