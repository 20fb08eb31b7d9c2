/* cli/train_check.c -- the options of weft train that exclude each other or would have no effect,
 * and whether --out is writable. */
#include <signal.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train.h"
#include "weft/tool/run.h"

/* ---- options ------------------------------------------------------------------------------- */

static bool lacks_model(const void *values)
{
    const train_values *v = values;
    return v->model == NULL;
}

static bool has_several_ranks(const void *values)
{
    (void)values;
    return weft_group_info_of(train_ranks()).size > 1;
}

static bool reads_input_in_ranks(const void *values)
{
    const train_values *v = values;
    int i = 0;
    while (i < v->source.paths.n && strcmp(v->source.paths.at[i], "-") != 0)
        i++;
    return i < v->source.paths.n && has_several_ranks(v);
}

/* Neither the options nor, by default, the data provide validation samples. */
static bool lacks_validation(const void *values)
{
    const train_values *v = values;
    return !(v->val_split > 0) && v->val_data == NULL && !train_splits_by_default(v);
}

static bool needs_whole_batches(const void *values)
{
    return train_needs_whole_batches(values);
}

static bool has_rewards(const void *values)
{
    return train_has_rewards(values);
}

static bool has_no_rewards(const void *values)
{
    return !train_has_rewards(values);
}

static bool compares(const void *values)
{
    return train_objective(values)->compare != NULL;
}

static bool compares_nothing(const void *values)
{
    return !compares(values);
}

static bool repeats_reward(const void *values)
{
    const cli_texts *rewards = &((const train_values *)values)->rewards;
    for (int i = 0; i < rewards->n; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(rewards->at[i], rewards->at[k]) == 0)
                return true;
        }
    }
    return false;
}

static bool lacks_weight_decay(const void *values)
{
    const weft_field *f = train_optimizer(values)->fields;
    while (f && f->type != WEFT_FIELD_END && strcmp(f->name, "weight_decay") != 0)
        f++;
    return f == NULL || f->type == WEFT_FIELD_END;
}

/* --train-tokens and --add-tokens train single rows of a frozen matrix, so --modules-to-save may
 * not name it. */
static bool saves_rows_of_tokens(const void *values)
{
    const train_values *v = values;
    return (v->add_tokens || v->train_tokens) &&
           (strstr(v->whole, "embed_tokens") || strstr(v->whole, "lm_head"));
}

/* Options of completions that are sampled, and options that are not. */
#define TRAIN_WITH_REWARD(WHEN, NAME)                                                              \
    {                                                                                              \
        WHEN, NULL, "--" NAME " is for --data with prompts and --reward"                           \
    }
#define TRAIN_WITH_SAMPLING(NAME)                                                                  \
    {                                                                                              \
        "!reward !lmbda " NAME, NULL, "--" NAME " is for --reward or --lmbda"                      \
    }
#define TRAIN_NOT_WITH_REWARD(NAME)                                                                \
    {                                                                                              \
        "reward " NAME, NULL, "--" NAME " is not for --reward, whose data has only prompts"        \
    }

