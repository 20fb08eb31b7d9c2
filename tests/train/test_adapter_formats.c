/* tests/train/test_adapter_formats.c -- adapters in the formats of PEFT, mlx-lm and llama.cpp: all
 * compute the same, and what a format does not support is refused by name. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "tests/train/recipes.h"
#include "weft/gguf.h"

static weft_model *model_of(const char *name)
{
    char path[128];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    CHECK_OK(weft_model_load(check_fixture(path), NULL, &model));
    return model;
}

/* A path in the temporary folder. Valid until the next call. */
static const char *temporary(const char *name, weft_adapter_format format)
{
    static const char *const ends[] = {"", "-mlx", ".gguf"};
    static char path[600];
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", name, ends[format]);
    snprintf(path, sizeof path, "%s", check_temporary(whole));
    return path;
}

static void expect_same(const recipe *r, weft_model *model, weft_adapter_format format)
{
    const char *path = temporary(r->folder, format);
    weft_model *again = recipe_model(r, NULL);
    weft_adapter_format found;
    char *base = NULL;
    if (again && CHECK_OK(weft_adapter_save_as(model, path, "some/base", format)) &&
        CHECK_OK(weft_adapter_format_of(path, &found, &base)) &&
        CHECK_OK(weft_adapter_load(again, path, NULL))) {
        CHECK_EQ_INT(found, format);
        if (format != WEFT_ADAPTER_GGUF)
            CHECK_STR(base, "some/base");
        CHECK_CLOSE(logits_apart(model, again), 0, 2e-5);
    }
    weft_free(base);
    weft_model_free(again);
}

/* DoRA, a tied embedding, a fully trained head, trained tokens and alternating gates and ups have
 * their own tests. */
static bool is_plain(const recipe *r)
{
    static const char *const others[] = {"dora", "tied", "saved", "tokens", "new", "gpt-oss"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strstr(r->folder, others[i]))
            return false;
    }
    return true;
}

static void every_format_computes_the_same(void)
{
    for (int i = 0; i < n_recipes; i++) {
        weft_model *model = recipe_model(&recipes[i], "final");
        for (int f = WEFT_ADAPTER_PEFT; model && f <= WEFT_ADAPTER_GGUF; f++) {
            const bool none = f == WEFT_ADAPTER_GGUF && !recipe_has_gguf(&recipes[i]);
            if (!none && (is_plain(&recipes[i]) || f == WEFT_ADAPTER_PEFT))
                expect_same(&recipes[i], model, (weft_adapter_format)f);
        }
        weft_model_free(model);
    }
}

/* These formats have gates and ups apart, the model has them in one stack. */
static void alternating_gates_and_ups_are_refused(void)
{
    weft_model *model = recipe_model(recipe_named("lora-gpt-oss"), "final");
    for (int f = WEFT_ADAPTER_PEFT + 1; model && f <= WEFT_ADAPTER_GGUF; f++) {
        const weft_adapter_format format = (weft_adapter_format)f;
        CHECK_STATUS(weft_adapter_save_as(model, temporary("gpt-oss", format), NULL, format),
                     WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(),
                       f == WEFT_ADAPTER_MLX ? "gates and ups apart" : "GGUF has no name for it");
    }
    weft_model_free(model);
}

static void magnitudes_are_in_two_formats(void)
{
    for (int i = 0; i < n_recipes; i++) {
        weft_model *model =
            strstr(recipes[i].folder, "dora") ? recipe_model(&recipes[i], "final") : NULL;
        if (model) {
            expect_same(&recipes[i], model, WEFT_ADAPTER_MLX);
            CHECK_STATUS(weft_adapter_save_as(model, temporary("m", WEFT_ADAPTER_GGUF), NULL,
                                              WEFT_ADAPTER_GGUF),
                         WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), "GGUF adapters have no magnitudes");
        }
        weft_model_free(model);
    }
}

