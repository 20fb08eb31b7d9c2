/* cli/train_report.c -- output of weft train: the plan, the progress, the result. */
#include "cli/train.h"

#include <string.h>

#include "cli/profile.h"
#include "cli/program.h"
#include "cli/report.h"
#include "weft/tool/run.h"

/* Prints the number of examples, "12 pairs" or "24 samples", and their tokens. */
static void print_examples(const weft_dataset_info *info)
{
    const bool pairs = info->examples == WEFT_EXAMPLES_PAIRS;
    const int64_t n = pairs ? info->samples / 2 : info->samples;
    if (info->examples == WEFT_EXAMPLES_TEXTS) {
        fprintf(stderr, "%s examples of %lld texts%s, %s tokens\n",
                cli_count(info->samples / info->texts), (long long)info->texts,
                info->scored ? " and a score" : "", cli_count(info->tokens - info->samples));
        return;
    }
    const char *what = pairs                                     ? "pair"
                       : info->examples == WEFT_EXAMPLES_PROMPTS ? "prompt"
                                                                 : "sample";
    fprintf(stderr, "%s %s%s", cli_count(n), what, n == 1 ? "" : "s");
    if (info->examples == WEFT_EXAMPLES_PROMPTS) {
        fprintf(stderr, ", %s tokens\n", cli_count(info->tokens));
        return;
    }
    fprintf(stderr, ", %s tokens, %s in the loss\n", cli_count(info->tokens),
            cli_count(info->targets));
}

static void print_data(const train_values *v, const train_run *r)
{
    if (r->data == NULL) {
        fprintf(stderr, "data    %s: %s batches\n", weft_printable(v->batches),
                cli_count(weft_batches_count(r->batches)));
    } else {
        weft_dataset_info info = weft_dataset_info_of(r->data);
        const int n = v->source.paths.n;
        fprintf(stderr, "data    %s",
                weft_printable(v->completions ? v->completions : cli_data_first(&v->source)));
        if (n > 1)
            fprintf(stderr, " and %d more", n - 1);
        fputs(": ", stderr);
        print_examples(&info);
    }
    if (r->validation != NULL) {
        weft_dataset_info info = weft_dataset_info_of(r->validation);
        fputs("val     ", stderr);
        print_examples(&info);
        if (train_splits_by_default(v) && !r->validation_given)
            fputs("        (held out of the data; --val-split 0 trains on all of it)\n", stderr);
    }
}

/* Prints the line of the plan about several ranks. */
static void print_ranks(const train_values *v, const weft_trainer_options *o)
{
    const weft_group_info place = weft_group_info_of(o->group);
    if (place.size == 1)
        return;
    const int64_t memory = train_memory(v);
    fprintf(stderr, "ranks   %d, %d of them on this machine, %d %s", place.size, place.local_size,
            weft_threads(), weft_threads() == 1 ? "thread" : "threads");
    if (memory > 0)
        fprintf(stderr, " and at most %s", cli_bytes(memory));
    if (o->objective->compare)
        fprintf(stderr, " each; together they compare the texts of %s rows\n",
                cli_count(v->batch_size));
    else
        fprintf(stderr, " each; %s batches an update\n", cli_count(o->accumulate));
}

