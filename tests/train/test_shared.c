/* tests/train/test_shared.c -- completions that share their prompt in an update: the losses,
 * gradients and updates of rows with a prompt each; parts of a batch; what does not share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/train/ranks.h"
#include "train/columns.h"
#include "train/rollout.h"
#include "weft/transforms.h"

enum { GROUP = 3, ROWS = 6, MOST = 32, PROMPT = 9, UPDATES = 5, MOST_SETTINGS = 2 };

/* ---- batches -------------------------------------------------------------------------------- */

/* Two groups with prompts of `prompt` and `prompt` - 2 tokens and completions of 1 to 6; or with
 * prompts of 1 token and completions of 6. */
static weft_dataset *completions(const weft_model *model, int prompt)
{
    static const int lengths[ROWS] = {4, 1, 6, 2, 5, 3};
    const bool is_short = prompt < 2; /* and completions are long */
    const int64_t V = weft_model_info_of(model)->vocab_size;
    const char *path = check_temporary("completions.jsonl");
    char text[8192];
    size_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        const int group = i / GROUP;
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"prompt_ids\": [");
        for (int k = 0; k < (is_short ? prompt : prompt - 2 * group); k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", k ? ", " : "",
                                  1 + (int)((29 * group + 11 * k + k * k) % (V - 1)));
        n += (size_t)snprintf(text + n, sizeof text - n, "], \"completion_ids\": [");
        for (int k = 0; k < (is_short ? 6 : lengths[i]); k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", k ? ", " : "",
                                  1 + (int)((37 * i + 7 * k) % (V - 1)));
        n += (size_t)snprintf(text + n, sizeof text - n, "], \"reward\": %d}\n", i * i % 5);
    }
    weft_dataset *d = NULL;
    CHECK_OK(weft_file_write(path, text, n));
    CHECK_OK(weft_dataset_load_completions(
        path, &weft_objective_grpo, &(weft_objective_options){.num_generations = GROUP}, &d));
    return d;
}

typedef struct setting {
    weft_trainer_options options; /* the objective and its completions of a group are set */
    bool apart;                   /* prepared and trained without sharing prompts */
    weft_model *model;
    weft_dataset *data;
    weft_trainer *trainer;
    weft_batch batch; /* of this rank, prepared */
    weft_status status;
    weft_train_report reports[UPDATES];
} setting;

static void setting_free(setting *s)
{
    weft_batch_free(&s->batch);
    weft_trainer_free(s->trainer);
    weft_dataset_free(s->data);
    weft_model_free(s->model);
}

/* Loads a fixture and makes the completions. */
static bool set(const char *name, int prompt, double dropout, weft_trainer_options o, setting *s)
{
    char path[128];
    *s = (setting){.options = o};
    snprintf(path, sizeof path, "models/%s", name);
    s->options.objective = &weft_objective_grpo;
    s->options.objective_options.num_generations = GROUP;
    weft_random_seed(7);
    const char *all = "all-linear";
    const weft_nn_lora_options lora = {
        .rank = 4, .dropout = dropout, .targets = &all, .n_targets = 1};
    if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &s->model)) ||
        !CHECK_OK(weft_nn_lora_inject(weft_model_module(s->model), &lora)))
        return false;
    s->data = completions(s->model, prompt);
    return s->data && (o.objective_options.beta == 0 ||
                       CHECK_OK(weft_dataset_add_reference(s->data, s->model, NULL)));
}

/* Prepares the batch of this rank's completions; may be called by any thread. */
static void prepare(weft_group *group, setting *s)
{
    const weft_group_info ranks = weft_group_info_of(group);
    const int64_t rows = ROWS / ranks.size, first = ranks.rank * rows;
    weft_batches *batches = NULL;
    weft_policy_report report;
    s->options.group = group;
    s->status = weft_trainer_new(s->model, &s->options, &s->trainer);
    if (s->status == WEFT_OK)
        s->status = weft_batches_new(s->data, rows, 0, &batches);
    if (s->status == WEFT_OK)
        s->status = weft_batches_at(batches, ranks.rank, &s->batch);
    if (s->status == WEFT_OK) {
        const double neftune = s->trainer->o.neftune;
        s->trainer->o.neftune = s->apart ? 1 : neftune; /* which is not in the log-probabilities */
        s->status = weft__rollout_prepare(s->trainer, s->data, &s->batch, &first, 1, &report);
        s->trainer->o.neftune = neftune;
    }
    weft_batches_free(batches);
}

static bool set_batch(const char *name, int prompt, double dropout, weft_trainer_options o,
                      setting *s)
{
    if (!set(name, prompt, dropout, o, s))
        return false;
    prepare(NULL, s);
    return CHECK_OK(s->status);
}

