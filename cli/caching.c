/* cli/caching.c -- the size of the KV cache, from the options and the available memory. */
#include "cli/caching.h"

weft_status cli_caching_apply(const char *command, const cli_caching *caching, weft_model *model,
                              weft_cache_options *options)
{
    weft_cache_plan plan;
    if (model == NULL) {
        if (caching->max_context == CLI_ABSENT && caching->sink_tokens == CLI_ABSENT &&
            caching->kv_bits == CLI_ABSENT)
            return WEFT_OK;
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: --max-context, --sink-tokens and --kv-bits need the native "
                         "backend",
                         command);
    }
    /* In weft_cache_options 0 selects the default. A negative max_context means no limit, and a
     * negative sink_tokens means no sinks. */
    if (caching->max_context != CLI_ABSENT)
        options->max_context = caching->max_context > 0 ? caching->max_context : -1;
    if (caching->sink_tokens != CLI_ABSENT)
        options->sink_tokens = caching->sink_tokens > 0 ? caching->sink_tokens : -1;
    const int64_t bits = caching->kv_bits;
    if (bits != CLI_ABSENT && bits != 32 && bits != 16 && bits != 8 && bits != 4)
        return weft_fail(WEFT_INVALID, "%s: --kv-bits: expected 32, 16, 8 or 4, got %lld", command,
                         (long long)bits);
    if (bits != CLI_ABSENT)
        options->kv_bits = (int)bits;
    const weft_status status = weft_model_plan_caches(model, options, &plan);
    if (status == WEFT_OK && plan.reduced)
        fprintf(stderr, "weft: %s: memory is short: the KV cache holds %s tokens\n", command,
                cli_count(plan.max_context));
    return status;
}
