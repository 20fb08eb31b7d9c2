/* train/run/verify.c -- checks a run: compares its inputs, and repeats some of its updates. */
#include "weft/tool/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/folder.h"
#include "train/run/checkpoint.h"
#include "train/run/compare.h"
#include "train/run/contents.h"
#include "train/run/number.h"
#include "train/run/repeat.h"
#include "weft/tool/run.h"

/* The most seconds of training that are repeated unless the caller names where to begin. */
enum { MOST_SECONDS = 900 };

typedef struct verification {
    weft_trainer *trainer;
    weft_batches *batches;
    const weft_dataset *validation;
    weft_verify_options o;
    const char *run;           /* its folder */
    weft_trainer_options kept; /* of the trainer */
    int64_t from, to;
    weft__checkpoint end; /* the checkpoint of `to` */
    weft__comparison items;
    bool reached; /* the update `to` */
    bool repeated;
    double estimate, began, seconds; /* of repeating */
    weft__repeated result;
} verification;

/* ---- the checkpoints ------------------------------------------------------------------------ */

static bool has(const int64_t *steps, int n, int64_t step)
{
    for (int i = 0; i < n; i++)
        if (steps[i] == step)
            return true;
    return false;
}

static weft_status fail_missing(const verification *v, const int64_t *steps, int n, int64_t step)
{
    weft__text all = {0};
    for (int i = n - 1; i >= 0; i--)
        weft__text_format(&all, "%s%lld", i < n - 1 ? ", " : "", (long long)steps[i]);
    const weft_status status =
        weft_fail(WEFT_INVALID, "%s: expected a checkpoint of the run (%s), got %lld", v->run,
                  all.at ? all.at : "", (long long)step);
    weft_free(all.at);
    return status;
}

/* Without a choice of the caller: the shortest stretch between a checkpoint and the one before it
 * or the beginning, of equal ones the newest. With `to` alone, the stretch before it. */
static void choose_stretch(verification *v, const int64_t *steps, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        const int64_t from = i + 1 < n ? steps[i + 1] : 0;
        if (v->o.to == 0 ? steps[i] - from <= v->to - v->from : steps[i] == v->o.to) {
            v->to = steps[i];
            v->from = from;
        }
    }
}

/* Chooses the checkpoints to begin from and to compare with; `steps` are the newest first. */
static weft_status choose(verification *v, const int64_t *steps, int n)
{
    if (n == 0)
        return weft_fail(WEFT_INVALID, "%s: it has no checkpoint to compare with", v->run);
    v->to = v->o.to != 0 ? v->o.to : steps[0];
    if (!has(steps, n, v->to))
        return fail_missing(v, steps, n, v->to);
    v->from = v->o.from > 0 ? v->o.from : 0;
    if (v->o.from > 0 && !has(steps, n, v->from))
        return fail_missing(v, steps, n, v->from);
    if (v->o.from == 0)
        choose_stretch(v, steps, n);
    return v->from < v->to
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "%s: expected a checkpoint before update %lld to begin from, got %lld",
                           v->run, (long long)v->to, (long long)v->from);
}

static weft_status open_end(verification *v)
{
    int n;
    int64_t *steps = weft__checkpoint_list(v->run, INT64_MAX, &n);
    weft_status status = steps ? choose(v, steps, n) : weft__out_of_memory("verify", NULL);
    char *path = status == WEFT_OK ? weft__checkpoint_path(v->run, v->to) : NULL;
    if (status == WEFT_OK)
        status = path ? weft__checkpoint_open(path, &v->end) : weft__out_of_memory("verify", NULL);
    v->estimate = v->end.state.result.training_seconds * (double)(v->to - v->from) /
                  (double)(v->to > 0 ? v->to : 1);
    int64_t ranks = 1;
    const weft__json root = weft__json_root(&v->end.doc);
    if (status == WEFT_OK)
        status = weft__json_find_int(&root, "ranks", &ranks);
    if (status == WEFT_OK && ranks != 1)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "verify: %s: expected a run of one process, got one of %lld", v->run,
                           (long long)ranks);
    if (status == WEFT_OK && v->o.from == 0 && !v->o.hashes_only && v->estimate > MOST_SECONDS)
        status =
            weft_fail(WEFT_INVALID,
                      "%s: repeating updates %lld to %lld takes about %.0f minutes: ask for it "
                      "by `from` (%lld)",
                      v->run, (long long)v->from + 1, (long long)v->to, ceil(v->estimate / 60),
                      (long long)v->from);
    weft_free(steps);
    weft_free(path);
    return status;
}

