/* tests/train/test_adapter_modules.c -- adapters of embeddings, heads and mixtures of experts, and
 * modules that are fully trained. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "tests/train/recipes.h"
#include "weft/nn_tools.h"

static const char *in_folder(const char *folder, const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Adapts a model by the options, saves the adapter, loads it again and fuses it to `out`: all
 * compute the same. */
static void expect_round_trip(const char *base, const weft_nn_lora_options *o, const char *out)
{
    char path[512], folder[512], fused[600];
    weft_model *model = NULL, *again = NULL, *whole = NULL, *plain = NULL;
    snprintf(path, sizeof path, "models/%s", base);
    snprintf(path, sizeof path, "%s", check_fixture(path));
    snprintf(folder, sizeof folder, "%s", check_temporary("round-trip"));
    snprintf(fused, sizeof fused, "%s", check_temporary(out));
    if (CHECK_OK(weft_model_load(path, NULL, &model)) &&
        CHECK_OK(weft_model_load(path, NULL, &plain)) &&
        CHECK_OK(weft_model_load(path, NULL, &again)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), o))) {
        disturb(model);
        CHECK(logits_apart(plain, model) > 0.1);
        if (CHECK_OK(weft_adapter_save(model, folder, NULL)) &&
            CHECK_OK(weft_adapter_load(again, folder, NULL)))
            CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        if (CHECK_OK(weft_adapter_fuse(path, folder, fused, NULL, NULL)) &&
            CHECK_OK(weft_model_load(fused, NULL, &whole)))
            CHECK_CLOSE(logits_apart(whole, model), 0, 1e-4);
        /* In place too, and saved by itself. */
        CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
        CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        CHECK_OK(weft_nn_lora_unmerge(weft_model_module(model)));
        CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
        weft_nn_lora_remove(weft_model_module(model));
        weft_model_free(whole);
        whole = NULL;
        if (CHECK_OK(weft_model_save(model, in_folder(folder, "model"))) &&
            CHECK_OK(weft_model_load(in_folder(folder, "model"), NULL, &whole)))
            CHECK_CLOSE(logits_apart(again, whole), 0, 1e-4);
    }
    weft_model_free(model);
    weft_model_free(again);
    weft_model_free(whole);
    weft_model_free(plain);
}

/* qwen2's head is its embedding: an adapter of either changes only that one. */
static void adapting_one_tied_weight_unties_it(void)
{
    const char *const head[] = {"lm_head"}, *const embedding[] = {"embed_tokens", "q_proj"};
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = head, .n_targets = 1}, "head");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = head, .n_targets = 1},
                      "head.gguf");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.targets = embedding, .n_targets = 2},
                      "embedding.gguf");
    expect_round_trip("qwen2", &(weft_nn_lora_options){.whole = head, .n_whole = 1}, "whole");
    const char *const both[] = {"embed_tokens", "model.norm"};
    expect_round_trip("qwen2", &(weft_nn_lora_options){.whole = both, .n_whole = 2}, "both");
}

static void modules_cannot_be_both_targets_and_whole(void)
{
    weft_model *model = recipe_model(&recipes[0], NULL);
    if (model) {
        weft_module *tree = weft_model_module(model);
        const char *const head[] = {"lm_head"}, *const none[] = {"lm_feet"};
        const weft_nn_lora_options o[] = {
            {.targets = head, .n_targets = 1, .whole = head, .n_whole = 1},
            {.whole = none, .n_whole = 1},
            {.targets = (const char *const[]){"embed_tokens"}, .n_targets = 1, .dora = true},
        };
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[0]), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "lm_head is both a target and trained whole");
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[1]), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "lm_feet");
        CHECK_STATUS(weft_nn_lora_inject(tree, &o[2]), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "DoRA of an embedding (embed_tokens)");
        CHECK_OK(weft_nn_quantize(tree, NULL));
        CHECK_STATUS(
            weft_nn_lora_inject(tree, &(weft_nn_lora_options){.whole = head, .n_whole = 1}),
            WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "lm_head is quantized");
        CHECK_EQ_INT(weft_nn_lora_count(tree), 0);
    }
    weft_model_free(model);
}

