/* tests/train/test_distill.c -- distillation against TRL's loss: losses, gradients and parameters
 * over 20 updates; compiled, split and checkpointed updates; stored teachers; sampled completions,
 * and runs that are resumed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"
#include "train/rollout.h"

enum { STEPS = 20, BATCH = 4, MOST = 17 };

/* ---- beside TRL ----------------------------------------------------------------------------- */

typedef struct golden {
    const char *name;
    double beta, temperature, lr;
    bool full;
} golden;

static const golden goldens[] = {
    {"jsd", 0.5, 0.9, 0.005, false},
    {"forward", -1, 1, 0.005, false},
    {"reverse", 1, 0.7, 0.005, false},
    {"full", 0.3, 0.9, 0.001, true},
};

static weft_model *load(const char *path)
{
    weft_model *model = NULL;
    CHECK_OK(weft_model_load(check_fixture(path), NULL, &model));
    return model;
}

static weft_model *student(bool full)
{
    char start[512];
    snprintf(start, sizeof start, "%s", check_fixture("train/objectives/start"));
    weft_model *model = load("models/llama");
    if (model && !full)
        CHECK_OK(weft_adapter_load(model, start, NULL));
    return model;
}

typedef struct samples {
    int32_t ids[STEPS * BATCH * MOST], lengths[STEPS * BATCH], prompts[STEPS * BATCH];
    float weights[STEPS * BATCH * MOST];
    weft_sample at[STEPS * BATCH];
} samples;

static void read_samples(samples *s)
{
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(check_fixture("train/distill/batches.safetensors"), &file)))
        return;
    weft_scope_open();
    CHECK_OK(weft_read(weft_safetensors_get(file, "ids"), WEFT_INT32, s->ids,
                       (int64_t)STEPS * BATCH * MOST));
    CHECK_OK(weft_read(weft_safetensors_get(file, "lengths"), WEFT_INT32, s->lengths,
                       (int64_t)STEPS * BATCH));
    CHECK_OK(weft_read(weft_safetensors_get(file, "prompts"), WEFT_INT32, s->prompts,
                       (int64_t)STEPS * BATCH));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    for (int i = 0; i < STEPS * BATCH; i++) {
        for (int k = 0; k < MOST; k++)
            s->weights[i * MOST + k] = (float)(k >= s->prompts[i]);
        s->at[i] = (weft_sample){s->ids + i * MOST, s->weights + i * MOST, s->lengths[i], 0};
    }
}

static double norm_of(weft_array *x)
{
    return sqrt(weft_item(weft_sum(weft_square(x), WEFT_ALL_AXES, false)));
}

/* The largest difference of an array of each slot from that of the file, by its norm. */
static double compare(const weft_trainer *t, weft_array *const *arrays, const char *prefix,
                      const weft_safetensors *file)
{
    double off = 0;
    int n = 0;
    weft_scope_open();
    for (int i = 0; i < t->slots.n; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, t->slots.paths[i]);
        weft_array *theirs = weft_safetensors_get(file, name),
                   *own = arrays ? arrays[i] : *t->slots.slots[i];
        if (!weft_ok(theirs)) /* the file has a part of all parameters */
            continue;
        off = fmax(off, norm_of(weft_subtract(own, theirs)) / norm_of(theirs));
        n++;
    }
    weft_scope_close(NULL);
    CHECK(n >= 6);
    return off;
}

/* Compares the gradients of the first update. */
static double compare_gradients(weft_trainer *t, const weft_batch *whole,
                                const weft_safetensors *file)
{
    weft_batch batch = *whole;
    weft_scope_open();
    CHECK_OK(weft__teacher_fill(t->o.objective, &t->o.objective_options, &batch));
    weft_array *scale = weft_scalar(1 / batch.n_targets, WEFT_FLOAT32);
    CHECK_OK(weft_eval(weft__trainer_differentiate(t, &batch, scale)));
    const double off = compare(t, t->gradients, "grad.", file);
    weft_scope_close(NULL);
    return off;
}

