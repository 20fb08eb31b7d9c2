/* cli/verify.c -- weft verify: checks a training run: its inputs by their hashes, and some of its
 * updates by repeating them. */
#include <string.h>

#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/train.h"
#include "weft/tool/run.h"
#include "weft/tool/verify.h"

typedef struct verify_values {
    const char *folder;
    int64_t from, to;
    double tolerance;
    bool hashes, programs, json;
} verify_values;

/* ---- output --------------------------------------------------------------------------------- */

static const char *text_of(json_object *object, const char *key)
{
    return weft_printable(json_object_get_string(json_object_object_get(object, key)));
}

static double number_of(json_object *object, const char *key)
{
    return json_object_get_double(json_object_object_get(object, key));
}

static void print_differences(json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        printf("           %s\n", json_object_get_string(json_object_array_get_idx(list, i)));
}

static void print_updates(json_object *updates, bool other_build)
{
    const bool same = json_object_get_boolean(json_object_object_get(updates, "same_bytes"));
    printf("updates    %.0f to %.0f repeated in %s: ", number_of(updates, "from") + 1,
           number_of(updates, "to"), cli_time(number_of(updates, "seconds")));
    if (same)
        puts("equal bytes");
    else if (other_build)
        printf("compared with tolerance %g, since bytes depend on the build: losses differ by at "
               "most %.2g, weights by %.2g\n",
               number_of(updates, "tolerance"), number_of(updates, "loss_difference"),
               number_of(updates, "weights_difference"));
    else
        puts("other bytes");
    print_differences(json_object_object_get(updates, "differences"));
}

static void print(const char *folder, json_object *report)
{
    json_object *items = json_object_object_get(report, "items"),
                *updates = json_object_object_get(report, "updates");
    const char *state = json_object_get_string(json_object_object_get(report, "state"));
    printf("%s: update %.0f\n", weft_printable(folder), number_of(report, "checkpoint"));
    json_object_object_foreach(items, name, item)
    {
        const char *equal = text_of(item, "state");
        printf("%-10s %s\n", name, strcmp(equal, "quick") == 0 ? "equal by quick hashes" : equal);
        print_differences(json_object_object_get(item, "differences"));
    }
    const bool own = strcmp(json_object_get_string(json_object_object_get(
                                json_object_object_get(items, "build"), "state")),
                            "equal") == 0;
    if (updates)
        print_updates(updates, !own);
    else if (strcmp(state, "differs") == 0)
        puts("updates    not repeated: they would be those of another run");
    puts(strcmp(state, "unknown") == 0  ? "not verified: the run's record is incomplete"
         : strcmp(state, "agrees") != 0 ? state
         : own                          ? "agrees, by quick hashes"
         : updates == NULL              ? "agrees, on another build or machine"
                                        : "agrees within the tolerance, on another build or "
                                          "machine");
}

/* ---- the command ---------------------------------------------------------------------------- */

typedef struct shown {
    train_run *run;
    int64_t first; /* the update to begin from; -1: none has been shown */
} shown;

/* Shows the estimate, then the updates as they are repeated. */
static bool show(void *context, const weft_train_report *p)
{
    enum { LINES = 10 };
    shown *s = context;
    cli_progress *progress = &s->run->progress;
    if (s->first < 0) {
        s->first = p->step;
        cli_progress_show(progress, 0, true, "repeating updates %lld to %lld: about %s",
                          (long long)p->step + 1, (long long)p->steps, cli_time(p->remaining));
    } else if (p->step > s->first) {
        const int64_t made = p->step - s->first, all = p->steps - s->first;
        cli_progress_show(progress, (double)made / (double)all,
                          !progress->terminal && made % (all / LINES + 1) == 0,
                          "update %lld of %lld to %lld  loss %.4f  %s left", (long long)p->step,
                          (long long)s->first + 1, (long long)p->steps, p->loss,
                          cli_time(p->remaining));
    }
    return true;
}

static bool show_validation(void *context, int64_t targets, int64_t total)
{
    return train_show_validation(((shown *)context)->run, targets, total);
}