/* All linears are those of experts too; routers are adapted only when they are named. */
static void mixtures_are_adapted_with_their_experts(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model))) {
        weft_module *tree = weft_model_module(model);
        static const struct {
            const char *target;
            int count;
        } cases[] = {
            {WEFT_LORA_ALL_LINEAR, 8 + 6},
            {"mlp.gate", 2},
            {"up_proj", 2},
            {"experts.gate_up_proj", 4},
            {"mlp.experts.down_proj", 2},
            {"model.layers.1.mlp.switch_mlp.gate_proj", 1},
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const weft_nn_lora_options o = {.targets = &cases[i].target, .n_targets = 1};
            CHECK_OK(weft_nn_lora_inject(tree, &o));
            CHECK_EQ_INT(weft_nn_lora_count(tree), cases[i].count);
            CHECK((weft_nn_find(tree, "model.layers.0.mlp.gate.lora_A") != NULL) == (i == 1));
            weft_nn_lora_remove(tree);
        }
        const char *const experts[] = {"down_proj"};
        const weft_nn_lora_options refused[] = {
            {.targets = experts, .n_targets = 1, .dora = true},
            {.targets = experts, .n_targets = 1, .pissa = true},
            {.targets = experts, .n_targets = 1, .dropout = 0.1},
        };
        const char *const names[] = {"DoRA", "PiSSA", "dropout"};
        for (int i = 0; i < 3; i++) {
            CHECK_STATUS(weft_nn_lora_inject(tree, &refused[i]), WEFT_UNSUPPORTED);
            CHECK_CONTAINS(weft_error_message(), names[i]);
            CHECK_CONTAINS(weft_error_message(), "of experts (down_proj) is unsupported");
            CHECK_EQ_INT(weft_nn_lora_count(tree), 0);
        }
    }
    weft_model_free(model);
}

/* Adapters with other ranks, of one half, of one layer, with an embedding, of experts in 4 bits. */
static void adapters_of_experts_are_saved_and_fused(void)
{
    const char *const all[] = {WEFT_LORA_ALL_LINEAR}, *const half[] = {"up_proj"};
    const char *const some[] = {"embed_tokens", "experts.gate_up_proj", "mlp.gate"};
    const weft_nn_lora_pattern ranks[] = {{"up_proj", 3, 5}, {"down_proj", 2, 0}};
    const weft_nn_lora_options o[] = {
        {.targets = all, .n_targets = 1, .rank = 4},
        {.targets = half, .n_targets = 1, .layers = &(int){1}, .n_layers = 1},
        {.targets = some, .n_targets = 3},
        {.targets = all, .n_targets = 1, .patterns = ranks, .n_patterns = 2, .rslora = true},
    };
    const char *const names[] = {"all", "half", "some", "ranks"};
    for (int i = 0; i < 4; i++)
        expect_round_trip("qwen3-moe", &o[i], names[i]);
    expect_round_trip("mixtral", &o[0], "mixtral");
    expect_round_trip("gemma4-moe", &o[0], "gemma4");
    expect_round_trip("qwen3-moe", &o[0], "experts.gguf");
}

/* An adapter is converted to the format and back to PEFT's, and computes the same. */
static void expect_format(weft_model *model, const char *name, weft_adapter_format format)
{
    const char *base = check_fixture("models/qwen3-moe");
    char there[512], back[520];
    weft_model *again = NULL, *last = NULL;
    snprintf(there, sizeof there, "%s", check_temporary(name));
    snprintf(back, sizeof back, "%s-back", there);
    if (CHECK_OK(weft_adapter_save_as(model, there, NULL, format)) &&
        CHECK_OK(weft_model_load(base, NULL, &again)) &&
        CHECK_OK(weft_adapter_load(again, there, NULL)) &&
        CHECK_OK(weft_adapter_save(again, back, NULL)) &&
        CHECK_OK(weft_model_load(base, NULL, &last)) &&
        CHECK_OK(weft_adapter_load(last, back, NULL))) {
        CHECK_CLOSE(logits_apart(again, model), 0, 1e-4);
        CHECK_CLOSE(logits_apart(last, model), 0, 1e-4);
    }
    weft_model_free(again);
    weft_model_free(last);
}

