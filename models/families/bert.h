/* models/families/bert.h -- shared by BERT and its relatives: GGUF files. */
#ifndef WEFT_MODELS_FAMILIES_BERT_H
#define WEFT_MODELS_FAMILIES_BERT_H

#include "models/encoder.h"
#include "models/gguf/arch.h"

extern const weft__tensor_name weft__bert_names[];
extern const char weft__bert_layers[], weft__bert_pooler[]; /* begin paths */
weft_status weft__bert_describe(weft__gguf_facts *facts);
weft_status weft__bert_write(weft__gguf_facts *facts);

/* The record of a family with these fields, and more about its GGUF files. */
#define WEFT__BERT_RECORD(rows, ...)                                                               \
    {                                                                                              \
        WEFT__FIELDS(rows), .defaults = &(const weft__decoder_config){0},                          \
                            .names = weft__bert_names, .layers = weft__bert_layers,                \
                            .gguf = &(const weft__gguf_arch){.name = "bert",                       \
                                                             .unrotated = true,                    \
                                                             .layer_norms = true,                  \
                                                             .classifies = true,                   \
                                                             .describe = weft__bert_describe,      \
                                                             __VA_ARGS__},                         \
    }

#endif