void train_print_plan(const train_values *v, const train_run *r, const weft_trainer_options *o)
{
    if (!train_is_first())
        return;
    weft_module *module = weft_model_module(r->model);
    int64_t all = weft_nn_count(module, false), trained = weft_nn_count(module, true);
    fprintf(stderr, "model   %s: %s, %s parameters\n", weft_printable(r->path),
            weft_model_family_of(r->model)->model_type, cli_count(v->full ? all : all - trained));
    train_print_adapter(v, r);
    print_data(v, r);
    train_print_rewards(v);
    if (cli_has_several_devices(&v->place)) {
        fprintf(stderr, "place   layers spread over %s\n", weft_printable(cli_device(&v->place)));
    } else if (v->place.gpu_layers != CLI_ABSENT) {
        int64_t layers = weft_model_info_of(r->model)->n_layers, n = v->place.gpu_layers;
        fprintf(stderr, "place   %s of %s layers%s on %s, the rest %s\n",
                cli_count(n < layers ? n : layers), cli_count(layers),
                n > layers ? " and the head" : "", cli_device(&v->place),
                v->place.stream ? "streamed to it" : "on cpu");
    } else if (v->place.stream) {
        fprintf(stderr, "place   all layers streamed to %s\n", cli_device(&v->place));
    }
    print_ranks(v, o);
    char warmup[32] = "no warmup";
    if (o->warmup > 0)
        snprintf(warmup, sizeof warmup, "%lld warmup", (long long)o->warmup);
    else if (o->warmup_share > 0)
        snprintf(warmup, sizeof warmup, "%g%% warmup", 100 * o->warmup_share);
    fprintf(stderr, "run     %s update%s; %s, learning rate %g, %s, %s, weight decay %g, ",
            cli_count(o->steps), o->steps == 1 ? "" : "s", o->optimizer->name, o->lr,
            weft_printable(o->schedule), warmup, fmax(v->trainer.weight_decay, 0));
    fprintf(stderr, o->clip > 0 ? "clip %g\n" : "no clipping\n", o->clip);
}

/* Whether an update gets a line in output that is not a terminal; about twenty updates do. */
static bool has_line(const weft_train_report *p)
{
    int64_t every = p->steps > 20 ? p->steps / 20 : 1;
    return p->step == 1 || p->step == p->steps || p->step % every == 0;
}

/* Adds an update's loss to the exponential moving average that is shown, with a span of a twentieth
 * of the run, at least 5 updates, as in report.html; returns it. */
static double smoothed_loss(train_run *r, const weft_train_report *p)
{
    const double span = (double)(p->steps / 20 > 5 ? p->steps / 20 : 5), keep = 1 - 1 / span;
    if (isfinite(p->loss)) {
        r->loss_sum = keep * r->loss_sum + p->loss;
        r->loss_weight = keep * r->loss_weight + 1;
    }
    return r->loss_weight > 0 ? r->loss_sum / r->loss_weight : p->loss;
}

/* Shows an update, on narrow terminals without learning rate and memory. */
static void show_update(train_run *r, const weft_train_report *p, const char *rewards,
                        const char *validation)
{
    enum { WIDE = 105 };
    const bool measured = !isnan(p->validation_loss);
    const bool line =
        r->progress.terminal ? measured || p->step == p->steps : measured || has_line(p);
    char more[64] = "";
    r->smoothed = smoothed_loss(r, p);
    if (measured && (r->loss_at_best == 0 || p->validation_loss < r->lowest_validation)) {
        r->lowest_validation = p->validation_loss;
        r->loss_at_best = r->smoothed;
    }
    if (!r->progress.terminal || cli_progress_columns() >= WIDE)
        snprintf(more, sizeof more, "  lr %.3g  %s", p->lr, cli_bytes(p->peak_memory));
    r->updates++;
    cli_progress_show(&r->progress, (double)p->step / (double)p->steps, line,
                      "step %lld/%lld  loss %.4f%s%s%s  %s tok/s  %s left%s", (long long)p->step,
                      (long long)p->steps, r->smoothed, rewards, validation, more,
                      cli_count((int64_t)p->tokens_per_second), cli_time(p->remaining),
                      p->applied ? "" : "  skipped: not finite");
}

bool train_show_validation(void *context, int64_t targets, int64_t total)
{
    train_run *r = context;
    const double share = (double)targets / (double)total;
    cli_progress_show(&r->progress, share, false, "validation: %.0f%%", 100 * share);
    return true;
}

