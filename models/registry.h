/* models/registry.h -- the literals of the built-in families. */
#ifndef WEFT_MODELS_REGISTRY_H
#define WEFT_MODELS_REGISTRY_H

#include "weft/model.h"

#define FAMILY(name) extern const weft_model_family weft__family_##name;
#include "models/families/table.h"
#undef FAMILY

#endif
