/* tests/bench/drafts.c -- generation with and without proposed tokens, with compiled steps and as
 * graphs, in interleaved rounds: decoding in tokens/s, medians, and the number of accepted
 * proposals.
 *
 *     bench_drafts MODEL [DRAFT [ROUNDS [TOKENS]]]
 *
 * Without a draft, or with "-", the model is its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { WAYS = 6, MOST_ROUNDS = 101 };

static bool hash(void *context, const weft_generated *token)
{
    uint64_t *h = context;
    *h = (*h ^ (uint64_t)token->id) * 1099511628211u;
    return true;
}

int main(int argc, char **argv)
{
    static const char *const names[WAYS] = {"plain, graphs", "plain",          "draft, graphs",
                                            "draft",         "n-gram, graphs", "n-gram"};
    static const int32_t prompt[] = {2010, 370, 627, 258, 550, 451, 309};
    static double rates[WAYS][MOST_ROUNDS], ratios[WAYS][MOST_ROUNDS];
    if (argc < 2) {
        fprintf(stderr, "bench_drafts MODEL [DRAFT [ROUNDS [TOKENS]]]\n");
        return 2;
    }
    const int rounds = argc > 3 && atoi(argv[3]) <= MOST_ROUNDS ? atoi(argv[3]) : 15;
    const int64_t n = argc > 4 ? atol(argv[4]) : 200;
    weft_model *model, *draft;
    check(weft_model_load(argv[1], &(weft_model_options){.dtype = WEFT_FLOAT32}, &model));
    draft = model;
    if (argc > 2 && strcmp(argv[2], "-") != 0)
        check(weft_model_load(argv[2], &(weft_model_options){.dtype = WEFT_FLOAT32}, &draft));
    weft_generate_stats stats[WAYS];
    uint64_t hashes[WAYS];
    for (int r = -1; r < rounds; r++) {
        for (int k = 0; k < WAYS; k++) {
            const int way = (r + 1 + k) % WAYS;
            weft_generate_options o = {.max_tokens = n, .ignore_eos = true};
            o.no_compile = way % 2 == 0;
            o.draft = way / 2 == 1 ? draft : NULL;
            o.ngram = way / 2 == 2 ? 2 : 0;
            hashes[way] = 1;
            check(weft_generate(model, NULL, prompt, sizeof prompt / sizeof *prompt, &o, hash,
                                &hashes[way], &stats[way]));
            if (r >= 0)
                rates[way][r] = stats[way].decode_per_second;
        }
        for (int way = 0; way < WAYS && r >= 0; way++)
            ratios[way][r] = rates[way][r] / rates[1][r];
    }
    for (int way = 0; way < WAYS; way++)
        printf("%-15s %8.1f tokens/s, %.3f of plain; %lld of %lld proposals taken%s\n", names[way],
               median(rates[way], rounds), median(ratios[way], rounds),
               (long long)stats[way].accepted, (long long)stats[way].drafted,
               hashes[way] == hashes[1] ? "" : ", OTHER TOKENS");
    if (draft != model)
        weft_model_free(draft);
    weft_model_free(model);
    return 0;
}