bool train_show(void *context, const weft_train_report *p)
{
    train_run *r = context;
    if (!r->configured && train_write_config(r->values, &r->words) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "%s; training continues", weft_error_message());
    r->configured = true;
    bool measured = !isnan(p->validation_loss);
    char validation[40] = "", rewards[64] = "";
    if (measured) {
        r->latest_validation = p->validation_loss;
        r->latest_accuracy = p->validation_accuracy;
    }
    if (train_has_rewards(r->values) && !isnan(r->latest_validation))
        snprintf(validation, sizeof validation, "  val reward %.4f", -r->latest_validation);
    else if (!isnan(r->latest_validation))
        snprintf(validation, sizeof validation, "  val %.4f", r->latest_validation);
    if (!isnan(r->latest_validation) && !isnan(r->latest_accuracy))
        snprintf(validation, sizeof validation, "  val %.4f, accuracy %.1f%%", r->latest_validation,
                 100 * r->latest_accuracy);
    if (p->rewards.policy.completions > 0)
        snprintf(rewards, sizeof rewards, "  reward %.3g  clipped %.1f%%", p->rewards.policy.reward,
                 100 * (p->rewards.policy.clipped_low + p->rewards.policy.clipped_high));
    else if (p->rewards.pairs > 0 && isnan(p->rewards.accuracy))
        snprintf(rewards, sizeof rewards, "  margin %.3g", p->rewards.margin);
    else if (p->rewards.pairs > 0)
        snprintf(rewards, sizeof rewards, "  accuracy %.0f%%  margin %.3g",
                 100 * p->rewards.accuracy, p->rewards.margin);
    if (p->step == 0) {
        if (!isnan(p->general_loss))
            snprintf(rewards, sizeof rewards, "  general %.4f", p->general_loss);
        cli_progress_show(&r->progress, 0, true, "step 0/%lld%s%s", (long long)p->steps, validation,
                          rewards);
        return true;
    }
    show_update(r, p, rewards, validation);
    return true;
}

/* The speed of the updates, as in the progress bar; excludes the time for validation and saving. */
static double tokens_per_second(const weft_train_result *s)
{
    return s->training_seconds > 0 ? (double)s->tokens / s->training_seconds : 0;
}

static void print_json(const train_values *v, const train_run *r)
{
    const weft_train_result *s = &r->result;
    const double sign = train_has_rewards(v) ? -1 : 1; /* rewards are validated as minus losses */
    const char *end = sign < 0 ? "_reward" : "";
    const bool stopped = train_stop_signal() != 0 && s->steps < r->planned;
    printf("{\"steps\": %lld, \"stopped\": %s, \"skipped\": %lld, \"loss\": ", (long long)s->steps,
           stopped ? "true" : "false", (long long)s->skipped);
    cli_json_number(stdout, s->loss);
    printf(", \"first_validation%s\": ", end);
    cli_json_number(stdout, sign * s->first_validation);
    printf(", \"last_validation%s\": ", end);
    cli_json_number(stdout, sign * s->last_validation);
    printf(", \"best_validation%s\": ", end);
    cli_json_number(stdout, sign * s->best_validation);
    cli_json_member("reloaded_validation", r->reloaded_validation);
    cli_json_member("first_general", s->first_general);
    cli_json_member("last_general", s->last_general);
    printf(", \"best_step\": %lld, \"tokens\": %lld, \"tokens_per_second\": %.6g, "
           "\"seconds\": %.6g, \"peak_memory\": %lld, \"peak_active\": %lld, \"out\": ",
           (long long)s->best_step, (long long)s->tokens, tokens_per_second(s), s->seconds,
           (long long)s->peak_memory, (long long)s->peak_active);
    cli_json_text(stdout, v->out, strlen(v->out));
    cli_place_json(stdout, &v->place);
    cli_profile_json(stdout);
    puts("}");
}

/* Prints the commands that the report lists, too. */
static weft_status print_commands(const char *folder)
{
    weft_run_use uses[WEFT_MOST_USES];
    weft_history *run;
    const weft_status status = weft_history_load(folder, &run);
    if (status != WEFT_OK)
        return status;
    bool mlx = false;
    const int n = weft_history_uses(run, uses);
    for (int i = 0; i < n; i++) {
        cli_print_command(uses[i].words);
        for (int k = 0; uses[i].words[k]; k++)
            mlx = mlx || strcmp(uses[i].words[k], "--type") == 0;
    }
    if (mlx)
        puts("Without --type bf16 the merged folder stays in MLX's format, which mlx-lm and Weft "
             "load, but not transformers and vLLM.");
    weft_history_free(run);
    return WEFT_OK;
}

