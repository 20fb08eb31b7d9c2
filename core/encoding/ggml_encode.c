/* core/encoding/ggml_encode.c -- encodes floats as GGUF's Q8_0 and Q4_0. For finite numbers the
 * result equals ggml's bit for bit; NaN becomes 0. */
#include "core/encoding/ggml.h"

#include <math.h>

enum { SMALL = 32, MOST = 15 };

static void q8_0(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < SMALL; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    weft__ggml_put_half(b, d);
    for (int i = 0; i < SMALL; i++) {
        b[2 + i] = (uint8_t)(int8_t)weft__ggml_whole(roundf(x[i] * inverse), -127, 127);
    }
}

/* The element of largest magnitude gets code 0. */
static void q4_0(const float *x, uint8_t *b)
{
    float most = 0, edge = 0;
    for (int i = 0; i < SMALL; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            edge = x[i];
        }
    }
    const float d = edge / -8, inverse = d != 0 ? 1 / d : 0;
    weft__ggml_put_half(b, d);
    for (int i = 0; i < SMALL / 2; i++) {
        const float low = x[i] == x[i] ? x[i] : 0;
        const float high = x[i + SMALL / 2] == x[i + SMALL / 2] ? x[i + SMALL / 2] : 0;
        b[2 + i] = (uint8_t)(weft__ggml_whole(low * inverse + 8.5f, 0, MOST) |
                             weft__ggml_whole(high * inverse + 8.5f, 0, MOST) << 4);
    }
}

WEFT__GGML_BLOCKS(q4_0)
WEFT__GGML_BLOCKS(q8_0)
