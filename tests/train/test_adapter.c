/* tests/train/test_adapter.c -- PEFT adapters: writing, reading, and refused input. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "tests/train/recipes.h"

static char folder[512];

/* A scratch folder of that name, for the functions below. */
static void use_folder(const char *name)
{
    snprintf(folder, sizeof folder, "%s", check_temporary(name));
    CHECK_OK(weft_folder_make(folder));
}

static const char *in_folder(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Saves the qwen3 fixture with those adapters; the configuration's text (weft_free), or NULL. */
static char *saved_config(const weft_nn_lora_options *options)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    char *text = NULL;
    use_folder("saved");
    if (model && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), options)) &&
        CHECK_OK(weft_adapter_save(model, folder, "some/model")))
        CHECK_OK(weft_file_read(in_folder("adapter_config.json"), 0, &text, NULL));
    weft_model_free(model);
    return text;
}

static void expect_config(const weft_nn_lora_options *options, const char *const *parts, int n)
{
    char *text = saved_config(options);
    for (int i = 0; text && i < n; i++)
        CHECK_CONTAINS(text, parts[i]);
    weft_free(text);
}

static void configs_say_what_peft_needs(void)
{
    const char *const plain[] = {"\"peft_type\": \"LORA\"",
                                 "\"task_type\": \"CAUSAL_LM\"",
                                 "\"base_model_name_or_path\": \"some/model\"",
                                 "\"r\": 8,",
                                 "\"lora_alpha\": 16,",
                                 "\"lora_dropout\": 0,",
                                 "\"q_proj\",\n    \"v_proj\"\n  ]",
                                 "\"layers_to_transform\": null",
                                 "\"use_rslora\": false"};
    expect_config(NULL, plain, 9);
    const char *const scaled[] = {"\"r\": 4,", "\"lora_alpha\": 16,", "\"lora_dropout\": 0.25,"};
    expect_config(&(weft_nn_lora_options){.rank = 4, .alpha = 8, .rslora = true, .dropout = 0.25},
                  scaled, 3);
    const char *const all[] = {
        "\"down_proj\",\n    \"gate_proj\",\n    \"k_proj\",\n    \"o_proj\""};
    expect_config(&(weft_nn_lora_options){.targets = (const char *const[]){WEFT_LORA_ALL_LINEAR},
                                          .n_targets = 1},
                  all, 1);
}

static void partly_adapted_models_are_named_exactly(void)
{
    const char *const layer[] = {"\"layers_to_transform\": [1],", "\"q_proj\",\n    \"v_proj\""};
    expect_config(&(weft_nn_lora_options){.layers = (const int[]){1}, .n_layers = 1}, layer, 2);
    /* q in one layer and v in the other: no suffix and no list of layers describes that. */
    const char *const targets[] = {"layers.0.self_attn.q_proj", "layers.1.self_attn.v_proj"};
    const char *const paths[] = {"\"layers_to_transform\": null",
                                 "\"model.layers.0.self_attn.q_proj\",\n"
                                 "    \"model.layers.1.self_attn.v_proj\"\n"};
    expect_config(&(weft_nn_lora_options){.targets = targets, .n_targets = 2}, paths, 2);
}

