/* tests/fuzz/fuzz_run.c -- a run.json, NUL, and a metrics.jsonl: the run's report, command and
 * exports, and the metrics continued after update 2. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/fuzz/input.h"
#include "train/run/metrics.h"
#include "train/run/place.h"
#include "weft/tool/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void continue_metrics(const char *folder)
{
    weft__metrics *metrics;
    if (weft__metrics_open(folder, 2, false, &metrics) != WEFT_OK)
        return;
    for (int64_t step = 2; step < 4; step++) {
        const weft_train_report report = {
            .step = step, .loss = 1, .validation_loss = 2, .validation_accuracy = 0.5};
        (void)weft__metrics_add(metrics, &report); /* fails only without memory */
    }
    (void)weft__metrics_finish(metrics);
    weft__metrics_free(metrics);
}

/* What is written of a run beside itself. */
static void export_history(const char *folder)
{
    weft_history *run;
    if (weft_history_load(folder, &run) != WEFT_OK)
        return;
    weft_history *const two[] = {run, run};
    char path[256];
    snprintf(path, sizeof path, "%s/two.html", folder);
    (void)weft_histories_page(two, 2, path);
    snprintf(path, sizeof path, "%s/two.csv", folder);
    (void)weft_histories_csv(two, 2, path);
    (void)weft_histories_events(two, 1, folder);
    weft_history_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *folder = input_folder();
    const size_t n = input_head(data, size), rest = n < size ? size - n - 1 : 0;
    weft_run_words words;
    if (folder == NULL || !input_member(WEFT__RUN_FILE, data, n) ||
        !input_member("metrics.jsonl", data + size - rest, rest))
        return 0;
    weft_set_log(input_drop_log, NULL);
    (void)weft_run_exists(folder);
    (void)weft_run_report(folder);
    if (weft_run_command(folder, &words) == WEFT_OK)
        weft_run_words_free(&words);
    continue_metrics(folder);
    export_history(folder);
    (void)weft_run_report(folder);
    return 0;
}
