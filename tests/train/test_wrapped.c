/* tests/train/test_wrapped.c -- text models of multimodal models: written files keep the names and
 * the other tensors of the base, and adapters have the module names of the multimodal class. */
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/adapter.h"
#include "weft/convert.h"
#include "weft/model.h"

enum { MOST_MODULES = 128 };

static const char *const models[] = {"gemma3", "gemma4", "mistral3", "qwen3-5", "qwen3-5-moe"};
enum { N_MODELS = sizeof models / sizeof *models };

/* A path of a model's fixture, or in the temporary folder. Valid until the next but one call. */
static const char *at(const char *folder, const char *name)
{
    static char paths[2][700];
    static int next;
    next = 1 - next;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

static const char *base_of(const char *model)
{
    char path[64];
    snprintf(path, sizeof path, "wrapped/%s", model);
    return check_fixture(path);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* Checks the logits of a model, with or without an adapter, against a reference. */
static void expect_logits(const char *path, const char *adapter, const char *base,
                          const char *expected, double tolerance)
{
    weft_model *model = NULL;
    weft_safetensors *file = NULL;
    if (CHECK_OK(weft_model_load(path, NULL, &model)) &&
        CHECK_OK(weft_safetensors_open(at(base, "reference.safetensors"), &file)) &&
        (adapter == NULL || CHECK_OK(weft_adapter_load(model, adapter, NULL)))) {
        weft_scope_open();
        weft_array *ids = weft_safetensors_get(file, "input_ids");
        weft_array *apart = weft_subtract(weft_model_forward(model, ids, NULL),
                                          weft_safetensors_get(file, expected));
        CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, tolerance);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(file);
    weft_model_free(model);
}

static bool same_bytes(const weft_safetensors *a, int i, const weft_safetensors *b, int k)
{
    const weft_safetensors_entry *x = weft_safetensors_at(a, i), *y = weft_safetensors_at(b, k);
    if (x->dtype != y->dtype || x->shape.n != y->shape.n ||
        memcmp(x->shape.at, y->shape.at, (size_t)x->shape.n * sizeof *x->shape.at) != 0)
        return false;
    weft_scope_open();
    weft_array *p = weft_safetensors_get_at(a, i), *q = weft_safetensors_get_at(b, k);
    const bool same = weft_eval(p) == WEFT_OK && weft_eval(q) == WEFT_OK &&
                      memcmp(weft_data(p), weft_data(q), (size_t)weft_nbytes(p)) == 0;
    weft_scope_close(NULL);
    return same;
}

static bool is_text(const char *name)
{
    return strstr(name, "language_model") || strncmp(name, "lm_head", 7) == 0;
}

/* Checks that a folder has the tensors of the base and no others. All are equal, or with
 * `changed` those outside the text model. */
static void expect_tensors(const char *folder, const char *base, bool changed)
{
    weft_safetensors *a = NULL, *b = NULL;
    if (CHECK_OK(weft_safetensors_open(at(base, "model.safetensors"), &a)) &&
        CHECK_OK(weft_safetensors_open(at(folder, "model.safetensors"), &b)) &&
        CHECK_EQ_INT(weft_safetensors_count(b), weft_safetensors_count(a))) {
        for (int i = 0; i < weft_safetensors_count(a); i++) {
            const char *name = weft_safetensors_name(a, i);
            const int k = weft_safetensors_find(b, name);
            if (!CHECK(k >= 0))
                printf("  %s is missing\n", name);
            else if (!changed || !is_text(name))
                CHECK(same_bytes(a, i, b, k));
        }
    }
    weft_safetensors_close(a);
    weft_safetensors_close(b);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void conversions_keep_every_tensor(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        const char *base = base_of(models[i]), *out = check_temporary("converted");
        if (CHECK_OK(weft_convert(base, out, &(weft_convert_options){.replace = true}, NULL))) {
            expect_tensors(out, base, false);
            expect_logits(out, NULL, base, "logits", 5e-6);
        }
    }
}

static void processors_are_copied(void)
{
    static const char name[] = "preprocessor_config.json", text[] = "{}\n";
    char renamed[600], out[600], *copied = NULL;
    snprintf(renamed, sizeof renamed, "%s", check_temporary("seeing"));
    snprintf(out, sizeof out, "%s", check_temporary("seeing-again"));
    weft_convert_options o = {.replace = true};
    if (CHECK_OK(weft_convert(base_of("gemma3"), renamed, &o, NULL)) &&
        CHECK_OK(weft_file_write(at(renamed, name), text, strlen(text))) &&
        CHECK_OK(weft_convert(renamed, out, &o, NULL)) &&
        CHECK_OK(weft_file_read(at(out, name), 0, &copied, NULL)))
        CHECK_STR(copied, text);
    weft_free(copied);
    o.text_only = true;
    if (CHECK_OK(weft_convert(renamed, out, &o, NULL)))
        CHECK_STATUS(weft_file_read(at(out, name), 0, &copied, NULL), WEFT_IO);
}

static void saved_models_keep_every_tensor(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        const char *base = base_of(models[i]), *out = check_temporary(models[i]);
        weft_model *model = NULL;
        if (CHECK_OK(weft_model_load(base, NULL, &model)) && CHECK_OK(weft_model_save(model, out)))
            expect_tensors(out, base, false);
        weft_model_free(model);
    }
}

static void merging_changes_only_the_text_model(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        const char *base = base_of(models[i]), *out = check_temporary("fused");
        const weft_convert_options o = {.replace = true};
        expect_logits(base, at(base, "adapter"), base, "adapted", 5e-6);
        if (CHECK_OK(weft_adapter_fuse(base, at(base, "adapter"), out, &o, NULL))) {
            expect_tensors(out, base, true);
            expect_logits(out, NULL, base, "adapted", 5e-6);
        }
    }
}