static void saving_needs_one_kind_of_adapter(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model == NULL)
        return;
    use_folder("refused");
    weft_module *tree = weft_model_module(model);
    CHECK_STATUS(weft_adapter_save(model, folder, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "none");
    CHECK_OK(weft_nn_lora_inject(tree, NULL));
    weft_model_free(model);
    model = recipe_model(&recipes[0], NULL);
    if (model == NULL)
        return;
    tree = weft_model_module(model);
    CHECK_OK(weft_nn_lora_inject(tree, &(weft_nn_lora_options){.dora = true}));
    weft_module *one = weft_nn_find_module(tree, "model.layers.1.self_attn.v_proj");
    if (CHECK(one && one->type == &weft_nn_lora_linear_type)) {
        weft_drop(((weft_nn_lora_linear *)one)->lora_magnitude_vector);
        ((weft_nn_lora_linear *)one)->lora_magnitude_vector = NULL;
    }
    CHECK_STATUS(weft_adapter_save(model, folder, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "v_proj is plain LoRA, others are not");
    weft_model_free(model);
}

/* The largest difference of two models' logits for a few tokens, over those that both have. */
static double known_logits_apart(weft_model *a, weft_model *b)
{
    weft_scope_open();
    const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 8));
    weft_array *x = weft_model_forward(a, tokens, NULL), *y = weft_model_forward(b, tokens, NULL);
    const int64_t V = weft_dim(x, -1) < weft_dim(y, -1) ? weft_dim(x, -1) : weft_dim(y, -1);
    weft_array *difference =
        weft_subtract(weft_slice_axis(x, -1, 0, V), weft_slice_axis(y, -1, 0, V));
    const double worst = weft_item(weft_max(weft_abs(difference), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return worst;
}

/* Saves, loads into another model and compares scale and rank of one linear and the logits. */
static void expect_saved(const weft_nn_lora_options *options, const char *const *parts, int n,
                         const char *path, int64_t rank, double scale)
{
    weft_model *model = recipe_model(&recipes[0], NULL), *again = recipe_model(&recipes[0], NULL);
    char *text = NULL;
    use_folder("patterned");
    if (model && again && CHECK_OK(weft_nn_lora_inject(weft_model_module(model), options))) {
        disturb(model);
        CHECK_OK(weft_adapter_save(model, folder, NULL));
        CHECK_OK(weft_file_read(in_folder("adapter_config.json"), 0, &text, NULL));
        for (int i = 0; text && i < n; i++)
            CHECK_CONTAINS(text, parts[i]);
        if (CHECK_OK(weft_adapter_load(again, folder, NULL))) {
            weft_module *m = weft_nn_find_module(weft_model_module(again), path);
            CHECK_EQ_INT(weft_dim(((weft_nn_lora_linear *)m)->lora_A, 0), rank);
            CHECK_CLOSE(((weft_nn_lora_linear *)m)->scale, scale, 1e-12);
            CHECK_CLOSE(known_logits_apart(model, again), 0, 1e-5);
        }
    }
    weft_free(text);
    weft_model_free(model);
    weft_model_free(again);
}

static void mixed_ranks_are_saved_as_patterns(void)
{
    const weft_nn_lora_pattern patterns[] = {{"v_proj", .rank = 2, .alpha = 6},
                                             {"layers.1.self_attn.q_proj", .rank = 3}};
    const char *const parts[] = {
        "\"r\": 4,", "\"lora_alpha\": 8,", "\"alpha_pattern\": {\n    \"v_proj\": 6\n  },",
        "\"rank_pattern\": {\n    \"v_proj\": 2,\n    \"model.layers.1.self_attn.q_proj\": 3\n"};
    const char *const targets[] = {"q_proj", "k_proj", "v_proj"};
    expect_saved(&(weft_nn_lora_options){.rank = 4,
                                         .alpha = 8,
                                         .targets = targets,
                                         .n_targets = 3,
                                         .patterns = patterns,
                                         .n_patterns = 2},
                 parts, 4, "model.layers.1.self_attn.q_proj", 3, 8.0 / 3);
}

static void pissa_is_saved_as_lora_of_twice_the_rank(void)
{
    const char *const parts[] = {"\"r\": 6,", "\"lora_alpha\": 24,", "\"use_rslora\": false"};
    expect_saved(&(weft_nn_lora_options){.rank = 3, .alpha = 12, .pissa = true}, parts, 3,
                 "model.layers.0.self_attn.v_proj", 6, 4);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Copies PEFT's adapter with `from` in its configuration replaced by `to` (NULL: as it is). */
static bool copy_adapter(const char *from, const char *to)
{
    size_t size;
    char *config, *tensors;
    use_folder("copied");
    if (!CHECK_OK(weft_file_read(recipe_path(&recipes[0], "initial/adapter_config.json"), 0,
                                 &config, NULL)) ||
        !CHECK_OK(weft_file_read(recipe_path(&recipes[0], "initial/adapter_model.safetensors"), 0,
                                 &tensors, &size)))
        return false;
    char *at = from ? strstr(config, from) : config;
    if (!CHECK(at != NULL))
        return false;
    char *text = weft_format("%.*s%s%s", (int)(at - config), config, to ? to : "",
                             at + (from ? strlen(from) : 0));
    CHECK_OK(weft_file_write(in_folder("adapter_config.json"), text, strlen(text)));
    CHECK_OK(weft_file_write(in_folder("adapter_model.safetensors"), tensors, size));
    weft_free(config);
    weft_free(tensors);
    weft_free(text);
    return true;
}

static void values_that_are_not_finite_are_refused(void)
{
    char *tensors;
    size_t size;
    const uint32_t nan = 0x7fc00000;
    if (!copy_adapter(NULL, NULL) ||
        !CHECK_OK(weft_file_read(in_folder("adapter_model.safetensors"), 0, &tensors, &size)))
        return;
    memcpy(tensors + size - sizeof nan, &nan, sizeof nan);
    CHECK_OK(weft_file_write(in_folder("adapter_model.safetensors"), tensors, size));
    weft_model *model = recipe_model(&recipes[0], NULL);
    CHECK_STATUS(weft_adapter_load(model, in_folder(""), NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "NaN or infinite");
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    weft_model_free(model);
    weft_free(tensors);
    /* also in modules that are trained whole */
    weft_model *trained = recipe_model(&recipes[0], NULL), *again = recipe_model(&recipes[0], NULL);
    weft_module *tree = weft_model_module(trained);
    const char *const targets[] = {"q_proj"}, *const whole[] = {"model.norm"};
    const weft_nn_lora_options o = {
        .rank = 2, .targets = targets, .n_targets = 1, .whole = whole, .n_whole = 1};
    CHECK_OK(weft_nn_lora_inject(tree, &o));
    weft_scope_open();
    weft_array **norm = weft_nn_find(tree, "model.norm.weight");
    CHECK_OK(weft_set(norm, weft_full(weft_shape(*norm), INFINITY, WEFT_FLOAT32)));
    weft_scope_close(NULL);
    CHECK_OK(weft_adapter_save(trained, in_folder("whole"), NULL));
    CHECK_STATUS(weft_adapter_load(again, in_folder("whole"), NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "model.norm.weight: value 0 of the adapter is NaN");
    weft_model_free(trained);
    weft_model_free(again);
}

static void pickles_are_refused_by_name(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model && copy_adapter(NULL, NULL) &&
        CHECK_EQ_INT(remove(in_folder("adapter_model.safetensors")), 0) &&
        CHECK_OK(weft_file_write(in_folder("adapter_model.bin"), "PK", 2))) {
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "adapter_model.bin: PyTorch's pickle format");
        CHECK_EQ_INT(remove(in_folder("adapter_model.bin")), 0);
    }
    weft_model_free(model);
}

static void expect_refusal(const char *from, const char *to, weft_status status, const char *part)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model && copy_adapter(from, to)) {
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), status);
        CHECK_CONTAINS(weft_error_message(), part);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_model_free(model);
}

