/* tests/bench/kv_codes.c -- attention for one decoded token over KV caches of floats, of 16 bits
 * and quantized, in interleaved rounds: wall time and processor time in milliseconds, and bytes/s.
 *
 *     bench_kv_codes [CONTEXT [ROUNDS [LAYERS [DTYPE]]]]
 *
 * Heads as Qwen3-0.6B has them. "decoded": codes become floats in memory at each step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { H = 16, HK = 8, D = 128, WAYS = 6, MOST_LAYERS = 64, MOST_ROUNDS = 101, CHUNK = 1024 };

typedef struct way {
    const char *name;
    int bits;
    bool decoded;
    int64_t layers;
    weft_cache *caches[MOST_LAYERS];
    weft_compiled *step;
    int64_t bytes;
    double times[MOST_ROUNDS], processor[MOST_ROUNDS], ratios[MOST_ROUNDS];
} way;

static weft_array *normal(uint64_t seed, int64_t tokens, int64_t heads, weft_dtype dtype)
{
    weft_array *x =
        weft_random_normal(weft_random_key(seed), WEFT_DIMS(1, tokens, heads, D), 0, 1, dtype);
    check(weft_eval(x));
    return x;
}

/* in: the query, a key, a value, the offset. */
static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const way *w = context;
    const weft_attention_options o = {.causal = true};
    weft_array *x = in[0];
    (void)n_in;
    (void)room;
    for (int64_t i = 0; i < w->layers; i++) {
        weft_cache_view view = weft_cache_append(w->caches[i], in[1], in[2], in[3]);
        if (w->decoded)
            view.key_codes.codes = NULL;
        x = weft_cache_attention(x, &view, &o);
    }
    out[0] = x;
    return 1;
}

static void fill(way *w, int64_t layers, int64_t context, weft_dtype dtype)
{
    weft_array **slots[MOST_LAYERS * WEFT_CACHE_SLOTS];
    int n = 0;
    weft_scope_open();
    weft_array *k = normal(1, CHUNK, HK, dtype), *v = normal(2, CHUNK, HK, dtype);
    w->layers = layers;
    for (int64_t i = 0; i < layers; i++) {
        w->caches[i] =
            weft_cache_new_with(&(weft_cache_options){.max_context = -1, .kv_bits = w->bits}, 0);
        for (int64_t at = 0; at < context; at += CHUNK) {
            weft_scope_open();
            check(weft_eval(weft_cache_update(w->caches[i], k, v).keys));
            weft_scope_close(NULL);
        }
        check(weft_cache_reserve(w->caches[i], MOST_ROUNDS + 1));
        const int m = weft_cache_state(w->caches[i], slots + n);
        for (int s = 0; s < m; s++) {
            const weft_array *held = *slots[n + s];
            w->bytes += weft_size(held) / weft_dim(held, 1) * context *
                        (int64_t)weft_dtype_size(weft_dtype_of(held));
        }
        n += m;
    }
    check(weft_compile(step, w, slots, n, &(weft_compile_options){.name = w->name}, &w->step));
    weft_scope_close(NULL);
}

static void run(way *w, weft_dtype dtype, double taken[2])
{
    weft_scope_open();
    const int32_t at = (int32_t)weft_cache_offset(w->caches[0]);
    weft_array *in[] = {normal(3, 1, H, dtype), normal(4, 1, HK, dtype), normal(5, 1, HK, dtype),
                        weft_from_data(&at, WEFT_INT32, WEFT_DIMS(1))};
    weft_array *out[1];
    const double start = seconds_by(CLOCK_MONOTONIC), own = seconds_by(CLOCK_PROCESS_CPUTIME_ID);
    check(weft_compiled_call(w->step, in, 4, out, 1));
    check(weft_eval(out[0]));
    taken[0] = seconds_by(CLOCK_MONOTONIC) - start;
    taken[1] = seconds_by(CLOCK_PROCESS_CPUTIME_ID) - own;
    for (int64_t i = 0; i < w->layers; i++)
        weft_cache_advance(w->caches[i], 1);
    weft_scope_close(NULL);
}

int main(int argc, char **argv)
{
    static way ways[WAYS] = {{.name = "floats"},
                             {.name = "16 bits", .bits = 16},
                             {.name = "8 bits, decoded", .bits = 8, .decoded = true},
                             {.name = "8 bits", .bits = 8},
                             {.name = "4 bits, decoded", .bits = 4, .decoded = true},
                             {.name = "4 bits", .bits = 4}};
    const int64_t context = argc > 1 ? atol(argv[1]) : 4096;
    const int rounds = argc > 2 && atoi(argv[2]) <= MOST_ROUNDS ? atoi(argv[2]) : 15;
    const int64_t layers = argc > 3 && atol(argv[3]) <= MOST_LAYERS ? atol(argv[3]) : 28;
    const bool narrow = argc > 4 && strcmp(argv[4], "bfloat16") == 0;
    const weft_dtype dtype = narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32;
    for (int i = 0; i < WAYS; i++)
        fill(&ways[i], layers, context, dtype);
    for (int r = -1; r < rounds; r++) {
        double taken[WAYS][2];
        for (int k = 0; k < WAYS; k++) {
            const int i = (r + 1 + k) % WAYS;
            run(&ways[i], dtype, taken[i]);
        }
        for (int i = 0; i < WAYS && r >= 0; i++) {
            ways[i].times[r] = taken[i][0];
            ways[i].processor[r] = taken[i][1];
            ways[i].ratios[r] = taken[i][0] / taken[0][0];
        }
    }
    printf("%lld tokens, %lld layers, floats in %s\n", (long long)context, (long long)layers,
           weft_dtype_name(dtype));
    for (int i = 0; i < WAYS; i++) {
        const double own = median(ways[i].processor, rounds);
        printf(
            "%-16s %8.2f ms, %.3f of the first; %8.2f ms of processors for %6.1f MB: %.1f GB/s\n",
            ways[i].name, 1e3 * median(ways[i].times, rounds), median(ways[i].ratios, rounds),
            1e3 * own, 1e-6 * (double)ways[i].bytes, 1e-9 * (double)ways[i].bytes / own);
        for (int64_t l = 0; l < layers; l++)
            weft_cache_free(ways[i].caches[l]);
        weft_compiled_free(ways[i].step);
    }
    return 0;
}
