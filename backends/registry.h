/* backends/registry.h -- the backends that this build has. */
#ifndef BACKENDS_REGISTRY_H
#define BACKENDS_REGISTRY_H

#include "weft/backend.h"

extern const weft_backend *const weft__backends[];
extern const int weft__backend_count;

#endif
