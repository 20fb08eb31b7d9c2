/* train/vectors.c -- the vectors of many texts, in one array. */
#include "train/vectors.h"

#include <string.h>

#include "core/failure.h"
#include "weft/memory.h"

enum { PART = 2048 };

/* Copies the vectors of texts from .. from + n. The first of all sets the size. */
static weft_status keep(const weft_embedded *found, int64_t from, int64_t n, int64_t all,
                        float **out, int64_t *D)
{
    for (int64_t i = 0; i < n; i++) {
        if (found[i].status != WEFT_OK)
            return weft_fail(found[i].status, "%s", found[i].message);
        if (*out == NULL) {
            *D = (int64_t)found[i].n;
            *out = weft_malloc((size_t)all * found[i].n * sizeof **out);
        }
        if (*out == NULL)
            return weft__out_of_memory("embed", "the vectors");
        memcpy(*out + (from + i) * *D, found[i].values, found[i].n * sizeof **out);
    }
    return WEFT_OK;
}

weft_status weft__vectors_of(weft_model *model, const weft_prompt *prompts, int64_t n,
                             const weft_embed_options *options, weft__vectors_callback *callback,
                             void *context, float **out, int64_t *D)
{
    weft_embed_options o = *options;
    weft_embedded *found = weft_calloc(PART, sizeof *found);
    weft_status status = found ? WEFT_OK : weft__out_of_memory("embed", "the vectors");
    o.normalize = true;
    *out = NULL;
    *D = 0;
    for (int64_t from = 0; status == WEFT_OK && from < n; from += PART) {
        const int64_t part = n - from < PART ? n - from : PART;
        status = weft_embed(model, prompts + from, (size_t)part, &o, found);
        if (status == WEFT_OK)
            status = keep(found, from, part, n, out, D);
        weft_embedded_free(found, (size_t)part);
        if (status == WEFT_OK && callback && !callback(context, from + part))
            status = weft_fail(WEFT_CANCELLED, "embed: stopped after %lld of %lld texts",
                               (long long)(from + part), (long long)n);
    }
    weft_free(found);
    if (status != WEFT_OK) {
        weft_free(*out);
        *out = NULL;
    }
    return status;
}