/* Whether the validation loss was lowest in the first half of the run and then rose by half of what
 * it had fallen or more, while the smoothed training loss fell by a quarter or more: the rows were
 * learned, and the validation data is not about them. Unknown (false) if the best update was made
 * before the run was resumed. */
static bool learned_only_rows(const train_run *r)
{
    const weft_train_result *s = &r->result;
    const double rise = s->last_validation - s->best_validation;
    return s->best_step > 0 && 2 * s->best_step <= s->steps && rise > 0 &&
           rise >= 0.5 * (s->first_validation - s->best_validation) &&
           r->lowest_validation == s->best_validation && r->smoothed <= 0.75 * r->loss_at_best;
}

/* Prints which adapter to use, and commands that use it. */
static void print_use(const train_values *v, const train_run *r)
{
    const weft_train_result *s = &r->result;
    const bool best = s->best_step > 0;
    printf("report %s/report.html, metrics %s/metrics.jsonl\n", v->out, v->out);
    const bool rewards = train_has_rewards(v);
    if (best && rewards && s->best_validation >= s->first_validation)
        puts("The validation reward did not rise above that of the model without training.");
    else if (best && s->best_validation >= s->first_validation)
        puts("The validation loss did not fall below that of the model without training.");
    if (!rewards && learned_only_rows(r))
        printf("After update %lld the training loss fell from %.4f to %.4f and the validation loss "
               "rose: if the rows themselves are to be learned, such as facts, use %s/last "
               "(docs/teaching-facts.md).\n",
               (long long)s->best_step, r->loss_at_best, r->smoothed, v->out);
    printf("Use %s/%s", v->out, best ? "best" : "last");
    printf(best ? ", the %s with the %s:\n" : ":\n", v->full ? "model" : "adapter",
           rewards ? "highest validation reward" : "lowest validation loss");
    if (print_commands(v->out) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "%s", weft_error_message());
}

void train_print_result(const train_values *v, const train_run *r)
{
    const weft_train_result *s = &r->result;
    if (!train_is_first())
        return;
    if (v->json) {
        print_json(v, r);
        return;
    }
    if (report_plot(v->out) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "no curve: %s", weft_error_message());
    printf("%s update%s, %s token%s in %s, %s tokens/s, peak memory %s\n", cli_count(s->steps),
           s->steps == 1 ? "" : "s", cli_count(s->tokens), s->tokens == 1 ? "" : "s",
           cli_time(s->seconds), cli_count((int64_t)tokens_per_second(s)),
           cli_bytes(s->peak_memory));
    if (r->planned > s->steps)
        printf("stopped early: the validation %s since update %lld\n",
               train_has_rewards(v) ? "reward has not risen" : "loss has not fallen",
               (long long)s->best_step);
    else if (v->trainer.resume && r->updates == 0)
        printf("All of its updates were made before; --steps N with more extends the run.\n");
    const double sign = train_has_rewards(v) ? -1 : 1;
    if (!isnan(s->last_validation))
        printf("validation %s %.4f before, %.4f after, best %.4f at update %lld\n",
               sign < 0 ? "reward" : "loss", sign * s->first_validation, sign * s->last_validation,
               sign * s->best_validation, (long long)s->best_step);
    report_general(s->first_general, s->last_general);
    if (!isnan(r->reloaded_validation) && train_reloaded_well(r))
        printf("%s/best was loaded again: its validation loss is the same, %.4f\n", v->out,
               r->reloaded_validation);
    else if (!isnan(r->reloaded_validation))
        weft_log_message(WEFT_LOG_WARNING,
                         "%s/best was loaded again: its validation loss is %.4f, expected %.4f",
                         weft_printable(v->out), r->reloaded_validation, s->best_validation);
    print_use(v, r);
}
