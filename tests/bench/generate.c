/* tests/bench/generate.c -- several ways of generating the same tokens, in interleaved rounds:
 * decoding in tokens/s, medians.
 *
 *     bench_generate ahead|probes FOLDER [ROUNDS [TOKENS [DEVICE]]]
 *
 * ahead: 1, 2, 4, 8 tokens an evaluation. probes: no probe, a probe without events,
 * entropies, everything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "weft/weft.h"

enum { WAYS = 4, MOST_ROUNDS = 101 };

static void ignore(void *context, const weft_probe_event *event)
{
    (void)event;
    ++*(long *)context;
}

static bool hash(void *context, const weft_generated *token)
{
    uint64_t *h = context;
    *h = (*h ^ (uint64_t)token->id) * 1099511628211u;
    return true;
}

static double rate(weft_model *model, const weft_generate_options *o, uint64_t *h)
{
    static const int32_t prompt[] = {2010, 370, 627, 258, 550, 451, 309};
    weft_generate_stats stats;
    check(weft_generate(model, NULL, prompt, sizeof prompt / sizeof *prompt, o, hash, h, &stats));
    return stats.decode_per_second;
}

int main(int argc, char **argv)
{
    static const char *const names[2][WAYS] = {
        {"1 token", "2 tokens", "4 tokens", "8 tokens"},
        {"nobody watches", "nothing wanted", "entropies", "everything"}};
    static double rates[WAYS][MOST_ROUNDS], ratios[WAYS][MOST_ROUNDS];
    const bool probes = argc > 1 && strcmp(argv[1], "probes") == 0;
    if (argc < 3 || (!probes && strcmp(argv[1], "ahead") != 0)) {
        fprintf(stderr, "bench_generate ahead|probes FOLDER [ROUNDS [TOKENS [DEVICE]]]\n");
        return 2;
    }
    const int rounds = argc > 3 ? atoi(argv[3]) : 15;
    const int64_t n = argc > 4 ? atol(argv[4]) : 200;
    if (argc > 5)
        weft_set_default_device(weft_device_get(argv[5]));
    weft_model *model;
    check(weft_model_load(argv[2], &(weft_model_options){.dtype = WEFT_FLOAT32}, &model));
    long events = 0;
    const unsigned kinds[WAYS] = {0, 0, WEFT_PROBE_ENTROPY, 0x7F};
    uint64_t hashes[WAYS];
    for (int r = -1; r < rounds && r < MOST_ROUNDS; r++) {
        for (int k = 0; k < WAYS; k++) {
            const int way = (r + k + WAYS) % WAYS;
            const weft_probe probe = {.kinds = kinds[way], .event = ignore, .context = &events};
            weft_generate_options o = {.max_tokens = n, .ignore_eos = true};
            o.tokens_per_eval = probes ? 1 : (int64_t)1 << way;
            o.probe = probes && way > 0 ? &probe : NULL;
            hashes[way] = 1;
            const double got = rate(model, &o, &hashes[way]);
            if (r >= 0)
                rates[way][r] = got;
        }
        for (int way = 0; way < WAYS && r >= 0; way++)
            ratios[way][r] = rates[way][r] / rates[0][r];
    }
    for (int way = 0; way < WAYS; way++)
        printf("%-16s %8.1f tokens/s, %.4f of the first%s\n", names[probes][way],
               median(rates[way], rounds), median(ratios[way], rounds),
               hashes[way] == hashes[0] ? "" : ", OTHER TOKENS");
    weft_model_free(model);
    return 0;
}