static void expect_loaded(const char *from, const char *to, int count)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model && copy_adapter(from, to) && CHECK_OK(weft_adapter_load(model, folder, NULL)))
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), count);
    weft_model_free(model);
}

static void other_kinds_are_unsupported_by_name(void)
{
    const struct {
        const char *from, *to, *field;
    } cases[] = {
        {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias"},
        {"\"bias\": \"none\"", "\"bias\": \"none\\u0000\"", "bias"},
        {"\"lora_bias\": false", "\"lora_bias\": true", "lora_bias"},
        {"\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true", "fan_in_fan_out"},
        {"\"layer_replication\": null", "\"layer_replication\": [[0, 1]]", "layer_replication"},
        {"\"target_parameters\": null", "\"target_parameters\": [\"w\"]", "target_parameters"},
        {"\"use_qalora\": false", "\"use_qalora\": true", "use_qalora"},
        {"\"use_dora\": false", "\"use_something_new\": 3", "use_something_new"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", "init_lora_weights"},
        {"\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", "IA3"},
        {"\"peft_type\": \"LORA\",", "", "peft_type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].from, cases[i].to, WEFT_UNSUPPORTED, cases[i].field);
    /* With use_dora an adapter must have magnitudes. */
    expect_refusal("\"use_dora\": false", "\"use_dora\": true", WEFT_INVALID,
                   "lora_magnitude_vector");
}

static void bad_configs_are_refused(void)
{
    expect_refusal("\"r\": 4", "\"r\": 0", WEFT_INVALID, "r: expected 1");
    expect_refusal("\"r\": 4", "\"r\": \"four\"", WEFT_INVALID, "expected integer");
    expect_refusal("\"lora_alpha\": 8", "\"lora_alpha\": 0", WEFT_INVALID, "lora_alpha");
    expect_refusal("\"lora_dropout\": 0.0", "\"lora_dropout\": 1.0", WEFT_INVALID, "lora_dropout");
    expect_refusal("\"target_modules\": [", "\"target_modules\": [3,", WEFT_INVALID,
                   "target_modules[0]");
    expect_refusal("\"target_modules\": [", "\"target_modules\": [\"q_proj\\u0000\",", WEFT_INVALID,
                   "target_modules[0]: expected a string without \\u0000");
    expect_refusal("\"init_lora_weights\": true", "\"init_lora_weights\": \"default\\u0000\"",
                   WEFT_INVALID, "init_lora_weights: expected a string without \\u0000");
    expect_refusal("\"init_lora_weights\": true", "\"init_lora_weights\": 3", WEFT_INVALID,
                   "init_lora_weights: expected string");
    expect_refusal("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", WEFT_INVALID,
                   "missing: lm_head.weight");
    expect_refusal("\"modules_to_save\": null", "\"modules_to_save\": [\"scores\"]", WEFT_INVALID,
                   "modules_to_save: the model has no such module");
    expect_refusal("\"modules_to_save\": null", "\"modules_to_save\": [3]", WEFT_INVALID,
                   "modules_to_save[0]");
    expect_refusal("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 0}", WEFT_INVALID,
                   "rank_pattern.q_proj: expected 1");
    expect_refusal("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2.5}", WEFT_INVALID,
                   "rank_pattern.q_proj: expected integer");
    expect_refusal("\"rank_pattern\": {}", "\"rank_pattern\": [2]", WEFT_INVALID,
                   "rank_pattern: expected object");
    expect_refusal("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 0}", WEFT_INVALID,
                   "alpha_pattern.q_proj");
    /* The rank of the tensors must be that of the configuration. */
    expect_refusal("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2}", WEFT_INVALID,
                   "q_proj.lora_A");
    expect_refusal("\"r\": 4,", "\"r\": 4", WEFT_INVALID, "adapter_config.json");
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model) {
        CHECK_STATUS(weft_adapter_load(model, check_temporary("nowhere"), NULL), WEFT_IO);
        CHECK_CONTAINS(weft_error_message(), "adapter_config.json");
    }
    weft_model_free(model);
}

static void wrong_tensors_are_listed_at_once(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model == NULL || !copy_adapter(NULL, NULL))
        return;
    const char *names[] = {
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
        "base_model.model.model.layers.9.self_attn.q_proj.lora_B.weight",
    };
    weft_scope_open();
    weft_array *arrays[] = {weft_zeros(WEFT_DIMS(4, 64), WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(64, 5), WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(64, 4), WEFT_FLOAT32)};
    CHECK_OK(
        weft_safetensors_save(in_folder("adapter_model.safetensors"), names, arrays, 3, NULL, 0));
    weft_scope_close(NULL);
    CHECK_STATUS(weft_adapter_load(model, folder, NULL), WEFT_INVALID);
    const char *message = weft_error_message();
    CHECK_CONTAINS(message, "model.layers.0.self_attn.q_proj.lora_B");
    CHECK_CONTAINS(message, "layers.9.self_attn.q_proj.lora_B.weight");
    CHECK_CONTAINS(message, "26 missing");
    CHECK_CONTAINS(message, "model.layers.0.mlp.down_proj.lora_A");
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    weft_model_free(model);
}

static void targets_may_be_given_in_other_ways(void)
{
    expect_loaded("../../qwen3", "/nowhere/at/all", 14);
    /* A regular expression: the tensors decide which modules are adapted. */
    expect_loaded("\"target_modules\": [\n    \"up_proj\",\n    \"q_proj\",\n    \"o_proj\",\n    "
                  "\"v_proj\",\n    \"k_proj\",\n    \"gate_proj\",\n    \"down_proj\"\n  ]",
                  "\"target_modules\": \".*_proj\"", 14);
    expect_loaded("\"target_modules\": [\n    \"up_proj\",\n    \"q_proj\",\n    \"o_proj\",\n    "
                  "\"v_proj\",\n    \"k_proj\",\n    \"gate_proj\",\n    \"down_proj\"\n  ]",
                  "\"target_modules\": \"all-linear\"", 14);
    expect_refusal("\"exclude_modules\": null", "\"exclude_modules\": [\"v_proj\"]", WEFT_INVALID,
                   "unexpected");
    expect_refusal("\"exclude_modules\": null", "\"exclude_modules\": \".*v_proj\"", WEFT_INVALID,
                   "unexpected");
    expect_refusal("\"exclude_modules\": null", "\"exclude_modules\": \"(v_proj\"",
                   WEFT_UNSUPPORTED, "exclude_modules");
    expect_refusal("\"layers_to_transform\": null", "\"layers_to_transform\": 1", WEFT_INVALID,
                   "unexpected");
    expect_loaded("\"layers_to_transform\": null", "\"layers_to_transform\": [0, 1]", 14);
}

static void expect_scale(const weft_model *model, const char *path, double scale)
{
    weft_module *m = weft_nn_find_module(weft_model_module((weft_model *)model), path);
    if (CHECK(m && m->type == &weft_nn_lora_linear_type))
        CHECK_CLOSE(((weft_nn_lora_linear *)m)->scale, scale, 1e-12);
}

/* Keys are regular expressions for the end of the path; the first that matches applies. */
static void patterns_of_peft_load(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model &&
        copy_adapter("\"alpha_pattern\": {}",
                     "\"alpha_pattern\": {\"layers\\\\.\\\\d\\\\.self_attn\\\\.(q|k)_proj\": 12, "
                     "\"q_proj\": 5, \"^model.layers.[1-9].mlp.up_proj\": 20, \"_proj\": 7}") &&
        CHECK_OK(weft_adapter_load(model, folder, NULL))) {
        expect_scale(model, "model.layers.0.self_attn.q_proj", 3);
        expect_scale(model, "model.layers.1.self_attn.k_proj", 3);
        expect_scale(model, "model.layers.0.self_attn.v_proj", 2);
        expect_scale(model, "model.layers.0.mlp.up_proj", 2);
        expect_scale(model, "model.layers.1.mlp.up_proj", 5);
    }
    weft_model_free(model);
}

static void an_adapted_model_takes_no_second_adapter(void)
{
    weft_model *model = recipe_model(&recipes[0], "initial");
    if (model)
        CHECK_STATUS(weft_adapter_load(model, recipe_path(&recipes[0], "initial"), NULL),
                     WEFT_INVALID);
    weft_model_free(model);
}

/* A factor that was computed when loading is used as long as its arrays are not replaced. */
static void changed_magnitudes_count_at_once(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(check_fixture("models/qwen3"), NULL, &model)) &&
        CHECK_OK(weft_adapter_load(model, check_fixture("lora/lora-qwen3-dora/final"), NULL))) {
        weft_scope_open();
        weft_module *m =
            weft_nn_find_module(weft_model_module(model), "model.layers.0.self_attn.q_proj");
        weft_nn_lora_linear *l = (weft_nn_lora_linear *)m;
        CHECK(l->factor != NULL);
        weft_array *x = weft_ones(WEFT_DIMS(1, 64), WEFT_FLOAT32);
        weft_array *twice = weft_scale(weft_nn_call(m, x), 2);
        CHECK_OK(weft_eval(twice));
        CHECK_OK(weft_set(&l->lora_magnitude_vector, weft_scale(l->lora_magnitude_vector, 2)));
        weft_array *apart = weft_abs(weft_subtract(weft_nn_call(m, x), twice));
        CHECK_CLOSE(weft_item(weft_max(apart, WEFT_ALL_AXES, false)), 0, 1e-5);
        weft_scope_close(NULL);
    }
    weft_model_free(model);
}

