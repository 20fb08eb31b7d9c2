/* tests/bench/fusion.c -- a chain of 20 elementwise ops on 64 MB of float32 against memcpy and
 * against one op at a time, and fused reductions of chains against reductions of stored chains; in
 * interleaved rounds.
 *
 *     bench_fusion [ROUNDS]        rounds of all of them (default 15); medians, of ratios too
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { ELEMENTS = 16 << 20, CHAIN = 20, THREADS_MAX = 256, ROUNDS_MAX = 1000 };

/* ---- memcpy, by as many threads as the ops have --------------------------------------------- */

typedef struct piece {
    const char *from;
    char *to;
    size_t bytes;
    pthread_barrier_t *begin;
} piece;

static void *copy_piece(void *context)
{
    const piece *p = context;
    pthread_barrier_wait(p->begin);
    memcpy(p->to, p->from, p->bytes);
    return NULL;
}

/* The time from when all threads have started. */
static double time_memcpy(char *to, const char *from, size_t bytes, int threads)
{
    pthread_t ids[THREADS_MAX];
    piece pieces[THREADS_MAX];
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        size_t first = bytes / (size_t)threads * (size_t)i;
        size_t end = i == threads - 1 ? bytes : bytes / (size_t)threads * (size_t)(i + 1);
        pieces[i] = (piece){from + first, to + first, end - first, &begin};
        if (i > 0 && pthread_create(&ids[i], NULL, copy_piece, &pieces[i]) != 0) {
            exit(1);
        }
    }
    pthread_barrier_wait(&begin);
    double began = seconds();
    memcpy(pieces[0].to, pieces[0].from, pieces[0].bytes);
    for (int i = 1; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    double took = seconds() - began;
    pthread_barrier_destroy(&begin);
    return took;
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

/* ---- reductions ----------------------------------------------------------------------------- */

typedef struct cost {
    double seconds;
    int64_t bytes; /* peak bytes beyond those before */
} cost;

/* The mean of (x - y)^2, of all or of each column; the squares are stored when `apart`. */
static cost time_reduction(weft_array *x, weft_array *y, weft_dims axes, bool apart)
{
    weft_scope_open();
    weft_memory_reset_peak();
    int64_t active = weft_memory_active();
    double began = seconds();
    weft_array *squares = weft_square(weft_subtract(x, y));
    squares = apart ? ready(squares) : squares;
    ready(weft_mean(squares, axes, false));
    cost c = {seconds() - began, weft_memory_peak() - active};
    weft_scope_close(NULL);
    return c;
}

static void keep_reduction(weft_array *x, weft_array *y, weft_dims axes, double *apart,
                           double *merged, cost *stored, cost *read)
{
    *stored = time_reduction(x, y, axes, true);
    *read = time_reduction(x, y, axes, false);
    *apart = stored->seconds;
    *merged = read->seconds;
}

static double median_ratio(const double *a, const double *b, int n)
{
    double ratios[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        ratios[i] = a[i] / b[i];
    }
    return median(ratios, n);
}

typedef struct results {
    double copy[ROUNDS_MAX], one[ROUNDS_MAX], chain[ROUNDS_MAX], apart[ROUNDS_MAX];
    double stored[2][ROUNDS_MAX], read[2][ROUNDS_MAX];
    cost stored_cost[2], read_cost[2];
} results;

static void print_results(const results *r, int rounds, int threads)
{
    static const char *const names[2] = {"all of them", "each column"};
    const double gb = 2e-9 * (double)((size_t)ELEMENTS * sizeof(float));
    const double *const rows[3] = {r->copy, r->one, r->chain};
    static const char *const labels[3] = {"memcpy", "1 op", "20 ops"};
    printf("%d threads, 64 MB read and 64 MB written, medians of %d\n", threads, rounds);
    for (int i = 0; i < 3; i++) {
        double t = median(rows[i], rounds);
        printf("%-18s %8.2f ms  %6.2f GB/s: %.2f of memcpy's rate\n", labels[i], 1e3 * t, gb / t,
               median_ratio(r->copy, rows[i], rounds));
    }
    const int few = (rounds + 2) / 3;
    printf("20 ops, one by one %8.2f ms: %.1f times as long\n", 1e3 * median(r->apart, few),
           median_ratio(r->apart, r->chain, few));
    for (int i = 0; i < 2; i++) {
        printf("mean of squares of differences, %s: %.2f ms and %lld KB, stored first %.2f ms and "
               "%lld KB: %.2f of the time\n",
               names[i], 1e3 * median(r->read[i], rounds), (long long)r->read_cost[i].bytes >> 10,
               1e3 * median(r->stored[i], rounds), (long long)r->stored_cost[i].bytes >> 10,
               median_ratio(r->read[i], r->stored[i], rounds));
    }
}

int main(int argc, char **argv)
{
    static results r;
    int rounds = argc > 1 ? atoi(argv[1]) : 15, threads = weft_threads();
    const size_t bytes = (size_t)ELEMENTS * sizeof(float);
    weft_scope_open();
    weft_dims shape = WEFT_DIMS(ELEMENTS / 256, 256);
    weft_array *x = ready(weft_random_uniform(weft_random_key(1), shape, -1, 1, WEFT_FLOAT32));
    weft_array *y = ready(weft_random_uniform(weft_random_key(2), shape, -1, 1, WEFT_FLOAT32));
    weft_array *numbers[4];
    for (int i = 0; i < 4; i++) {
        numbers[i] = ready(weft_full((weft_dims){0}, 0.5 + 0.25 * i, WEFT_FLOAT32));
    }
    char *from = aligned_alloc(2 << 20, bytes), *to = aligned_alloc(2 << 20, bytes);
    if (!from || !to || threads > THREADS_MAX || rounds < 1 || rounds > ROUNDS_MAX) {
        return 1;
    }
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int i = 0; i < rounds; i++) {
        r.copy[i] = time_memcpy(to, from, bytes, threads);
        r.chain[i] = time_chain(x, numbers, CHAIN, false);
        r.one[i] = time_chain(x, numbers, 1, false);
        if (i < (rounds + 2) / 3) {
            r.apart[i] = time_chain(x, numbers, CHAIN, true);
        }
    }
    for (int i = 0; i < rounds; i++) {
        keep_reduction(x, y, WEFT_DIMS(-2, -1), &r.stored[0][i], &r.read[0][i], &r.stored_cost[0],
                       &r.read_cost[0]);
        keep_reduction(x, y, WEFT_DIMS(-2), &r.stored[1][i], &r.read[1][i], &r.stored_cost[1],
                       &r.read_cost[1]);
    }
    print_results(&r, rounds, threads);
    weft_scope_close(NULL);
    free(from);
    free(to);
    return 0;
}
