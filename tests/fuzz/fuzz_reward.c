/* tests/fuzz/fuzz_reward.c -- a completion and, after a NUL, the row's answer, which the rewards
 * compare; both also as the lines of a program that computes rewards. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/input.h"
#include "train/reward.h"
#include "weft/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COMPLETIONS = 3, REWARDS = 6 };

/* Reads the lines of a text as a program's answers; aborts at a reward that is not checked again.
 */
static void read_answers(const char *text)
{
    bool missing[COMPLETIONS] = {true, true, true};
    double out[COMPLETIONS];
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, "\n");
        char *line = weft_format("%.*s", (int)(end - at), at);
        if (line)
            (void)weft__reward_answer(line, (size_t)(end - at), "answer", missing, COMPLETIONS, out,
                                      1);
        weft_free(line);
    }
    for (int i = 0; i < COMPLETIONS; i++) {
        if (!missing[i] && isinf(out[i]))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_rewards *rewards;
    static const char *const kinds[REWARDS] = {"exact",     "exact:number",   "exact:boxed",
                                               "exact:<a>", "pattern:(a+)+b", "length:2,4"};
    double out[REWARDS];
    const size_t n = input_head(data, size);
    char *text = weft_format("%.*s", (int)n, (const char *)data),
         *answer = weft_format("%.*s", (int)(n < size ? size - n - 1 : 0),
                               n < size ? (const char *)data + n + 1 : "");
    weft_set_log(input_drop_log, NULL);
    if (rewards == NULL && weft_rewards_new(kinds, REWARDS, NULL, &rewards) != WEFT_OK)
        abort();
    if (text && answer) {
        const weft_completion c = {.where = "row",
                                   .prompt = "",
                                   .text = text,
                                   .row = "{}",
                                   .answers = (const char *const *)&answer,
                                   .n_answers = 1,
                                   .tokens = (int64_t)(size % 6)};
        if (weft_rewards_score(rewards, &c, 1, NULL, out) == WEFT_OK) {
            for (int i = 0; i < REWARDS; i++) {
                if (!isnan(out[i]) && !(out[i] >= -1 && out[i] <= 1))
                    abort();
            }
        }
        read_answers(text);
        read_answers(answer);
    }
    weft_free(text);
    weft_free(answer);
    return 0;
}