static void rslora_is_applied(void)
{
    weft_model *model = recipe_model(&recipes[2], "initial");
    if (model) {
        weft_module *m =
            weft_nn_find_module(weft_model_module(model), "model.layers.0.self_attn.q_proj");
        if (CHECK(m && m->type == &weft_nn_lora_linear_type))
            CHECK_CLOSE(((weft_nn_lora_linear *)m)->scale, 8 / sqrt(4), 1e-12);
    }
    weft_model_free(model);
}

static void bfloat16_adapters_go_both_ways(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    const weft_adapter_options o = {.dtype = WEFT_BFLOAT16};
    use_folder("bfloat16");
    if (model && CHECK_OK(weft_adapter_load(model, recipe_path(&recipes[0], "final"), &o))) {
        weft_array **slot =
            weft_nn_find(weft_model_module(model), "model.layers.0.self_attn.q_proj.lora_A");
        CHECK(slot && weft_dtype_of(*slot) == WEFT_BFLOAT16);
        CHECK_OK(weft_adapter_save(model, folder, NULL));
        weft_safetensors *file;
        if (CHECK_OK(weft_safetensors_open(in_folder("adapter_model.safetensors"), &file))) {
            CHECK_EQ_INT(weft_safetensors_count(file), 28);
            CHECK_EQ_INT(weft_safetensors_at(file, 0)->dtype, WEFT_BFLOAT16);
        }
        weft_safetensors_close(file);
    }
    weft_model_free(model);
}