/* Codes have the names of the base's matrices, and scales are named like their codes. Quantized
 * experts have MLX's names. */
static void expect_quantized(const weft_safetensors *base, const weft_safetensors *file)
{
    int n_scales = 0;
    for (int i = 0; i < weft_safetensors_count(base); i++) {
        const char *name = weft_safetensors_name(base, i);
        if (strstr(name, ".experts.") == NULL && !CHECK(weft_safetensors_find(file, name) >= 0))
            printf("  %s is missing\n", name);
    }
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        char codes[256];
        const char *name = weft_safetensors_name(file, i), *scales = strstr(name, ".scales");
        if (scales == NULL)
            continue;
        snprintf(codes, sizeof codes, "%.*s.weight", (int)(scales - name), name);
        CHECK(is_text(name) && weft_safetensors_find(file, codes) >= 0);
        CHECK(strstr(name, ".switch_mlp.") || weft_safetensors_find(base, codes) >= 0);
        n_scales++;
    }
    CHECK(n_scales >= 8);
}

static void quantized_models_keep_the_names(void)
{
    for (int i = 0; i < N_MODELS; i++) {
        const char *base = base_of(models[i]), *out = check_temporary("quantized");
        const weft_convert_options o = {
            .replace = true, .format = {.mode = WEFT_NVFP4}, .quantize = true};
        weft_safetensors *a = NULL, *b = NULL;
        if (CHECK_OK(weft_convert(base, out, &o, NULL)) &&
            CHECK_OK(weft_safetensors_open(at(base, "model.safetensors"), &a)) &&
            CHECK_OK(weft_safetensors_open(at(out, "model.safetensors"), &b)))
            expect_quantized(a, b);
        weft_safetensors_close(a);
        weft_safetensors_close(b);
    }
}

