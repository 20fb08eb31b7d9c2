/* tests/train/test_shares.c -- ranks that update a share of the parameters each, in threads: the
 * bits and checkpoints of one process with every optimizer, memory, more ranks than parameters, and
 * updates that fail on one rank. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "tests/train/runs.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"

enum { STEPS = 3, BATCH = 2 };

/* One rank's full training of the llama fixture, with a batch for each of `batches` ranks. */
typedef struct share {
    weft_trainer_options o;
    const char *only; /* the only trained parameter; NULL: all are */
    weft_dtype dtype; /* of the parameters; 0: the checkpoint's */
    history history;
    weft_status status;
    char message[512];
    weft_model *model;
    weft_dataset *data;
    weft_batches *batches;
    int64_t active; /* bytes after the second update */
} share;

static weft_trainer_options options(const weft_optim_type *optimizer, int batches)
{
    return (weft_trainer_options){.optimizer = optimizer,
                                  .steps = STEPS,
                                  .accumulate = batches,
                                  .lr = 1e-3,
                                  .clip = 0.5,
                                  .schedule = "cosine",
                                  .validate_every = 2,
                                  .save_minutes = -1,
                                  .seed = 9};
}

static bool open_share(share *s)
{
    s->data = run_samples();
    s->model = recipe_model(run_base, NULL);
    if (s->model == NULL || !CHECK_OK(weft_batches_new(s->data, BATCH, 3, &s->batches)))
        return false;
    weft_module *tree = weft_model_module(s->model);
    if (s->dtype != 0 && !CHECK_OK(weft_nn_cast_some(tree, s->dtype, NULL)))
        return false;
    if (s->only == NULL)
        return true;
    weft_nn_freeze(tree);
    return CHECK_OK(weft_nn_unfreeze_some(tree, &(weft_nn_choice){.path = s->only}));
}

static bool keep(void *context, const weft_train_report *report)
{
    share *s = context;
    if (report->step == 2)
        s->active = weft_memory_active();
    return run_keep(&s->history, report);
}

static void train(weft_group *group, void *argument)
{
    share *s = argument;
    weft_trainer *trainer = NULL;
    s->o.group = group;
    s->o.context = s;
    s->o.callback = keep;
    s->status = weft_trainer_new(s->model, &s->o, &trainer);
    if (s->status == WEFT_OK)
        s->status = weft_trainer_run(trainer, s->batches, s->data, NULL);
    snprintf(s->message, sizeof s->message, "%s", s->status == WEFT_OK ? "" : weft_error_message());
    weft_trainer_free(trainer);
}

/* Trains on n ranks; 0: without a group. */
static void run_all(share *shares, int n)
{
    bool open = true;
    for (int i = 0; i < (n > 0 ? n : 1); i++)
        open = open && open_share(&shares[i]);
    if (open && n > 0)
        ranks_run(n, train, shares, sizeof *shares);
    else if (open)
        train(NULL, shares);
}

static void close_all(share *shares, int n)
{
    for (int i = 0; i < (n > 0 ? n : 1); i++) {
        weft_batches_free(shares[i].batches);
        weft_dataset_free(shares[i].data);
        weft_model_free(shares[i].model);
    }
}

