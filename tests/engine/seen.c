/* tests/engine/seen.c -- records what a call has generated. */
#include "tests/engine/seen.h"

#include <string.h>

bool look(void *context, const weft_generated *token)
{
    seen *s = context;
    if (token->id >= 0 && s->n < 64)
        s->ids[s->n++] = token->id;
    strncat(s->text, token->text, sizeof s->text - strlen(s->text) - 1);
    if (s->cancel != NULL && s->n == 3)
        weft_engine_cancel(s->cancel);
    return s->stop_at == 0 || s->n < s->stop_at;
}