/* Makes updates from the batch; may be called by any thread. */
static void train(weft_group *group, void *argument)
{
    setting *s = argument;
    prepare(group, s);
    for (int k = 0; s->status == WEFT_OK && k < UPDATES; k++)
        s->status = weft_trainer_step(s->trainer, &s->batch, 1, 1, &s->reports[k]);
}

/* The same completions, each with its prompt. */
static weft_batch apart_of(const weft_batch *batch)
{
    weft_batch apart = *batch;
    apart.pack = apart.unpack = apart.positions = NULL;
    return apart;
}

/* ---- losses and gradients ------------------------------------------------------------------- */

typedef struct loss_call {
    weft_model *model;
    const weft_batch *batch;
    bool checkpoint;
} loss_call;

static weft_array *loss_of(void *context)
{
    const loss_call *c = context;
    return weft_next_token_loss(c->model, c->batch, 1, c->checkpoint);
}

static double largest(weft_array *a)
{
    return weft_item(weft_max(weft_abs(a), WEFT_ALL_AXES, false));
}

/* Float64, in which the two layouts differ by 1e-13; experts' routers compute in float32. */
static void widen(weft_model *model)
{
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_parameters(weft_model_module(model), &slots)))
        return;
    weft_scope_open();
    for (int i = 0; i < slots.n; i++)
        CHECK_OK(weft_set(slots.slots[i], weft_astype(*slots.slots[i], WEFT_FLOAT64)));
    weft_scope_close(NULL);
    weft_nn_slots_free(&slots);
}

/* The gradients of all parameters, of embeddings and norms too. */
static void compare_gradients(weft_model *model, const weft_batch *shared, bool checkpoint)
{
    const weft_batch apart = apart_of(shared);
    weft_nn_slots slots;
    if (!CHECK_OK(weft_nn_parameters(weft_model_module(model), &slots)))
        return;
    weft_array **one = calloc((size_t)slots.n, sizeof *one);
    weft_array **two = calloc((size_t)slots.n, sizeof *two);
    double worst = 0, most = 0;
    int at = 0;
    weft_scope_open();
    loss_call call = {model, shared, checkpoint};
    weft_array *a = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, one);
    call.batch = &apart;
    weft_array *b = weft_value_and_grad_slots(loss_of, &call, slots.slots, slots.n, two);
    CHECK_RELATIVE(weft_item(a), weft_item(b), 1e-6);
    for (int i = 0; i < slots.n; i++)
        most = fmax(most, largest(two[i]));
    for (int i = 0; i < slots.n; i++) {
        const double apart_by =
            largest(weft_subtract(one[i], two[i])) / fmax(largest(two[i]), 1e-3 * most);
        at = apart_by > worst ? i : at;
        worst = fmax(worst, apart_by);
    }
    printf("  %s: gradients differ by %.1e\n", slots.paths[at], worst);
    CHECK(most > 0 && isfinite(most) && worst < (getenv("WEFT_TEST_DEVICE") ? 1e-4 : 1e-6));
    weft_scope_close(NULL);
    free(one);
    free(two);
    weft_nn_slots_free(&slots);
}

/* The tokens that are computed: each prompt once, without padding. */
static void check_layout(const weft_batch *batch)
{
    int32_t tokens[ROWS * MOST], pack[ROWS * MOST], unpack[ROWS * MOST], positions[ROWS * MOST];
    const int64_t L = weft_dim(batch->tokens, 1), n = weft_dim(batch->pack, 1);
    CHECK_EQ_INT(n, PROMPT + PROMPT - 2 + 3 + 0 + 5 + 1 + 4 + 2);
    if (!CHECK(L <= MOST) || !CHECK(n <= ROWS * MOST))
        return;
    CHECK_OK(weft_read(batch->tokens, WEFT_INT32, tokens, ROWS * L));
    CHECK_OK(weft_read(batch->unpack, WEFT_INT32, unpack, ROWS * L));
    CHECK_OK(weft_read(batch->pack, WEFT_INT32, pack, n));
    CHECK_OK(weft_read(batch->positions, WEFT_INT32, positions, n));
    for (int64_t c = 0; c < n; c++)
        CHECK(pack[c] >= 0 && unpack[pack[c]] == c && positions[c] == pack[c] % L);
    for (int64_t i = 0; i < ROWS * L; i++)
        CHECK(positions[unpack[i]] == i % L ? tokens[pack[unpack[i]]] == tokens[i]
                                            : tokens[i] == 0 && positions[unpack[i]] < i % L);
}

