/* backends/registry.c -- the backends that this build has. */
#include "backends/registry.h"

#include "backends/cpu/backend.h"

const weft_backend *const weft__backends[] = {&weft__cpu_backend};
const int weft__backend_count = sizeof weft__backends / sizeof *weft__backends;
