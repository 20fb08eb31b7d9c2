/* tests/train/test_completions.c -- objectives with rewards: losses and entropies at a temperature,
 * for each kind of head; invalid options; malformed files of completions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "train/objective/objective.h"
#include "weft/train.h"

/* ---- heads ---------------------------------------------------------------------------------- */

enum { WORDS = 512 };

/* Losses and entropies of some tokens at a temperature are those of the logits. */
static void check_head(weft_model *model)
{
    static const double temperature = 0.7;
    const int64_t V = weft_model_info_of(model)->vocab_size;
    float losses[16], entropies[16], logits[16 * WORDS];
    int32_t ids[2][9], targets[16];
    const float weights[] = {0, 0, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < 18; i++)
        ids[i / 9][i % 9] = 3 + 11 * i % 60;
    const weft_sample samples[] = {{ids[0], weights, 9, 0}, {ids[1], weights, 7, 0}};
    weft_batch batch = {0};
    if (!CHECK(V <= WORDS) || !CHECK_OK(weft_batch_of_samples(samples, 2, &batch)))
        return;
    batch.temperature = temperature;
    weft_scope_open();
    weft_array *spread;
    CHECK_OK(weft_read(weft__token_losses_with(model, &batch, batch.targets, false, &spread),
                       WEFT_FLOAT32, losses, 16));
    CHECK_OK(weft_read(spread, WEFT_FLOAT32, entropies, 16));
    weft_array *hidden = weft_model_hidden(model, batch.tokens, NULL);
    CHECK_OK(weft_read(weft_model_head(model, hidden), WEFT_FLOAT32, logits, 16 * V));
    CHECK_OK(weft_read(batch.targets, WEFT_INT32, targets, 16));
    weft_scope_close(NULL);
    for (int i = 0; i < 16; i++) {
        double sum = 0, weighted = 0;
        for (int64_t v = 0; v < V; v++)
            sum += exp((double)logits[i * V + v] / temperature);
        for (int64_t v = 0; v < V; v++) {
            const double log_p = (double)logits[i * V + v] / temperature - log(sum);
            weighted -= exp(log_p) * log_p;
        }
        const bool counts = targets[i] >= 0;
        const double loss =
            counts ? log(sum) - (double)logits[i * V + targets[i]] / temperature : 0;
        CHECK_CLOSE((double)losses[i], loss, 2e-5);
        CHECK_CLOSE((double)entropies[i], counts ? weighted : 0, 2e-5);
    }
    weft_batch_free(&batch);
}

/* A head that is one matrix, one with a softcap, and one with an adapter, which computes logits. */
static void temperature_and_entropy_are_those_of_the_logits(void)
{
    static const char *const models[] = {"models/llama", "models/gemma2", "models/llama"};
    for (int i = 0; i < 3; i++) {
        weft_model *model = NULL;
        if (!CHECK_OK(weft_model_load(check_fixture(models[i]), NULL, &model)))
            continue;
        const char *const head[] = {"lm_head"};
        const weft_nn_lora_options o = {.rank = 2, .targets = head, .n_targets = 1};
        if (i == 2)
            CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
        CHECK((weft_model_head_weight(model) == NULL) == (i == 2));
        CHECK((weft_model_info_of(model)->softcap > 0) == (i == 1));
        check_head(model);
        weft_model_free(model);
    }
}

/* ---- refused input -------------------------------------------------------------------------- */