static void only_the_text_model_is_written(void)
{
    static const char *const types[] = {"\"gemma3_text\"", "\"gemma4_text\"", "\"ministral3\"",
                                        "\"qwen3_5_text\"", "\"qwen3_5_moe_text\""};
    static const char *const classes[] = {"\"Gemma3ForCausalLM\"", "\"Gemma4ForCausalLM\"",
                                          "\"Ministral3ForCausalLM\"", "\"Qwen3_5ForCausalLM\"",
                                          "\"Qwen3_5MoeForCausalLM\""};
    for (int i = 0; i < N_MODELS; i++) {
        const char *base = base_of(models[i]), *out = check_temporary("text");
        const weft_convert_options o = {.replace = true, .text_only = true};
        weft_safetensors *file = NULL;
        char *config = NULL;
        if (CHECK_OK(weft_adapter_fuse(base, at(base, "adapter"), out, &o, NULL)) &&
            CHECK_OK(weft_safetensors_open(at(out, "model.safetensors"), &file)) &&
            CHECK_OK(weft_file_read(at(out, "config.json"), 0, &config, NULL))) {
            for (int k = 0; k < weft_safetensors_count(file); k++) {
                const char *name = weft_safetensors_name(file, k);
                CHECK(strcmp(name, "lm_head.weight") == 0 || strncmp(name, "model.", 6) == 0);
                CHECK(strstr(name, "language_model") == NULL && strstr(name, "visual") == NULL);
            }
            CHECK_CONTAINS(config, types[i]);
            CHECK_CONTAINS(config, classes[i]);
            CHECK(strstr(config, "vision_config") == NULL);
            expect_logits(out, NULL, base, "adapted", 5e-6);
        }
        weft_free(config);
        weft_safetensors_close(file);
    }
}

/* ---- other names ----------------------------------------------------------------------------- */

/* Copies a base with other prefixes; NULL in `head`: the head keeps its name. */
static bool rename_base(const char *base, const char *out, const char *body, const char *head)
{
    static const char *const bodies[] = {"language_model.model.", "model.language_model."};
    weft_safetensors *file = NULL;
    char *config = NULL, (*names)[256] = NULL;
    size_t size = 0;
    bool written = false;
    weft_scope_open();
    if (CHECK_OK(weft_safetensors_open(at(base, "model.safetensors"), &file)) &&
        CHECK_OK(weft_file_read(at(base, "config.json"), 0, &config, &size)) &&
        CHECK_OK(weft_folder_make(out))) {
        const int n = weft_safetensors_count(file);
        names = weft_calloc((size_t)n, sizeof *names);
        const char **list = weft_calloc((size_t)n, sizeof *list);
        weft_array **arrays = weft_calloc((size_t)n, sizeof *arrays);
        for (int i = 0; i < n; i++) {
            const char *name = weft_safetensors_name(file, i);
            snprintf(names[i], sizeof names[i], "%s", name);
            for (int k = 0; k < 2; k++) {
                if (strncmp(name, bodies[k], strlen(bodies[k])) == 0)
                    snprintf(names[i], sizeof names[i], "%s%s", body, name + strlen(bodies[k]));
            }
            if (head && strncmp(name, "lm_head.", 8) == 0)
                snprintf(names[i], sizeof names[i], "%s%s", head, name);
            list[i] = names[i];
            arrays[i] = weft_safetensors_get_at(file, i);
        }
        written = CHECK_OK(weft_safetensors_save(at(out, "model.safetensors"), list, arrays, n,
                                                 NULL, 0)) &&
                  CHECK_OK(weft_file_write(at(out, "config.json"), config, size));
        weft_free(list);
        weft_free(arrays);
    }
    weft_scope_close(NULL);
    weft_free(names);
    weft_free(config);
    weft_safetensors_close(file);
    return written;
}

/* The prefixes used by releases of transformers, MLX and others. */
static void every_prefix_is_kept(void)
{
    static const struct {
        const char *body, *head;
    } prefixes[] = {{"language_model.model.", "language_model."},
                    {"language_model.model.", NULL},
                    {"model.language_model.", NULL},
                    {"model.language_model.model.", "model.language_model."},
                    {"language_model.", NULL}};
    for (int i = 0; i < N_MODELS; i++) {
        for (int k = 0; k < 5; k++) {
            char renamed[600], out[600];
            snprintf(renamed, sizeof renamed, "%s", check_temporary("renamed"));
            snprintf(out, sizeof out, "%s", check_temporary("again"));
            const char *base = base_of(models[i]);
            const weft_convert_options o = {.replace = true};
            if (rename_base(base, renamed, prefixes[k].body, prefixes[k].head) &&
                CHECK_OK(weft_convert(renamed, out, &o, NULL))) {
                expect_tensors(out, renamed, false);
                expect_logits(out, at(base, "adapter"), base, "adapted", 5e-6);
            }
        }
    }
}