/* Windows, queries with a scale, layers with the keys of others, sinks, experts, and q, k and v as
 * one matrix. */
static void prompts_are_computed_once(void)
{
    static const char *const names[] = {"llama",      "qwen3-moe", "gemma3",  "gemma4-dense",
                                        "ministral3", "gpt-oss",   "cohere2", "phi3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setting s;
        if (set_batch(names[i], PROMPT, 0, (weft_trainer_options){.lr = 1}, &s) &&
            CHECK(weft__batch_shares(&s.batch))) {
            check_layout(&s.batch);
            if (getenv("WEFT_TEST_DEVICE") == NULL)
                widen(s.model);
            compare_gradients(s.model, &s.batch, false);
            compare_gradients(s.model, &s.batch, true);
        }
        setting_free(&s);
    }
}

/* ---- updates -------------------------------------------------------------------------------- */

/* The largest difference of a parameter after the updates. */
static double compare_models(weft_model *a, weft_model *b)
{
    weft_nn_slots one, two;
    double worst = 0;
    if (!CHECK_OK(weft_nn_trainable(weft_model_module(a), &one)) ||
        !CHECK_OK(weft_nn_trainable(weft_model_module(b), &two)) || !CHECK_EQ_INT(one.n, two.n))
        return INFINITY;
    weft_scope_open();
    for (int i = 0; i < one.n; i++)
        worst = fmax(worst, largest(weft_subtract(*one.slots[i], *two.slots[i])));
    weft_scope_close(NULL);
    weft_nn_slots_free(&one);
    weft_nn_slots_free(&two);
    return worst;
}

static void compare_reports(const setting *one, const setting *two)
{
    const weft_objective_options *o = &two->options.objective_options;
    for (int k = 0; k < UPDATES; k++) {
        const weft_policy_report *a = &one->reports[k].rewards.policy,
                                 *b = &two->reports[k].rewards.policy;
        CHECK_RELATIVE(one->reports[k].grad_norm, two->reports[k].grad_norm, 1e-4);
        CHECK_EQ_INT(one->reports[k].tokens, two->reports[k].tokens);
        CHECK_RELATIVE(a->entropy, b->entropy, 1e-5);
        CHECK_RELATIVE(a->ratio, b->ratio, 1e-4);
        CHECK_CLOSE(a->kl, b->kl, 1e-5);
        CHECK(k == 0 || (fabs(b->ratio - 1) > 1e-4) == (o->num_iterations > 1));
        CHECK((b->kl > 0) == (o->beta > 0 && k > 0));
    }
}

#define OPTIONS(...)                                                                               \
    {                                                                                              \
        .lr = 1e-3, __VA_ARGS__                                                                    \
    }

/* Compiled, checkpointed, in parts that have whole groups or divide them, several times on a batch,
 * with a reference, and in processes with a group each. */
