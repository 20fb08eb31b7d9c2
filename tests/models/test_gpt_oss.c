/* tests/models/test_gpt_oss.c -- experts with alternating gates and ups: published MXFP4 blocks,
 * and every form in which such a model is saved. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/convert.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/train.h"
#include "weft/transforms.h"

enum { PROMPT = 12, TOKENS = 40 };

static const char source[] = "models/gpt-oss-mxfp4";

static const char *fixture(const char *name, const char *file, char out[512])
{
    char path[256];
    snprintf(path, sizeof path, "models/%s/%s", name, file);
    snprintf(out, 512, "%s", check_fixture(path));
    return out;
}

/* An array of a reference; a temporary. */
static weft_array *reference(const char *name, const char *array)
{
    char path[512];
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(fixture(name, "reference.safetensors", path), &file)))
        return weft_error_array("no reference");
    weft_array *a = weft_copy(weft_safetensors_get(file, array));
    CHECK_OK(weft_eval(a));
    weft_safetensors_close(file);
    return a;
}

static double largest(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* The norm of a - b as a share of b's. Rounding selects other experts at a few positions, whose
 * logits are then far off. */
static double share(weft_array *a, weft_array *b)
{
    weft_array *d = weft_square(weft_subtract(weft_astype(a, WEFT_FLOAT32), b));
    weft_array *ratio = weft_divide(weft_sum(d, WEFT_ALL_AXES, false),
                                    weft_sum(weft_square(b), WEFT_ALL_AXES, false));
    return sqrt(weft_item(ratio));
}

typedef double measure(weft_array *a, weft_array *b);

/* The difference to the logits of the reference. */
static double difference(weft_model *model, const char *name, measure *of)
{
    weft_scope_open();
    weft_array *logits = weft_model_forward(model, reference(name, "input_ids"), NULL);
    const double x = of(logits, reference(name, "logits"));
    weft_scope_close(NULL);
    return x;
}

static const weft_encoding *encoding_at(weft_model *model, const char *path)
{
    weft_array **found = weft_nn_find(weft_model_module(model), path);
    return CHECK(found != NULL) ? weft_encoding_of(*found) : NULL;
}

/* Float32 logits, whose sums have another order than those of the reference. */
static void published_blocks_are_read_as_they_are(void)
{
    static const char *const stacks[] = {"gate_up_proj", "down_proj"};
    weft_model *model;
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    if (!CHECK_OK(weft_model_load(check_fixture(source), &options, &model)))
        return;
    CHECK_CLOSE(difference(model, "gpt-oss-mxfp4", largest), 0, 2e-5);
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "model.layers.1.mlp.experts.%s.weight", stacks[i]);
        const weft_encoding *e = encoding_at(model, path);
        CHECK(e != NULL && e->kind == WEFT_ENCODING_MXFP4);
    }
    weft_model_free(model);
    /* In the dtype of the other tensors */
    if ((model = fixture_model("gpt-oss-mxfp4")) != NULL) {
        const double off = difference(model, "gpt-oss-mxfp4", share);
        printf("  bfloat16: %.3g of the norm\n", off);
        CHECK_CLOSE(off, 0, 0.05); /* 0.028 */
    }
    weft_model_free(model);
}

/* Loading allocates blocks of 16 bytes of codes and one of their scale for 32 elements; on the CPU
 * dense tensors are views of the file. */
static void only_codes_take_memory(void)
{
    weft_model *model;
    const int64_t before = weft_memory_active();
    if (weft_default_device() != weft_device_get("cpu")) {
        check_skip("on other devices dense tensors are copies");
        return;
    }
    if (CHECK_OK(weft_model_load(check_fixture(source), NULL, &model))) {
        enum { BLOCKS = 2 * 4 * (64 + 32) * 32 / 32, ROTATIONS = 1024 };
        CHECK(weft_memory_active() - before <= BLOCKS * 17 + ROTATIONS);
    }
    weft_model_free(model);
}

static void sinks_with_quantized_caches(void)
{
    static const weft_cache_options kinds[] = {{.kv_bits = 8}, {.kv_bits = 8, .whole = true}};
    for (int i = 0; i < 2; i++) {
        weft_model *model = fixture_model("gpt-oss");
        weft_cache **caches = model ? weft_model_new_caches(model, &kinds[i]) : NULL;
        weft_scope_open();
        const weft_model_call call = {.caches = caches};
        weft_array *ids = reference("gpt-oss", "input_ids"); /* (2, 40) */
        weft_array *expected = reference("gpt-oss", "logits");
        weft_array *parts[TOKENS];
        int n = 0;
        for (int64_t at = 0, end; caches && at < TOKENS; at = end) {
            end = at == 0 ? PROMPT : at + 1;
            parts[n] = weft_model_forward(model, weft_slice_axis(ids, 1, at, end), &call);
            CHECK_OK(weft_eval(parts[n++]));
        }
        const double off = share(weft_concatenate(parts, n, 1), expected);
        printf("  8-bit keys and values: %.3g of the norm\n", off);
        CHECK_CLOSE(off, 0, 0.1); /* 0.05, mostly of a few positions with other experts */
        weft_scope_close(NULL);
        if (caches)
            weft_model_free_caches(model, caches);
        weft_model_free(model);
    }
}