/* Fuses the recipe's final adapter and compares the result with base and adapter, and with the base
 * alone: `most` is less than what the adapter changes. */
static void expect_fused(const recipe *r, const char *name, const weft_convert_options *o,
                         double most)
{
    char base[512], adapter[512], out[600];
    weft_model *fused = NULL, *adapted = recipe_model(r, "final"), *plain = recipe_model(r, NULL);
    snprintf(base, sizeof base, "models/%s", r->model);
    snprintf(base, sizeof base, "%s", check_fixture(base));
    snprintf(adapter, sizeof adapter, "%s", recipe_path(r, "final"));
    snprintf(out, sizeof out, "%s", check_temporary(name));
    if (CHECK_OK(weft_adapter_fuse(base, adapter, out, o, NULL)) &&
        CHECK_OK(weft_model_load(out, NULL, &fused)) && adapted && plain) {
        const double kept = known_logits_apart(fused, adapted),
                     changed = known_logits_apart(plain, adapted);
        printf("  %s of %s: %.2g from base and adapter, which is %.2g from the base\n", name,
               r->folder, kept, changed);
        CHECK(kept <= most);
        CHECK(changed > 3 * most);
    }
    weft_model_free(fused);
    weft_model_free(adapted);
    weft_model_free(plain);
}