static void adapters_of_experts_have_every_format(void)
{
    weft_model *model = NULL;
    const char *const all[] = {WEFT_LORA_ALL_LINEAR};
    const weft_nn_lora_options o = {.targets = all, .n_targets = 1, .rank = 4};
    if (CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o))) {
        disturb(model);
        expect_format(model, "experts-mlx", WEFT_ADAPTER_MLX);
        expect_format(model, "experts-adapter.gguf", WEFT_ADAPTER_GGUF);
    }
    weft_model_free(model);
}

static bool is_of_experts(void *context, const char *path, const weft_module *m)
{
    (void)context;
    (void)m;
    return strstr(path, "switch_mlp.gate") || strstr(path, "switch_mlp.up");
}

static weft_array *decoded(void *context, const weft_nn_item *item, weft_array *value)
{
    (void)context;
    (void)item;
    return weft_encoding_of(value) ? weft_astype(weft_decode(value), WEFT_FLOAT32) : value;
}

/* Adapters of quantized experts have the loss and gradients of those of decoded experts. The
 * kernels round the inputs of encoded matrices. */
static void quantized_experts_are_adapted(void)
{
    const char *const all[] = {WEFT_LORA_ALL_LINEAR};
    const weft_nn_lora_options o = {.targets = all, .n_targets = 1, .rank = 4};
    double losses[2] = {0}, norms[2] = {0};
    for (int k = 0; k < 2; k++) {
        weft_model *model = NULL;
        weft_trainer *trainer = NULL;
        weft_batches *batches = NULL;
        const weft_nn_quantize_options format = {.format = {.bits = 4, .group_size = 32},
                                                 .accepts = is_of_experts};
        if (!CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model)))
            return;
        weft_module *tree = weft_model_module(model);
        CHECK_OK(weft_nn_quantize(tree, &format));
        if (k == 1)
            CHECK_OK(weft_nn_apply(tree, decoded, NULL, NULL));
        weft_random_seed(3);
        const recipe *r = &recipes[0];
        if (CHECK_OK(weft_nn_lora_inject(tree, &o)) &&
            CHECK_OK(weft_batches_open(recipe_path(r, "trajectory.safetensors"), &batches)) &&
            CHECK_OK(weft_trainer_new(model, &(weft_trainer_options){.lr = 1e-2}, &trainer))) {
            weft_batch batch;
            weft_train_report report = {0};
            CHECK_OK(weft_batches_at(batches, 0, &batch));
            CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &report));
            losses[k] = report.loss;
            norms[k] = report.grad_norm;
            weft_batch_free(&batch);
        }
        weft_trainer_free(trainer);
        weft_batches_free(batches);
        weft_model_free(model);
    }
    CHECK_RELATIVE(losses[0], losses[1], 1e-4);
    CHECK_RELATIVE(norms[0], norms[1], 5e-3);
}

/* The weight of the base that PEFT saves beside an embedding's adapter. */
static void adapters_of_another_base_are_refused(void)
{
    weft_model *model = NULL;
    if (CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model))) {
        const char *adapter = check_fixture("lora/lora-llama-embeddings/final");
        weft_array **slot = weft_nn_find(weft_model_module(model), "model.embed_tokens.weight");
        weft_scope_open();
        CHECK_OK(weft_set(slot, weft_scale(*slot, 1.1)));
        weft_scope_close(NULL);
        CHECK_STATUS(weft_adapter_load(model, adapter, NULL), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "base_layer.weight: differs from the model's");
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_model_free(model);
}

/* ---- copies of weights in PEFT's files ------------------------------------------------------- */

enum { MOST_TENSORS = 64 };

/* A tensor that a test adds to an adapter: the first `rows` rows (0: all) of a tensor of the model
 * or the adapter, times `factor`. */
typedef struct extra {
    const char *name, *of;
    int64_t rows;
    double factor;
} extra;