/* ---- saving --------------------------------------------------------------------------------- */

/* Checks that two files have the same tensors, byte for byte. */
static void same_tensors(const char *a, const char *b)
{
    weft_safetensors *x = NULL, *y = NULL;
    if (CHECK_OK(weft_safetensors_open(a, &x)) && CHECK_OK(weft_safetensors_open(b, &y)) &&
        CHECK_EQ_INT(weft_safetensors_count(x), weft_safetensors_count(y))) {
        for (int i = 0; i < weft_safetensors_count(x); i++) {
            weft_scope_open();
            CHECK_STR(weft_safetensors_name(x, i), weft_safetensors_name(y, i));
            weft_array *p = weft_safetensors_get_at(x, i), *q = weft_safetensors_get_at(y, i);
            CHECK_EQ_INT(weft_dtype_of(p), weft_dtype_of(q));
            CHECK(weft_item(weft_array_equal(p, q, false)) == 1);
            weft_scope_close(NULL);
        }
    }
    weft_safetensors_close(x);
    weft_safetensors_close(y);
}

static void saved_as_they_were_stored(void)
{
    static const char *const names[] = {"gpt-oss", "gpt-oss-mxfp4"};
    for (int i = 0; i < 2; i++) {
        char from[512], to[600], config[700], *text;
        size_t size;
        weft_model *model = fixture_model(names[i]);
        const char *folder = check_temporary(names[i]);
        if (model && CHECK_OK(weft_model_save(model, folder))) {
            snprintf(to, sizeof to, "%s/model.safetensors", folder);
            same_tensors(fixture(names[i], "model.safetensors", from), to);
        }
        weft_model_free(model);
        snprintf(to, sizeof to, "%s-converted", folder);
        if (CHECK_OK(weft_convert(fixture(names[i], "", from), to, NULL, NULL))) {
            snprintf(config, sizeof config, "%s/config.json", to);
            if (CHECK_OK(weft_file_read(config, 0, &text, &size))) {
                CHECK_EQ_INT(strstr(text, "\"quantization_config\"") != NULL, i == 1);
                weft_free(text);
            }
            snprintf(config, sizeof config, "%s/model.safetensors", to);
            same_tensors(fixture(names[i], "model.safetensors", from), config);
        }
    }
}

static bool has_tensor(const char *folder, const char *name)
{
    char path[700];
    weft_safetensors *file;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return false;
    const bool found = weft_safetensors_find(file, name) >= 0;
    weft_safetensors_close(file);
    return found;
}

static bool is_no_router(void *context, const char *path, const weft_module *m)
{
    weft_array *const *weight = weft_nn_find((weft_module *)m, "weight");
    (void)context;
    return strstr(path, "router") == NULL && !weft_encoding_of(*weight);
}

/* The largest difference of two models' logits. */
static double apart(weft_model *a, weft_model *b)
{
    weft_scope_open();
    weft_array *ids = reference("gpt-oss", "input_ids");
    const double x = largest(weft_model_forward(a, ids, NULL), weft_model_forward(b, ids, NULL));
    weft_scope_close(NULL);
    return x;
}

/* The adapter is saved as PEFT has it. */
static void check_adapter(weft_model *model, const char *as)
{
    char x[700], y[700], folder[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("adapter"));
    if (CHECK_OK(weft_adapter_save(model, folder, NULL))) {
        snprintf(x, sizeof x, "%s/adapter_model.safetensors", folder);
        snprintf(y, sizeof y, "%s/adapter_model.safetensors", as);
        same_tensors(x, y);
    }
}

/* In MLX's format gates and ups are two stacks; they are read in that form, compute what the same
 * codes of one stack do, and are written again. */
