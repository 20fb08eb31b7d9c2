/* cli/train_dry.c -- weft train --dry-run: measures the memory and time of a run with its largest
 * batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/data_show.h"
#include "cli/train.h"
#include "weft/tool/data.h"

/* Optimizer state values per trained parameter: exact for AdamW, an estimate for other optimizers.
 */
enum { LEAST_STATES = 2 };

/* Measurements of one update: the second one of a new trainer. */
typedef struct measured {
    int64_t before, after; /* active bytes without and with the optimizer state */
    int64_t peak;          /* maximum of active bytes */
    double seconds;
    train_device devices[WEFT_MODEL_DEVICES]; /* over which the layers are spread */
    int n_devices;
} measured;

/* Bytes of activations and gradients for samples as long as those of the largest batch. */
typedef struct growth {
    double fixed, sample; /* per update, and per sample */
} growth;

typedef struct dry_run {
    const train_values *v;
    train_run *r;
    weft_trainer_options *o;
    train_epoch epoch;
    int64_t weights, trained; /* bytes of frozen and of trained parameters */
    int64_t
        mapped; /* bytes of weights that are mapped from files, so not counted as array memory */
    int64_t memory; /* bytes that the run needs */
    int64_t limit;  /* 0: unknown */
    measured update;
    bool beside;  /* other threads compute: only this thread's memory is measured */
    bool sampled; /* the largest batch is of completions that are sampled */
    int64_t sampling_rows, sampling; /* completions sampled at a time, and the bytes that they need
                                        beside the weights; 0: none are sampled */
} dry_run;

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Parameters that are streamed to the device take no memory there. */
static weft_status bytes_of(const train_values *v, weft_module *tree, bool trainable, int64_t *out)
{
    weft_nn_slots slots = {.n = 0};
    const weft_status status =
        trainable ? weft_nn_trainable(tree, &slots) : weft_nn_parameters(tree, &slots);
    *out = 0;
    for (int i = 0; status == WEFT_OK && i < slots.n; i++) {
        if (!v->place.stream || weft_device_of(*slots.slots[i]) == weft_default_device())
            *out += weft_nbytes(*slots.slots[i]);
    }
    weft_nn_slots_free(&slots);
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static int64_t active(const dry_run *d)
{
    return d->beside ? weft_memory_thread_active() : weft_memory_active();
}

/* Makes the batch one of the objective's. Completions of the run's length that are sampled share
 * their prompts. */
static weft_status prepare(const dry_run *d, const weft_trainer *trainer, weft_batch *batch)
{
    const bool shares = d->sampled && weft_dim(batch->tokens, 1) == d->epoch.columns &&
                        weft_dim(batch->tokens, 0) >= train_group(d->v);
    const weft_status status = weft_batch_complete(batch, d->o->objective);
    return status == WEFT_OK && shares ? weft_batch_share(trainer, batch) : status;
}

/* Runs two updates with learning rate 0; the first creates the optimizer state, the second is
 * measured. Reference log-probabilities, which a real run computes first, are set to 0. */
static weft_status measure(const dry_run *d, weft_batch *batch, bool checkpoint, measured *out)
{
    const int n = train_batches_at_a_time(d->v, d->o->accumulate);
    weft_trainer_options o = *d->o;
    o.folder = NULL;
    o.checkpoint = checkpoint;
    weft_trainer *trainer = NULL;
    weft_scope_open();
    weft_status status = train_check_cancel(o.cancel);
    weft_batch batches[WEFT_MODEL_DEVICES + 1];
    weft_memory_clear_cache(); /* frees memory cached for the previous batch */
    *out = (measured){.before = active(d)};
    if (status == WEFT_OK)
        status = weft_trainer_new(d->r->model, &o, &trainer);
    if (status == WEFT_OK)
        status = prepare(d, trainer, batch);
    for (int i = 0; i < n; i++)
        batches[i] = *batch;
    if (status == WEFT_OK)
        status = weft_trainer_step(trainer, batches, n, 0, NULL);
    out->after = active(d);
    weft_memory_reset_peak();
    const double began = cli_seconds();
    if (status == WEFT_OK)
        status = weft_trainer_step(trainer, batches, n, 0, NULL);
    out->seconds = (cli_seconds() - began) / n * (double)d->o->accumulate;
    out->peak = d->beside ? weft_memory_thread_peak() : weft_memory_peak();
    if (d->sampled && batch->pack) /* another batch, which saves less than an eighth, shares none */
        out->peak += (out->peak - out->after) / 7;
    out->n_devices = train_devices(d->v, out->devices);
    weft_trainer_free(trainer);
    weft_scope_close(NULL);
    return status;
}

/* Measures an update with n samples of equal tokens. */
static weft_status measure_samples(const dry_run *d, int n, int64_t columns, bool checkpoint,
                                   measured *out)
{
    const bool texts = d->o->objective->examples == WEFT_EXAMPLES_TEXTS,
               sampled = train_samples(d->v) || train_sampled_length(d->v, d->r) > 0;
    const int unit = d->epoch.packed_pairs ? 2 : (int)d->epoch.unit;
    const int64_t length = d->epoch.packed_pairs ? (columns + 1) / 2 + 1 : columns + 1;
    int32_t *ids = calloc((size_t)length, sizeof *ids);
    float *weights = calloc((size_t)length, sizeof *weights);
    weft_sample *samples = calloc((size_t)(unit * n), sizeof *samples);
    weft_batch batch;
    weft_status status = WEFT_OK;
    if (ids == NULL || weights == NULL || samples == NULL) {
        status = weft_fail(WEFT_MEMORY, "train: out of memory for a sample");
    } else {
        const int64_t most = texts ? 1 : train_most_tokens(d->v);
        for (int64_t i = length > most ? length - most : 0; i < length; i++)
            weights[i] = 1;
        for (int i = 0; i < unit * n; i++)
            samples[i] = (weft_sample){ids, texts || sampled ? weights : NULL, length, 0};
        status = weft_batch_of_samples(samples, unit * n, &batch);
    }
    if (status == WEFT_OK) {
        batch.texts = texts ? unit : 0;
        status = measure(d, &batch, checkpoint, out);
        weft_batch_free(&batch);
    }
    free(samples);
    free(weights);
    free(ids);
    return status;
}

/* Measures the bytes that an update with n samples needs in addition to the optimizer state. */
static weft_status probe(const dry_run *d, int n, int64_t columns, bool checkpoint, double *out)
{
    measured m = {0};
    const weft_status status = measure_samples(d, n, columns, checkpoint, &m);
    *out = (double)(m.peak - m.after);
    return status;
}

/* Computes what sampling needs: KV caches, and logits in float32 with their copies
 * for a draw. */
static void find_sampling(dry_run *d)
{
    enum { COPIES = 4 };
    const int64_t rows = d->v->sampling.rows, longest = train_sampled_length(d->v, d->r);
    const bool prompts = train_samples(d->v);
    const int64_t all = prompts ? d->epoch.rows : d->v->batch_size;
    if (!prompts && longest == 0)
        return;
    d->sampling_rows = rows < all ? rows : all;
    d->sampled = prompts || all * (longest - 1) > d->epoch.rows * d->epoch.columns;
    if (d->sampled && !prompts) {
        d->epoch.rows = all;
        d->epoch.columns = longest - 1;
    }
    const int64_t vocabulary = weft_model_info_of(d->r->model)->vocab_size;
    d->sampling = weft_batch_cache_bytes(d->r->model, d->sampling_rows,
                                         prompts ? d->epoch.columns + 1 : longest) +
                  COPIES * d->sampling_rows * vocabulary * (int64_t)sizeof(float);
}

/* Estimates the growth from three small batches: one short row, one long row, and two short rows.
 * Assumes that a row needs linear * columns + square * columns^2 bytes. */
static weft_status extrapolate(const dry_run *d, bool checkpoint, growth *out)
{
    const int64_t half = d->epoch.columns / 2 > 2 ? d->epoch.columns / 2 : 2;
    const int64_t s = half / 2, l = half;
    const double all = (double)d->epoch.columns;
    double one_short, one_long, two_short;
    weft_status status = probe(d, 1, s, checkpoint, &one_short);
    if (status == WEFT_OK)
        status = probe(d, 1, l, checkpoint, &one_long);
    if (status == WEFT_OK)
        status = probe(d, 2, s, checkpoint, &two_short);
    if (status != WEFT_OK)
        return status;
    const double row_short = two_short - one_short;
    out->fixed = fmax(one_short - row_short, 0);
    const double row_long = one_long - out->fixed;
    const double per_short = row_short / (double)s, per_long = row_long / (double)l;
    const double square = fmax((per_long - per_short) / (double)(l - s), 0);
    const double linear = fmax(per_long - square * (double)l, 0);
    out->sample = linear * all + square * all * all;
    return WEFT_OK;
}

static double activations(const growth *g, int64_t samples)
{
    return g->fixed + (double)samples * g->sample;
}

/* The number of samples of the largest batch that are computed at a time. */
static int64_t samples_of(const dry_run *d)
{
    const int64_t all = d->epoch.rows / d->epoch.unit, micro = d->o->micro_batch;
    return micro > 0 && micro < all ? micro : all;
}

/* Whether that number may be reduced to fit in memory. */
static bool may_split(const dry_run *d)
{
    return d->v->trainer.micro_batch == 0 && d->o->neftune == 0 && !train_needs_whole_batches(d->v);
}

static bool is_within(const dry_run *d, double bytes)
{
    return d->limit == 0 || bytes <= (double)d->limit;
}

/* Estimates the growth; if two samples of full length fit, or those of a prompt, measures it. */
static weft_status find_growth(const dry_run *d, bool checkpoint, growth *out)
{
    const bool prompts = train_samples(d->v);
    const int n = prompts ? (int)train_group(d->v) : 2;
    double one = 0, all;
    weft_status status = extrapolate(d, checkpoint, out);
    const double rest = (double)(d->weights + d->trained * (1 + LEAST_STATES));
    if (status != WEFT_OK || !is_within(d, rest + activations(out, n)))
        return status;
    if (!prompts)
        status = probe(d, 1, d->epoch.columns, checkpoint, &one);
    if (status == WEFT_OK)
        status = probe(d, n, d->epoch.columns, checkpoint, &all);
    if (status == WEFT_OK && !prompts)
        out->fixed = fmax(2 * one - all, 0);
    if (status == WEFT_OK)
        out->sample = fmax(prompts ? (all - out->fixed) / n : all - one, 0);
    return status;
}

/* ---- suggestions for runs that do not fit ---------------------------------------------------- */

static int64_t largest_batch(const dry_run *d, const growth *g, double rest)
{
    int64_t rows = samples_of(d) - 1;
    while (rows > 0 && !is_within(d, rest + activations(g, rows)))
        rows--;
    return rows;
}

static bool may_stream(const dry_run *d)
{
    return weft_model_family_of(d->r->model)->follows_parameters && !d->v->place.stream &&
           !cli_has_several_devices(&d->v->place) && d->v->place.gpu_layers == CLI_ABSENT &&
           !d->v->full && strcmp(cli_device(&d->v->place), "cpu") != 0;
}

/* The bytes of weights that --stream keeps off the device: all except those being copied. */
static double streamed(const dry_run *d)
{
    const double layers = (double)weft_model_info_of(d->r->model)->n_layers,
                 under_way = 0.5e9 + 2 * (double)d->weights / layers;
    return fmax((double)d->weights - under_way, 0);
}

/* Fails with a message that lists every change that suffices by itself, with the memory that the
 * run then needs. If no single change suffices, suggests combinations. */
static weft_status refuse(const dry_run *d, const growth *plain, double rest)
{
    char advice[512] = "";
    size_t n = 0;
    const int64_t group = train_samples(d->v) ? train_group(d->v) : 1,
                  rows = largest_batch(d, plain, rest) / group; /* or prompts */
    growth less = *plain;
    weft_status status = WEFT_OK;
    if (!d->o->checkpoint)
        status = find_growth(d, true, &less);
    if (status != WEFT_OK)
        return status;
    const double with_checkpoint = rest + activations(&less, samples_of(d));
    const bool checkpoint = !d->o->checkpoint && is_within(d, with_checkpoint);
    /* 4 bits per value and a 16-bit scale per 32 values: 4.5 bits instead of 32 or 16. */
    const bool whole = d->v->place.quantize == CLI_ABSENT && !d->v->full;
    const double now = cli_dtype(&d->v->place) == 0 ? 32 : 16;
    const double quantized = rest - (double)d->weights * (1 - 4.5 / now);
    const double with_quantize = quantized + activations(plain, samples_of(d));
    const double with_stream = rest - streamed(d) + activations(&less, samples_of(d));
    const bool quantize = whole && is_within(d, with_quantize);
    if (rows > 0)
        n += (size_t)snprintf(advice, sizeof advice, " or --batch-size %lld (%s)", (long long)rows,
                              cli_bytes((int64_t)(rest + activations(plain, rows * group))));
    if (checkpoint)
        n += (size_t)snprintf(advice + n, sizeof advice - n, " or --checkpoint (%s)",
                              cli_bytes((int64_t)with_checkpoint));
    if (quantize)
        n += (size_t)snprintf(advice + n, sizeof advice - n, " or --quantize 4 (%s)",
                              cli_bytes((int64_t)with_quantize));
    if (may_stream(d) && is_within(d, with_stream))
        snprintf(advice + n, sizeof advice - n, " or --stream (%s)",
                 cli_bytes((int64_t)with_stream));
    const int64_t least = samples_of(d) < group ? samples_of(d) : group;
    if (advice[0] == '\0' && is_within(d, (whole ? quantized : rest) + activations(&less, least)))
        snprintf(advice, sizeof advice, " or --batch-size 1 with --checkpoint%s",
                 whole ? " and --quantize 4" : "");
    if (advice[0] == '\0')
        snprintf(advice, sizeof advice, " or a smaller --length, a smaller model or more memory");
    return weft_fail(
        WEFT_MEMORY,
        "train: the run needs about %s of memory, and %s are available; what would fit: %s",
        cli_bytes(d->memory), cli_bytes(d->limit), advice + 4);
}

/* ---- printing ------------------------------------------------------------------------------- */

static int64_t updates_per_epoch(const dry_run *d)
{
    return (d->epoch.batches + d->o->accumulate - 1) / d->o->accumulate;
}

/* Estimates the time of an epoch's updates, assuming that a batch's time is proportional to its
 * number of tokens. */
static double epoch_seconds(const dry_run *d)
{
    const double batch = d->update.seconds / (double)d->o->accumulate;
    return batch * (double)d->epoch.tokens / (double)(d->epoch.rows * d->epoch.columns);
}

static int64_t optimizer_bytes(const dry_run *d)
{
    return d->update.after - d->update.before;
}

static data_found found_of(const dry_run *d)
{
    return (data_found){.tokenizer = d->r->tokenizer,
                        .data = d->r->data,
                        .labels = d->r->labels.n > 0 ? &d->r->labels : NULL};
}

static weft_status print_json(const dry_run *d)
{
    weft_module *tree = weft_model_module(d->r->model);
    const double epoch = epoch_seconds(d);
    printf("{\"parameters\": %lld, \"trainable\": %lld, \"memory\": {\"total\": %lld, "
           "\"limit\": %lld, \"weights\": %lld, \"trained\": %lld, \"optimizer\": %lld, "
           "\"activations\": %lld, \"peak_memory\": %lld, \"sampling\": %lld, \"storing\": %lld}, ",
           (long long)weft_nn_count(tree, false), (long long)weft_nn_count(tree, true),
           (long long)d->memory, (long long)d->limit, (long long)d->weights, (long long)d->trained,
           (long long)optimizer_bytes(d), (long long)(d->update.peak - d->update.after),
           (long long)d->update.peak, (long long)d->sampling, (long long)d->r->storing);
    printf("\"largest_batch\": [%lld, %lld], \"micro_batch\": %lld, \"update_seconds\": %.6g, "
           "\"updates\": %lld, "
           "\"updates_per_epoch\": %lld, \"epoch_seconds\": %.6g, \"run_seconds\": %.6g, ",
           (long long)d->epoch.rows, (long long)d->epoch.columns, (long long)samples_of(d),
           d->update.seconds, (long long)d->o->steps, (long long)updates_per_epoch(d), epoch,
           epoch * (double)d->o->steps / (double)updates_per_epoch(d));
    weft_status status = WEFT_OK;
    const data_found found = found_of(d);
    if (d->r->data)
        data_json_labels(&found);
    train_print_devices(d->update.devices, d->update.n_devices, true);
    fputs("\"sample\": [", stdout);
    if (d->r->data) {
        const weft_sample sample = weft_dataset_at(d->r->data, 0);
        status = data_print_segments(&found, &sample);
    }
    fputs("]", stdout);
    cli_place_json(stdout, &d->v->place);
    puts("}");
    return status;
}

static weft_status print_plain(const dry_run *d)
{
    weft_module *tree = weft_model_module(d->r->model);
    const int64_t all = weft_nn_count(tree, false), trained = weft_nn_count(tree, true);
    const double epoch = epoch_seconds(d);
    printf("trainable  %s of %s parameters (%.2g%%)\n", cli_count(trained), cli_count(all),
           100 * (double)trained / (double)all);
    printf("memory     %s", cli_bytes(d->memory));
    if (d->limit > 0)
        printf(" of %s", cli_bytes(d->limit));
    printf(", measured with the largest batch, %s x %s tokens\n", cli_count(d->epoch.rows),
           cli_count(d->epoch.columns));
    train_print_devices(d->update.devices, d->update.n_devices, false);
    if (samples_of(d) < d->epoch.rows / d->epoch.unit)
        printf("             micro-batches of %s, so that they fit\n", cli_count(samples_of(d)));
    printf("             weights %s, trained parameters %s\n", cli_bytes(d->weights),
           cli_bytes(d->trained));
    printf("             optimizer %s, activations and gradients %s\n",
           cli_bytes(optimizer_bytes(d)), cli_bytes(d->update.peak - d->update.after));
    if (d->r->storing > 0)
        printf("             storing the teacher, before the run: %s for its weights\n",
               cli_bytes(d->r->storing));
    if (d->sampling > 0)
        printf("             sampling, before the update: %s for the KV caches and logits of %s "
               "completions\n",
               cli_bytes(d->sampling), cli_count(d->sampling_rows));
    printf("time       %.3g s for that update; an epoch: %s updates, about %s\n", d->update.seconds,
           cli_count(updates_per_epoch(d)), cli_time(epoch));
    printf("           the run: %s updates, about %s, without validation and saving%s\n",
           cli_count(d->o->steps),
           cli_time(epoch * (double)d->o->steps / (double)updates_per_epoch(d)),
           d->sampling > 0 ? ", and without sampling and rewards" : "");
    if (d->r->data == NULL)
        return WEFT_OK;
    const data_found found = found_of(d);
    if (found.labels) {
        putchar('\n');
        data_print_labels(&found);
        const weft_status status = data_print_lengths(&found);
        if (status != WEFT_OK)
            return status;
    }
    puts("\nLines with + are trained.");
    return data_print_sample(&found, 0, isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL);
}

/* ---- the whole measurement ------------------------------------------------------------------- */

/* A window of the general text, which may need more than an update with few tokens. */
static weft_status measure_general(dry_run *d)
{
    if (d->r->general == NULL)
        return WEFT_OK;
    const int64_t before = weft_memory_active();
    const weft_evaluate_options one = {.batch_size = 1, .max_samples = 1};
    weft_evaluation found;
    weft_memory_reset_peak();
    const weft_status status = weft_evaluate(d->r->model, d->r->general, &one, &found);
    const int64_t peak = d->update.after + weft_memory_peak() - before;
    d->update.peak = peak > d->update.peak ? peak : d->update.peak;
    return status;
}

static weft_status measure_largest(dry_run *d)
{
    weft_batch batch;
    weft_status status = WEFT_OK;
    if (d->sampled) {
        status =
            measure_samples(d, (int)d->epoch.rows, d->epoch.columns, d->o->checkpoint, &d->update);
    } else {
        status = weft_batches_at(d->r->batches, d->epoch.largest, &batch);
        if (status != WEFT_OK)
            return status;
        status = measure(d, &batch, d->o->checkpoint, &d->update);
        weft_batch_free(&batch);
    }
    if (status == WEFT_OK)
        status = measure_general(d);
    const int64_t sampling = d->sampling > 0 ? d->update.after + d->sampling : 0;
    d->memory = d->mapped + (sampling > d->update.peak ? sampling : d->update.peak);
    if (d->memory < d->r->storing)
        d->memory = d->r->storing;
    return status;
}

/* Estimates from small batches first, since the largest batch may not fit in memory. */
static weft_status measure_run(dry_run *d)
{
    growth g = {0};
    d->memory = d->weights + d->trained * (1 + LEAST_STATES);
    if (!is_within(d, (double)d->memory))
        return refuse(d, &g, (double)d->memory);
    weft_status status = find_growth(d, d->o->checkpoint, &g);
    if (status != WEFT_OK)
        return status;
    const double rest = (double)d->memory;
    d->memory += (int64_t)activations(&g, samples_of(d));
    if (!is_within(d, (double)d->memory)) {
        const int64_t rows = may_split(d) ? largest_batch(d, &g, rest) : 0;
        if (may_split(d))
            d->o->micro_batch = rows > 0 ? rows : 1;
        d->memory = (int64_t)(rest + activations(&g, samples_of(d)));
        if (rows == 0)
            return refuse(d, &g, rest);
    }
    status = measure_largest(d);
    while (status == WEFT_OK && !is_within(d, (double)d->memory) && may_split(d) &&
           samples_of(d) > 1) {
        d->o->micro_batch = (samples_of(d) + 1) / 2;
        status = measure_largest(d);
    }
    if (status == WEFT_OK && !is_within(d, (double)d->memory))
        status = refuse(d, &g, (double)(d->mapped + d->update.after));
    return status;
}

int64_t train_model_bytes(const train_values *v, weft_model *model)
{
    int64_t bytes;
    return bytes_of(v, weft_model_module(model), false, &bytes) == WEFT_OK ? bytes : 0;
}

/* Computes the bytes of the run's weights, those of a teacher included, and how many of them are
 * mapped from files. */
static weft_status find_weights(const train_values *v, const train_run *r, int64_t *weights,
                                int64_t *trained, int64_t *mapped)
{
    weft_module *tree = weft_model_module(r->model);
    int64_t all = 0;
    weft_status status = bytes_of(v, tree, false, &all);
    if (status == WEFT_OK)
        status = bytes_of(v, tree, true, trained);
    all += r->teacher ? train_model_bytes(v, r->teacher) : 0;
    const int64_t active = weft_memory_active();
    *weights = all - *trained;
    *mapped = all > active ? all - active : 0;
    return status;
}

static weft_status find_sizes(dry_run *d)
{
    weft_status status = find_weights(d->v, d->r, &d->weights, &d->trained, &d->mapped);
    if (status == WEFT_OK)
        status = train_read_epoch(d->v, d->r, NULL, &d->epoch);
    if (status == WEFT_OK)
        find_sampling(d);
    return status;
}

weft_status train_dry_run(const train_values *v, train_run *r, const weft_trainer_options *options)
{
    weft_trainer_options o = *options;
    dry_run d = {.v = v, .r = r, .o = &o, .limit = train_memory(v)};
    weft_status status = find_sizes(&d);
    if (status == WEFT_OK)
        status = measure_run(&d);
    if (status != WEFT_OK)
        return status;
    return v->json ? print_json(&d) : print_plain(&d);
}

weft_status train_measure(const train_values *v, train_run *r, const train_epoch *epoch,
                          weft_trainer_options *options, int64_t *bytes)
{
    dry_run d = {.v = v, .r = r, .o = options, .epoch = *epoch, .beside = true};
    const double available = (double)(weft_memory_limit() - weft_memory_active());
    growth g;
    weft_status status = find_weights(v, r, &d.weights, &d.trained, &d.mapped);
    if (status == WEFT_OK)
        status = extrapolate(&d, options->checkpoint, &g);
    if (status != WEFT_OK)
        return status;
    const double states = (double)(d.trained * LEAST_STATES);
    const bool splits = may_split(&d);
    while (splits && samples_of(&d) > 1 && states + activations(&g, samples_of(&d)) > available)
        options->micro_batch = (samples_of(&d) + 1) / 2;
    *bytes = (int64_t)(states + activations(&g, samples_of(&d)));
    if ((double)*bytes > available)
        return WEFT_OK;
    status = measure_largest(&d);
    *bytes = d.update.peak - d.update.before;
    return status;
}

/* ---- the run itself ------------------------------------------------------------------------- */

weft_status train_limit_memory(const train_values *v, const train_run *r)
{
    int64_t weights, trained, mapped;
    const int64_t limit = train_memory(v);
    const weft_status status = find_weights(v, r, &weights, &trained, &mapped);
    if (status == WEFT_OK && limit > 0)
        weft_memory_set_limit(limit - mapped);
    return status;
}

weft_status train_out_of_memory(const train_values *v, train_run *r,
                                const weft_trainer_options *options)
{
    weft_trainer_options o = *options;
    dry_run d = {.v = v, .r = r, .o = &o, .limit = train_memory(v)};
    growth g = {0};
    weft_trainer_free(r->trainer);
    r->trainer = NULL;
    weft_status status = find_sizes(&d);
    if (may_split(&d))
        o.micro_batch = 1;
    weft_memory_set_limit(INT64_MAX);
    const double rest = (double)(d.weights + d.trained * (1 + LEAST_STATES));
    if (status == WEFT_OK)
        status = find_growth(&d, o.checkpoint, &g);
    d.memory = (int64_t)(rest + activations(&g, samples_of(&d)));
    return status == WEFT_OK ? refuse(&d, &g, rest) : status;
}
