/* tests/models/test_real_models.c -- real checkpoints against other programs: tokens of llama.cpp,
 * logits, greedy answers and LoRA losses of transformers and PEFT, embeddings of
 * sentence-transformers (tests/golden/real). Skipped without the models, which `make real-models`
 * fetches. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/mining.h"
#include "weft/batch.h"
#include "weft/convert.h"
#include "weft/generate.h"
#include "weft/nn_tools.h"
#include "weft/random.h"
#include "weft/train.h"

static const char *const names[] = {"smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"};
enum { N_MODELS = sizeof names / sizeof *names, ROWS = 2, LENGTH = 32, UPDATES = 4, RANK = 4 };

static weft__json_doc reference;

/* The path of a file or folder; NULL, and the case is skipped, when it was not fetched. */
static const char *fetched(const char *name)
{
    static char path[4096];
    const char *folder = getenv("WEFT_REAL_MODELS");
    if (folder == NULL) {
        const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        if (cache)
            snprintf(path, sizeof path, "%s/weft/real-models/%s", cache, name);
        else
            snprintf(path, sizeof path, "%s/.cache/weft/real-models/%s", home ? home : "", name);
    } else {
        snprintf(path, sizeof path, "%s/%s", folder, name);
    }
    if (access(path, R_OK) == 0)
        return path;
    check_skip("%s is absent: make real-models", path);
    return NULL;
}

/* The same for a model's GGUF file. */
static const char *path_of(const char *name)
{
    char file[256];
    snprintf(file, sizeof file, "%s.gguf", name);
    return fetched(file);
}

static json_object *member(json_object *object, const char *name)
{
    json_object *value = NULL;
    CHECK(json_object_object_get_ex(object, name, &value));
    return value;
}

/* The other programs' results for a model; NULL when the reference cannot be read. */
static json_object *expected(const char *name)
{
    if (reference.root == NULL &&
        !CHECK_OK(weft__json_read(check_fixture("real/reference.json"), &reference)))
        return NULL;
    return member(reference.root, name);
}

static int count(json_object *array)
{
    return (int)json_object_array_length(array);
}

static double number(json_object *array, int i)
{
    return json_object_get_double(json_object_array_get_idx(array, (size_t)i));
}

static int32_t *integers(json_object *array)
{
    int32_t *out = calloc((size_t)count(array) + 1, sizeof *out);
    for (int i = 0; out && i < count(array); i++)
        out[i] = (int32_t)number(array, i);
    return out;
}

static void check_tokens(weft_tokenizer *tokenizer, json_object *all, const char *where)
{
    json_object *texts = member(reference.root, "texts");
    for (int i = 0; i < count(texts); i++) {
        json_object *text = json_object_array_get_idx(texts, (size_t)i);
        json_object *tokens = json_object_array_get_idx(all, (size_t)i);
        int32_t *ids = NULL, *right = integers(tokens);
        size_t n = 0;
        if (CHECK_OK(weft_tokenizer_encode(tokenizer, json_object_get_string(text),
                                           (size_t)json_object_get_string_len(text), 0, &ids,
                                           &n)) &&
            !(n == (size_t)count(tokens) && memcmp(ids, right, n * sizeof *ids) == 0))
            CHECK_FAIL("%s: other tokens for text %d: %s", where, i, json_object_get_string(text));
        weft_free(ids);
        free(right);
    }
}

/* The model's tokenizer, and that of the folder that `weft convert` writes. */
static void tokens_are_those_of_llama_cpp(void)
{
    for (int m = 0; m < N_MODELS; m++) {
        const char *path = path_of(names[m]);
        json_object *e = path ? expected(names[m]) : NULL;
        if (e == NULL)
            return;
        weft_tokenizer *tokenizer = NULL;
        if (CHECK_OK(weft_tokenizer_load(path, &tokenizer)))
            check_tokens(tokenizer, member(e, "tokens"), names[m]);
        weft_tokenizer_free(tokenizer);
        const char *folder = check_temporary(names[m]);
        if (CHECK_OK(weft_convert(path, folder, NULL, NULL)) &&
            CHECK_OK(weft_tokenizer_load(folder, &tokenizer))) {
            check_tokens(tokenizer, member(e, "tokens"), "converted");
            weft_tokenizer_free(tokenizer);
        }
    }
}

static weft_model *load(const char *path)
{
    weft_model *model = NULL;
    CHECK_OK(weft_model_load(path, &(weft_model_options){.dtype = WEFT_FLOAT32}, &model));
    return model;
}

/* The logits after the prompt at the reference's largest entries: both decode the same weights and
 * compute in float32, in another order. */