static void updates_are_those_of_prompts_apart(void)
{
    static const struct {
        weft_trainer_options o;
        int ranks;
    } all[] = {
        {OPTIONS(.seed = 0), 1},
        {OPTIONS(.compile = true), 1},
        {OPTIONS(.checkpoint = true), 1},
        {OPTIONS(.micro_batch = GROUP), 1},
        {OPTIONS(.micro_batch = GROUP + 2), 1},
        {OPTIONS(.micro_batch = 2), 1},
        {OPTIONS(.micro_batch = 2, .compile = true), 1},
        {OPTIONS(.objective_options = {.num_iterations = 2}), 1},
        {OPTIONS(.objective_options = {.num_iterations = 2}, .micro_batch = 2), 1},
        {OPTIONS(.objective_options = {.beta = 0.1}), 1},
        {OPTIONS(.objective_options = {.beta = 0.1, .num_iterations = 2}, .compile = true), 1},
        {OPTIONS(.seed = 0), 2},
        {OPTIONS(.micro_batch = 2), 2},
        {OPTIONS(.objective_options = {.beta = 0.1, .num_iterations = 2}), 2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        setting a[MOST_SETTINGS] = {0}, b = {0};
        weft_trainer_options plain = all[i].o;
        plain.compile = plain.checkpoint = false;
        plain.micro_batch = 0;
        bool good = set("llama", PROMPT, 0, plain, &b);
        for (int r = 0; good && r < all[i].ranks; r++)
            good = set("llama", PROMPT, 0, all[i].o, &a[r]);
        if (good) {
            b.apart = true;
            train(NULL, &b);
            CHECK_OK(b.status);
            CHECK(!weft__batch_shares(&b.batch));
            if (all[i].ranks == 1)
                train(NULL, a);
            else
                ranks_run(all[i].ranks, train, a, sizeof *a);
        }
        for (int r = 0; good && r < all[i].ranks; r++) {
            CHECK_OK(a[r].status);
            CHECK(weft__batch_shares(&a[r].batch));
            compare_reports(&a[r], &b);
            CHECK_CLOSE(compare_models(a[r].model, b.model), 0, 3e-5);
        }
        for (int r = 0; r < all[i].ranks; r++)
            setting_free(&a[r]);
        setting_free(&b);
    }
}

/* Parts have whole groups or samples of one, the losses of their samples, and each prompt once. */
static void parts_share_prompts(void)
{
    static const struct {
        int from, step, to, tokens; /* that are computed; 0: each sample has its prompt */
    } parts[] = {{0, 6, 6, 31}, {0, 5, 3, 17}, {3, 3, 6, 14}, {0, 2, 2, 12},
                 {2, 2, 3, 0},  {3, 2, 5, 12}, {5, 2, 6, 9},  {1, 2, 3, 14}};
    setting s;
    if (set_batch("llama", PROMPT, 0, (weft_trainer_options){.lr = 1}, &s)) {
        const weft_batch apart = apart_of(&s.batch);
        const int64_t L = weft_dim(apart.tokens, 1);
        float whole[ROWS * MOST], own[ROWS * MOST];
        weft_scope_open();
        CHECK_OK(weft_read(weft__token_losses(s.model, &apart, apart.targets, false), WEFT_FLOAT32,
                           whole, ROWS * L));
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const int from = parts[i].from;
            int64_t to;
            weft_batch part;
            CHECK_OK(weft__trainer_part(s.trainer, &s.batch, from, parts[i].step, &to, &part));
            CHECK_EQ_INT(to, parts[i].to);
            CHECK_EQ_INT(weft__batch_samples(&part), to - from);
            CHECK_EQ_INT(part.pack ? weft_dim(part.pack, 1) : 0, parts[i].tokens);
            CHECK_OK(weft__objective_check_batch(&weft_objective_grpo, &part));
            CHECK_OK(weft_read(weft__token_losses(s.model, &part, part.targets, false),
                               WEFT_FLOAT32, own, (to - from) * L));
            for (int64_t k = 0; k < (to - from) * L; k++)
                CHECK_CLOSE(own[k], whole[from * L + k], 1e-5);
        }
        weft_scope_close(NULL);
    }
    setting_free(&s);
}

/* ---- what does not share -------------------------------------------------------------------- */

static void expect_apart(const char *name, int prompt, double dropout, double neftune)
{
    setting s;
    if (set_batch(name, prompt, dropout, (weft_trainer_options){.lr = 1, .neftune = neftune}, &s)) {
        CHECK(s.batch.pack == NULL && s.batch.unpack == NULL && s.batch.positions == NULL);
        CHECK_OK(weft_trainer_step(s.trainer, &s.batch, 1, 1, NULL));
    }
    setting_free(&s);
}

/* Random numbers are those of each sample, and short prompts would save little. */
static void noise_and_short_prompts_do_not_share(void)
{
    expect_apart("llama", PROMPT, 0.1, 0);
    expect_apart("llama", PROMPT, 0, 5);
    expect_apart("llama", 1, 0, 0);
}

/* Layers with states or latents, and rotations that depend on the length. */
static void other_families_do_not_share(void)
{
    static const char *const names[] = {"qwen3-next", "lfm2-bias",    "granite4-moe",
                                        "falcon-h1",  "nemotron-h",   "glm4-moe-lite",
                                        "minicpm3",   "phi3-longrope"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setting s;
        expect_apart(names[i], PROMPT, 0, 0);
        if (set_batch(names[i], PROMPT, 0, (weft_trainer_options){.lr = 1}, &s)) {
            weft_scope_open();
            weft_array *cells = weft_zeros(WEFT_DIMS(1, 4), WEFT_INT32);
            const weft_model_call call = {.positions = cells, .pack = cells, .unpack = cells};
            weft_array *y = weft_model_hidden(s.model, cells, &call);
            CHECK(!weft_ok(y));
            CHECK_CONTAINS(weft_error(y), "expected both, with positions alone, and a family that");
            weft_scope_close(NULL);
        }
        setting_free(&s);
    }
}

CHECK_MAIN("shared", CHECK_CASE(prompts_are_computed_once),
           CHECK_CASE(updates_are_those_of_prompts_apart), CHECK_CASE(parts_share_prompts),
           CHECK_CASE(noise_and_short_prompts_do_not_share),
           CHECK_CASE(other_families_do_not_share))
