/* tests/train/test_embed_ranks.c -- ranks that compare the vectors of each other's texts, in
 * threads: the losses of sentence-transformers, and the updates of one process. */
#include <math.h>
#include <stdio.h>

#include "tests/check.h"
#include "tests/train/embedders.h"
#include "tests/train/ranks.h"

typedef struct rank_run {
    setting s;
    weft_dataset *const *data; /* (STEPS) */
    weft_status status;
    char message[256];
    weft_train_report reports[STEPS];
    double sum; /* of the squares of the trained parameters at the end */
} rank_run;

static weft_status sum_squares(weft_model *model, double *sum)
{
    weft_nn_slots slots = {0};
    weft_status status = weft_nn_trainable(weft_model_module(model), &slots);
    for (int i = 0; status == WEFT_OK && i < slots.n; i++) {
        weft_scope_open();
        weft_array *a = weft_astype(*slots.slots[i], WEFT_FLOAT64);
        weft_array *squares = weft_sum(weft_multiply(a, a), WEFT_ALL_AXES, false);
        status = weft_eval(squares);
        *sum += status == WEFT_OK ? weft_item(squares) : 0;
        weft_scope_close(NULL);
    }
    weft_nn_slots_free(&slots);
    return status;
}

static void train(weft_group *group, void *argument)
{
    rank_run *r = argument;
    r->status = open_trainer(&r->s, group);
    for (int i = 0; r->status == WEFT_OK && i < STEPS; i++)
        r->status = update(&r->s, r->data[i], &r->reports[i]);
    if (r->status == WEFT_OK)
        r->status = sum_squares(r->s.model, &r->sum);
    if (r->status != WEFT_OK)
        snprintf(r->message, sizeof r->message, "%s", weft_error_message());
}

/* Trains on 1 rank or several, which end with the same parameters bit for bit. */
static void run_ranks(const setting *s, const numbers *n, int ranks, rank_run *runs)
{
    weft_dataset *data[STEPS];
    for (int i = 0; i < STEPS; i++)
        data[i] = dataset_of(n, i);
    for (int r = 0; r < ranks; r++) {
        runs[r] = (rank_run){.s = *s, .data = data};
        CHECK(open_model(&runs[r].s));
    }
    if (ranks > 1)
        ranks_run(ranks, train, runs, sizeof *runs);
    else
        train(NULL, runs);
    for (int r = 0; r < ranks; r++) {
        if (!CHECK_EQ_INT(runs[r].status, WEFT_OK))
            printf("  rank %d: %s\n", r, runs[r].message);
        CHECK(runs[r].sum == runs[0].sum);
        close_setting(&runs[r].s);
    }
    for (int i = 0; i < STEPS; i++)
        weft_dataset_free(data[i]);
}

/* Every text is compared with those of all ranks; 5 examples are 2 and 3 for 2 ranks. */
static void ranks_have_the_same_losses(const golden *g, int ranks, int64_t micro)
{
    static rank_run runs[MOST_RANKS];
    numbers n;
    double loss = 0, norm = 0;
    if (!read_golden(g->name, &n))
        return;
    run_ranks(&(setting){.g = g, .micro = micro}, &n, ranks, runs);
    for (int i = 0; i < ranks * STEPS; i++) {
        const weft_train_report *now = &runs[i / STEPS].reports[i % STEPS];
        loss = fmax(loss, fabs(now->loss / n.loss[i % STEPS] - 1));
        norm = fmax(norm, fabs(now->grad_norm / n.norm[i % STEPS] - 1));
    }
    printf("  %s, %d ranks, %lld at a time: worst relative difference of loss %.2g, norm %.2g\n",
           g->name, ranks, (long long)micro, loss, norm);
    CHECK_CLOSE(loss, 0, 4e-6);
    CHECK_CLOSE(norm, 0, 6e-6);
}

static void ranks_compare_the_texts_of_all(void)
{
    for (int i = 0; i < N_EMBED_GOLDENS; i++) {
        for (int ranks = 2; ranks <= MOST_RANKS; ranks += check_few() ? MOST_RANKS - 2 : 1)
            ranks_have_the_same_losses(&embed_goldens[i], ranks, 0);
        ranks_have_the_same_losses(&embed_goldens[i], 2, 1);
    }
}

/* With dropout, and several batches an update, of which some have fewer examples than there are
 * ranks. */
static void ranks_have_the_updates_of_one_process(void)
{
    static const setting settings[] = {{.g = &embed_goldens[1], .adapter = true},
                                       {.g = &embed_goldens[1], .adapter = true, .size = 2},
                                       {.g = &embed_goldens[5], .adapter = true, .size = 2}};
    static rank_run one, many[MOST_RANKS];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        numbers n;
        if (!read_golden(settings[i].g->name, &n))
            return;
        run_ranks(&settings[i], &n, 1, &one);
        for (int ranks = 2; ranks <= 4; ranks += 2) {
            run_ranks(&settings[i], &n, ranks, many);
            for (int k = 0; k < STEPS; k++) {
                const weft_train_report *a = &many[ranks - 1].reports[k], *b = &one.reports[k];
                CHECK_RELATIVE(a->loss, b->loss, 4e-6);
                CHECK_RELATIVE(a->grad_norm, b->grad_norm, 5e-6);
                CHECK_EQ_INT(a->tokens, b->tokens);
            }
            CHECK_RELATIVE(many[0].sum, one.sum, 1e-6);
        }
    }
}

static weft_status no_gather(void *context, const void *bytes, size_t n, void *out)
{
    (void)context, (void)bytes, (void)n, (void)out;
    return WEFT_IO;
}

/* Noise is drawn for a whole batch, but a rank computes only a part: this is refused. */
static void noise_is_for_one_process(void)
{
    static const weft_group_type none = {.name = "none", .gather = no_gather};
    setting s = {.g = &embed_goldens[8]};
    weft_group *group = NULL;
    CHECK_OK(weft_group_new(&none, NULL, (weft_group_info){0, 2, 0, 2}, &group));
    const weft_trainer_options o = {
        .objective = &weft_objective_ranking, .group = group, .neftune = 5};
    if (open_model(&s)) {
        CHECK_STATUS(weft_trainer_new(s.model, &o, &s.trainer), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(),
                       "neftune: objective ranking in several processes is unsupported");
    }
    close_setting(&s);
    weft_group_close(group);
}

CHECK_MAIN("embed_ranks", CHECK_CASE(ranks_compare_the_texts_of_all),
           CHECK_CASE(ranks_have_the_updates_of_one_process), CHECK_CASE(noise_is_for_one_process))