static void check_logits(weft_model *model, json_object *question)
{
    json_object *top = member(question, "top"), *logits = member(question, "logits");
    int32_t *prompt = integers(member(question, "prompt"));
    const int n = count(member(question, "prompt"));
    weft_scope_open();
    weft_array *ids = weft_from_data(prompt, WEFT_INT32, WEFT_DIMS(1, n));
    weft_array *out = weft_model_forward(model, ids, NULL); /* (1, n, V) */
    weft_array *last = weft_squeeze(weft_slice_axis(out, 1, n - 1, n), 0);
    for (int i = 0; i < count(top); i++) {
        const int64_t id = (int64_t)number(top, i);
        CHECK_CLOSE(weft_item(weft_slice_axis(last, -1, id, id + 1)), number(logits, i), 2e-4);
    }
    weft_scope_close(NULL);
    free(prompt);
}

static void check_answer(weft_model *model, json_object *question, json_object *ends)
{
    int32_t *prompt = integers(member(question, "prompt")), *stop = integers(ends);
    json_object *answer = member(question, "answer");
    const weft_generate_options options = {
        .max_tokens = 24, .ignore_eos = true, .stop = stop, .n_stop = count(ends)};
    weft_generator *generator = NULL;
    if (CHECK_OK(weft_generator_new(model, prompt, (size_t)count(member(question, "prompt")),
                                    &options, &generator))) {
        for (int i = 0; i < count(answer); i++) {
            int32_t id = -1;
            if (!CHECK_OK(weft_generator_next(generator, &id, NULL)) ||
                !CHECK_EQ_INT(id, number(answer, i)))
                break;
        }
    }
    weft_generator_free(generator);
    free(prompt);
    free(stop);
}

static void logits_and_answers_are_those_of_transformers(void)
{
    for (int m = 0; m < N_MODELS; m++) {
        const char *path = path_of(names[m]);
        json_object *e = path ? expected(names[m]) : NULL;
        weft_model *model = e ? load(path) : NULL;
        if (model == NULL)
            return;
        json_object *questions = member(e, "questions");
        for (int i = 0; i < count(questions); i++) {
            json_object *question = json_object_array_get_idx(questions, (size_t)i);
            check_logits(model, question);
            check_answer(model, question, member(e, "ends"));
        }
        weft_model_free(model);
    }
}

/* lora_A as the reference starts with it. */
static weft_array *formula(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    const size_t length = strlen(item->path);
    if (length < 6 || strcmp(item->path + length - 6, "lora_A") != 0)
        return value;
    weft_array *n = weft_arange(0, (double)weft_size(value), 1, WEFT_FLOAT64);
    weft_array *a = weft_multiply(weft_sin(weft_multiply(n, weft_scalar(0.37, WEFT_FLOAT64))),
                                  weft_scalar(0.03, WEFT_FLOAT64));
    return weft_astype(weft_reshape(a, weft_shape(value)), WEFT_FLOAT32);
}

/* The rows of the reference, again for each update, as a file of batches. */
static bool write_batches(json_object *rows, const char *path)
{
    int32_t ids[UPDATES][ROWS][LENGTH], prompts[UPDATES][ROWS];
    for (int u = 0; u < UPDATES; u++) {
        for (int r = 0; r < ROWS; r++) {
            json_object *row = json_object_array_get_idx(rows, (size_t)r);
            if (!CHECK_EQ_INT(count(row), LENGTH))
                return false;
            prompts[u][r] = 1;
            for (int i = 0; i < LENGTH; i++)
                ids[u][r][i] = (int32_t)number(row, i);
        }
    }
    weft_scope_open();
    weft_array *arrays[] = {
        weft_from_data(ids, WEFT_INT32, WEFT_DIMS(UPDATES, ROWS, LENGTH)),
        weft_from_data(prompts, WEFT_INT32, WEFT_DIMS(UPDATES, ROWS)),
    };
    const char *const keys[] = {"batches", "prompt_lengths"};
    const bool done = CHECK_OK(weft_safetensors_save(path, keys, arrays, 2, NULL, 0));
    weft_scope_close(NULL);
    return done;
}

typedef struct losses {
    double at[UPDATES];
    int n;
} losses;

static bool remember(void *context, const weft_train_report *report)
{
    losses *l = context;
    if (l->n < UPDATES)
        l->at[l->n++] = report->loss;
    return true;
}

