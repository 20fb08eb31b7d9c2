/* cli/sampling.c -- sampling options: the model's defaults, overridden by the command line. */
#include "cli/sampling.h"

static void take(double *field, double said)
{
    if (!isnan(said))
        *field = said;
}

void cli_sampling_apply(const cli_sampling *sampling, const weft_model *model,
                        weft_generate_options *options)
{
    weft_sampler_options *o = &options->sampler;
    o->temperature = 0.7;
    if (model != NULL)
        weft_model_generation_defaults(model, options);
    take(&o->temperature, sampling->temperature);
    take(&o->top_p, sampling->top_p);
    take(&o->min_p, sampling->min_p);
    take(&o->repetition_penalty, sampling->repetition_penalty);
    take(&o->presence_penalty, sampling->presence_penalty);
    take(&o->frequency_penalty, sampling->frequency_penalty);
    take(&o->xtc_probability, sampling->xtc_probability);
    take(&o->xtc_threshold, sampling->xtc_threshold);
    o->bias_ids = sampling->logit_bias.ids;
    o->bias_values = sampling->logit_bias.values;
    o->n_bias = sampling->logit_bias.n;
    if (sampling->suppress.n > 0) {
        o->suppress = sampling->suppress.at;
        o->n_suppress = sampling->suppress.n;
    }
    options->stop = sampling->stop_tokens.at;
    options->n_stop = sampling->stop_tokens.n;
    if (sampling->top_k != CLI_ABSENT)
        o->top_k = sampling->top_k;
    if (sampling->order >= 0)
        o->order = (weft_sampler_order)sampling->order;
    if (sampling->max_tokens != CLI_ABSENT)
        options->max_tokens = sampling->max_tokens;
    if (sampling->seed != CLI_ABSENT)
        options->seed = (uint64_t)sampling->seed;
}

weft_status cli_sampling_protect(const weft_tokenizer *tokenizer, const weft_model *model,
                                 cli_ids *keep, weft_generate_options *options)
{
    if (options->sampler.xtc_probability == 0)
        return WEFT_OK;
    int32_t *line;
    size_t n_line;
    int n = 0;
    const int32_t *eos = weft_model_eos(model, &n);
    weft_status status = weft_tokenizer_encode(tokenizer, "\n", 1, 0, &line, &n_line);
    if (status != WEFT_OK)
        return status;
    keep->n = 0;
    for (int i = 0; i < n && keep->n < CLI_MOST - 1; i++)
        keep->at[keep->n++] = eos[i];
    if (n_line > 0)
        keep->at[keep->n++] = line[n_line - 1];
    weft_free(line);
    options->sampler.xtc_keep = keep->at;
    options->sampler.n_xtc_keep = keep->n;
    return WEFT_OK;
}