static void run_updates(const golden *g, const weft_safetensors *file, const samples *s)
{
    double losses[STEPS], norms[STEPS], loss = 0, norm = 0, gradients = 0;
    weft_model *model = student(g->full), *teacher = load("train/distill/teacher");
    const weft_trainer_options o = {
        .objective = &weft_objective_distill,
        .objective_options = {.beta = g->beta, .temperature = g->temperature, .teacher = teacher},
        .lr = g->lr,
        .weight_decay = -1};
    weft_trainer *t = NULL;
    CHECK_OK(weft_read(weft_safetensors_get(file, "losses"), WEFT_FLOAT64, losses, STEPS));
    CHECK_OK(weft_read(weft_safetensors_get(file, "grad_norms"), WEFT_FLOAT64, norms, STEPS));
    if (model && teacher && CHECK_OK(weft_trainer_new(model, &o, &t))) {
        for (int i = 0; i < STEPS; i++) {
            weft_train_report report;
            weft_batch batch;
            if (!CHECK_OK(weft_batch_of_samples(s->at + i * BATCH, BATCH, &batch)))
                break;
            if (i == 0)
                gradients = compare_gradients(t, &batch, file);
            CHECK_OK(weft_trainer_step(t, &batch, 1, 1, &report));
            loss = fmax(loss, fabs(report.loss / losses[i] - 1));
            norm = fmax(norm, fabs(report.grad_norm / norms[i] - 1));
            weft_batch_free(&batch);
        }
        const double parameters = compare(t, NULL, "", file);
        printf("  %s: worst loss %.2g, norm %.2g, first gradient %.2g, parameters %.2g\n", g->name,
               loss, norm, gradients, parameters);
        CHECK_CLOSE(loss, 0, 1e-6);
        CHECK_CLOSE(norm, 0, 5e-6);
        CHECK_CLOSE(gradients, 0, 2e-5);
        CHECK_CLOSE(parameters, 0, 3e-5); /* Adam amplifies rounding */
    }
    weft_trainer_free(t);
    weft_model_free(model);
    weft_model_free(teacher);
}

static void every_update_equals_trl(void)
{
    static samples s;
    read_samples(&s);
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        char path[128];
        weft_safetensors *file;
        snprintf(path, sizeof path, "train/distill/%s.safetensors", goldens[i].name);
        if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &file)))
            continue;
        weft_scope_open();
        run_updates(&goldens[i], file, &s);
        weft_scope_close(NULL);
        weft_safetensors_close(file);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

enum { VALUES = 1 << 13 };

typedef struct run {
    weft_trainer_options o;
    const char *stored;             /* a file of a stored teacher, in place of the model */
    bool compute;                   /* and write the file */
    bool packed, quantized, longer; /* longer: the teacher reads more before each sample */
    int stop_after;
    bool failed; /* as a rank */
    history history;
    int64_t n_values;
    float values[VALUES]; /* of the trained parameters at the end */
} run;

static weft_dataset *dataset_of(const samples *s, int n)
{
    weft_dataset *d = NULL;
    if (CHECK_OK(weft_dataset_new(64, &d))) {
        for (int i = 0; i < n; i++)
            CHECK_OK(weft_dataset_add_sample(d, &s->at[i]));
    }
    return d;
}

/* The samples with a longer prompt. */
static weft_dataset *longer_of(const samples *s, int n)
{
    enum { MORE = 5 };
    weft_dataset *d = NULL;
    CHECK_OK(weft_dataset_new(64, &d));
    for (int i = 0; i < n; i++) {
        int32_t ids[MOST + MORE] = {11, 12, 13, 14, 15};
        float weights[MOST + MORE] = {0};
        memcpy(ids + MORE, s->at[i].ids, (size_t)s->at[i].length * sizeof *ids);
        memcpy(weights + MORE, s->at[i].weights, (size_t)s->at[i].length * sizeof *weights);
        const weft_sample sample = {ids, weights, s->at[i].length + MORE, 0};
        CHECK_OK(weft_dataset_add_sample(d, &sample));
    }
    return d;
}