static void fused_models_are_base_and_adapter(void)
{
    for (int i = 0; i < n_recipes; i++) {
        char name[64];
        snprintf(name, sizeof name, "fused-%d", i);
        expect_fused(&recipes[i], name, NULL, 2e-5); /* sums of float32 in another order */
        snprintf(name, sizeof name, "fused-%d.gguf", i);
        if (recipe_has_gguf(&recipes[i]))
            expect_fused(&recipes[i], name, NULL, 2e-5);
    }
}

static void fused_folders_have_a_model_card(void)
{
    char base[512], adapter[512], *text = NULL;
    snprintf(base, sizeof base, "%s", check_fixture("models/qwen3"));
    snprintf(adapter, sizeof adapter, "%s", recipe_path(&recipes[0], "final"));
    snprintf(folder, sizeof folder, "%s", check_temporary("carded"));
    if (CHECK_OK(weft_adapter_fuse(base, adapter, folder, NULL, NULL)) &&
        CHECK_OK(weft_file_read(in_folder("README.md"), 0, &text, NULL))) {
        CHECK_CONTAINS(text, "base_model: \"../../qwen3\"");
        CHECK_CONTAINS(text, "| Rank | ");
    }
    weft_free(text);
    CHECK_STATUS(weft_adapter_fuse(base, adapter, folder, NULL, NULL), WEFT_INVALID);
    CHECK_STATUS(weft_adapter_fuse(base, NULL, folder, NULL, NULL), WEFT_INVALID);
}