/* mlx-lm's own files, and its logits. */
static void an_adapter_of_mlx_gives_its_logits(void)
{
    weft_model *model = model_of("qwen3");
    weft_safetensors *file = NULL;
    if (model &&
        CHECK_OK(
            weft_safetensors_open(check_fixture("lora/mlx-qwen3/reference.safetensors"), &file)) &&
        CHECK_OK(weft_adapter_load(model, check_fixture("lora/mlx-qwen3"), NULL))) {
        weft_scope_open();
        weft_array *ids = weft_safetensors_get(file, "input_ids");
        weft_array *expected = weft_safetensors_get(file, "logits");
        weft_array *apart = weft_subtract(weft_model_forward(model, ids, NULL), expected);
        CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 5e-5);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 3);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(file);
    weft_model_free(model);
}

static void expect_no_place(const char *base, const weft_nn_lora_options *o, const char *part)
{
    weft_model *model = model_of(base);
    if (model && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), o))) {
        for (int f = WEFT_ADAPTER_MLX; f <= WEFT_ADAPTER_GGUF; f++) {
            const weft_adapter_format format = (weft_adapter_format)f;
            CHECK_STATUS(weft_adapter_save_as(model, temporary("none", format), NULL, format),
                         WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), part);
        }
    }
    weft_model_free(model);
}

static void what_only_peft_has_is_refused(void)
{
    const char *const head[] = {"lm_head"}, *const embedding[] = {"embed_tokens"};
    expect_no_place("qwen2", &(weft_nn_lora_options){.targets = head, .n_targets = 1},
                    "lm_head is adapted, but head and embedding");
    expect_no_place("qwen2", &(weft_nn_lora_options){.targets = embedding, .n_targets = 1},
                    "embed_tokens is adapted, but head and embedding");
    expect_no_place("llama", &(weft_nn_lora_options){.whole = head, .n_whole = 1},
                    "lm_head.weight is trained whole");
    weft_model *model = model_of("llama");
    if (model)
        CHECK_STATUS(weft_adapter_save_as(model, temporary("none", WEFT_ADAPTER_MLX), NULL,
                                          WEFT_ADAPTER_MLX),
                     WEFT_INVALID);
    weft_model_free(model);
}

/* Adapters that llama.cpp would compute differently. */
static void gguf_adapters_that_llama_cpp_misreads_are_refused(void)
{
    static const char *const cases[][3] = {
        {"gemma4-moe", "down_proj", "versions of llama.cpp scale"},
        {"gemma4-wrapped", "per_layer_model_projection", "llama.cpp ignores adapters of it"},
        {"nemotron-h-experts", "fc1_latent_proj", "llama.cpp ignores adapters of it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weft_nn_lora_options options = {.targets = &cases[i][1], .n_targets = 1};
        weft_model *model = model_of(cases[i][0]);
        if (model && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &options))) {
            CHECK_STATUS(weft_adapter_save_as(model, temporary("scaled", WEFT_ADAPTER_GGUF), NULL,
                                              WEFT_ADAPTER_GGUF),
                         WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), cases[i][2]);
        }
        weft_model_free(model);
    }
}

/* ---- malformed files ------------------------------------------------------------------------ */

