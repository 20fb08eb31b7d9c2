/* models/gguf/save.h -- between save.c, which writes tensors, and metadata.c. */
#ifndef WEFT_MODELS_GGUF_SAVE_H
#define WEFT_MODELS_GGUF_SAVE_H

#include "models/decoder.h"
#include "models/gguf/gguf.h"

enum { WEFT__GGUF_VALUES = 64, WEFT__GGUF_KEY = 96 };

/* Metadata in the order in which it was put. */
typedef struct weft__gguf_values {
    weft_gguf_value values[WEFT__GGUF_VALUES];
    char keys[WEFT__GGUF_VALUES][WEFT__GGUF_KEY];
    uint32_t integers[WEFT__GGUF_VALUES];
    float numbers[WEFT__GGUF_VALUES];
    weft_gguf_string strings[WEFT__GGUF_VALUES];
    void *lists[WEFT__GGUF_VALUES]; /* memory of arrays */
    int n;
} weft__gguf_values;

/* A model, and what its modules say of it. */
typedef struct weft__gguf_facts {
    weft_model *model;
    const weft_config *config;
    const weft__gguf_arch *arch;
    const char *where; /* the file, for messages */
    const char *type;  /* of matrices */
    const char *overrides;
    weft_save_progress progress;
    int64_t n_layers, heads, kv_heads, head_dim, window; /* of the first layer; 0: no window */
    const weft__layer **layers;
    double query_factor; /* what queries are multiplied by for the format's scale of scores */
    /* The divisors of frequencies that the format has as a tensor; NULL: none. */
    weft_array *rope_divisors;
    weft__gguf_values values;
} weft__gguf_facts;

/* Looks at the model's modules. WEFT_UNSUPPORTED when they are not those of a decoder. */
weft_status weft__gguf_inspect(weft__gguf_facts *facts);

/* Puts the metadata of the model, and sets rope_divisors. WEFT_UNSUPPORTED for what the format has
 * no words for. */
weft_status weft__gguf_describe(weft__gguf_facts *facts);

/* Rows of halves as pairs, for interleaved rotation. */
weft_array *weft__gguf_pairs(weft_array *a, int64_t heads);

/* Whether the parameter at `path` is what takes the query factor. */
bool weft__gguf_makes_queries(const weft__gguf_facts *facts, const char *path);

void weft__gguf_put_integer(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_signed(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_number(weft__gguf_facts *facts, const char *name, double x);
weft_status weft__gguf_put_ids(weft__gguf_facts *facts, const char *name, const int32_t *ids,
                               int n);
void weft__gguf_put_text(weft__gguf_facts *facts, const char *name, const char *text);
/* Puts what the model's generation_config.json says of the sampler. */
weft_status weft__gguf_put_sampling(weft__gguf_facts *facts);
void weft__gguf_facts_release(weft__gguf_facts *facts);

#endif