static weft_status make_run(run *r)
{
    static _Thread_local samples s;
    static const weft_sampling sampling = {.rows = 3};
    read_samples(&s);
    weft_model *model = student(false), *teacher = NULL;
    const weft_model_options half = {.quantize = r->quantized ? 4 : 0};
    CHECK_OK(weft_model_load(check_fixture("train/distill/teacher"), &half, &teacher));
    weft_dataset *d = dataset_of(&s, 12), *held = dataset_of(&s, 3);
    weft_batches *batches = NULL;
    weft_trainer *t = NULL;
    weft_status status = WEFT_OK;
    if (r->longer) {
        CHECK_OK(weft_dataset_take_teacher_samples(d, longer_of(&s, 12)));
        CHECK_OK(weft_dataset_take_teacher_samples(held, longer_of(&s, 3)));
    }
    r->history = (history){.stop_after = r->stop_after};
    r->o.objective = &weft_objective_distill;
    r->o.objective_options.max_completion_length = 6;
    r->o.objective_options.teacher = r->stored ? NULL : teacher;
    r->o.sampling = r->o.objective_options.lmbda > 0 ? &sampling : NULL;
    r->o.lr = 0.005;
    r->o.steps = 6;
    r->o.save_every = 2;
    r->o.callback = run_keep;
    r->o.context = &r->history;
    if (r->compute)
        CHECK_OK(weft_dataset_add_teacher(d, teacher, 0, 0, 5));
    if (r->compute)
        CHECK_OK(weft_dataset_save_teacher(d, r->stored));
    if (r->stored && !r->compute)
        status = weft_dataset_load_teacher(d, r->stored, r->o.objective_options.temperature);
    if (status == WEFT_OK)
        status = r->packed ? weft_batches_new_packed(d, 2, 48, 0, &batches)
                           : weft_batches_new(d, 4, 0, &batches);
    if (status == WEFT_OK)
        status = weft_trainer_new(model, &r->o, &t);
    if (status == WEFT_OK)
        status = weft_trainer_run(t, batches, r->stored ? NULL : held, NULL);
    r->n_values = 0;
    for (int i = 0; t && i < t->slots.n; i++) {
        const int64_t n = weft_size(*t->slots.slots[i]);
        CHECK(r->n_values + n <= VALUES);
        CHECK_OK(weft_read(*t->slots.slots[i], WEFT_FLOAT32, r->values + r->n_values, n));
        r->n_values += n;
    }
    weft_trainer_free(t);
    weft_batches_free(batches);
    weft_dataset_free(d);
    weft_dataset_free(held);
    weft_model_free(model);
    weft_model_free(teacher);
    return status;
}

static double difference(const run *a, const run *b)
{
    double squares = 0, of = 0;
    CHECK(a->n_values == b->n_values && a->n_values > 0);
    for (int64_t i = 0; i < a->n_values; i++) {
        squares += pow((double)a->values[i] - (double)b->values[i], 2);
        of += pow((double)b->values[i], 2);
    }
    return sqrt(squares / of);
}

