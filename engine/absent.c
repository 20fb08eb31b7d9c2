/* engine/absent.c -- stubs for builds without backends that run other programs. */
#include "engine/engine.h"

const weft_engine_backend *const weft__engine_programs[] = {NULL};
const int weft__engine_n_programs = 0;
