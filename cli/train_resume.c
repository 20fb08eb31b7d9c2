/* cli/train_resume.c -- weft train --resume: reads the options of the run in a folder. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train.h"

/* Options that apply to a single command and are not saved with the run. */
static const char *const transient[] = {"out",    "resume",  "overwrite",  "json", "profile",
                                        "config", "dry-run", "max-memory", NULL};

/* Options that a resumed run cannot change. The trainer checks that the contents of model and data
 * are unchanged. */
static const char *const fixed[] = {
    "batch-size",
    "accumulate",
    "seed",
    "length",
    "train-on",
    "val-split",
    "mix",
    "format",
    "system",
    "template",
    "long",
    "max-bad-rows",
    "pack",
    "optimizer",
    "lora-plus",
    "rank",
    "alpha",
    "rslora",
    "dora",
    "pissa",
    "rank-pattern",
    "alpha-pattern",
    "layers",
    "dropout",
    "neftune",
    "targets",
    "modules-to-save",
    "train-tokens",
    "add-tokens",
    "adapter-dtype",
    "init-adapter",
    "full",
    "dtype",
    "quantize",
    "objective",
    "task",
    "labels",
    "beta",
    "label-smoothing",
    "gamma",
    "desirable-weight",
    "undesirable-weight",
};

/* Options of the adapter, which --init-adapter determines. */
static const char *const of_adapter[] = {
    "rank",          "alpha",  "rslora",  "dora",    "pissa",           "rank-pattern",
    "alpha-pattern", "layers", "dropout", "targets", "modules-to-save", "train-tokens",
    "add-tokens",    "labels"};

enum {
    N_FIXED = sizeof fixed / sizeof *fixed,
    N_OF_ADAPTER = sizeof of_adapter / sizeof *of_adapter
};

/* Options without effect on --full, beside those of the adapter. */
static const char *const not_of_full[] = {"init-adapter", "adapter-dtype", "lora-plus", "quantize"};

bool train_is_unused(const train_values *v, const char *name)
{
    for (int i = 0; (v->init_adapter || v->full) && i < N_OF_ADAPTER; i++) {
        if (strcmp(name, of_adapter[i]) == 0)
            return true;
    }
    for (size_t i = 0; v->full && i < sizeof not_of_full / sizeof *not_of_full; i++) {
        if (strcmp(name, not_of_full[i]) == 0)
            return true;
    }
    return false;
}

const char *train_adapter_conflict(const train_values *v)
{
    static char text[128];
    const size_t n_others = sizeof not_of_full / sizeof *not_of_full;
    for (size_t i = 0; v->full && i < n_others + N_OF_ADAPTER; i++) {
        const char *name = i < n_others ? not_of_full[i] : of_adapter[i - n_others];
        if (cli_is_given(&cli_train, &v->given, name)) {
            snprintf(text, sizeof text, "--full trains the whole model: --%s is for adapters",
                     name);
            return text;
        }
    }
    if (v->full && v->task == TRAIN_CLASSIFY)
        return "--full is not for --task classify";
    for (int i = 0; v->init_adapter && i < N_OF_ADAPTER; i++) {
        if (cli_is_given(&cli_train, &v->given, of_adapter[i])) {
            snprintf(text, sizeof text,
                     "--%s cannot be combined with --init-adapter, which determines it",
                     of_adapter[i]);
            return text;
        }
    }
    return NULL;
}

/* The device and the dtype are those that were chosen where they are not given, so that a resumed
 * run keeps them. */
cli_word_list train_words(const train_values *v)
{
    char dtype[16];
    cli_word(CLI_DTYPES, cli_dtype(&v->place), dtype, sizeof dtype);
    const struct {
        const char *name, *value;
    } places[] = {{"device", cli_device(&v->place)}, {"dtype", dtype}};
    cli_word_list given = {.n = 0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!cli_is_given(&cli_train, &v->given, places[i].name))
            cli_words_add_option(&given, places[i].name, places[i].value);
    }
    for (int i = 0; i < v->given.n; i++)
        cli_words_add(&given, v->given.at[i]);
    const cli_given all = {given.at, given.n};
    cli_word_list out = cli_all_words(&cli_train, &all, transient);
    out.failed = out.failed || given.failed;
    cli_words_free(&given);
    return out;
}

