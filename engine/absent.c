/* engine/absent.c -- where Weft is built without backends that are other programs. */
#include "engine/engine.h"

const weft_engine_backend *const weft__engine_programs[] = {NULL};
const int weft__engine_n_programs = 0;
