/* tests/engine/seen.h -- records what a call has generated. */
#ifndef TESTS_ENGINE_SEEN_H
#define TESTS_ENGINE_SEEN_H

#include "weft/engine.h"

typedef struct seen {
    int32_t ids[64];
    int n, stop_at; /* 0: never */
    char text[1024];
    weft_engine *cancel; /* at the third token */
} seen;

/* A weft_generate_fn whose context is a seen. */
bool look(void *context, const weft_generated *token);

#endif