bool train_same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    const bool numbers = end_a != a && end_b != b && *end_a == '\0' && *end_b == '\0';
    return strcmp(a, b) == 0 || (numbers && x == y);
}

/* The value that an option has in a run whose command line does not contain it; NULL: no value that
 * the option could state. */
static const char *default_of(const weft_run_words *run, const char *name, char out[32])
{
    static const char *const words[][2] = {{"train-on", "turns"},
                                           {"task", "generate"},
                                           {"long", "keep-head"},
                                           {"val-split", "the default"},
                                           {"label-smoothing", "0"}};
    const char *of = cli_word_of(&cli_train, run->at, run->n, "objective"),
               *rank = cli_word_of(&cli_train, run->at, run->n, "rank");
    const weft_objective *objective = weft_objective_named(of ? of : "supervised");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(name, words[i][0]) == 0)
            return words[i][1];
    }
    double value = 0;
    if (strcmp(name, "alpha") == 0 && rank)
        value = 2 * strtod(rank, NULL);
    else if (objective && strcmp(name, "beta") == 0)
        value = objective->defaults.beta;
    else if (objective && strcmp(name, "gamma") == 0)
        value = objective->defaults.gamma;
    else if (objective && strcmp(name, "desirable-weight") == 0)
        value = objective->defaults.desirable_weight;
    else if (objective && strcmp(name, "undesirable-weight") == 0)
        value = objective->defaults.undesirable_weight;
    snprintf(out, 32, "%.10g", value);
    return value > 0 ? out : NULL;
}

static weft_status check_fixed(const train_values *v, const weft_run_words *run)
{
    const bool brought = cli_word_of(&cli_train, run->at, run->n, "init-adapter") != NULL;
    for (int i = 0; i < N_OF_ADAPTER && brought; i++) {
        if (cli_is_given(&cli_train, &v->given, of_adapter[i]))
            return weft_fail(WEFT_INVALID, "train: --%s is that of the run's --init-adapter",
                             of_adapter[i]);
    }
    for (int i = 0; i < N_FIXED; i++) {
        const char *now = cli_word_of(&cli_train, v->given.at, v->given.n, fixed[i]);
        const char *then = cli_word_of(&cli_train, run->at, run->n, fixed[i]);
        char number[32];
        if (now && then == NULL)
            then = default_of(run, fixed[i], number);
        if (now && (then == NULL || !train_same_value(now, then)))
            return weft_fail(WEFT_INVALID,
                             "train: --%s: the run in %s has %s, and a resumed run keeps it",
                             fixed[i], weft_printable(v->out),
                             then && *then ? weft_printable(then)
                             : then        ? "it"
                                           : "none");
    }
    return WEFT_OK;
}

/* Removes the run's --steps and --epochs if the command line sets either. */
static void drop_length(const train_values *v, weft_run_words *run)
{
    const bool anew = cli_is_given(&cli_train, &v->given, "steps") ||
                      cli_is_given(&cli_train, &v->given, "epochs");
    for (int i = 0; anew && i + 1 < run->n; i++) {
        if (strcmp(run->at[i], "--steps") == 0 || strcmp(run->at[i], "--epochs") == 0) {
            weft_free(run->at[i]);
            weft_free(run->at[i + 1]);
            memmove(run->at + i, run->at + i + 2, (size_t)(run->n - i - 2) * sizeof *run->at);
            run->n -= 2;
            i--;
        }
    }
}

weft_status train_resume(train_values *v, cli_word_list *words)
{
    weft_run_words run;
    const cli_given given = v->given;
    weft_status status = weft_run_command(v->out, &run);
    if (status == WEFT_OK)
        status = check_fixed(v, &run);
    if (status == WEFT_OK) {
        drop_length(v, &run);
        *words = cli_merge_words(&cli_train, run.at, run.n, &given);
        if (words->failed)
            status = weft_fail(WEFT_MEMORY, "train: out of memory for the run's options");
        else if (cli_parse(&cli_train, words->n, words->at, v) != CLI_PARSED_RUN)
            status = weft_fail(WEFT_INVALID, "train: %s/run.json: its command cannot be read",
                               weft_printable(v->out));
    }
    weft_run_words_free(&run);
    return status;
}
