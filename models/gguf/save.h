/* models/gguf/save.h -- interface between save.c, which writes tensors, and metadata.c. */
#ifndef WEFT_MODELS_GGUF_SAVE_H
#define WEFT_MODELS_GGUF_SAVE_H

#include "models/decoder.h"
#include "models/gguf/gguf.h"

enum { WEFT__GGUF_VALUES = 64, WEFT__GGUF_KEY = 96 };

/* Metadata in order of insertion. */
typedef struct weft__gguf_values {
    weft_gguf_value values[WEFT__GGUF_VALUES];
    char keys[WEFT__GGUF_VALUES][WEFT__GGUF_KEY];
    uint32_t integers[WEFT__GGUF_VALUES];
    float numbers[WEFT__GGUF_VALUES];
    weft_gguf_string strings[WEFT__GGUF_VALUES];
    void *lists[WEFT__GGUF_VALUES]; /* memory of arrays */
    int n;
} weft__gguf_values;

/* A model, and facts collected from its modules. */
typedef struct weft__gguf_facts {
    weft_model *model;
    const weft_config *config;
    const weft__gguf_arch *arch;
    const char *where; /* the file, for messages */
    const char *type;  /* of matrices; NULL: their own */
    const char *overrides;
    weft_save_progress progress;
    int64_t n_layers, heads, kv_heads, head_dim, window; /* of the first layer; 0: no window */
    const weft__layer **layers;
    double query_factor; /* factor for the queries, to match the format's scale of scores */
    /* Frequency divisors that the format stores as a tensor; NULL: none. */
    weft_array *rope_divisors;
    weft__gguf_values values;
} weft__gguf_facts;

/* Collects facts from the model's modules; `where` begins messages. WEFT_UNSUPPORTED if the format
 * has no architecture for the model. Release them also after a failure. */
weft_status weft__gguf_facts_of(weft_model *model, const char *where, weft__gguf_facts *out);

/* Adds the metadata of the model, and sets rope_divisors. WEFT_UNSUPPORTED for what the format
 * cannot express. */
weft_status weft__gguf_describe(weft__gguf_facts *facts);

/* Reorders rows from halves to pairs, for interleaved rotation. */
weft_array *weft__gguf_pairs(weft_array *a, int64_t heads);

/* Whether the query factor applies to the parameter at `path`. */
bool weft__gguf_makes_queries(const weft__gguf_facts *facts, const char *path);

void weft__gguf_put_integer(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_signed(weft__gguf_facts *facts, const char *name, int64_t x);
void weft__gguf_put_number(weft__gguf_facts *facts, const char *name, double x);
weft_status weft__gguf_put_ids(weft__gguf_facts *facts, const char *name, const int32_t *ids,
                               int n);
void weft__gguf_put_text(weft__gguf_facts *facts, const char *name, const char *text);
/* Adds the sampler options of the model's generation_config.json. */
weft_status weft__gguf_put_sampling(weft__gguf_facts *facts);
void weft__gguf_facts_release(weft__gguf_facts *facts);

#endif