static const cli_rule rules[] = {
    {"resume overwrite", NULL, "--resume and --overwrite exclude each other"},
    {"resume", lacks_model, "--out has no run to continue, and MODEL to begin one is missing"},
    {"", lacks_model, "MODEL is missing"},
    {"data batches", NULL, "needs --data FILE or --batches FILE"},
    {"completions data", NULL, "--completions and --data exclude each other"},
    {"completions batches", NULL, "--completions and --batches exclude each other"},
    {"!data !batches !completions", NULL,
     "needs --data FILE, --batches FILE or --completions FILE"},
    {"data !reward", has_rewards,
     "this --objective needs --reward for the prompts of --data, or --completions FILE"},
    {"completions", has_no_rewards,
     "--completions is for --objective grpo, dapo, dr_grpo, gspo and rloo"},
    {"reward", has_no_rewards, "--reward is for --objective grpo, dapo, dr_grpo, gspo and rloo"},
    TRAIN_WITH_REWARD("completions reward", "reward"),
    TRAIN_WITH_REWARD("!reward reward-weights", "reward-weights"),
    TRAIN_WITH_REWARD("!reward reward-seconds", "reward-seconds"),
    TRAIN_WITH_SAMPLING("top-p"),
    TRAIN_WITH_SAMPLING("min-p"),
    TRAIN_WITH_SAMPLING("top-k"),
    TRAIN_WITH_SAMPLING("sample-rows"),
    TRAIN_NOT_WITH_REWARD("pack"),
    TRAIN_NOT_WITH_REWARD("mix"),
    TRAIN_NOT_WITH_REWARD("token-cache"),
    TRAIN_NOT_WITH_REWARD("train-on"),
    {"!objective=distill teacher", NULL, "--teacher is for --objective distill"},
    {"!objective=distill teacher-file", NULL, "--teacher-file is for --objective distill"},
    {"!objective=distill teacher-system", NULL, "--teacher-system is for --objective distill"},
    {"objective=distill !teacher !teacher-file !teacher-system", NULL,
     "--objective distill needs --teacher MODEL, --teacher-system TEXT or --teacher-file FILE"},
    {"teacher-system pack", NULL, "--pack is not for --teacher-system"},
    {"teacher-file pack", NULL, "--pack is not for --teacher-file"},
    {"teacher-file lmbda !lmbda=0", NULL,
     "--lmbda needs the teacher's model: it is not for --teacher-file"},
    {"lmbda !lmbda=0 pack", NULL, "--pack is not for --lmbda: completions are not packed"},
    {"reward", repeats_reward, "--reward: two are the same: metrics are named by them"},
    {"val-split !val-split=0", has_rewards,
     "--val-split is not for this --objective: held-out prompts are --val-data"},
    {"val-data completions", NULL, "--val-data is not for --completions"},
    {"val-every completions", NULL, "--val-every is not for --completions"},
    {"completions pack", NULL, "--pack is for --data: completions are not packed"},
    {"val-split !val-split=0 val-data", NULL, "--val-split is for --data without --val-data"},
    {"val-split !val-split=0 batches", NULL, "--val-split is for --data without --val-data"},
    {"batches", has_several_ranks,
     "--batches makes one update of each batch: it is for one process"},
    {"dry-run", has_several_ranks,
     "--dry-run is for one process: every rank takes as much memory, less "
     "the optimizer's states of the others"},
    {"", reads_input_in_ranks,
     "--data - is for one process: the launcher gives standard input to rank 0 alone"},
    {"batches accumulate !accumulate=1", NULL,
     "--batches makes one update of each batch: no --accumulate"},
    {"batches pack", NULL, "--pack is for --data: --batches are trained as they are"},
    {"batches !objective=supervised", NULL, "--batches is for --objective supervised"},
    {"steps epochs", NULL, "--steps and --epochs exclude each other"},
    TRAIN_TASK_RULES(compares, compares_nothing),
    {"labels init-adapter", NULL,
     "--labels cannot be combined with --init-adapter, which determines it"},
    {"task=classify batches", NULL,
     "--task classify reads rows with text and label: --batches has none"},
    {"task=classify sample-prompt", NULL, "--sample-prompt is for --task generate"},
    {"task=classify general-text", NULL, "--general-text is for --task generate"},
    {"general-text batches", NULL, "--general-text is for --data and --completions"},
    TRAIN_NOT_OF_EMBED("general-text"),
    {"pooling !task=embed", NULL, "--pooling is for --task embed"},
    TRAIN_NOT_OF_EMBED("pack"),
    TRAIN_NOT_OF_EMBED("compile"),
    TRAIN_NOT_OF_EMBED("batches"),
    TRAIN_NOT_OF_EMBED("sample-prompt"),
    {"task=embed neftune", has_several_ranks, "--neftune with --task embed is for one process"},
    {"modules-to-save", saves_rows_of_tokens,
     "--add-tokens and --train-tokens train rows of embedding and head: these are not for "
     "--modules-to-save"},
    {"patience", lacks_validation,
     "--patience counts validations, which need --val-split or --val-data"},
    {"sample-prompt", lacks_validation,
     "--sample-prompt generates after each validation: it needs --val-split or --val-data"},
    {"patience val-every=0", NULL, "--patience needs --val-every above 0"},
    {"micro-batch", needs_whole_batches,
     "--micro-batch is not for kto and orpo, nor for --loss-type bnpo, whose losses are of whole "
     "batches"},
    {"val-every", lacks_validation, "--val-every needs --val-split or --val-data"},
    {"weight-decay !weight-decay=0", lacks_weight_decay,
     "--weight-decay is not an option of this --optimizer"},
};

