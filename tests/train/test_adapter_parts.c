/* tests/train/test_adapter_parts.c -- PEFT adapters of q, k, v, gate and up for models that have
 * these as one matrix: the logits of tests/golden/lora/parts.py, and refused tensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/io.h"
#include "weft/layers.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/train.h"

static const char *const names[] = {"phi3", "glm4"};
enum { N_NAMES = sizeof names / sizeof *names };

/* The largest difference of logits from the reference's. */
static double difference(const char *name, weft_model *model)
{
    char path[128];
    weft_safetensors *file = NULL;
    snprintf(path, sizeof path, "lora/parts-%s/reference.safetensors", name);
    if (!CHECK_OK(weft_safetensors_open(check_fixture(path), &file)))
        return INFINITY;
    weft_scope_open();
    weft_array *logits = weft_model_forward(model, weft_safetensors_get(file, "input_ids"),
                                            &(weft_model_call){.caches = NULL});
    weft_array *apart = weft_abs(weft_subtract(logits, weft_safetensors_get(file, "logits")));
    const double off = weft_item(weft_max(apart, WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    return off;
}

static const char *adapter_of(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "lora/parts-%s", name);
    return check_fixture(path);
}

/* PEFT's adapters, and in the formats of all programs the adapter of the whole matrix. */
static void parts_add_up_to_the_whole(void)
{
    static const weft_adapter_format formats[] = {WEFT_ADAPTER_PEFT, WEFT_ADAPTER_GGUF,
                                                  WEFT_ADAPTER_MLX};
    for (int i = 0; i < N_NAMES; i++) {
        weft_model *model = fixture_model(names[i]);
        CHECK_OK(weft_adapter_load(model, adapter_of(names[i]), NULL));
        printf("  %s: %.2g\n", names[i], difference(names[i], model));
        CHECK(difference(names[i], model) < 2e-5);
        for (int k = 0; k < 3; k++) {
            char path[512], name[64];
            weft_model *other = fixture_model(names[i]);
            snprintf(name, sizeof name, "%s-%d%s", names[i], k, k == 1 ? ".gguf" : "");
            snprintf(path, sizeof path, "%s", check_temporary(name));
            CHECK_OK(weft_adapter_save_as(model, path, "base", formats[k]));
            CHECK_OK(weft_adapter_load(other, path, NULL));
            CHECK(difference(names[i], other) < 2e-5);
            weft_model_free(other);
        }
        weft_model_free(model);
    }
}

/* Copies phi3's adapter with one tensor exchanged (NULL: left out), and with a member of the
 * configuration. */
static const char *changed(const char *tensor, weft_array *by, const char *member)
{
    enum { MOST = 64 };
    static char folder[512];
    char path[600], *config = NULL;
    const char *at[MOST];
    weft_array *arrays[MOST];
    weft_safetensors *file = NULL;
    int n = 0;
    snprintf(folder, sizeof folder, "%s", check_temporary("changed"));
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", adapter_of("phi3"));
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return folder;
    for (int i = 0; i < weft_safetensors_count(file) && n < MOST; i++) {
        const char *name = weft_safetensors_name(file, i);
        const bool other = tensor && strstr(name, tensor);
        if (other && by == NULL)
            continue;
        at[n] = name;
        arrays[n++] = other ? by : weft_safetensors_get_at(file, i);
    }
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    CHECK_OK(weft_safetensors_save(path, at, arrays, n, NULL, 0));
    weft_safetensors_close(file);
    snprintf(path, sizeof path, "%s/adapter_config.json", adapter_of("phi3"));
    if (CHECK_OK(weft_file_read(path, 0, &config, NULL))) {
        char *text = weft_format("{%s%s", member, strchr(config, '{') + 1);
        snprintf(path, sizeof path, "%s/adapter_config.json", folder);
        CHECK_OK(weft_file_write(path, text, strlen(text)));
        weft_free(text);
    }
    weft_free(config);
    return folder;
}

static void other_tensors_are_refused(void)
{
    static const struct {
        const char *tensor;
        int64_t shape[2]; /* 0: left out */
        const char *member;
        weft_status status;
        const char *message;
    } cases[] = {
        {"layers.0.self_attn.k_proj.lora_B",
         {33, 2},
         "",
         WEFT_INVALID,
         "self_attn.k_proj: lora_B: expected 32 rows, got 33"},
        {"layers.1.mlp.up_proj.lora_B",
         {3, 3},
         "",
         WEFT_INVALID,
         "mlp.up_proj: lora_B: expected 48 rows, got 3"},
        {"layers.1.self_attn.q_proj.lora_A",
         {0, 0},
         "",
         WEFT_INVALID,
         "q_proj: expected lora_A (R, in) and lora_B (out, R)"},
        {"layers.1.self_attn.q_proj.lora_A",
         {3, 64},
         "",
         WEFT_INVALID,
         "q_proj: expected lora_A (R, in) and lora_B (out, R)"},
        {NULL,
         {0, 0},
         "\"use_dora\": true, ",
         WEFT_UNSUPPORTED,
         "DoRA beside adapters of parts of a matrix is unsupported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_model *model = fixture_model("phi3");
        weft_scope_open();
        weft_array *by =
            cases[i].shape[0] > 0
                ? weft_ones(WEFT_DIMS(cases[i].shape[0], cases[i].shape[1]), WEFT_FLOAT32)
                : NULL;
        const char *folder = changed(cases[i].tensor, by, cases[i].member);
        weft_scope_close(NULL);
        CHECK_STATUS(weft_adapter_load(model, folder, NULL), cases[i].status);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
        weft_model_free(model);
    }
}

CHECK_MAIN("adapter_parts", CHECK_CASE(parts_add_up_to_the_whole),
           CHECK_CASE(other_tensors_are_refused))