/* A folder whose tensors have the names of the text model gets its configuration. */
static void plain_names_are_those_of_the_text_model(void)
{
    const char *base = base_of("gemma3");
    char renamed[600], out[600];
    char *config = NULL;
    snprintf(renamed, sizeof renamed, "%s", check_temporary("plain"));
    snprintf(out, sizeof out, "%s", check_temporary("plain-again"));
    if (rename_base(base, renamed, "model.", NULL) &&
        CHECK_OK(weft_convert(renamed, out, NULL, NULL)) &&
        CHECK_OK(weft_file_read(at(out, "config.json"), 0, &config, NULL))) {
        CHECK_CONTAINS(config, "\"gemma3_text\"");
        expect_logits(out, NULL, base, "logits", 5e-6);
    }
    weft_free(config);
}

/* A stored head is used if the whole configuration or that of the text model says it is separate.
 */
static void either_configuration_can_separate_the_head(void)
{
    static const char separate[] = "\"tie_word_embeddings\": false",
                      tied[] = "\"tie_word_embeddings\": true ";
    const char *base = base_of("qwen3-5");
    char copy[600];
    snprintf(copy, sizeof copy, "%s", check_temporary("separate"));
    for (int k = 0; k < 2; k++) {
        char *config = NULL;
        size_t size = 0;
        if (!CHECK_OK(weft_convert(base, copy, &(weft_convert_options){.replace = true}, NULL)) ||
            !CHECK_OK(weft_file_read(at(base, "config.json"), 0, &config, &size)))
            return;
        char *first = strstr(config, separate), *second = strstr(first + 1, separate);
        memcpy(k == 0 ? first : second, tied, strlen(tied));
        if (CHECK_OK(weft_file_write(at(copy, "config.json"), config, size)))
            expect_logits(copy, NULL, base, "logits", 5e-6);
        weft_free(config);
    }
}

/* ---- adapters -------------------------------------------------------------------------------- */

typedef struct modules {
    char names[MOST_MODULES][96];
    int n;
} modules;

static bool read_modules(const char *base, modules *out)
{
    FILE *file = fopen(at(base, "modules.txt"), "r");
    out->n = 0;
    while (file && out->n < MOST_MODULES && fscanf(file, "%95s", out->names[out->n]) == 1)
        out->n++;
    if (file)
        fclose(file);
    return CHECK(out->n > 0);
}

static bool has_module(const modules *m, const char *name, size_t n)
{
    for (int i = 0; i < m->n; i++) {
        if (strlen(m->names[i]) == n && memcmp(m->names[i], name, n) == 0)
            return true;
    }
    return false;
}

/* Whether target_modules, a regular expression or a list of complete names, selects a module. */
static bool is_target(const weft_config *config, const char *text, const char *name)
{
    const char *pattern = weft_config_string(config, "target_modules", NULL);
    char whole[600];
    regex_t compiled;
    if (pattern == NULL) {
        snprintf(whole, sizeof whole, "\"%s\"", name);
        return strstr(strstr(text, "\"target_modules\""), whole) != NULL;
    }
    snprintf(whole, sizeof whole, "^(%s)$", pattern);
    if (!CHECK_EQ_INT(regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB), 0))
        return false;
    const bool found = regexec(&compiled, name, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static bool is_adapted(const weft_safetensors *file, const char *module)
{
    char name[200];
    snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
    if (weft_safetensors_find(file, name) >= 0)
        return true;
    snprintf(name, sizeof name, "base_model.model.%s.lora_embedding_A", module);
    return weft_safetensors_find(file, name) >= 0;
}

/* Checks that each tensor is of a module of the class, and that the targets are the adapted ones.
 */
static void expect_names(const char *folder, const char *base)
{
    modules all;
    weft_safetensors *file = NULL;
    weft_config *config = NULL;
    const size_t start = strlen("base_model.model.");
    if (!read_modules(base, &all) ||
        !CHECK_OK(weft_safetensors_open(at(folder, "adapter_model.safetensors"), &file)) ||
        !CHECK_OK(weft_config_load(at(folder, "adapter_config.json"), &config)))
        return;
    CHECK(weft_safetensors_count(file) > 0);
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        const char *name = weft_safetensors_name(file, i), *part = strstr(name, ".lora_");
        if (part && strstr(name, ".experts.") == NULL)
            CHECK(has_module(&all, name + start, (size_t)(part - name) - start));
    }
    for (int i = 0; i < all.n; i++)
        CHECK_EQ_INT(is_target(config, weft_config_text(config), all.names[i]),
                     is_adapted(file, all.names[i]));
    weft_config_free(config);
    weft_safetensors_close(file);
}