static void expect_refused_by(const char *base, const char *path, weft_status status,
                              const char *part)
{
    weft_model *model = model_of(base);
    if (model) {
        CHECK_STATUS(weft_adapter_load(model, path, NULL), status);
        CHECK_CONTAINS(weft_error_message(), part);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_model_free(model);
}

static void expect_refused(const char *path, weft_status status, const char *part)
{
    expect_refused_by("qwen3", path, status, part);
}

/* Writes tensors of ones and a configuration as mlx-lm's; the folder. */
static const char *mlx_folder(const char *config, const char *const *names, const weft_dims *shapes,
                              int n)
{
    char path[700];
    weft_array *arrays[5];
    const char *folder = temporary("bad", WEFT_ADAPTER_MLX);
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    CHECK_OK(weft_file_write(path, config, strlen(config)));
    snprintf(path, sizeof path, "%s/adapters.safetensors", folder);
    weft_scope_open();
    for (int i = 0; i < n; i++)
        arrays[i] = weft_ones(shapes[i], WEFT_FLOAT32);
    CHECK_OK(weft_safetensors_save(path, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    return folder;
}

static void bad_files_of_mlx_are_refused(void)
{
    const char *const good = "{\"lora_parameters\": {\"rank\": 2, \"scale\": 2}}";
    const char *const q[] = {"model.layers.0.self_attn.q_proj.lora_a",
                             "model.layers.0.self_attn.q_proj.lora_b"};
    const weft_dims fits[] = {WEFT_DIMS(64, 2), WEFT_DIMS(2, 128)};
    const weft_dims three[] = {WEFT_DIMS(4, 2, 64), WEFT_DIMS(4, 128, 2)};
    const weft_dims mixed[] = {WEFT_DIMS(4, 2, 64), WEFT_DIMS(2, 128)};
    const weft_dims four[] = {WEFT_DIMS(1, 4, 2, 64), WEFT_DIMS(2, 128)};
    const weft_dims other[] = {WEFT_DIMS(64, 2), WEFT_DIMS(3, 128)};
    const weft_dims wide[] = {WEFT_DIMS(65, 2), WEFT_DIMS(2, 128)};
    weft_model *model = model_of("qwen3");
    if (model)
        CHECK_OK(weft_adapter_load(model, mlx_folder(good, q, fits, 2), NULL));
    weft_model_free(model);
    expect_refused(mlx_folder("{\"lora_parameters\": {\"rank\": 2}}", q, fits, 2), WEFT_INVALID,
                   "scale");
    expect_refused(mlx_folder("{\"lora_parameters\": {\"scale\": 0}}", q, fits, 2), WEFT_INVALID,
                   "lora_parameters.scale: expected a number other than 0");
    expect_refused(mlx_folder("{\"fine_tune_type\": \"full\", \"lora_parameters\": {\"scale\": 1}}",
                              q, fits, 2),
                   WEFT_UNSUPPORTED, "fine_tune_type: expected lora or dora, got full");
    expect_refused(mlx_folder(good, q, fits, 1), WEFT_INVALID, "the other half is missing");
    expect_refused(mlx_folder(good, q, four, 2), WEFT_UNSUPPORTED, "expected a matrix");
    expect_refused(mlx_folder(good, q, mixed, 2), WEFT_INVALID, "the halves do not share a rank");
    expect_refused(mlx_folder(good, q, three, 2), WEFT_INVALID, "q_proj.lora_A");
    expect_refused(mlx_folder(good, q, other, 2), WEFT_INVALID, "do not share a rank");
    expect_refused(mlx_folder(good, q, wide, 2), WEFT_INVALID, "q_proj.lora_A");
    const char *const unknown[] = {"model.layers.0.self_attn.q_proj.weight"};
    expect_refused(mlx_folder(good, unknown, fits, 1), WEFT_UNSUPPORTED, "expected names that end");
    const char *const nowhere[] = {"model.layers.9.self_attn.q_proj.lora_a",
                                   "model.layers.9.self_attn.q_proj.lora_b"};
    expect_refused(mlx_folder(good, nowhere, fits, 2), WEFT_INVALID,
                   "'model.layers.9.self_attn.q_proj' fits no linear");
    expect_refused(mlx_folder(good, q, fits, 0), WEFT_INVALID, "has no adapters");
}

/* A module with magnitudes beside one without, in either order. */
static void mixtures_of_lora_and_dora_are_refused(void)
{
#define Q "model.layers.0.self_attn.q_proj"
#define O "model.layers.0.self_attn.o_proj"
    const char *const good = "{\"lora_parameters\": {\"rank\": 2, \"scale\": 2}}";
    static const char *const names[2][5] = {
        {Q ".lora_a", Q ".lora_b", Q ".m", O ".lora_a", O ".lora_b"},
        {Q ".lora_a", Q ".lora_b", O ".lora_a", O ".lora_b", O ".m"}};
    const weft_dims in = WEFT_DIMS(64, 2), out = WEFT_DIMS(2, 128), back = WEFT_DIMS(128, 2),
                    wide = WEFT_DIMS(2, 64);
    const weft_dims shapes[2][5] = {{in, out, WEFT_DIMS(128), back, wide},
                                    {in, out, back, wide, WEFT_DIMS(64)}};
    for (int i = 0; i < 2; i++)
        expect_refused(mlx_folder(good, names[i], shapes[i], 5), WEFT_UNSUPPORTED,
                       "expected one kind in an adapter");
    /* Such a model can exist in memory, but only PEFT's format can store it. */
    for (int i = 0; i < 2; i++) {
        weft_model *model = model_of("qwen3");
        static const char *const layers[] = {"model.layers.0", "model.layers.1"};
        for (int k = 0; model != NULL && k < 2; k++)
            CHECK_OK(weft_nn_lora_inject(weft_nn_find_module(weft_model_module(model), layers[k]),
                                         &(weft_nn_lora_options){.rank = 2, .dora = k == i}));
        for (int f = WEFT_ADAPTER_PEFT; model != NULL && f <= WEFT_ADAPTER_GGUF; f++) {
            const weft_adapter_format format = (weft_adapter_format)f;
            const weft_status status =
                weft_adapter_save_as(model, temporary("mixed", format), NULL, format);
            CHECK(status == WEFT_UNSUPPORTED || status == WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), "one kind in an adapter");
        }
        weft_model_free(model);
    }
#undef Q
#undef O
}

static const char *gguf_file(const char *type, const char *arch, const char *name)
{
    const char *path = temporary("bad", WEFT_ADAPTER_GGUF);
    const weft_gguf_string texts[] = {{type, strlen(type)}, {arch, strlen(arch)}, {"lora", 4}};
    const weft_gguf_value values[] = {
        {"general.type", WEFT_GGUF_STRING, false, 1, NULL, &texts[0]},
        {"general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &texts[1]},
        {"adapter.type", WEFT_GGUF_STRING, false, 1, NULL, &texts[2]},
    };
    weft_scope_open();
    weft_array *a = weft_ones(WEFT_DIMS(2, 64), WEFT_FLOAT32);
    CHECK_OK(weft_gguf_save(path, &name, &a, 1, values, 3));
    weft_scope_close(NULL);
    return path;
}

static void bad_files_of_llama_are_refused(void)
{
    const char *const q = "blk.0.attn_q.weight.lora_a";
    expect_refused(gguf_file("model", "qwen3", q), WEFT_INVALID,
                   "general.type: expected adapter, got model");
    expect_refused(gguf_file("adapter", "llama", q), WEFT_INVALID,
                   "general.architecture: expected qwen3, got llama");
    expect_refused(gguf_file("adapter", "qwen3", q), WEFT_INVALID, "the other half is missing");
    expect_refused(gguf_file("adapter", "qwen3", "blk.0.attn_q.weight"), WEFT_UNSUPPORTED,
                   "expected names that end with .lora_a or .lora_b");
    expect_refused(gguf_file("adapter", "qwen3", "blk.0.what.weight.lora_a"), WEFT_UNSUPPORTED,
                   "qwen3 models have no such matrix");
    /* of the gates alone, which are one matrix with the ups in trees */
    expect_refused_by("granite4",
                      gguf_file("adapter", "granitehybrid", "blk.0.ffn_gate.weight.lora_a"),
                      WEFT_UNSUPPORTED, "expected adapters of the gates and of the ups");
    expect_refused_by("llama", gguf_file("adapter", "llama", "blk.0.attn_q.weight.lora_b"),
                      WEFT_INVALID, "'blk.0.attn_q.weight.lora_b': 2 rows for 4 heads");
}

CHECK_MAIN("adapter_formats", CHECK_CASE(every_format_computes_the_same),
           CHECK_CASE(alternating_gates_and_ups_are_refused),
           CHECK_CASE(magnitudes_are_in_two_formats),
           CHECK_CASE(an_adapter_of_mlx_gives_its_logits),
           CHECK_CASE(what_only_peft_has_is_refused),
           CHECK_CASE(gguf_adapters_that_llama_cpp_misreads_are_refused),
           CHECK_CASE(bad_files_of_mlx_are_refused),
           CHECK_CASE(mixtures_of_lora_and_dora_are_refused),
           CHECK_CASE(bad_files_of_llama_are_refused))
