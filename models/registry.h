/* models/registry.h -- the families that come with Weft: one line for each. */
#ifndef WEFT_MODELS_REGISTRY_H
#define WEFT_MODELS_REGISTRY_H

#include "weft/model.h"

extern const weft_model_family weft__family_llama;
extern const weft_model_family weft__family_mistral;
extern const weft_model_family weft__family_qwen2;
extern const weft_model_family weft__family_qwen3;

#endif
