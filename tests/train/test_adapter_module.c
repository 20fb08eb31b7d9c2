/* tests/train/test_adapter_module.c -- adapters of a program's own modules in PEFT's file
 * format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/layers.h"
#include "weft/nn_tools.h"
#include "weft/train.h"

/* The modules of tests/golden/lora/module.py. */
typedef struct block {
    weft_module module;
    weft_module *fc1, *fc2, *mix;
} block;

typedef struct tower {
    weft_module module;
    weft_module *embed, *layers, *head;
} tower;

static weft_array *block_forward(weft_module *self, weft_array *x)
{
    block *m = (block *)self;
    x = weft_add(x, weft_nn_call(m->fc2, weft_gelu(weft_nn_call(m->fc1, x))));
    return weft_add(x, weft_nn_call(m->mix, x));
}

static weft_array *tower_forward(weft_module *self, weft_array *ids)
{
    tower *m = (tower *)self;
    weft_array *x = weft_nn_call(m->embed, ids); /* (B, L, 8) */
    for (int i = 0; i < weft_nn_list_count(m->layers); i++)
        x = weft_nn_call(weft_nn_list_at(m->layers, i), x);
    return weft_nn_call(m->head, x); /* (B, L, 5) */
}

static const weft_module_type block_type = {.name = "block", .forward = block_forward};
static const weft_module_type tower_type = {.name = "tower", .forward = tower_forward};

static weft_module *block_new(bool convolution)
{
    block *m = weft_nn_new(block, &block_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, fc1, weft_nn_linear_new(8, 16, true));
    weft_nn_child(m, fc2, weft_nn_linear_new(16, 8, true));
    weft_nn_child(m, mix,
                  convolution ? weft_nn_conv1d_new(8, 8, WEFT_DIMS(1), NULL)
                              : weft_nn_linear_new(8, 8, true));
    return weft_nn_finish(m);
}

static weft_module *tower_new(void)
{
    tower *m = weft_nn_new(tower, &tower_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, embed, weft_nn_embedding_new(11, 8));
    weft_module *layers = weft_nn_list_new(2);
    weft_nn_list_append(layers, block_new(false));
    weft_nn_list_append(layers, block_new(true));
    weft_nn_child(m, layers, layers);
    weft_nn_child(m, head, weft_nn_linear_new(8, 5, true));
    return weft_nn_finish(m);
}

static const char *golden_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "tests/golden/lora/module/%s", name);
    return check_source(path);
}

/* A tower with the weights of module.py. */
static weft_module *load_base(void)
{
    weft_safetensors *file;
    weft_module *m = tower_new();
    CHECK_OK(weft_safetensors_open(golden_path("base.safetensors"), &file));
    CHECK_OK(weft_nn_load(m, file, NULL));
    weft_safetensors_close(file);
    return m;
}

static const char *const names[] = {"suffixes", "dora", "saved", "paths"};
enum { NAMES = sizeof names / sizeof *names };

/* Matrix products of 8 and 16 terms in another order: a few ulps of numbers near 1. */
static const double TOLERANCE = 2e-6;

static void peft_adapters_compute_what_they_compute_in_peft(void)
{
    if (!CHECK(golden_open("lora/module/outputs")))
        return;
    weft_scope_open();
    weft_array *ids = golden_get("ids");
    weft_module *m = load_base();
    golden_check(weft_nn_call(m, ids), "base", TOLERANCE);
    for (int i = 0; i < NAMES; i++) {
        CHECK_OK(weft_adapter_load_module(m, golden_path(names[i]), NULL));
        golden_check(weft_nn_call(m, ids), names[i], TOLERANCE);
        CHECK_STATUS(weft_adapter_load_module(m, golden_path(names[i]), NULL), WEFT_INVALID);
        weft_nn_free(m);
        m = load_base();
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
    golden_close();
}

/* Where adapters are written: for module.py in the folder WEFT_TEST_ADAPTERS, if it is set. */
static const char *output_path(const char *name)
{
    static char path[600];
    const char *folder = getenv("WEFT_TEST_ADAPTERS");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : check_temporary("adapters"), name);
    return path;
}

/* The same tensors with the same dtypes, shapes and bytes. */
static void same_files(const char *a, const char *b, const char *what)
{
    weft_safetensors *x, *y;
    char from[700], to[700];
    snprintf(from, sizeof from, "%s/adapter_model.safetensors", a);
    snprintf(to, sizeof to, "%s/adapter_model.safetensors", b);
    if (!CHECK_OK(weft_safetensors_open(from, &x)))
        return;
    if (CHECK_OK(weft_safetensors_open(to, &y))) {
        CHECK_EQ_INT(weft_safetensors_count(x), weft_safetensors_count(y));
        for (int i = 0; i < weft_safetensors_count(x); i++) {
            weft_array *p = weft_safetensors_get_at(x, i);
            weft_array *q = weft_safetensors_get(y, weft_safetensors_name(x, i));
            check_that(weft_ok(q) && weft_dtype_of(p) == weft_dtype_of(q) &&
                           weft_item_int(weft_array_equal(p, q, false)) == 1,
                       __FILE__, __LINE__, "%s: %s differs", what, weft_safetensors_name(x, i));
        }
        weft_safetensors_close(y);
    }
    weft_safetensors_close(x);
}

static void adapters_are_written_as_peft_writes_them(void)
{
    static const char *const expected[NAMES][3] = {
        {"\"target_modules\": [\n    \"embed\",\n    \"fc1\"\n  ]", "\"layers.1.fc1\": 2",
         "\"embed\": 5"},
        {"\"fc2\",\n    \"head\"", "\"use_dora\": true", "\"r\": 2"},
        {"\"modules_to_save\": [\n    \"head\"\n  ]", "\"lora_alpha\": 8", "\"fc1\""},
        {"\"target_modules\": [\n    \"layers.0.mix\"\n  ]", "\"task_type\": null",
         "\"base_model_name_or_path\": \"tower\""},
    };
    weft_scope_open();
    for (int i = 0; i < NAMES; i++) {
        char saved[600], path[700], *text = NULL;
        weft_module *m = load_base();
        CHECK_OK(weft_adapter_load_module(m, golden_path(names[i]), NULL));
        snprintf(saved, sizeof saved, "%s", output_path(names[i]));
        CHECK_OK(weft_adapter_save_module(m, saved, "tower"));
        same_files(golden_path(names[i]), saved, names[i]);
        snprintf(path, sizeof path, "%s/adapter_config.json", saved);
        if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
            for (int k = 0; k < 3; k++)
                CHECK_CONTAINS(text, expected[i][k]);
            weft_free(text);
        }
        weft_nn_free(m);
    }
    weft_scope_close(NULL);
}

static void what_is_no_adapter_is_refused(void)
{
    weft_scope_open();
    weft_module *m = load_base();
    CHECK_STATUS(weft_adapter_save_module(m, output_path("none"), NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the model has none");
    CHECK_STATUS(weft_adapter_load_module(m, check_source("tests/golden/lora/mlx-qwen3"), NULL),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "expected an adapter in PEFT's format");
    CHECK_STATUS(
        weft_adapter_load_module(m, check_source("tests/golden/lora/lora-qwen3/final"), NULL),
        WEFT_INVALID);
    CHECK_EQ_INT(weft_nn_lora_count(m), 0);
    weft_nn_free(m);
    weft_scope_close(NULL);
}

CHECK_MAIN("adapter_module", CHECK_CASE(peft_adapters_compute_what_they_compute_in_peft),
           CHECK_CASE(adapters_are_written_as_peft_writes_them),
           CHECK_CASE(what_is_no_adapter_is_refused))