static void wrong_options_are_named(void)
{
    static const struct {
        weft_objective_options o;
        const char *message;
    } wrong[] = {
        {{.loss_type = "ppo"}, "loss_type: expected dapo, grpo, dr_grpo or bnpo, got ppo"},
        {{.importance = "word"}, "importance: expected token, sequence or sum, got word"},
        {{.scale_rewards = "all"}, "scale_rewards: expected group, batch, none or leave-one-out"},
        {{.epsilon = 1.5}, "epsilon: expected a number in (0, 1), got 1.5"},
        {{.delta = 0.5}, "delta: expected a number above 1, got 0.5"},
        {{.temperature = -1}, "temperature: expected a positive number"},
        {{.num_generations = 1}, "num_generations: expected at least 2, got 1"},
        {{.num_iterations = -1}, "num_iterations: expected at least 1"},
        {{.mask_truncated = 2}, "mask_truncated: expected 0 or 1, got 2"},
        {{.beta = -2}, "beta: expected a number of at least 0, got -2"},
        {{.gamma = 1}, "it has no option gamma, which is 1"},
    };
    weft_model *model = NULL;
    CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model));
    for (size_t i = 0; model && i < sizeof wrong / sizeof *wrong; i++) {
        weft_trainer *trainer = NULL;
        const weft_trainer_options o = {.objective = &weft_objective_grpo,
                                        .objective_options = wrong[i].o};
        CHECK_EQ_INT(weft_trainer_new(model, &o, &trainer), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), wrong[i].message);
        weft_trainer_free(trainer);
    }
    const weft_trainer_options o = {.objective = &weft_objective_dpo,
                                    .objective_options.loss_type = "grpo"};
    weft_trainer *trainer = NULL;
    CHECK_EQ_INT(weft_trainer_new(model, &o, &trainer), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(),
                   "objective dpo: it has no option loss_type, which is grpo");
    weft_model_free(model);
}

#define ROW(prompt, completion, more)                                                              \
    "{\"prompt_ids\": " prompt ", \"completion_ids\": " completion ", " more "}\n"

static void malformed_completions_are_named(void)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "expected groups of 2 completions (num_generations), got 0 lines"},
        {ROW("[1]", "[2]", "\"reward\": 1"), "expected groups of 2"},
        {"{\n", "rows.jsonl:1: column 2"},
        {"[]\n", "rows.jsonl:1: expected object"},
        {ROW("[]", "[2]", "\"reward\": 1"), "rows.jsonl:1: prompt_ids: expected at least one id"},
        {"\n" ROW("[1]", "[]", "\"reward\": 1"), "rows.jsonl:2: completion_ids: expected at least"},
        {ROW("[1]", "[-2]", "\"reward\": 1"), "completion_ids[0]: expected a token id, got -2"},
        {ROW("[1]", "[2.5]", "\"reward\": 1"), "completion_ids[0]: expected integer"},
        {ROW("[1]", "[2]", "\"reward\": \"x\""), "reward: expected number, got string"},
        {ROW("[1]", "[2]", "\"reward\": 1e999"), "reward: "},
        {ROW("[1]", "[2]", "\"rewards\": 1"), "reward"},
        {ROW("[1]", "[2]", "\"reward\": 1, \"truncated\": 1"), "truncated: expected boolean"},
        {ROW("[1]", "[2, 3, 4, 5]", "\"reward\": 1"),
         "completion_ids: expected at most max_completion_length 3 ids, got 4"},
        {ROW("[1]", "[2]", "\"reward\": 1") ROW("[3]", "[2]", "\"reward\": 1"),
         "rows.jsonl:2: prompt_ids: expected the prompt of line 1"},
    };
    char path[512];
    const weft_objective_options o = {.num_generations = 2, .max_completion_length = 3};
    snprintf(path, sizeof path, "%s", check_temporary("rows.jsonl"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_dataset *d = NULL;
        CHECK_OK(weft_file_write(path, wrong[i].text, strlen(wrong[i].text)));
        CHECK_EQ_INT(weft_dataset_load_completions(path, &weft_objective_grpo, &o, &d),
                     WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), wrong[i].message);
        CHECK(d == NULL);
    }
    weft_dataset *d = NULL;
    CHECK_EQ_INT(weft_dataset_load_completions(path, &weft_objective_dpo, NULL, &d), WEFT_INVALID);
    const char *good = ROW("[1]", "[2]", "\"reward\": null, \"text\": \"a\"")
        ROW("[1]", "[2, 3]", "\"reward\": -0.5, \"truncated\": true");
    CHECK_OK(weft_file_write(path, good, strlen(good)));
    if (CHECK_OK(weft_dataset_load_completions(path, &weft_objective_grpo, &o, &d))) {
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 2);
        CHECK_EQ_INT(weft_dataset_info_of(d).targets, 3);
        CHECK_EQ_INT(weft_dataset_info_of(d).truncated, 1);
    }
    weft_dataset_free(d);
}

CHECK_MAIN("completions", CHECK_CASE(temperature_and_entropy_are_those_of_the_logits),
           CHECK_CASE(wrong_options_are_named), CHECK_CASE(malformed_completions_are_named))
