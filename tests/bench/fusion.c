/* tests/bench/fusion.c -- a chain of 20 elementwise ops on 64 MB of float32 against memcpy and
 * against one op at a time, in turn, so that all meet the same weather.
 *
 *     bench_fusion [ROUNDS]        rounds of all of them (default 15); the best of each counts
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/ops.h"
#include "weft/random.h"

enum { ELEMENTS = 16 << 20, CHAIN = 20, THREADS_MAX = 256 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- memcpy, by as many threads as the ops have --------------------------------------------- */

typedef struct piece {
    const char *from;
    char *to;
    size_t bytes;
} piece;

static void *copy_piece(void *context)
{
    const piece *p = context;
    memcpy(p->to, p->from, p->bytes);
    return NULL;
}

static double time_memcpy(char *to, const char *from, size_t bytes, int threads)
{
    pthread_t ids[THREADS_MAX];
    piece pieces[THREADS_MAX];
    double began = seconds();
    for (int i = 0; i < threads; i++) {
        size_t begin = bytes / (size_t)threads * (size_t)i;
        size_t end = i == threads - 1 ? bytes : bytes / (size_t)threads * (size_t)(i + 1);
        pieces[i] = (piece){from + begin, to + begin, end - begin};
        if (i > 0 && pthread_create(&ids[i], NULL, copy_piece, &pieces[i]) != 0) {
            exit(1);
        }
    }
    copy_piece(&pieces[0]);
    for (int i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return seconds() - began;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static weft_array *ready(weft_array *a)
{
    if (weft_eval(a) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        exit(1);
    }
    return a;
}

/* The first `ops` of the chain; each evaluated before the next when `one_by_one`. */
static weft_array *chain(weft_array *x, weft_array *const *numbers, int ops, bool one_by_one)
{
    weft_array *y = x;
    for (int i = 0; i < ops; i++) {
        weft_array *c = numbers[i % 4];
        y = i % 4 == 0   ? weft_multiply(y, c)
            : i % 4 == 1 ? weft_add(y, c)
            : i % 4 == 2 ? weft_maximum(y, c)
                         : weft_subtract(y, c);
        y = one_by_one ? ready(y) : y;
    }
    return y;
}

static double time_chain(weft_array *x, weft_array *const *numbers, int ops, bool one_by_one)
{
    weft_scope_open();
    double began = seconds();
    ready(chain(x, numbers, ops, one_by_one));
    double took = seconds() - began;
    weft_scope_close(NULL);
    return took;
}

static void keep_best(double *best, double took)
{
    *best = took < *best ? took : *best;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 15, threads = weft_threads();
    const size_t bytes = (size_t)ELEMENTS * sizeof(float);
    weft_scope_open();
    weft_array *x =
        ready(weft_random_uniform(weft_random_key(1), WEFT_DIMS(ELEMENTS), -1, 1, WEFT_FLOAT32));
    weft_array *numbers[4];
    for (int i = 0; i < 4; i++) {
        numbers[i] = ready(weft_full((weft_dims){0}, 0.5 + 0.25 * i, WEFT_FLOAT32));
    }
    char *from = aligned_alloc(2 << 20, bytes), *to = aligned_alloc(2 << 20, bytes);
    if (!from || !to || threads > THREADS_MAX) {
        return 1;
    }
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double copy = 1e9, fused = 1e9, single = 1e9, apart = 1e9;
    for (int i = 0; i < rounds; i++) {
        keep_best(&copy, time_memcpy(to, from, bytes, threads));
        keep_best(&fused, time_chain(x, numbers, CHAIN, false));
        keep_best(&single, time_chain(x, numbers, 1, false));
        if (i < (rounds + 2) / 3) {
            keep_best(&apart, time_chain(x, numbers, CHAIN, true));
        }
    }
    const double gb = 2e-9 * (double)bytes;
    printf("%d threads, 64 MB read and 64 MB written, best of %d\n", threads, rounds);
    printf("memcpy              %8.2f ms  %6.2f GB/s\n", 1e3 * copy, gb / copy);
    printf("1 op                %8.2f ms  %6.2f GB/s\n", 1e3 * single, gb / single);
    printf("%d ops              %8.2f ms  %6.2f GB/s: %.2f of memcpy's rate\n", CHAIN, 1e3 * fused,
           gb / fused, copy / fused);
    printf("%d ops, one by one  %8.2f ms: %.1f times as long\n", CHAIN, 1e3 * apart, apart / fused);
    weft_scope_close(NULL);
    free(from);
    free(to);
    return 0;
}