/* ---- the inputs ----------------------------------------------------------------------------- */

static weft_status compare_inputs(verification *v)
{
    const weft__plan plan = weft__plan_of(v->trainer, v->batches);
    weft__identity now = {.ranks = 0};
    weft__json_doc doc = {.root = NULL};
    weft__text t = {0};
    weft_status status = weft__identity_of_run(v->trainer, &plan, v->batches, true, &now);
    if (status == WEFT_OK) {
        weft__contents_wait(now.contents);
        weft__text_format(&t, "{");
        weft__identity_write(&t, &now);
        weft__text_format(&t, "\"version\": 1}");
        status = t.failed ? weft__out_of_memory("verify", NULL)
                          : weft__json_parse(t.at, t.n, "the run's identity", &doc);
    }
    if (status == WEFT_OK)
        weft__compare(v->end.doc.root, doc.root, &v->items);
    weft__json_free(&doc);
    weft__identity_free(&now);
    weft_free(t.at);
    return status;
}

/* Whether an item other than the build has this state. */
static bool has_state(const verification *v, weft__agreement state)
{
    bool has_it = false;
    for (int i = 0; i < WEFT__BUILD; i++)
        has_it = has_it || v->items.state[i] == state;
    return has_it;
}

/* ---- repeating ------------------------------------------------------------------------------ */

/* Reports an update as one of those that are repeated, and stops after the update `to`. */
static bool go_on(void *context, const weft_train_report *report)
{
    verification *v = context;
    weft_train_report own = *report;
    const int64_t made = report->step - v->from;
    own.steps = v->to;
    own.remaining =
        made > 0 ? (weft__seconds() - v->began) / (double)made * (double)(v->to - report->step)
                 : v->estimate;
    v->reached = v->reached || report->step >= v->to;
    return (v->kept.callback == NULL || v->kept.callback(v->kept.context, &own)) && !v->reached;
}

static bool go_on_validating(void *context, int64_t targets, int64_t total)
{
    const verification *v = context;
    return v->kept.validating == NULL || v->kept.validating(v->kept.context, targets, total);
}

/* Repeats the updates in a folder of its own. */
static weft_status repeat_in(verification *v, const char *folder)
{
    weft_trainer *t = v->trainer;
    char *begin = v->from > 0 ? weft__checkpoint_path(v->run, v->from) : weft_strdup("");
    if (begin == NULL)
        return weft__out_of_memory("verify", "a path");
    v->kept = t->o;
    t->begin = begin;
    t->o.folder = folder;
    t->o.resume = t->o.overwrite = false;
    t->o.save_every = 0;
    t->o.save_minutes = 0;
    t->o.sampler = NULL;
    t->o.general = NULL;
    t->o.callback = go_on;
    t->o.validating = go_on_validating;
    t->o.context = v;
    v->began = weft__seconds();
    const weft_train_report start = {.step = v->from,
                                     .loss = NAN,
                                     .grad_norm = NAN,
                                     .validation_loss = NAN,
                                     .validation_accuracy = NAN,
                                     .general_loss = NAN};
    weft_status status =
        go_on(v, &start) ? weft_trainer_run(t, v->batches, v->validation, NULL) : WEFT_CANCELLED;
    v->seconds = weft__seconds() - v->began;
    t->o = v->kept;
    t->begin = NULL;
    weft_free(begin);
    if (status == WEFT_CANCELLED && v->reached)
        status = WEFT_OK;
    if (status == WEFT_OK)
        status = weft__repeated_compare(t, v->run, folder, v->from, v->to, &v->result);
    v->repeated = status == WEFT_OK;
    return status;
}

