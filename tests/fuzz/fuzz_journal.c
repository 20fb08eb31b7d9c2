/* tests/fuzz/fuzz_journal.c -- the completions.jsonl of a run, from which a resumed run reads the
 * completions of two prompts, and to which it appends. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/input.h"
#include "train/data/dataset.h"
#include "train/run/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PROMPTS = 2, GROUP = 2 };

static weft_dataset *make_prompts(void)
{
    weft_dataset *d = NULL;
    const int32_t ids[PROMPTS][3] = {{1, 2, 3}, {4, 5}};
    const float weights[3] = {0};
    if (weft_dataset_new(8, &d) != WEFT_OK)
        return NULL;
    d->info.examples = WEFT_EXAMPLES_PROMPTS;
    for (int i = 0; i < PROMPTS; i++) {
        const weft_sample sample = {ids[i], weights, 3 - i, 0};
        if (weft__dataset_append(d, &sample, false) != WEFT_OK)
            abort();
    }
    return d;
}

/* Aborts at what the trainer does not check again. */
static void use(const weft__rollout *r)
{
    const weft_dataset *d = r->dataset;
    if (d == NULL)
        return;
    if (d->info.samples != (int64_t)PROMPTS * GROUP)
        abort();
    for (int64_t i = 0; i < d->info.samples; i++) {
        const weft__dataset_sample *s = &d->samples[i];
        if (s->prompt < 1 || s->prompt >= s->length || isinf(d->rewards[i]))
            abort();
        for (int k = 0; k < r->n_names; k++) {
            if (isinf(r->rewards[i * r->n_names + k]))
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_dataset *prompts;
    static const int64_t which[PROMPTS] = {0, 1}, numbers[PROMPTS] = {3, 3};
    static const char *const names[] = {"exact", "length:1,2"};
    double rewards[PROMPTS * GROUP * 2];
    const char *folder = input_folder();
    prompts = prompts ? prompts : make_prompts();
    if (prompts == NULL || folder == NULL || !input_member("completions.jsonl", data, size))
        return 0;
    weft_set_log(input_drop_log, NULL);
    const weft_objective_options o = {
        .num_generations = GROUP, .max_completion_length = 8, .temperature = 1};
    weft__rollout r = {.prompts = prompts,
                       .which = which,
                       .numbers = numbers,
                       .n = PROMPTS,
                       .group = GROUP,
                       .rewards = rewards,
                       .names = names,
                       .n_names = 2};
    weft__journal *journal = NULL;
    weft__text lines = {0};
    bool found;
    if (weft__journal_open(folder, true, &journal) == WEFT_OK &&
        weft__journal_read(journal, 3, 1, PROMPTS * GROUP, &lines, &found) == WEFT_OK && found &&
        weft__journal_parse(lines.at, lines.n, weft__journal_path(journal), &o, &r) == WEFT_OK)
        use(&r);
    weft_free(lines.at);
    weft_dataset_free(r.dataset);
    weft__journal_free(journal);
    return 0;
}