static void save_adapter(const char *model_name, const weft_nn_lora_options *o)
{
    const char *base = base_of(model_name);
    char peft[600], mlx[600];
    weft_model *model = NULL;
    weft_safetensors *file = NULL;
    snprintf(peft, sizeof peft, "%s", check_temporary("peft"));
    snprintf(mlx, sizeof mlx, "%s", check_temporary("mlx"));
    if (CHECK_OK(weft_model_load(base, NULL, &model)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), o)) &&
        CHECK_OK(weft_adapter_save(model, peft, NULL))) {
        expect_names(peft, base);
        expect_logits(base, peft, base, "logits", 5e-6); /* B is zero */
        if (weft_adapter_save_as(model, mlx, NULL, WEFT_ADAPTER_MLX) == WEFT_OK &&
            CHECK_OK(weft_safetensors_open(at(mlx, "adapters.safetensors"), &file))) {
            for (int i = 0; i < weft_safetensors_count(file); i++)
                CHECK(strncmp(weft_safetensors_name(file, i), "language_model.", 15) == 0);
            expect_logits(base, mlx, base, "logits", 5e-6);
        }
    }
    weft_safetensors_close(file);
    weft_model_free(model);
}

static void adapters_have_the_names_of_the_class(void)
{
    static const char *const all[] = {"all-linear"}, *const some[] = {"down_proj", "lm_head"};
    static const char one[] = "layers.1.mlp.down_proj";
    for (int i = 0; i < N_MODELS; i++) {
        save_adapter(models[i], &(weft_nn_lora_options){.targets = all, .n_targets = 1});
        save_adapter(models[i], &(weft_nn_lora_options){.targets = some, .n_targets = 2});
        const char *last =
            strcmp(models[i], "qwen3-5-moe") == 0 ? "layers.1.mlp.experts.down_proj" : one;
        save_adapter(models[i], &(weft_nn_lora_options){.targets = &last, .n_targets = 1});
    }
}

/* Loads, merges, and saves and loads again PEFT's adapters of other kinds. */
static void expect_kind(const char *base, const char *kind)
{
    char adapter[600], again[600], fused[600];
    weft_model *model = NULL;
    snprintf(adapter, sizeof adapter, "%s/kinds/%s", base, kind);
    snprintf(again, sizeof again, "%s", check_temporary("saved-again"));
    snprintf(fused, sizeof fused, "%s", check_temporary("merged"));
    expect_logits(base, adapter, adapter, "logits", 1e-5);
    if (CHECK_OK(weft_model_load(base, NULL, &model)) &&
        CHECK_OK(weft_adapter_load(model, adapter, NULL)) &&
        CHECK_OK(weft_adapter_save(model, again, NULL))) {
        expect_names(again, base);
        expect_logits(base, again, adapter, "logits", 1e-5);
    }
    weft_model_free(model);
    if (CHECK_OK(weft_adapter_fuse(base, adapter, fused, &(weft_convert_options){.replace = true},
                                   NULL)))
        expect_logits(fused, NULL, adapter, "logits", 1e-5);
}

static void other_kinds_of_peft_load(void)
{
    static const char *const kinds[] = {"excluded", "tied-whole", "tied-target", "resized",
                                        "resized-whole"};
    for (int i = 0; i < 5; i++) {
        expect_kind(base_of("gemma3"), kinds[i]);
        expect_kind(base_of("qwen3-5"), kinds[i]);
    }
}