weft_status train_verify(const train_values *v, train_run *r, const weft_trainer_options *options)
{
    const verify_values *own = v->verify;
    weft_trainer_options o = *options;
    const weft_verify_options choice = {.from = own->from == CLI_ABSENT ? 0
                                                : own->from == 0        ? -1
                                                                        : own->from,
                                        .to = own->to == CLI_ABSENT ? 0 : own->to,
                                        .tolerance = own->tolerance,
                                        .hashes_only = own->hashes};
    char *report = NULL;
    shown progress = {.run = r, .first = -1};
    o.callback = show;
    o.validating = show_validation;
    o.context = &progress;
    weft_status status = cli_catch_interrupt(&o.cancel);
    if (status == WEFT_OK)
        status = train_limit_memory(v, r);
    if (status == WEFT_OK)
        status = weft_trainer_new(r->model, &o, &r->trainer);
    cli_progress_start(&r->progress);
    if (status == WEFT_OK)
        status = weft_trainer_verify(r->trainer, r->batches, r->validation, &choice, &report);
    cli_progress_end(&r->progress);
    json_object *found = report ? cli_parse_json(report, strlen(report)) : NULL;
    if (found && own->json)
        puts(report);
    else if (found)
        print(own->folder, found);
    const char *state = found ? json_object_get_string(json_object_object_get(found, "state")) : "";
    r->differs = strcmp(state, "differs") == 0 || strcmp(state, "unknown") == 0;
    json_object_put(found);
    weft_free(report);
    return status;
}

static bool reads_input(const train_values *v)
{
    bool reads = false;
    for (int i = 0; i < v->source.paths.n; i++)
        reads = reads || strcmp(v->source.paths.at[i], "-") == 0;
    return reads;
}

/* A run can come from someone else, and so can the programs that it names. */
static bool has_programs(const train_values *v)
{
    bool has = false;
    for (int i = 0; i < v->rewards.n; i++)
        has = has || strncmp(v->rewards.at[i], "program:", strlen("program:")) == 0;
    return has;
}

static int run(void *context)
{
    static train_values v;
    verify_values *own = context;
    weft_run_words words = {.n = 0};
    if (own->folder == NULL)
        own->folder = "weft-run";
    weft_status status = weft_run_exists(own->folder) ? weft_run_command(own->folder, &words)
                                                      : weft_fail(WEFT_INVALID,
                                                                  "%s: there is no training run in "
                                                                  "this folder",
                                                                  weft_printable(own->folder));
    if (status == WEFT_OK && cli_parse(&cli_train, words.n, words.at, &v) != CLI_PARSED_RUN)
        status = weft_fail(WEFT_INVALID, "%s/run.json: its command cannot be read",
                           weft_printable(own->folder));
    v.out = own->folder;
    v.source.cache = NULL; /* rows are read from the data itself */
    v.json = own->json;
    v.verify = own;
    if (status == WEFT_OK && reads_input(&v))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: the run read its data from standard input, which cannot be read "
                           "again",
                           weft_printable(own->folder));
    if (status == WEFT_OK && has_programs(&v) && !own->hashes && !own->programs)
        status =
            weft_fail(WEFT_INVALID,
                      "%s: the run names reward programs: look at the command in its run.json, "
                      "then give --programs to run them, or --hashes",
                      weft_printable(own->folder));
    const int code = status == WEFT_OK ? train_parsed(&v) : cli_status(status);
    weft_run_words_free(&words);
    return code;
}

static const cli_argument arguments[] = {{"RUN", offsetof(verify_values, folder), true}};

static const cli_option options[] = {
    {.name = "from",
     .kind = CLI_INT,
     .value = "N",
     .low = 0,
     .high = CLI_ANY,
     .offset = offsetof(verify_values, from),
     .help = "repeat the updates after checkpoint N (default: the shortest stretch between two; 0: "
             "from the beginning)"},
    {.name = "to",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     .offset = offsetof(verify_values, to),
     .help = "compare with checkpoint N (default: the end of that stretch; with --from, the last)"},
    {.name = "tolerance",
     .kind = CLI_REAL,
     .value = "X",
     .fallback = "0.05",
     .low = 1e-9,
     .high = 1,
     .offset = offsetof(verify_values, tolerance),
     .help = "largest relative difference of losses and weights for another build or machine"},
    {.name = "hashes",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, hashes),
     .help = "compare hashes alone: repeat no update"},
    {.name = "programs",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, programs),
     .help = "run the reward programs that the run names (--reward program:COMMAND)"},
    {.name = "json",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, json),
     .help = "print the result as JSON"},
};

const cli_command cli_verify = {
    .name = "verify",
    .summary = "check a training run by its hashes and by repeating updates",
    .description =
        "Compares base model, tokenizer, rows, options and build with what the run in RUN "
        "(weft-run) recorded, and says what differs. If only the build differs or nothing does, "
        "repeats the updates between two of its checkpoints in a temporary folder, and compares "
        "losses, weights and optimizer state byte for byte. RUN itself is only read.\n\n"
        "Run it in the folder in which the run was started, since the run names its model and "
        "data by their paths. The exit status is 0 if all is equal, or within the tolerance on "
        "another build or machine, and 1 if something differs.",
    .example = "weft verify run\nweft verify run --from 0 --json",
    CLI_TABLE(verify_values, arguments, options),
    .run = run,
};
