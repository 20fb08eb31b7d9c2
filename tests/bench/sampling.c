/* tests/bench/sampling.c -- measures the time to sample a token, in milliseconds: sampling [V
 * [ROUNDS]]. "sorted": the k largest by sorting the row, which is what a selection replaces. */
#include <stdint.h>

#include "tests/bench/bench.h"
#include "weft/generate.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { VOCABULARY = 151936, ROUNDS = 21, MOST_ROUNDS = 1000, K = 40 };

static const struct {
    const char *name;
    weft_sampler_options options;
} ways[] = {
    {"greedy", {0}},
    {"temperature", {.temperature = 1}},
    {"min-p 0.05", {.temperature = 1, .min_p = 0.05}},
    {"top-k 40", {.temperature = 1, .top_k = K}},
    {"top-k 40, top-p 0.9", {.temperature = 1, .top_k = K, .top_p = 0.9}},
    {"top-p 0.9", {.temperature = 1, .top_p = 0.9}},
};
enum { WAYS = sizeof ways / sizeof *ways };

static double draw(weft_array *x, const weft_sampler_options *o)
{
    weft_scope_open();
    const weft_sampler_inputs in = {.key = weft_random_key(1)};
    const double start = seconds();
    check(weft_eval(weft_sampler_draw(x, &in, o)));
    const double took = seconds() - start;
    weft_scope_close(NULL);
    return 1e3 * took;
}

static double largest(weft_array *x, bool sorted)
{
    weft_scope_open();
    const double start = seconds();
    weft_array *y = weft_topk(x, K, -1);
    if (sorted)
        y = weft_slice(weft_sort(x, -1), WEFT_DIMS(-1), WEFT_DIMS(-1), WEFT_DIMS(-1 - K),
                       WEFT_DIMS(-1));
    check(weft_eval(y));
    const double took = seconds() - start;
    weft_scope_close(NULL);
    return 1e3 * took;
}

int main(int argc, char **argv)
{
    const int V = argc > 1 ? atoi(argv[1]) : VOCABULARY;
    const int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    if (V < 2 * K || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "sampling [V [ROUNDS]]: V from %d, ROUNDS from 1 to %d\n", 2 * K,
                MOST_ROUNDS);
        return 2;
    }
    static double took[WAYS + 2][MOST_ROUNDS];
    weft_array *x = weft_random_normal(weft_random_key(2), WEFT_DIMS(1, V), 0, 3, WEFT_FLOAT32);
    check(weft_eval(x));
    for (int r = -1; r < rounds; r++) { /* the first is not counted */
        for (int w = 0; w < WAYS; w++)
            took[w][r < 0 ? 0 : r] = draw(x, &ways[w].options);
        for (int sorted = 0; sorted < 2; sorted++)
            took[WAYS + sorted][r < 0 ? 0 : r] = largest(x, sorted);
    }
    for (int w = 0; w < WAYS + 2; w++)
        printf("%-22s %7.3f ms\n",
               w < WAYS    ? ways[w].name
               : w == WAYS ? "the 40 largest"
                           : "the same, sorted",
               median(took[w], rounds));
    return 0;
}
