/* tests/models/test_likeness.c -- checkpoints of an unknown model_type beside the families: each
 * golden model is nearest to its own family, and changes of tensors and keys are reported. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/support/hidden.h"
#include "weft/weft.h"

enum { MOST = 200 };

typedef struct change {
    const char *remove, *rename, *to; /* of a tensor; NULL: none */
    const char *add;                  /* a copy of the final norm */
    const char *key, *value;          /* of config.json */
} change;

/* Writes the config.json of a golden model with another model_type; `type` is its own. */
static void write_config(const char *model, const change *c, const char *to, char type[64])
{
    char *path = weft_format("models/%s/config.json", model);
    json_object *root = json_object_from_file(check_fixture(path)), *name = NULL;
    if (CHECK(json_object_object_get_ex(root, "model_type", &name))) {
        snprintf(type, 64, "%s", json_object_get_string(name));
        json_object_object_add(root, "model_type", json_object_new_string("nobody"));
        if (c->key)
            json_object_object_add(root, c->key, json_tokener_parse(c->value));
        CHECK(json_object_to_file(to, root) == 0);
    }
    json_object_put(root);
    weft_free(path);
}

static bool is(const char *name, const char *other)
{
    return other != NULL && strcmp(name, other) == 0;
}

static void save(const char *from, const char *to, const change *c)
{
    const char *names[MOST];
    weft_array *arrays[MOST];
    int n = 0;
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(from, &file)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file) && CHECK(n < MOST - 1); i++) {
        const char *name = weft_safetensors_name(file, i);
        if (is(name, c->remove))
            continue;
        names[n] = is(name, c->rename) ? c->to : name;
        arrays[n++] = weft_safetensors_get_at(file, i);
        if (c->add && strcmp(name, "model.norm.weight") == 0) {
            names[n] = c->add;
            arrays[n] = arrays[n - 1];
            n++;
        }
    }
    CHECK_OK(weft_safetensors_save(to, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

/* A golden model whose model_type no family has, in a folder of its own. */
static const char *unknown(const char *model, const change *c, char type[64])
{
    static int n;
    char *name = weft_format("model-%d", n++);
    const char *folder = check_temporary(name);
    char *from = weft_format("models/%s/model.safetensors", model),
         *to = weft_format("%s/model.safetensors", folder),
         *config = weft_format("%s/config.json", folder);
    CHECK(mkdir(folder, 0700) == 0);
    write_config(model, c, config, type);
    save(check_fixture(from), to, c);
    weft_free(name);
    weft_free(from);
    weft_free(to);
    weft_free(config);
    return folder;
}

/* Families whose trees and keys are equal for these models: the model's family, and the one that is
 * found. */
static const char *const equals[][2] = {
    {"mistral", "llama"},      {"mistral3", "llama"},
    {"ministral", "llama"},    {"ernie4_5", "llama"},
    {"smollm3", "llama"},      {"gemma3_text", "gemma3"},
    {"gemma4_text", "gemma4"}, {"qwen3_5_moe_text", "qwen3_5"},
    {"roberta", "bert"},       {"xlm-roberta", "bert"},
};

static bool are_equal(const char *type, const char *nearest)
{
    bool found = strcmp(type, nearest) == 0;
    for (size_t i = 0; i < sizeof equals / sizeof *equals; i++)
        found |= strcmp(type, equals[i][0]) == 0 && strcmp(nearest, equals[i][1]) == 0;
    return found;
}

static void golden_models_are_nearest_to_their_family(void)
{
    DIR *models = opendir(check_fixture("models"));
    int n = 0;
    if (!CHECK(models != NULL))
        return;
    for (const struct dirent *d; (d = readdir(models)) != NULL;) {
        char *config = weft_format("models/%s/config.json", d->d_name), type[64];
        const bool there = d->d_name[0] != '.' && access(check_fixture(config), R_OK) == 0;
        weft_free(config);
        if (!there)
            continue;
        weft_model_likeness nearest;
        const char *folder = unknown(d->d_name, &(change){0}, type);
        if (!CHECK_OK(weft_model_likeness_find(folder, &nearest)))
            continue;
        check_that(nearest.family && are_equal(type, nearest.family->model_type), __FILE__,
                   __LINE__, "%s: expected %s, got %s", d->d_name, type,
                   nearest.family ? nearest.family->model_type : "none");
        check_that(nearest.n_same > 0 && nearest.n_differences == 0, __FILE__, __LINE__,
                   "%s: %d tensors fit, %d do not: %s", d->d_name, nearest.n_same,
                   nearest.n_differences, nearest.differences ? nearest.differences : "");
        weft_model_likeness_free(&nearest);
        n++;
    }
    closedir(models);
    CHECK(n >= 40);
}

static void differences_are_reported(void)
{
#define LAYER "model.layers.0."
    static const struct {
        change made;
        int n;
        const char *says;
    } cases[] = {
        {{.remove = LAYER "mlp.up_proj.weight"}, 1, "lacks model.layers.*.mlp.up_proj.weight"},
        {{.rename = LAYER "mlp.up_proj.weight", .to = LAYER "mlp.up.weight"},
         2,
         "lacks model.layers.*.mlp.up_proj.weight\nhas model.layers.*.mlp.up.weight"},
        {{.add = LAYER "self_attn.sinks"}, 1, "has model.layers.*.self_attn.sinks"},
        {{.add = "model.layers.11.self_attn.sinks"}, 1, "has model.layers.*.self_attn.sinks"},
        {{.key = "intermediate_size", .value = "8"}, 6, NULL},
        {{.key = "swiglu_limit", .value = "7.5"}, 0, "config.json: swiglu_limit is not read: 7.5"},
        {{.key = "swiglu_limit", .value = "null"}, 0, NULL},
        {{.key = "use_sinks", .value = "false"}, 0, NULL},
        {{.key = "pad_token_id", .value = "1"}, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char type[64];
        const char *folder = unknown("llama", &cases[i].made, type);
        weft_model_likeness nearest;
        weft_model *model = NULL;
        if (!CHECK_OK(weft_model_likeness_find(folder, &nearest)) || !CHECK(nearest.family != NULL))
            continue;
        CHECK_STR(nearest.family->model_type, "llama");
        CHECK_EQ_INT(nearest.n_differences, cases[i].n);
        if (cases[i].says)
            CHECK_STR(nearest.differences, cases[i].says);
        else if (cases[i].n == 0)
            CHECK(nearest.differences == NULL);
        weft_model_likeness_free(&nearest);
        CHECK_STATUS(weft_model_load(folder, NULL, &model), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "model_type 'nobody' is unknown (nearest is llama, ");
    }
}

static void folders_without_a_nearest_family(void)
{
    weft_model_likeness nearest;
    char type[64];
    CHECK_STATUS(weft_model_likeness_find(check_temporary("absent"), &nearest), WEFT_IO);
    CHECK(nearest.family == NULL && nearest.differences == NULL);
    const char *folder = unknown("llama", &(change){.key = "hidden_size", .value = "\"x\""}, type);
    if (CHECK_OK(weft_model_likeness_find(folder, &nearest)))
        CHECK(nearest.family == NULL);
    weft_model_likeness_free(&nearest);
}

/* On a device that cannot use the file's memory, its tensors are not copied to that device. */
static void tensors_stay_in_the_file(void)
{
    char type[64];
    const char *folder = unknown("llama", &(change){0}, type);
    char *path = weft_format("%s/model.safetensors", folder);
    weft_model_likeness nearest;
    struct stat file = {0};
    weft_device *before = weft_default_device();
    CHECK(stat(path, &file) == 0);
    weft_free(path);
    weft_set_default_device(hidden_device());
    weft_memory_reset_peak();
    const int64_t held = weft_memory_active();
    CHECK_OK(weft_model_likeness_find(folder, &nearest));
    /* Trees have small arrays, such as the frequencies of rotary embeddings. */
    CHECK(weft_memory_peak() - held < file.st_size / 10);
    CHECK(weft_default_device() == hidden_device());
    CHECK(nearest.n_same > 0 && nearest.n_differences == 0);
    weft_model_likeness_free(&nearest);
    weft_set_default_device(before);
}

CHECK_MAIN("likeness", CHECK_CASE(golden_models_are_nearest_to_their_family),
           CHECK_CASE(differences_are_reported), CHECK_CASE(folders_without_a_nearest_family),
           CHECK_CASE(tensors_stay_in_the_file))
