/* cli/eval_retrieval.c -- weft eval --task retrieval: how well a model's vectors find the passages
 * of queries. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/train.h"
#include "cli/words.h"
#include "weft/retrieval.h"

static weft_status load_data(const eval_run *run, const weft_embed_settings *settings,
                             weft_dataset **out)
{
    const eval_values *v = run->values;
    const int64_t positions = weft_model_info_of(run->model)->max_positions;
    int64_t most = cli_is_given(&cli_eval, &v->given, "window") ? v->window
                   : settings->max_tokens > 0                   ? settings->max_tokens
                   : positions > 0                              ? positions
                                                                : v->window;
    if (positions > 0 && positions < most)
        most = positions;
    const weft_dataset_options o = {.length = most + 1,
                                    .tokenizer_path = run->subject->path,
                                    .vocabulary = weft_model_info_of(run->model)->vocab_size,
                                    .examples = WEFT_EXAMPLES_TEXTS,
                                    .query_prompt = settings->query_prompt,
                                    .passage_prompt = settings->passage_prompt};
    return cli_data_load(&v->source, run->tokenizer, &o, 0, out, NULL);
}

/* Adds a metric of the result; its scores are owned by the caller of weft eval. */
static weft_status add_metric(const weft_retrieval *found, int m, eval_result *out)
{
    const size_t size = (size_t)found->queries * sizeof(double);
    double *scores = malloc(size);
    if (scores == NULL)
        return weft_fail(WEFT_MEMORY, "eval: out of memory for %lld queries",
                         (long long)found->queries);
    memcpy(scores, found->values + m * found->queries, size);
    out->metrics[m] = (eval_metric){weft_retrieval_metric_name(m), found->mean[m],
                                    found->standard_error[m], scores, true};
    out->n_metrics = m + 1;
    return WEFT_OK;
}

weft_status eval_retrieval(const eval_run *run, eval_result *out)
{
    _Static_assert((int)WEFT_RETRIEVAL_METRICS <= (int)EVAL_METRICS, "a column for each");
    weft_embed_settings settings = {0};
    weft_dataset *data = NULL;
    weft_retrieval found = {0};
    weft_status status =
        embed_settings_of(run->subject->path, run->subject->adapter, NULL, &settings);
    if (status == WEFT_OK)
        status = embed_check_prompts(run->subject->path, &settings);
    if (status == WEFT_OK)
        status = load_data(run, &settings, &data);
    const weft_embed_options o = {.pooling = settings.pooling, .dense = settings.dense};
    if (status == WEFT_OK)
        status = weft_evaluate_retrieval(run->model, data, &o, &found);
    for (int m = 0; status == WEFT_OK && m < WEFT_RETRIEVAL_METRICS; m++)
        status = add_metric(&found, m, out);
    out->n = found.queries;
    out->rows = true;
    weft_retrieval_free(&found);
    weft_dataset_free(data);
    weft_embed_settings_free(&settings);
    return status;
}