static weft_status repeat(verification *v)
{
    const char *where = getenv("TMPDIR");
    char *folder = weft_format("%s/weft-verify-XXXXXX", where && *where ? where : "/tmp");
    if (folder == NULL)
        return weft__out_of_memory("verify", "a path");
    if (mkdtemp(folder) == NULL) {
        weft_free(folder);
        return weft_fail(WEFT_IO, "%s: a temporary folder cannot be made",
                         where && *where ? where : "/tmp");
    }
    const weft_status status = repeat_in(v, folder);
    char why[1024];
    snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
    if (weft__folder_remove(folder) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "%s", weft_error_message());
    weft_free(folder);
    return status == WEFT_OK ? status : weft_fail(status, "%s", why);
}

/* ---- the report ----------------------------------------------------------------------------- */

static const char *state_of(const verification *v)
{
    const bool own = v->items.state[WEFT__BUILD] == WEFT__EQUAL;
    if (has_state(v, WEFT__DIFFERS))
        return "differs";
    if (!v->repeated && has_state(v, WEFT__UNKNOWN))
        return "unknown";
    if (!v->repeated)
        return own && !has_state(v, WEFT__QUICK) ? "verified" : "agrees";
    if (v->result.same)
        return "verified";
    return !own && v->result.same_files && v->result.losses <= v->o.tolerance &&
                   v->result.weights <= v->o.tolerance
               ? "agrees"
               : "differs";
}

static char *write_report(const verification *v)
{
    weft__text t = {0};
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(&t, "{\"state\": \"%s\", \"checkpoint\": %lld, ", state_of(v),
                      (long long)v->to);
    weft__comparison_write(&t, &v->items);
    weft__text_format(&t, "\"updates\": ");
    if (!v->repeated) {
        weft__text_format(&t, "null}");
        return weft__text_take(&t);
    }
    weft__text_format(&t, "{\"from\": %lld, \"to\": %lld, \"seconds\": %s, \"same_bytes\": %s, ",
                      (long long)v->from, (long long)v->to, weft__number(v->seconds, number),
                      v->result.same ? "true" : "false");
    weft__text_format(&t, "\"tolerance\": %s, ", weft__number(v->o.tolerance, number));
    weft__text_format(&t, "\"loss_difference\": %s, ", weft__number(v->result.losses, number));
    weft__text_format(&t, "\"weights_difference\": %s, ", weft__number(v->result.weights, number));
    weft__text_format(&t, "\"differences\": [%s]}}",
                      v->result.differences.at ? v->result.differences.at : "");
    return weft__text_take(&t);
}

static weft_status check(const verification *v)
{
    if (v->run == NULL || !weft_run_exists(v->run))
        return weft_fail(WEFT_INVALID, "verify: %s: expected the folder of a run",
                         v->run ? v->run : "(none)");
    if (weft_group_info_of(v->trainer->o.group).size > 1)
        return weft_fail(WEFT_UNSUPPORTED, "verify: expected one process, got a group of %d",
                         weft_group_info_of(v->trainer->o.group).size);
    if (!(v->o.tolerance >= 0) || v->o.to < 0)
        return weft_fail(WEFT_INVALID, "verify: %s: expected a number of at least 0",
                         v->o.to < 0 ? "to" : "tolerance");
    return WEFT_OK;
}

weft_status weft_trainer_verify(weft_trainer *trainer, weft_batches *batches,
                                const weft_dataset *validation, const weft_verify_options *options,
                                char **report)
{
    verification v = {
        .trainer = trainer, .batches = batches, .validation = validation, .run = trainer->o.folder};
    *report = NULL;
    if (options)
        v.o = *options;
    weft_status status = check(&v);
    if (v.o.tolerance == 0)
        v.o.tolerance = 0.05;
    if (status == WEFT_OK)
        status = open_end(&v);
    if (status == WEFT_OK)
        status = compare_inputs(&v);
    if (status == WEFT_OK && !v.o.hashes_only && !has_state(&v, WEFT__DIFFERS))
        status = repeat(&v);
    if (status == WEFT_OK && (*report = write_report(&v)) == NULL)
        status = weft__out_of_memory("verify", "its report");
    weft__checkpoint_close(&v.end);
    weft__comparison_free(&v.items);
    weft_free(v.result.differences.at);
    return status;
}
