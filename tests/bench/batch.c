/* tests/bench/batch.c -- texts generated together against the same texts one after another, in
 * interleaved rounds: total tokens/s, medians.
 *
 *     bench_batch FOLDER [ROUNDS [TOKENS]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { MOST_ROUNDS = 101, MOST_TEXTS = 16, PROMPT = 7, SIZES = 5 };

static bool count(void *context, const weft_generated *token)
{
    *(int64_t *)context += token->id >= 0;
    return true;
}

/* Tokens a second of `n` texts, prompts included. */
static double together(weft_model *model, const weft_generate_request *requests, int n)
{
    weft_generated_row rows[MOST_TEXTS];
    const weft_generate_batch_options o = {.rows = n};
    int64_t tokens = 0;
    const double start = seconds();
    check(weft_generate_batch(model, NULL, requests, (size_t)n, &o, NULL, NULL, rows));
    const double taken = seconds() - start;
    for (int i = 0; i < n; i++) {
        if (rows[i].status != WEFT_OK) {
            fprintf(stderr, "%s\n", rows[i].message);
            exit(1);
        }
        tokens += (int64_t)rows[i].n;
    }
    weft_generated_rows_free(rows, (size_t)n);
    return (double)tokens / taken;
}

static double one_by_one(weft_model *model, const weft_generate_request *requests, int n)
{
    int64_t tokens = 0;
    const double start = seconds();
    for (int i = 0; i < n; i++)
        check(weft_generate(model, NULL, requests[i].prompt.ids, requests[i].prompt.n,
                            requests[i].options, count, &tokens, NULL));
    return (double)tokens / (seconds() - start);
}

int main(int argc, char **argv)
{
    static const int sizes[SIZES] = {1, 2, 4, 8, 16};
    static double all[SIZES][MOST_ROUNDS], solo[SIZES][MOST_ROUNDS], ratios[SIZES][MOST_ROUNDS];
    static int32_t prompts[MOST_TEXTS][PROMPT];
    weft_generate_request requests[MOST_TEXTS];
    if (argc < 2) {
        fprintf(stderr, "bench_batch FOLDER [ROUNDS [TOKENS]]\n");
        return 2;
    }
    const int rounds = argc > 2 && atoi(argv[2]) <= MOST_ROUNDS ? atoi(argv[2]) : 7;
    const weft_generate_options o = {.max_tokens = argc > 3 ? atol(argv[3]) : 100,
                                     .ignore_eos = true};
    weft_model *model;
    check(weft_model_load(argv[1], &(weft_model_options){.dtype = WEFT_FLOAT32}, &model));
    for (int i = 0; i < MOST_TEXTS; i++) {
        for (int k = 0; k < PROMPT; k++)
            prompts[i][k] = 100 + 37 * i + 11 * k;
        requests[i] =
            (weft_generate_request){.prompt = {.ids = prompts[i], .n = PROMPT}, .options = &o};
    }
    for (int r = -1; r < rounds; r++) {
        for (int s = 0; s < SIZES; s++) {
            const double one = one_by_one(model, requests, sizes[s]);
            const double many = together(model, requests, sizes[s]);
            if (r < 0)
                continue;
            all[s][r] = many;
            solo[s][r] = one;
            ratios[s][r] = many / one;
        }
    }
    for (int s = 0; s < SIZES; s++)
        printf("%2d texts: together %8.1f tokens/s, one by one %8.1f, %.2f times as many\n",
               sizes[s], median(all[s], rounds), median(solo[s], rounds),
               median(ratios[s], rounds));
    weft_model_free(model);
    return 0;
}
