/* backends/cpu/random.c -- random words, many blocks at a time; ops/random/bits.c defines them. */
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/structure.h"

enum { BLOCKS = 256, GRAIN = 1 << 13 };

typedef struct words {
    uint32_t key[2];
    char *out;
    int64_t bytes, half,
        second; /* blocks are (i, i + second), for i < half, and possibly (half, 0) */
} words;

/* Stores the words with indices from `first` on, as far as they exist. */
static void put(const words *w, int64_t first, const uint32_t *values, int64_t n)
{
    int64_t left = w->bytes - first * 4;
    memcpy(w->out + first * 4, values, (size_t)(left < n * 4 ? left : n * 4));
}

void weft__cpu_random_words(const uint32_t key[2], int64_t count, int64_t first, int64_t n,
                            uint32_t *a, uint32_t *b)
{
    const int64_t half = count / 2, second = half + count % 2;
    for (int64_t i = 0; i < n; i++) {
        a[i] = (uint32_t)(first + i);
        b[i] = first + i < half ? (uint32_t)(first + i + second) : 0;
    }
    weft__cpu_kernels()->threefry(key, a, b, n);
}

static void make_words(void *context, int64_t begin, int64_t end, int worker)
{
    const words *w = context;
    uint32_t a[BLOCKS], b[BLOCKS];
    (void)worker;
    for (int64_t first = begin; first < end; first += BLOCKS) {
        int64_t n = end - first < BLOCKS ? end - first : BLOCKS;
        weft__cpu_random_words(w->key, w->half + w->second, first, n, a, b);
        put(w, first, a, n);
        int64_t pairs = w->half - first < n ? w->half - first : n;
        if (pairs > 0) {
            put(w, first + w->second, b, pairs);
        }
    }
}

weft_status weft__cpu_random_bits(const weft_call *call)
{
    const weft_tensor *keys = &call->in[0], *out = &call->out[0];
    int64_t n = weft_tensor_size(keys) / 2;
    words w = {.out = out->data};
    w.bytes = weft_tensor_size(out) * (int64_t)weft_dtype_size(out->dtype) / (n ? n : 1);
    int64_t count = (w.bytes + 3) / 4;
    w.half = count / 2;
    w.second = w.half + count % 2;
    for (int64_t i = 0; i < n; i++, w.out += w.bytes) {
        w.key[0] = (uint32_t)weft_tensor_get_int(keys, 2 * i);
        w.key[1] = (uint32_t)weft_tensor_get_int(keys, 2 * i + 1);
        weft__cpu_parallel(w.second, GRAIN, make_words, &w);
    }
    return WEFT_OK;
}
