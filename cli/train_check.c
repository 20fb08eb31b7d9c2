/* cli/train_check.c -- checks for options of weft train that exclude each other, and whether --out
 * is writable. */
#include <signal.h>
#include <string.h>

#include "cli/train.h"

bool train_may_validate(const train_values *v)
{
    return v->val_split > 0 || v->val_data != NULL || train_splits_by_default(v);
}

static const char *plan_complaint(const train_values *v)
{
    const bool validated = train_may_validate(v);
    if (v->patience > 0 && !validated)
        return "--patience counts validations, which need --val-split or --val-data";
    if (v->sample_prompts.n > 0 && !validated)
        return "--sample-prompt generates after each validation: it needs --val-split or "
               "--val-data";
    if (v->patience > 0 && v->val_every == 0)
        return "--patience needs --val-every above 0";
    if (v->micro_batch != CLI_ABSENT && train_objective(v)->whole_batch)
        return "--micro-batch is not for kto and orpo, whose losses are of whole batches";
    return NULL;
}

/* --train-tokens and --add-tokens train single rows of a frozen matrix, so --modules-to-save may
 * not name it. */
static const char *tokens_complaint(const train_values *v)
{
    const bool tokens = v->add_tokens || v->train_tokens;
    if (tokens && v->whole && (strstr(v->whole, "embed_tokens") || strstr(v->whole, "lm_head")))
        return "--add-tokens and --train-tokens train rows of embedding and head: these are not "
               "for --modules-to-save";
    return NULL;
}

const char *train_complaint(const train_values *v)
{
    if (v->resume && v->overwrite)
        return "--resume and --overwrite exclude each other";
    if (v->model == NULL)
        return v->resume ? "--out has no run to continue, and MODEL to begin one is missing"
                         : "MODEL is missing";
    if ((v->source.paths.n == 0) == (v->batches == NULL))
        return "needs --data FILE or --batches FILE";
    if (v->val_split > 0 && (v->val_data != NULL || v->batches != NULL))
        return "--val-split is for --data without --val-data";
    const char *ranks = train_ranks_complaint(v);
    if (ranks != NULL)
        return ranks;
    if (v->batches != NULL && v->accumulate != 1)
        return "--batches makes one update of each batch: no --accumulate";
    if (v->pack && v->batches != NULL)
        return "--pack is for --data: --batches are trained as they are";
    const char *objective = train_objective_complaint(v);
    if (objective != NULL)
        return objective;
    if (v->steps != CLI_ABSENT && !isnan(v->epochs))
        return "--steps and --epochs exclude each other";
    const char *classify = train_classify_complaint(v);
    if (classify != NULL)
        return classify;
    const char *data = cli_data_complaint(&v->source, v->task == TRAIN_CLASSIFY);
    if (data != NULL)
        return data;
    const char *tokens = tokens_complaint(v);
    if (tokens != NULL)
        return tokens;
    const char *plan = plan_complaint(v);
    if (plan != NULL)
        return plan;
    const char *ignored = train_ignored_complaint(v);
    if (ignored != NULL)
        return ignored;
    return cli_place_complaint(&v->place);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static weft_status check_out(const train_values *v)
{
    if (v->dry_run || !train_is_first())
        return WEFT_OK;
    if (!v->overwrite && !v->resume && weft_run_exists(v->out))
        return weft_fail(
            WEFT_INVALID,
            "train: %s already has a run: --resume continues it, --overwrite replaces it, "
            "or choose another --out",
            v->out);
    signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit is an error */
    const char *const inputs[] = {v->model, v->init_adapter};
    return weft_run_check(v->out, inputs, v->overwrite ? v->init_adapter ? 2 : 1 : 0);
}

weft_status train_check_out(const train_values *v)
{
    return weft_group_agree(train_ranks(), check_out(v), NULL);
}