static weft_array *extra_tensor(const extra *e, const weft_safetensors *adapter, weft_model *model)
{
    weft_array *const *slot = weft_nn_find(weft_model_module(model), e->of);
    weft_array *a = slot ? *slot : weft_safetensors_get(adapter, e->of);
    return weft_scale(e->rows > 0 ? weft_slice_axis(a, 0, 0, e->rows) : a, e->factor);
}

/* A copy of a recipe's adapter with further tensors. */
static const char *with_extras(const recipe *r, weft_model *model, const extra *extras, int n)
{
    static char folder[512];
    const char *names[MOST_TENSORS];
    weft_array *arrays[MOST_TENSORS];
    weft_safetensors *file = NULL;
    char *config = NULL;
    size_t size = 0;
    snprintf(folder, sizeof folder, "%s", check_temporary("extras"));
    CHECK_OK(weft_folder_make(folder));
    if (!CHECK_OK(
            weft_safetensors_open(recipe_path(r, "final/adapter_model.safetensors"), &file)) ||
        !CHECK_OK(weft_file_read(recipe_path(r, "final/adapter_config.json"), 0, &config, &size)))
        return folder;
    const int own = weft_safetensors_count(file);
    weft_scope_open();
    for (int i = 0; i < own; i++) {
        names[i] = weft_safetensors_at(file, i)->name;
        arrays[i] = weft_safetensors_get(file, names[i]);
    }
    for (int i = 0; i < n; i++) {
        names[own + i] = extras[i].name;
        arrays[own + i] = extra_tensor(&extras[i], file, model);
    }
    CHECK_OK(weft_safetensors_save(in_folder(folder, "adapter_model.safetensors"), names, arrays,
                                   own + n, NULL, 0));
    CHECK_OK(weft_file_write(in_folder(folder, "adapter_config.json"), config, size));
    weft_scope_close(NULL);
    weft_free(config);
    weft_safetensors_close(file);
    return folder;
}

static void expect_extras(const char *name, const extra *extras, int n, weft_status status,
                          const char *part)
{
    const recipe *r = recipe_named(name);
    weft_model *model = recipe_model(r, NULL), *expected = recipe_model(r, "final");
    if (model && expected) {
        const char *folder = with_extras(r, model, extras, n);
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), status);
        if (status == WEFT_OK)
            CHECK_CLOSE(logits_apart(model, expected), 0, 0);
        else
            CHECK_CONTAINS(weft_error_message(), part);
        if (status != WEFT_OK)
            CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_model_free(model);
    weft_model_free(expected);
}

/* PEFT copies embedding and head with save_embedding_layers, and modules_to_save twice. */
static void copies_of_weights_are_dropped(void)
{
    static const char embedding[] = "base_model.model.model.embed_tokens.weight";
    static const char head[] = "base_model.model.lm_head.weight";
    const extra both[] = {{embedding, "model.embed_tokens.weight", 0, 1},
                          {head, "lm_head.weight", 0, 1}};
    const extra saved[] = {
        {"base_model.model.lm_head.modules_to_save.weight", head, 0, 1},
        {"base_model.model.lm_head.original_module.weight", "lm_head.weight", 0, 1}};
    const extra resized[] = {{embedding, "model.embed_tokens.weight", 317, 1}};
    const extra other[] = {{head, "lm_head.weight", 0, 1.1}};
    const extra unknown[] = {{"base_model.model.model.norms.weight", "model.norm.weight", 0, 1}};
    expect_extras("lora-llama", both, 2, WEFT_OK, NULL);
    expect_extras("lora-llama-saved", saved, 2, WEFT_OK, NULL);
    expect_extras("lora-llama", resized, 1, WEFT_UNSUPPORTED,
                  "embed_tokens.weight' has 317 rows, the model's model.embed_tokens.weight has "
                  "320: only an embedding or a head with more rows");
    expect_extras("lora-llama", other, 1, WEFT_INVALID, "lm_head.weight: differs from the model's");
    expect_extras("lora-llama", unknown, 1, WEFT_INVALID,
                  "unexpected: base_model.model.model.norms");
}