/* The same updates, also with other partial sums; another teacher gives other updates. */
static void every_way_makes_the_same_updates(void)
{
    static run plain, other;
    CHECK_OK(make_run(&plain));
    CHECK(plain.history.n > 1 && plain.history.reports[0].validation_loss >
                                     plain.history.reports[plain.history.n - 1].validation_loss);
    const struct {
        weft_trainer_options o;
        bool packed, quantized, same;
    } ways[] = {{.o.compile = true, .same = true},
                {.o.checkpoint = true, .same = true},
                {.o.micro_batch = 1, .same = true},
                {.o = {.micro_batch = 3, .compile = true}, .same = true},
                {.packed = true, .same = false}, /* other batches */
                {.quantized = true, .same = false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        other = (run){.o = ways[i].o, .packed = ways[i].packed, .quantized = ways[i].quantized};
        CHECK_OK(make_run(&other));
        const double off = difference(&other, &plain);
        if (!CHECK(ways[i].same ? off < 1e-5 : off > 1e-4))
            CHECK_FAIL("way %zu: difference %g", i, off);
    }
}

/* A run that is stopped and resumed ends with the same bytes, with sampled completions too. */
static void resumed_runs_end_alike(void)
{
    static run whole, first, rest;
    char folder[512];
    for (int i = 0; i < 2; i++) {
        const weft_trainer_options o = {.objective_options.lmbda = i ? 0.5 : 0, .seed = 5};
        snprintf(folder, sizeof folder, "%s", check_temporary(i ? "sampled" : "data"));
        whole = (run){.o = o};
        first = (run){.o = o, .stop_after = 4};
        rest = (run){.o = o};
        first.o.folder = rest.o.folder = folder;
        rest.o.resume = true;
        CHECK_OK(make_run(&whole));
        CHECK_STATUS(make_run(&first), WEFT_CANCELLED);
        CHECK_OK(make_run(&rest));
        CHECK_CLOSE(difference(&rest, &whole), 0, 0);
    }
}

static void make_rank(weft_group *group, void *argument)
{
    run *r = argument;
    r->o.group = group;
    r->failed = make_run(r) != WEFT_OK;
}

/* Ranks with a batch each end with the bits of one process, on the data or on sampled completions,
 * for all of which the same updates sample. */
static void ranks_end_alike(void)
{
    static run one, ranks[MOST_RANKS];
    for (int n = 2; n <= 4; n += 2) {
        const weft_trainer_options o = {.objective_options.lmbda = 0.5, .seed = 5, .accumulate = n};
        one = (run){.o = o};
        CHECK_OK(make_run(&one));
        for (int r = 0; r < n; r++)
            ranks[r] = (run){.o = o};
        ranks_run(n, make_rank, ranks, sizeof *ranks);
        for (int r = 0; r < n; r++) {
            CHECK(!ranks[r].failed);
            CHECK_CLOSE(difference(&ranks[r], &one), 0, 0);
        }
    }
}

/* Sampled completions depend on the weights, and replace those of the data in a share of the
 * updates. */
static void lmbda_is_the_share_of_sampled_updates(void)
{
    static run data, all, some;
    data = (run){.o.seed = 1};
    all = (run){.o = {.objective_options.lmbda = 1, .seed = 1}};
    some = (run){.o = {.objective_options.lmbda = 0.5, .seed = 1}};
    CHECK_OK(make_run(&data));
    CHECK_OK(make_run(&all));
    CHECK_OK(make_run(&some));
    CHECK(difference(&all, &data) > 1e-4);
    CHECK(difference(&some, &data) > 1e-4 && difference(&some, &all) > 1e-4);
    int equal = 0, n = 0;
    for (int i = 0; i < some.history.n; i++) {
        const weft_train_report *a = &some.history.reports[i], *b = &data.history.reports[i];
        n += a->step > 0;
        equal += a->step > 0 && a->tokens == b->tokens; /* the data's lengths */
    }
    CHECK(equal > 0 && equal < n);
}

/* The mean loss of the data from the model or the table of its teacher. */
static double loss_of(weft_dataset *d, weft_model *model, weft_model *teacher)
{
    const weft_evaluate_options o = {.objective = &weft_objective_distill,
                                     .objective_options = {.beta = -1, .teacher = teacher}};
    weft_evaluation found = {0};
    CHECK_OK(weft_evaluate(model, d, &o, &found));
    return found.loss;
}

/* A teacher with longer samples: the loss compares its hidden states at their targets, for every
 * way to compute it. */
static void a_teacher_may_have_a_longer_system_text(void)
{
    static run plain, r, other;
    static samples s;
    CHECK_OK(make_run(&plain));
    r = (run){.longer = true};
    CHECK_OK(make_run(&r));
    CHECK(difference(&r, &plain) > 1e-4);
    const weft_trainer_options ways[] = {
        {.compile = true}, {.micro_batch = 1}, {.micro_batch = 3, .compile = true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        other = (run){.longer = true, .o = ways[i]};
        CHECK_OK(make_run(&other));
        CHECK_CLOSE(difference(&other, &r), 0, 1e-5);
    }
    r = (run){.longer = true, .o.objective_options.lmbda = 1};
    other = (run){.o.objective_options.lmbda = 1};
    CHECK_OK(make_run(&r));
    CHECK_OK(make_run(&other));
    CHECK(difference(&r, &other) > 1e-4);

    /* The divergence of the model that reads the longer samples itself is 0. */
    read_samples(&s);
    weft_model *model = load("models/llama");
    weft_dataset *d = dataset_of(&s, 4);
    CHECK_CLOSE(loss_of(d, model, model), 0, 1e-6);
    CHECK_OK(weft_dataset_take_teacher_samples(d, longer_of(&s, 4)));
    CHECK(loss_of(d, model, model) > 0.01);
    CHECK_STATUS(weft_dataset_take_teacher_samples(d, longer_of(&s, 3)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "teacher: expected 4 single samples, got 3");
    s.ids[s.lengths[0] - 1]++; /* the last target */
    CHECK_STATUS(weft_dataset_take_teacher_samples(d, longer_of(&s, 4)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "teacher: sample 1: expected the targets");
    weft_dataset_free(d);
    weft_model_free(model);
}

/* ---- stored teachers ------------------------------------------------------------------------ */

static void a_stored_teacher_is_close(void)
{
    static samples s;
    char path[512];
    read_samples(&s);
    weft_model *model = student(false), *teacher = load("train/distill/teacher");
    weft_dataset *d = dataset_of(&s, 8), *shorter = dataset_of(&s, 7);
    const double whole = loss_of(d, model, teacher);
    snprintf(path, sizeof path, "%s", check_temporary("teacher.safetensors"));
    CHECK_OK(weft_dataset_add_teacher(d, teacher, 0, 0, 3));
    const double stored = loss_of(d, model, NULL);
    printf("  KL %.6f of all ids, %.6f of the stored ones\n", whole, stored);
    CHECK(stored <= whole && stored > 0.9 * whole);
    CHECK_OK(weft_dataset_save_teacher(d, path));
    CHECK_STATUS(weft_dataset_load_teacher(d, path, 0.5), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the stored teacher has temperature 0.9, expected 0.5");
    CHECK_STATUS(weft_dataset_load_teacher(shorter, path, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the stored teacher is of other samples");
    CHECK_OK(weft_dataset_load_teacher(d, path, 0));
    CHECK_CLOSE(loss_of(d, model, NULL), stored, 0);
    weft_dataset_free(d);
    weft_dataset_free(shorter);
    weft_model_free(model);
    weft_model_free(teacher);
}

/* Both heads round alike, so a model that is its own teacher has the loss 0 in every dtype. */
static void a_model_is_its_own_teacher(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    static samples s;
    read_samples(&s);
    for (int i = 0; i < 3; i++) {
        const weft_model_options options = {.dtype = dtypes[i]};
        weft_model *model = NULL, *teacher = NULL;
        weft_dataset *d = dataset_of(&s, 8);
        CHECK_OK(weft_model_load(check_fixture("train/distill/teacher"), &options, &model));
        CHECK_OK(weft_model_load(check_fixture("train/distill/teacher"), &options, &teacher));
        CHECK_CLOSE(loss_of(d, model, teacher), 0, 0);
        CHECK_OK(weft_dataset_add_teacher(d, teacher, 0, 0, 3));
        CHECK_CLOSE(loss_of(d, model, NULL), 0, 2e-6);
        weft_dataset_free(d);
        weft_model_free(model);
        weft_model_free(teacher);
    }
}

static void a_stored_teacher_trains(void)
{
    static run computed, loaded, compiled;
    char path[512];
    snprintf(path, sizeof path, "%s", check_temporary("top.safetensors"));
    computed = (run){.stored = path, .compute = true};
    loaded = (run){.stored = path};
    compiled = (run){.stored = path, .o.compile = true};
    CHECK_OK(make_run(&computed));
    CHECK_OK(make_run(&loaded));
    CHECK_OK(make_run(&compiled));
    CHECK_CLOSE(difference(&loaded, &computed), 0, 0);
    CHECK(difference(&compiled, &computed) < 1e-5);
    loaded = (run){.stored = path, .o.objective_options.lmbda = 0.5};
    CHECK_STATUS(make_run(&loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "lmbda: expected a teacher that is not stored");
    loaded = (run){.stored = path, .packed = true};
    CHECK_STATUS(make_run(&loaded), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "packing samples of a stored teacher is unsupported");
    loaded = (run){.stored = path, .compute = true, .o.objective_options.temperature = 0.5};
    CHECK_STATUS(make_run(&loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(),
                   "temperature: expected that of the stored teacher, 0.9, got 0.5");
}

/* Packed batches from before the teacher was added, ids beyond the vocabulary, and samples that are
 * added later. */
static void misuse_of_a_stored_teacher_is_refused(void)
{
    static samples s;
    read_samples(&s);
    weft_model *teacher = load("train/distill/teacher");
    weft_dataset *d = dataset_of(&s, 8);
    weft_batches *packed = NULL;
    weft_batch batch = {0};
    CHECK_OK(weft_batches_new_packed(d, 2, 48, 0, &packed));
    CHECK_STATUS(weft_dataset_add_teacher(d, teacher, 64, 0, 0), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "expected a vocabulary of more than 64 ids, got 64");
    CHECK_OK(weft_dataset_add_teacher(d, teacher, 200, 0, 0));
    CHECK_OK(weft__top_check(d, 200, 0.9));
    CHECK_STATUS(weft__top_check(d, 64, 0.9), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "and the model's vocabulary has 64 tokens");
    CHECK_OK(weft_dataset_add_teacher(d, teacher, 0, 0, 0));
    CHECK_STATUS(weft__top_check(d, 200, 0.9), WEFT_INVALID);
    CHECK_STATUS(weft_batches_at(packed, 0, &batch), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "packed rows with a stored teacher are unsupported");
    CHECK_STATUS(weft_dataset_add_sample(d, &s.at[8]), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no sample can be added after its teacher");
    weft_batches_free(packed);
    weft_dataset_free(d);
    weft_model_free(teacher);
}

/* Completions are sampled after prompts, so samples without one are refused. */
static void sampling_needs_prompts(void)
{
    static samples s;
    read_samples(&s);
    weft_dataset *d = dataset_of(&s, 2);
    CHECK_OK(weft__rollout_check_prompts(d));
    CHECK_OK(weft_dataset_add(d, s.ids, s.lengths[0], 0));
    CHECK_STATUS(weft__rollout_check_prompts(d), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "lmbda: sample 3: expected a prompt");
    weft_dataset_free(d);
}

static void malformed_options_are_named(void)
{
    static const struct {
        weft_objective_options o;
        const char *message;
    } cases[] = {
        {{.beta = 1.5}, "objective distill: beta: expected a number in [0, 1], got 1.5"},
        {{.lmbda = 2}, "objective distill: lmbda: expected a number in [0, 1], got 2"},
        {{.temperature = -1}, "objective distill: temperature: expected a positive number, got 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_objective_options o = cases[i].o;
        CHECK_STATUS(weft__objective_complete(&weft_objective_distill, &o), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
    }
    static run none;
    none = (run){.stored = "absent.safetensors"};
    CHECK_STATUS(make_run(&none), WEFT_IO);
}

CHECK_MAIN("distill", CHECK_CASE(every_update_equals_trl),
           CHECK_CASE(every_way_makes_the_same_updates), CHECK_CASE(resumed_runs_end_alike),
           CHECK_CASE(ranks_end_alike), CHECK_CASE(lmbda_is_the_share_of_sampled_updates),
           CHECK_CASE(a_teacher_may_have_a_longer_system_text),
           CHECK_CASE(a_stored_teacher_is_close), CHECK_CASE(a_model_is_its_own_teacher),
           CHECK_CASE(a_stored_teacher_trains), CHECK_CASE(misuse_of_a_stored_teacher_is_refused),
           CHECK_CASE(sampling_needs_prompts), CHECK_CASE(malformed_options_are_named))