static void lora_losses_are_those_of_peft(void)
{
    static const char *const targets[] = {"q_proj", "v_proj"};
    for (int m = 0; m < N_MODELS; m++) {
        const char *path = path_of(names[m]);
        json_object *e = path ? expected(names[m]) : NULL;
        weft_model *model = e ? load(path) : NULL;
        if (model == NULL)
            return;
        losses found = {0};
        weft_batches *batches = NULL;
        weft_trainer *trainer = NULL;
        const char *file = check_temporary("batches.safetensors");
        const weft_trainer_options options = {.steps = UPDATES,
                                              .lr = 1e-3,
                                              .weight_decay = 0.01,
                                              .callback = remember,
                                              .context = &found};
        if (write_batches(member(e, "rows"), file) &&
            CHECK_OK(weft_nn_lora_inject(
                weft_model_module(model),
                &(weft_nn_lora_options){
                    .rank = RANK, .alpha = 8, .targets = targets, .n_targets = 2})) &&
            CHECK_OK(weft_nn_apply(weft_model_module(model), formula, NULL, NULL)) &&
            CHECK_OK(weft_batches_open(file, &batches)) &&
            CHECK_OK(weft_trainer_new(model, &options, &trainer)) &&
            CHECK_OK(weft_trainer_run(trainer, batches, NULL, NULL))) {
            for (int i = 0; i < UPDATES; i++)
                CHECK_RELATIVE(found.at[i], number(member(e, "losses"), i), 1e-5);
        }
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        weft_model_free(model);
    }
}

/* One vector for each text of the reference. */
static void compare_embeddings(const char *path, weft_array *golden)
{
    enum { WIDTH = 384, MOST = 64 };
    weft_model *model = NULL;
    weft_tokenizer *t = NULL;
    weft_embed_settings settings;
    weft_prompt prompts[MOST] = {{NULL, 0}};
    int32_t *ids[MOST] = {NULL};
    weft_embedded results[MOST];
    float *vectors = malloc(MOST * WIDTH * sizeof *vectors);
    json_object *texts = expected("texts");
    const int n = (int)weft_dim(golden, 0);
    double worst = 0;
    if (CHECK_EQ_INT(n, count(texts)) && CHECK(n <= MOST) &&
        CHECK_OK(weft_read(golden, WEFT_FLOAT32, vectors, n * WIDTH)) &&
        CHECK_OK(weft_model_load(path, NULL, &model)) && CHECK_OK(weft_tokenizer_load(path, &t)) &&
        CHECK_OK(weft_embed_settings_load(path, NULL, &settings))) {
        for (int i = 0; i < n; i++) {
            json_object *text = json_object_array_get_idx(texts, (size_t)i);
            CHECK_OK(weft_tokenizer_encode(t, json_object_get_string(text),
                                           (size_t)json_object_get_string_len(text),
                                           WEFT_TOKENIZER_ADD_SPECIAL, &ids[i], &prompts[i].n));
            prompts[i].n =
                weft_tokenizer_truncate(t, ids[i], prompts[i].n, (size_t)settings.max_tokens);
            prompts[i].ids = ids[i];
        }
        const weft_embed_options o = {.pooling = settings.pooling, .normalize = settings.normalize};
        CHECK_OK(weft_embed(model, prompts, (size_t)n, &o, results));
        for (int i = 0; i < n * WIDTH; i++) {
            const float *values = results[i / WIDTH].values;
            worst = fmax(worst, values ? fabs((double)values[i % WIDTH] - (double)vectors[i]) : 1);
        }
        printf("  largest difference of a vector's element: %.3g\n", worst);
        CHECK_CLOSE(worst, 0, 5e-7); /* norm 1 */
        weft_embedded_free(results, (size_t)n);
        weft_embed_settings_free(&settings);
    }
    for (int i = 0; i < MOST; i++)
        weft_free(ids[i]);
    free(vectors);
    weft_tokenizer_free(t);
    weft_model_free(model);
}

static void embeddings_are_those_of_sentence_transformers(void)
{
    const char *path = fetched("all-minilm-l6-v2");
    weft_safetensors *golden = NULL;
    if (path == NULL)
        return;
    weft_scope_open();
    if (CHECK_OK(weft_safetensors_open(check_fixture("real/embeddings.safetensors"), &golden)))
        compare_embeddings(path, weft_safetensors_get(golden, "embeddings"));
    weft_scope_close(NULL);
    weft_safetensors_close(golden);
}

static void negatives_are_those_of_sentence_transformers(void)
{
    static const double share = 0.05, margin = 0.1, high = 0.25, low = 0.15;
    const char *path = fetched("all-minilm-l6-v2");
    if (path == NULL)
        return;
    check_mining(path, "minilm", "triplets", &(weft_mine_options){.num_negatives = 2}, false,
                 false);
    check_mining(
        path, "minilm", "relative",
        &(weft_mine_options){
            .relative_margin = &share, .range_min = 1, .range_max = 30, .num_negatives = 2},
        false, true);
    check_mining(
        path, "minilm", "limits",
        &(weft_mine_options){
            .absolute_margin = &margin, .max_score = &high, .min_score = &low, .num_negatives = 2},
        false, false);
}

CHECK_MAIN("real_models", CHECK_CASE(tokens_are_those_of_llama_cpp),
           CHECK_CASE(logits_and_answers_are_those_of_transformers),
           CHECK_CASE(lora_losses_are_those_of_peft),
           CHECK_CASE(embeddings_are_those_of_sentence_transformers),
           CHECK_CASE(negatives_are_those_of_sentence_transformers))