/* ---- experts as linears ---------------------------------------------------------------------- */

static const char *linears_path(const char *base, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "lora/linears-%s/%s", base, name);
    return check_fixture(path);
}

/* Computed by transformers 4 and PEFT. */
static void expect_linears(const char *base)
{
    char path[128];
    weft_model *model = NULL;
    weft_safetensors *file = NULL;
    snprintf(path, sizeof path, "models/%s", base);
    if (CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)) &&
        CHECK_OK(weft_adapter_load(model, linears_path(base, ""), NULL)) &&
        CHECK_OK(weft_safetensors_open(linears_path(base, "logits.safetensors"), &file))) {
        weft_scope_open();
        weft_array *logits = weft_model_forward(model, weft_safetensors_get(file, "ids"), NULL);
        weft_array *apart = weft_subtract(logits, weft_safetensors_get(file, "logits"));
        CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 1e-5);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(file);
    weft_model_free(model);
}

/* linears-qwen3-moe with other text in its configuration, without a tensor. */
static void expect_bad_linears(const char *from, const char *to, const char *tensor,
                               weft_status status, const char *part)
{
    char folder[512], *config = NULL;
    const char *names[256];
    weft_array *arrays[256];
    weft_model *model = NULL;
    weft_safetensors *file = NULL;
    int n = 0;
    snprintf(folder, sizeof folder, "%s", check_temporary("bad-linears"));
    CHECK_OK(weft_folder_make(folder));
    if (!CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model)) ||
        !CHECK_OK(
            weft_safetensors_open(linears_path("qwen3-moe", "adapter_model.safetensors"), &file)) ||
        !CHECK_OK(
            weft_file_read(linears_path("qwen3-moe", "adapter_config.json"), 0, &config, NULL)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        names[n] = weft_safetensors_at(file, i)->name;
        arrays[n] = weft_safetensors_get(file, names[n]);
        n += tensor == NULL || strstr(names[n], tensor) == NULL;
    }
    CHECK_OK(weft_safetensors_save(in_folder(folder, "adapter_model.safetensors"), names, arrays, n,
                                   NULL, 0));
    weft_scope_close(NULL);
    const char *at = strstr(config, from);
    if (CHECK(at != NULL)) {
        char *text = weft_format("%.*s%s%s", (int)(at - config), config, to, at + strlen(from));
        CHECK_OK(weft_file_write(in_folder(folder, "adapter_config.json"), text, strlen(text)));
        weft_free(text);
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), status);
        CHECK_CONTAINS(weft_error_message(), part);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
    }
    weft_free(config);
    weft_safetensors_close(file);
    weft_model_free(model);
}

static void experts_may_be_linears(void)
{
    expect_linears("qwen3-moe");
    expect_linears("mixtral");
    expect_bad_linears("\"use_dora\": false", "\"use_dora\": true", NULL, WEFT_UNSUPPORTED,
                       "DoRA beside adapters of single experts is unsupported");
    expect_bad_linears("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"experts.3.up_proj\": 3}",
                       NULL, WEFT_UNSUPPORTED, "another alpha for some experts is unsupported");
    expect_bad_linears(
        "", "", "layers.1.mlp.experts.5.up_proj.lora_B", WEFT_UNSUPPORTED,
        "experts.5.up_proj.lora_B.weight' is missing: adapters of only some experts");
    expect_bad_linears("", "", "layers.1.self_attn.q_proj.lora_A", WEFT_INVALID,
                       "q_proj: the other half is missing");
}

/* In models with experts PEFT finds dense and shared MLPs and routers as parameters. With PEFT
 * 0.21.2 such adapters give the logits of Weft (tests/golden/models/outputs.py). */