/* Of two models of 4 bits, the one whose adapted matrices have 8 has more bytes. */
static void adapted_matrices_are_quantized_less(void)
{
    char base[512], adapter[512], plain[512], fused[512];
    const weft_convert_options o = {.quantize = true, .format = {.bits = 4, .group_size = 32}};
    weft_convert_report without, with;
    snprintf(base, sizeof base, "%s", check_fixture("models/qwen3"));
    snprintf(adapter, sizeof adapter, "%s", recipe_path(&recipes[0], "final"));
    snprintf(plain, sizeof plain, "%s", check_temporary("four"));
    snprintf(fused, sizeof fused, "%s", check_temporary("four-fused"));
    if (CHECK_OK(weft_convert(base, plain, &o, &without)) &&
        CHECK_OK(weft_adapter_fuse(base, adapter, fused, &o, &with)))
        CHECK(with.bytes > without.bytes && with.parameters == without.parameters);
    const weft_convert_options other = {.quantize = true, .format = {.mode = WEFT_MXFP4}};
    CHECK_STATUS(weft_adapter_fuse(base, adapter, fused, &other, NULL), WEFT_UNSUPPORTED);
}

CHECK_MAIN("adapter", CHECK_CASE(configs_say_what_peft_needs),
           CHECK_CASE(partly_adapted_models_are_named_exactly),
           CHECK_CASE(saving_needs_one_kind_of_adapter),
           CHECK_CASE(mixed_ranks_are_saved_as_patterns),
           CHECK_CASE(pissa_is_saved_as_lora_of_twice_the_rank), CHECK_CASE(patterns_of_peft_load),
           CHECK_CASE(values_that_are_not_finite_are_refused),
           CHECK_CASE(other_kinds_are_unsupported_by_name), CHECK_CASE(pickles_are_refused_by_name),
           CHECK_CASE(bad_configs_are_refused), CHECK_CASE(wrong_tensors_are_listed_at_once),
           CHECK_CASE(targets_may_be_given_in_other_ways),
           CHECK_CASE(an_adapted_model_takes_no_second_adapter),
           CHECK_CASE(changed_magnitudes_count_at_once), CHECK_CASE(rslora_is_applied),
           CHECK_CASE(bfloat16_adapters_go_both_ways),
           CHECK_CASE(fused_models_are_base_and_adapter),
           CHECK_CASE(fused_folders_have_a_model_card),
           CHECK_CASE(adapted_matrices_are_quantized_less))
