/* cli/eval_loss.c -- weft eval --task loss: the loss of a model on data, in windows. */
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/words.h"

static bool show(void *context, int64_t targets, int64_t total)
{
    const eval_run *run = context;
    cli_progress_show(run->progress, (double)targets / (double)total, false, "%s: %s of %s tokens",
                      run->subject->name, cli_count(targets), cli_count(total));
    return true;
}

weft_status eval_load_data(const eval_run *run, weft_dataset **out)
{
    const eval_values *v = run->values;
    const weft_model_info *info = weft_model_info_of(run->model);
    const bool classifies = run->labels->n > 0;
    int64_t window = v->window;
    if (classifies && info->encoder && window > info->max_positions) {
        if (cli_is_given(&cli_eval, &v->given, "window"))
            return weft_fail(WEFT_INVALID,
                             "--window: expected at most %lld, the positions of %s, got %lld",
                             (long long)info->max_positions, weft_printable(run->subject->path),
                             (long long)window);
        window = info->max_positions;
    }
    /* Windows overlap by one token: the first token of a window is not predicted in it, but as the
     * last token of the previous window. */
    const weft_dataset_options o = {.length = window + 1,
                                    .stride = window,
                                    .tokenizer_path = run->subject->path,
                                    .vocabulary = info->vocab_size,
                                    .chat = run->chat,
                                    .labels = classifies ? run->labels : NULL};
    if (!(v->last > 0))
        return cli_data_load(&v->source, run->tokenizer, &o, 0, out, NULL);
    weft_dataset *front = NULL;
    weft_status status = cli_data_load(&v->source, run->tokenizer, &o, v->last, &front, out);
    weft_dataset_free(front);
    return status;
}

weft_status eval_loss(const eval_run *run, eval_result *out)
{
    weft_dataset *data = NULL;
    weft_evaluation found = {0};
    const weft_evaluate_options o = {
        .batch_size = run->values->batch_size, .callback = show, .context = (void *)run};
    weft_status status = eval_load_data(run, &data);
    if (status == WEFT_OK)
        status = weft_evaluate(run->model, data, &o, &found);
    weft_dataset_free(data);
    out->metrics[0] = (eval_metric){"loss", found.loss, found.standard_error, NULL, false};
    out->metrics[1] = (eval_metric){"perplexity", found.perplexity,
                                    found.perplexity * found.standard_error, NULL, false};
    out->n_metrics = 2;
    out->n = found.targets;
    return status;
}