static void mlps_beside_experts_are_parameters(void)
{
    static const struct {
        const char *base, *targets[4], *pattern, *config;
    } cases[] = {
        {"qwen3-next",
         {"q_proj", "gate_proj", "up_proj", "down_proj"},
         NULL,
         "\"target_parameters\": [\n    \"down_proj.weight\",\n    \"experts.down_proj\",\n    "
         "\"experts.gate_up_proj\",\n    \"gate_proj.weight\",\n    \"up_proj.weight\"\n"},
        {"qwen3-moe-mixed",
         {"q_proj", "down_proj", "mlp.gate"},
         NULL,
         "[\n    \"down_proj.weight\",\n    \"experts.down_proj\",\n    \"gate.weight\"\n"},
        {"qwen3-next",
         {"q_proj", "layers.3.mlp.shared_expert.up_proj"},
         "model.layers.3.mlp.shared_expert.up_proj",
         "[\n    \"model.layers.3.mlp.shared_expert.up_proj.weight\"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weft_nn_lora_pattern pattern = {cases[i].pattern, 3, 5};
        weft_nn_lora_options o = {.rank = 2, .targets = cases[i].targets, .patterns = &pattern};
        while (o.n_targets < 4 && cases[i].targets[o.n_targets])
            o.n_targets++;
        o.n_patterns = pattern.path != NULL;
        char out[32];
        snprintf(out, sizeof out, "parameters-%d", (int)i);
        expect_round_trip(cases[i].base, &o, out);
        char *config = NULL;
        if (CHECK_OK(weft_file_read(in_folder(check_temporary("round-trip"), "adapter_config.json"),
                                    0, &config, NULL))) {
            CHECK_CONTAINS(config, cases[i].config);
            CHECK_CONTAINS(config, "\"target_modules\": [\n    \"q_proj\"\n  ]");
        }
        weft_free(config);
    }
}

/* PEFT refuses adapters of out_proj in two families by name: "all-linear" leaves it out there. */
static void all_linears_are_what_peft_loads(void)
{
    static const struct {
        const char *base;
        bool has_out_proj;
    } cases[] = {{"falcon-h1", false}, {"nemotron-h", false}, {"granite4", true}};
    const char *all[] = {WEFT_LORA_ALL_LINEAR}, *named[] = {"out_proj"};
    for (int i = 0; i < 3; i++) {
        const weft_nn_lora_options o = {.targets = all, .n_targets = 1, .rank = 2};
        const weft_nn_lora_options by_name = {.targets = named, .n_targets = 1, .rank = 2};
        char path[64], folder[512], *text = NULL;
        size_t size;
        weft_model *model = NULL, *again = NULL;
        snprintf(path, sizeof path, "models/%s", cases[i].base);
        snprintf(folder, sizeof folder, "%s", check_temporary(cases[i].base));
        if (!CHECK_OK(weft_model_load(check_fixture(path), NULL, &model)) ||
            !CHECK_OK(weft_model_load(check_fixture(path), NULL, &again)))
            return;
        CHECK_OK(weft_nn_lora_inject(weft_model_module(again), &by_name));
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
        CHECK_OK(weft_adapter_save(model, folder, NULL));
        if (CHECK_OK(weft_file_read(in_folder(folder, "adapter_config.json"), 0, &text, &size))) {
            CHECK(strstr(text, "\"in_proj\"") != NULL);
            CHECK_EQ_INT(strstr(text, "\"out_proj\"") != NULL, cases[i].has_out_proj);
        }
        weft_free(text);
        weft_model_free(model);
        weft_model_free(again);
    }
}

CHECK_MAIN("adapter_modules", CHECK_CASE(adapting_one_tied_weight_unties_it),
           CHECK_CASE(modules_cannot_be_both_targets_and_whole),
           CHECK_CASE(mixtures_are_adapted_with_their_experts),
           CHECK_CASE(adapters_of_experts_are_saved_and_fused),
           CHECK_CASE(adapters_of_experts_have_every_format),
           CHECK_CASE(quantized_experts_are_adapted),
           CHECK_CASE(adapters_of_another_base_are_refused),
           CHECK_CASE(copies_of_weights_are_dropped), CHECK_CASE(experts_may_be_linears),
           CHECK_CASE(mlps_beside_experts_are_parameters),
           CHECK_CASE(all_linears_are_what_peft_loads))