static void quantized_in_the_format_of_mlx(void)
{
    static const char *const names[] = {"gpt-oss", "gpt-oss-mxfp4"};
    const weft_convert_options o = {
        .quantize = true, .format = {.bits = 8, .group_size = 32}, .replace = true};
    const weft_nn_quantize_options quantize = {.format = o.format, .accepts = is_no_router};
    for (int i = 0; i < 2; i++) {
        char from[512], folder[512], again[600];
        weft_model *model = NULL;
        snprintf(folder, sizeof folder, "%s", check_temporary("mlx"));
        snprintf(again, sizeof again, "%s-again", folder);
        if (!CHECK_OK(weft_convert(fixture(names[i], "", from), folder, &o, NULL)) ||
            !CHECK_OK(weft_convert(folder, again, &(weft_convert_options){.replace = true}, NULL)))
            return;
        CHECK(has_tensor(folder, "model.layers.0.mlp.experts.up_proj.scales"));
        CHECK(has_tensor(folder, "model.layers.0.mlp.experts.gate_proj.bias"));
        CHECK(!has_tensor(folder, "model.layers.0.mlp.router.scales"));
        char x[700], y[700];
        snprintf(x, sizeof x, "%s/model.safetensors", folder);
        snprintf(y, sizeof y, "%s/model.safetensors", again);
        same_tensors(x, y);
        weft_model *other = fixture_model(names[i]);
        if (other && CHECK_OK(weft_model_load(folder, NULL, &model)) &&
            CHECK_OK(weft_nn_quantize(weft_model_module(other), &quantize))) {
            const char *adapter = check_fixture("lora/lora-gpt-oss/final");
            CHECK_CLOSE(apart(model, other), 0, 1e-5);
            CHECK_OK(weft_adapter_load(model, adapter, NULL));
            CHECK_OK(weft_adapter_load(other, adapter, NULL));
            CHECK_CLOSE(apart(model, other), 0, 1e-5);
            check_adapter(model, adapter);
            check_adapter(other, adapter);
        }
        weft_model_free(model);
        weft_model_free(other);
    }
}

/* A model made from its configuration has transformers' tensors. */
static void a_new_model_is_saved_as_transformers_has_it(void)
{
    char path[512], saved[600];
    weft_config *config = NULL;
    weft_model *model = NULL, *again = NULL;
    const char *folder = check_temporary("new");
    if (CHECK_OK(weft_config_load(fixture("gpt-oss", "config.json", path), &config)) &&
        CHECK_OK(weft_model_new(config, &model)) && CHECK_OK(weft_model_save(model, folder))) {
        CHECK(has_tensor(folder, "model.layers.1.mlp.experts.gate_up_proj_bias"));
        snprintf(saved, sizeof saved, "%s", folder);
        CHECK_OK(weft_model_load(saved, NULL, &again));
    }
    weft_model_free(model);
    weft_model_free(again);
    weft_config_free(config);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void limits_must_be_positive(void)
{
    static const char text[] = "{\"model_type\":\"gpt_oss\",\"vocab_size\":8,\"swiglu_limit\":0}";
    weft_config *config;
    weft_model *model;
    if (!CHECK_OK(weft_config_parse(text, "config.json", &config)))
        return;
    CHECK_STATUS(weft_model_new(config, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "config.json: swiglu_alpha, swiglu_limit: expected");
    weft_config_free(config);
}

static void blocks_of_another_shape_are_refused(void)
{
    enum { MOST = 64 };
    char path[512];
    const char *names[MOST];
    weft_array *arrays[MOST];
    weft_safetensors *file;
    weft_model *model = NULL;
    int n = 0;
    const char *folder = check_temporary("flat-blocks");
    if (!CHECK(mkdir(folder, 0700) == 0) ||
        !CHECK(symlink(fixture("gpt-oss-mxfp4", "config.json", path),
                       check_temporary("flat-blocks/config.json")) == 0) ||
        !CHECK_OK(
            weft_safetensors_open(fixture("gpt-oss-mxfp4", "model.safetensors", path), &file)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file) && CHECK(n < MOST); i++) {
        names[n] = weft_safetensors_name(file, i);
        arrays[n] = weft_safetensors_get_at(file, i);
        if (strcmp(names[n], "model.layers.1.mlp.experts.down_proj_blocks") == 0)
            arrays[n] = weft_flatten(arrays[n], 2, 3);
        n++;
    }
    CHECK_OK(weft_safetensors_save(check_temporary("flat-blocks/model.safetensors"), names, arrays,
                                   n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    CHECK_STATUS(weft_model_load(folder, NULL, &model), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "down_proj_blocks: expected uint8 (experts, rows, groups, "
                                         "16), found uint8 (4, 32, 16)");
}

CHECK_MAIN("gpt_oss", CHECK_CASE(published_blocks_are_read_as_they_are),
           CHECK_CASE(only_codes_take_memory), CHECK_CASE(sinks_with_quantized_caches),
           CHECK_CASE(saved_as_they_were_stored), CHECK_CASE(quantized_in_the_format_of_mlx),
           CHECK_CASE(a_new_model_is_saved_as_transformers_has_it),
           CHECK_CASE(limits_must_be_positive), CHECK_CASE(blocks_of_another_shape_are_refused))