static void resized_adapters_are_not_switched(void)
{
    const char *base = base_of("qwen3-5");
    weft_model *model = NULL;
    weft_adapter_set *set = NULL;
    if (CHECK_OK(weft_model_load(base, NULL, &model)) &&
        CHECK_OK(weft_adapter_set_new(model, NULL, &set))) {
        CHECK_STATUS(weft_adapter_set_add(set, at(base, "kinds/resized"), NULL), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "cannot be switched");
        CHECK_EQ_INT(weft_model_info_of(model)->vocab_size, 64);
    }
    weft_adapter_set_free(set);
    weft_model_free(model);
    /* They also cannot be replaced or replace others. */
    static const char *const kinds[] = {"resized", "tied-whole", "resized-whole"};
    for (int i = 0; i < 3; i++) {
        char path[32];
        snprintf(path, sizeof path, "kinds/%s", kinds[i]);
        if (!CHECK_OK(weft_model_load(base, NULL, &model)))
            return;
        CHECK_STATUS(weft_adapter_replace_list(model, at(base, path), NULL), WEFT_UNSUPPORTED);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 0);
        CHECK_OK(weft_adapter_load(model, at(base, path), NULL));
        const int count = weft_nn_lora_count(weft_model_module(model));
        CHECK_STATUS(weft_adapter_replace_list(model, NULL, NULL), WEFT_UNSUPPORTED);
        CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), count);
        weft_model_free(model);
    }
}

/* Copies the fixture's adapter of gemma3 and adds a pair for a module of the tower. */
static void adapters_of_towers_change_nothing_or_are_refused(void)
{
    static const char *const more[] = {
        "base_model.model.model.vision_tower.encoder.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.vision_tower.encoder.layers.0.self_attn.q_proj.lora_B.weight"};
    const char *base = base_of("gemma3");
    char folder[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("tower"));
    for (int k = 0; k < 2; k++) {
        weft_safetensors *file = NULL;
        weft_model *model = NULL;
        const char *names[64];
        weft_array *arrays[64];
        char *config = NULL;
        size_t size = 0;
        weft_scope_open();
        if (CHECK_OK(weft_safetensors_open(at(base, "adapter/adapter_model.safetensors"), &file)) &&
            CHECK_OK(weft_file_read(at(base, "adapter/adapter_config.json"), 0, &config, &size)) &&
            CHECK_OK(weft_folder_make(folder)) &&
            CHECK_OK(weft_file_write(at(folder, "adapter_config.json"), config, size))) {
            const int n = weft_safetensors_count(file);
            for (int i = 0; i < n; i++) {
                names[i] = weft_safetensors_name(file, i);
                arrays[i] = weft_safetensors_get_at(file, i);
            }
            for (int i = 0; i < 2; i++) {
                names[n + i] = more[i];
                arrays[n + i] = i == 0 || k == 1 ? weft_ones(WEFT_DIMS(4, 8), WEFT_FLOAT32)
                                                 : weft_zeros(WEFT_DIMS(8, 4), WEFT_FLOAT32);
            }
            CHECK_OK(weft_safetensors_save(at(folder, "adapter_model.safetensors"), names, arrays,
                                           n + 2, NULL, 0));
            if (k == 0) {
                expect_logits(base, folder, base, "adapted", 5e-6);
            } else if (CHECK_OK(weft_model_load(base, NULL, &model))) {
                CHECK_STATUS(weft_adapter_load(model, folder, NULL), WEFT_UNSUPPORTED);
                CHECK_CONTAINS(weft_error_message(), "changes the vision_tower");
            }
        }
        weft_scope_close(NULL);
        weft_free(config);
        weft_model_free(model);
        weft_safetensors_close(file);
    }
}

CHECK_MAIN("wrapped", CHECK_CASE(conversions_keep_every_tensor), CHECK_CASE(processors_are_copied),
           CHECK_CASE(saved_models_keep_every_tensor),
           CHECK_CASE(merging_changes_only_the_text_model),
           CHECK_CASE(quantized_models_keep_the_names), CHECK_CASE(only_the_text_model_is_written),
           CHECK_CASE(every_prefix_is_kept), CHECK_CASE(plain_names_are_those_of_the_text_model),
           CHECK_CASE(either_configuration_can_separate_the_head),
           CHECK_CASE(adapters_have_the_names_of_the_class), CHECK_CASE(other_kinds_of_peft_load),
           CHECK_CASE(resized_adapters_are_not_switched),
           CHECK_CASE(adapters_of_towers_change_nothing_or_are_refused))