/* A usage error about an option; NULL without one. */
static const char *about(const cli_option *o, const char *before, const char *after)
{
    static char text[256];
    snprintf(text, sizeof text, "%s--%s%s", before, o ? o->name : "", after);
    return o ? text : NULL;
}

/* The end of the usage error for an option of other objectives, with their names. */
static const char *of_others(const cli_option *o)
{
    static char text[128];
    int n = snprintf(text, sizeof text, " is not an option of this --objective, but of");
    for (int i = 0, found = 0; weft_objectives[i] && n < (int)sizeof text; i++) {
        if (train_objective_field(weft_objectives[i], o))
            n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", found++ ? "," : "",
                          weft_objectives[i]->name);
    }
    return text;
}

const char *train_adapter_conflict(const train_values *v)
{
    const char *conflict = NULL;
    if (v->full)
        conflict = about(cli_given_with(&cli_train, &v->given, CLI_OF_ADAPTER | CLI_NOT_OF_FULL),
                         "--full trains the whole model: ", " is for adapters");
    if (conflict == NULL && v->init_adapter)
        conflict = about(cli_given_with(&cli_train, &v->given, CLI_OF_ADAPTER), "",
                         " cannot be combined with --init-adapter, which determines it");
    return conflict;
}

const char *train_complaint(const train_values *v)
{
    const unsigned of_data = v->completions ? CLI_OF_VALIDATION
                             : !v->batches  ? 0
                             : v->val_data  ? CLI_OF_DATA
                                            : CLI_OF_DATA | CLI_OF_VALIDATION;
    const char *why = cli_complaint(&cli_train, &v->given, rules, sizeof rules / sizeof *rules, v);
    for (int i = 0; why == NULL && i < cli_train.n_options; i++) {
        const cli_option *o = &cli_train.options[i];
        if (o->marks & of_data && cli_is_set(&cli_train, &v->given, o))
            why = about(o, "",
                        v->completions ? " is for --data, not for --completions"
                                       : " is for --data, not for --batches");
        else if (o->marks & CLI_OF_OBJECTIVE && cli_is_set(&cli_train, &v->given, o) &&
                 train_objective_field(train_objective(v), o) == NULL)
            why = about(o, "", of_others(o));
    }
    return why ? why : cli_place_complaint(&v->place);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static weft_status check_out(const train_values *v)
{
    if (v->dry_run || !train_is_first())
        return WEFT_OK;
    if (!v->trainer.overwrite && !v->trainer.resume && weft_run_exists(v->out))
        return weft_fail(
            WEFT_INVALID,
            "train: %s already has a run: --resume continues it, --overwrite replaces it, "
            "or choose another --out",
            v->out);
    signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit is an error */
    const char *const candidates[] = {v->model, v->init_adapter, v->teacher,
                                      v->teacher ? NULL : v->teacher_file};
    const char *inputs[sizeof candidates / sizeof *candidates];
    int n = 0;
    for (size_t i = 0; v->trainer.overwrite && i < sizeof inputs / sizeof *inputs; i++) {
        if (candidates[i])
            inputs[n++] = candidates[i];
    }
    return weft_run_check(v->out, inputs, n);
}

weft_status train_check_out(const train_values *v)
{
    return weft_group_agree(train_ranks(), check_out(v), NULL);
}
