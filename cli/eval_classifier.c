/* cli/eval_classifier.c -- the loss and the accuracy of classifiers on rows with text and label. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"

static bool same_labels(const weft_labels *a, const weft_labels *b)
{
    for (int i = 0; a->n == b->n && i < a->n; i++) {
        if (strcmp(a->at[i], b->at[i]) != 0)
            return false;
    }
    return a->n == b->n;
}

/* A list of adapters and a GGUF adapter are not folders, and cannot be classifiers. */
weft_status cli_labels_of(const char *path, const char *adapter, weft_labels *out)
{
    return adapter && cli_is_folder(adapter) ? weft_adapter_labels(adapter, out)
                                             : weft_model_labels(path, out);
}

weft_status eval_find_labels(const eval_subject *subjects, int n, weft_labels *out)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        weft_labels own = {0};
        const bool adapter = subjects[i].adapter != NULL && cli_is_folder(subjects[i].adapter);
        status = cli_labels_of(subjects[i].path, subjects[i].adapter, &own);
        if (status == WEFT_OK && out->n == 0) {
            *out = own;
            continue;
        }
        if (status == WEFT_OK && (adapter || own.n > 0) && !same_labels(&own, out))
            status = weft_fail(WEFT_INVALID, "eval: %s has other labels than those before",
                               weft_printable(subjects[i].name));
        weft_labels_free(&own);
    }
    return status;
}

static bool show(void *context, int64_t targets, int64_t total)
{
    const eval_run *run = context;
    cli_progress_show(run->progress, (double)targets / (double)total, false, "%s: %s of %s rows",
                      run->subject->name, cli_count(targets), cli_count(total));
    return true;
}

/* Measures the baseline: it always predicts the most frequent label, with the frequencies of the
 * labels as probabilities. */
static weft_status measure_shares(const weft_dataset *data, int n_labels, weft_evaluation *out)
{
    const int64_t n = weft_dataset_info_of(data).samples;
    int64_t most = 0, *counts = calloc((size_t)n_labels, sizeof *counts);
    double squares = 0;
    if (counts == NULL)
        return weft_fail(WEFT_MEMORY, "eval: out of memory for %d labels", n_labels);
    for (int64_t i = 0; i < n; i++) {
        const weft_sample s = weft_dataset_at(data, i);
        counts[s.ids[s.length - 1]]++;
    }
    for (int i = 0; i < n_labels; i++) {
        const double share = (double)counts[i] / (double)n;
        most = counts[i] > most ? counts[i] : most;
        out->loss -= counts[i] > 0 ? share * log(share) : 0;
        squares += counts[i] > 0 ? share * log(share) * log(share) : 0;
    }
    free(counts);
    out->accuracy = (double)most / (double)n;
    out->standard_error =
        n > 1 ? sqrt(fmax(squares - out->loss * out->loss, 0) / (double)(n - 1)) : 0;
    out->targets = n;
    return WEFT_OK;
}

weft_status eval_classifier(const eval_run *run, eval_result *out)
{
    weft_dataset *data = NULL;
    weft_evaluation found = {0};
    const bool head = weft_model_info_of(run->model)->n_labels > 0;
    const weft_evaluate_options o = {
        .batch_size = run->values->batch_size, .callback = show, .context = (void *)run};
    weft_status status = WEFT_OK;
    if (!head && run->subject->adapter)
        status = weft_fail(WEFT_INVALID, "eval: %s is not of a classifier, as others are",
                           weft_printable(run->subject->name));
    if (status == WEFT_OK)
        status = eval_load_data(run, &data);
    if (status == WEFT_OK)
        status = head ? weft_evaluate(run->model, data, &o, &found)
                      : measure_shares(data, run->labels->n, &found);
    weft_dataset_free(data);
    const double share = found.accuracy, n = (double)found.targets;
    const double error = n > 1 ? sqrt(share * (1 - share) / (n - 1)) : (double)NAN;
    out->name = head ? out->name : "label frequencies";
    out->metrics[0] = (eval_metric){"loss", found.loss, found.standard_error, NULL, false};
    out->metrics[1] = (eval_metric){"accuracy", share, error, NULL, true};
    out->n_metrics = 2;
    out->n = found.targets;
    out->rows = true;
    return status;
}
