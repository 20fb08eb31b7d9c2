/* cli/sampling.c -- how tokens are chosen: what the model says, and what the user says instead. */
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
    weft_model_generation_defaults(model, options);
    take(&o->temperature, sampling->temperature);
    take(&o->top_p, sampling->top_p);
    take(&o->min_p, sampling->min_p);
    take(&o->repetition_penalty, sampling->repetition_penalty);
    if (sampling->top_k != CLI_ABSENT)
        o->top_k = sampling->top_k;
    if (sampling->max_tokens != CLI_ABSENT)
        options->max_tokens = sampling->max_tokens;
    options->seed = (uint64_t)sampling->seed;
}
