/* cli/train_resume.c -- weft train --resume: reads the options of the run in a folder. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train.h"
#include "weft/tool/run.h"

bool train_is_unused(const train_values *v, const cli_option *o)
{
    return ((v->init_adapter || v->full) && o->marks & CLI_OF_ADAPTER) ||
           (v->full && o->marks & CLI_NOT_OF_FULL);
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
    cli_word_list out = cli_all_words(&cli_train, &all);
    out.failed = out.failed || given.failed;
    cli_words_free(&given);
    return out;
}

/* The value that an option has in a run whose command line does not contain it; NULL: no value that
 * the option could state. */
static const char *default_of(const weft_run_words *run, const cli_option *o, char out[32])
{
    const char *of = cli_word_of(&cli_train, run->at, run->n, "objective"),
               *rank = cli_word_of(&cli_train, run->at, run->n, "rank");
    const weft_objective *objective = weft_objective_named(of ? of : "supervised");
    const weft_field *f = objective ? train_objective_field(objective, o) : NULL;
    double value = 0;
    if (f && f->type == WEFT_FIELD_POINTER)
        return *(const char *const *)((const char *)&objective->defaults + f->offset);
    if (o->unset)
        return o->unset;
    if (strcmp(o->name, "alpha") == 0 && rank)
        value = 2 * strtod(rank, NULL);
    else if (f && f->type == WEFT_FIELD_INT)
        value = (double)*(const int64_t *)((const char *)&objective->defaults + f->offset);
    else if (f)
        value = *(const double *)((const char *)&objective->defaults + f->offset);
    snprintf(out, 32, "%.10g", value);
    return f || value > 0 ? out : NULL;
}

/* Checks that an option keeps the run's value. */
static weft_status check_option(const train_values *v, const weft_run_words *run,
                                const cli_option *o)
{
    const char *now = cli_word_of(&cli_train, v->given.at, v->given.n, o->name);
    const char *then = cli_word_of(&cli_train, run->at, run->n, o->name);
    char number[32];
    if (now && then == NULL)
        then = default_of(run, o, number);
    if (now == NULL || (then && cli_same_value(now, then)))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "train: --%s: the run in %s has %s, and a resumed run keeps it",
                     o->name, weft_printable(v->out),
                     then && *then ? weft_printable(then)
                     : then        ? "it"
                                   : "none");
}

static weft_status check_fixed(const train_values *v, const weft_run_words *run)
{
    const bool brought = cli_word_of(&cli_train, run->at, run->n, "init-adapter") != NULL;
    const cli_option *of_adapter = cli_given_with(&cli_train, &v->given, CLI_OF_ADAPTER);
    weft_status status = WEFT_OK;
    if (brought && of_adapter)
        return weft_fail(WEFT_INVALID, "train: --%s is that of the run's --init-adapter",
                         of_adapter->name);
    for (int i = 0; status == WEFT_OK && i < cli_train.n_options; i++) {
        if (cli_train.options[i].marks & CLI_FIXED)
            status = check_option(v, run, &cli_train.options[i]);
    }
    return status;
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