static void fill(share *shares, int n, const share *like)
{
    for (int i = 0; i < (n > 0 ? n : 1); i++)
        shares[i] = *like;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* Losses, norms and validation losses have the same bits. A software driver may compile the norm
 * into other kernels. */
static void check_same_history(const share *a, const share *b)
{
    const double worst = check_in_software() ? 1e-5 : 0;
    CHECK_EQ_INT(a->history.n, b->history.n);
    for (int i = 0; i < a->history.n; i++) {
        const weft_train_report *x = &a->history.reports[i], *y = &b->history.reports[i];
        if (x->step > 0)
            CHECK_CLOSE(x->loss, y->loss, worst);
        if (x->step > 0)
            CHECK_CLOSE(x->grad_norm, y->grad_norm, worst);
        CHECK_EQ_INT(x->step, y->step);
    }
}

/* Two files have the same tensors, bit for bit. */
static void check_same_tensors(const char *a, const char *b, const char *name)
{
    weft_safetensors *files[2] = {NULL, NULL};
    if (CHECK_OK(weft_safetensors_open(run_file(a, name), &files[0])) &&
        CHECK_OK(weft_safetensors_open(run_file(b, name), &files[1])) &&
        CHECK_EQ_INT(weft_safetensors_count(files[0]), weft_safetensors_count(files[1]))) {
        for (int i = 0; i < weft_safetensors_count(files[0]); i++) {
            weft_scope_open();
            weft_array *x = weft_safetensors_get_at(files[0], i);
            weft_array *y = weft_safetensors_get(files[1], weft_safetensors_name(files[0], i));
            const int64_t n = weft_size(x);
            const weft_dtype dtype = weft_dtype_of(x);
            CHECK_EQ_INT(dtype, weft_dtype_of(y));
            CHECK_EQ_INT(n, weft_size(y));
            char *both = weft_calloc(2 * (size_t)n + 1, weft_dtype_size(dtype));
            char *second = both + (size_t)n * weft_dtype_size(dtype);
            if (CHECK_OK(weft_read(x, dtype, both, n)) && CHECK_OK(weft_read(y, dtype, second, n)))
                CHECK(memcmp(both, second, (size_t)(second - both)) == 0);
            weft_free(both);
            weft_scope_close(NULL);
        }
    }
    weft_safetensors_close(files[0]);
    weft_safetensors_close(files[1]);
}

/* n ranks have what one process has: losses, weights and a checkpoint with the states of all. */
static void check_as_one(const share *like, const char *name, int n)
{
    char folders[2][512], label[64];
    share shares[2][MOST_RANKS];
    for (int k = 0; k < 2; k++) {
        snprintf(label, sizeof label, "%s-%d-%s", name, n, k ? "ranks" : "one");
        snprintf(folders[k], sizeof folders[k], "%s", check_temporary(label));
        share start = *like;
        start.o.folder = folders[k];
        fill(shares[k], k * n, &start);
        run_all(shares[k], k * n);
    }
    for (int r = 0; r < n; r++) {
        CHECK_STR(shares[1][r].message, "");
        check_same_history(&shares[1][r], &shares[0][0]);
    }
    if (!check_in_software()) {
        check_same_tensors(folders[0], folders[1], "last/model.safetensors");
        check_same_tensors(folders[0], folders[1], "last/training.safetensors");
    }
    close_all(shares[0], 0);
    close_all(shares[1], n);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void every_optimizer_works_in_shares(void)
{
    for (int i = 0; weft_optim_type_at(i); i++) {
        const int n = 2 + i % 2;
        if (check_few() && i % 4 != 0)
            continue;
        const share like = {.o = options(weft_optim_type_at(i), n)};
        check_as_one(&like, weft_optim_type_at(i)->name, n);
    }
}

/* Parameters of 16 bits, with master copies and without. */
static void narrow_parameters_are_shared(void)
{
    const share masters = {.o = options(&weft_optim_adamw, 3), .dtype = WEFT_BFLOAT16};
    const share rounded = {.o = options(&weft_optim_adamw16bit, 2), .dtype = WEFT_BFLOAT16};
    check_as_one(&masters, "masters", 3);
    check_as_one(&rounded, "rounded", 2);
}

/* Two of three ranks update nothing. */
static void ranks_may_outnumber_parameters(void)
{
    const share like = {.o = options(&weft_optim_adamw, 3), .only = "model.norm.weight"};
    check_as_one(&like, "outnumbered", 3);
}

/* The states of three ranks together are those of one process: AdamW's two moments once, compared
 * with an optimizer without states. At the callback every rank has made the update. */
static void states_exist_once(void)
{
    if (weft_default_device() != weft_device_get("cpu")) {
        check_skip("measures the memory of the CPU");
        return;
    }
    int64_t active[2], parameters = 0;
    for (int k = 0; k < 2; k++) {
        share shares[3], start = {.o = options(k ? &weft_optim_adamw : &weft_optim_sgd, 3)};
        start.o.validate_every = 0;
        fill(shares, 3, &start);
        run_all(shares, 3);
        CHECK_STR(shares[0].message, "");
        active[k] = shares[0].active;
        parameters = weft_nn_count(weft_model_module(shares[0].model), true);
        close_all(shares, 3);
    }
    const double states = (double)(active[1] - active[0]) / (double)(8 * parameters);
    printf("  states of three ranks: %.3g of one process\n", states);
    CHECK(states > 0.9 && states < 1.2);
}

/* ---- failures ------------------------------------------------------------------------------- */

static int first_parameter = -1, failing_updates; /* of rank 1 */

static weft_array *fail_third(weft_optim_step *s)
{
    if (first_parameter < 0)
        first_parameter = s->index;
    failing_updates += s->index == first_parameter;
    return failing_updates < 3 ? weft_optim_adamw.update(s)
                               : weft_error_array("the device is gone");
}

/* Two ranks that save after each update; `type` is the optimizer of rank 1. */
static void run_saving(share *shares, const char *folder, bool resume, const weft_optim_type *type)
{
    share start = {.o = options(&weft_optim_adamw, 2)};
    start.o.folder = folder;
    start.o.resume = resume;
    start.o.save_every = 1;
    fill(shares, 2, &start);
    shares[1].o.optimizer = type;
    run_all(shares, 2);
}

/* An update that one rank cannot make ends the run on all. The others have made it, so nothing of
 * it is saved, and a run that is resumed from the checkpoint before ends as if nothing had failed.
 */
static void an_update_fails_on_one_rank(void)
{
    char folder[512], whole[512];
    share shares[2];
    weft_optim_type failing = weft_optim_adamw;
    failing.update = fail_third;
    snprintf(folder, sizeof folder, "%s", check_temporary("torn"));
    snprintf(whole, sizeof whole, "%s", check_temporary("whole"));
    run_saving(shares, folder, false, &failing);
    for (int r = 0; r < 2; r++) {
        CHECK_EQ_INT(shares[r].status, WEFT_INVALID);
        CHECK_CONTAINS(shares[r].message, "rank 1: ");
        CHECK_CONTAINS(shares[r].message, "the device is gone");
    }
    CHECK_CONTAINS(shares[0].message,
                   "not every rank has made the latest update; kept: update 2 in ");
    CHECK(run_has(folder, "step-2/training.safetensors"));
    CHECK(!run_has(folder, "step-3") && !run_has(folder, "weights-2"));
    char *text = run_text(folder, "run.json");
    CHECK_CONTAINS(text, "\"state\": \"failed\"");
    weft_free(text);
    close_all(shares, 2);
    for (int k = 0; k < 2; k++) {
        run_saving(shares, k ? whole : folder, k == 0, &weft_optim_adamw);
        CHECK_STR(shares[0].message, "");
        CHECK_STR(shares[1].message, "");
        close_all(shares, 2);
    }
    check_same_tensors(folder, whole, "last/model.safetensors");
    check_same_tensors(folder, whole, "last/training.safetensors");
}

CHECK_MAIN("shares", CHECK_CASE(every_optimizer_works_in_shares),
           CHECK_CASE(narrow_parameters_are_shared), CHECK_CASE(ranks_may_outnumber_parameters),
           CHECK_CASE(states_exist_once), CHECK_CASE(an_update_fails_on_one_rank))
