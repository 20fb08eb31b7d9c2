/* tests/models/test_gguf_experts.c -- experts in the block types of GGUF files: multiplied directly
 * from the mapped file, with the same results as when decoded first. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/check.h"
#include "tests/support/block_types.h"
#include "weft/convert.h"
#include "weft/gguf.h"
#include "weft/memory.h"
#include "weft/model.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"
#include "weft/quantize.h"

enum { EXPERTS = 4, WIDTH = 256, INNER = 256 };

/* Models whose experts' rows are whole blocks of every type. */
static const char *const configs[] = {
    "{\"model_type\":\"qwen3_moe\",\"num_experts\":4,\"num_experts_per_tok\":2,"
    "\"moe_intermediate_size\":256,\"norm_topk_prob\":true,\"intermediate_size\":256,"
    "\"hidden_size\":256,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"head_dim\":16,"
    "\"num_key_value_heads\":1,\"vocab_size\":64,\"max_position_embeddings\":64,"
    "\"tie_word_embeddings\":true}",
    "{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
    "\"hidden_size\":256,\"intermediate_size\":256,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":2,\"head_dim\":16,\"num_key_value_heads\":1,\"vocab_size\":64,"
    "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gemma4_text\",\"enable_moe_block\":true,\"num_experts\":4,"
    "\"top_k_experts\":2,\"moe_intermediate_size\":256,\"hidden_size\":256,"
    "\"intermediate_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"head_dim\":16,"
    "\"num_key_value_heads\":1,\"vocab_size\":64,\"max_position_embeddings\":64,"
    "\"hidden_size_per_layer_input\":0,\"num_kv_shared_layers\":0,\"attention_k_eq_v\":false,"
    "\"layer_types\":[\"full_attention\"],\"global_head_dim\":16,"
    "\"use_bidirectional_attention\":null,\"tie_word_embeddings\":true}",
};
enum { QWEN, MIXTRAL, GEMMA };

/* Random blocks, with scales such that elements are below 4. */
static weft_array *blocks(const block_type *type, int64_t rows, int64_t width)
{
    const weft_encoding *e = weft_encoding_find(type->name);
    const weft_dims shape = WEFT_DIMS(EXPERTS, rows, width);
    const int64_t n = EXPERTS * rows * width / e->block * e->block_bytes;
    uint8_t *bytes = weft_malloc((size_t)n);
    static uint32_t state = 7;
    block_fill(bytes, n, type, e->block_bytes, 0x14, &state);
    return weft_from_blocks(bytes, e, WEFT_FLOAT32, shape, weft_free, bytes);
}

/* The experts of a file. */
typedef enum form { BLOCKS, DECODED, N_FORMS } form;

/* Experts in blocks, or their floats, for what the tensor of that name is; `fused` replaces the
 * gates, and the ups are left out. */
static weft_array *experts(const char *name, const block_type *type, bool fused)
{
    if (strstr(name, "ffn_down_exps.weight"))
        return blocks(type, WIDTH, INNER);
    if (strstr(name, "ffn_gate_exps"))
        return blocks(type, fused ? 2 * INNER : INNER, WIDTH);
    return strstr(name, "ffn_up_exps") && !fused ? blocks(type, INNER, WIDTH) : NULL;
}

/* The model of a configuration as two files, whose experts are the same numbers. */
static bool written(int config, const block_type *type, bool fused, char paths[N_FORMS][512])
{
    char plain[512];
    weft_config *c;
    weft_model *model = NULL;
    weft_gguf *file = NULL;
    snprintf(plain, sizeof plain, "%s", check_temporary("plain.gguf"));
    weft_random_seed(3);
    if (!CHECK_OK(weft_config_parse(configs[config], "test", &c)))
        return false;
    bool ok = CHECK_OK(weft_model_new(c, &model)) &&
              CHECK_OK(weft_model_save_gguf(model, plain, NULL)) &&
              CHECK_OK(weft_gguf_open(plain, &file));
    weft_scope_open();
    const char *names[64];
    weft_array *arrays[N_FORMS][64];
    int n = 0;
    for (int i = 0; ok && i < weft_gguf_count(file); i++) {
        const char *name = weft_gguf_at(file, i)->name;
        if (fused && strstr(name, "ffn_up_exps"))
            continue;
        weft_array *a = experts(name, type, fused);
        names[n] = fused && strstr(name, "ffn_gate_exps") ? "blk.0.ffn_gate_up_exps.weight" : name;
        arrays[BLOCKS][n] = a ? a : weft_gguf_get_at(file, i);
        arrays[DECODED][n] = a ? weft_decode(a) : arrays[BLOCKS][n];
        n++;
    }
    for (int f = 0; ok && f < N_FORMS; f++) {
        weft_scope_open();
        snprintf(paths[f], sizeof paths[f], "%s",
                 check_temporary(f == BLOCKS ? "blocks.gguf" : "decoded.gguf"));
        /* The values follow each other. */
        ok = CHECK_OK(weft_gguf_save(paths[f], names, arrays[f], n, weft_gguf_value_at(file, 0),
                                     weft_gguf_value_count(file)));
        weft_scope_close(NULL);
    }
    weft_scope_close(NULL);
    weft_gguf_close(file);
    weft_model_free(model);
    weft_config_free(c);
    return ok;
}

static weft_array *tokens(void)
{
    static const int32_t ids[] = {5, 60, 7, 31, 2, 2, 17, 44, 9, 23, 51, 0};
    return weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, 6));
}

/* The largest difference of two arrays by the largest magnitude. */
static double difference(weft_array *a, weft_array *b)
{
    weft_array *off = weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false);
    weft_array *most = weft_max(weft_abs(b), WEFT_ALL_AXES, false);
    weft_keep(most);
    const double d = weft_item(off), scale = weft_item(most);
    weft_drop(most);
    return CHECK(scale > 0.01) ? d / scale : 1;
}

/* Loads the file in blocks: experts are not decoded, and not copied by the CPU. */
static weft_model *loaded(const char *path, bool fused, const block_type *type)
{
    static const char *const places[] = {"mlp.switch_mlp", "experts.switch_glu"};
    struct stat file;
    weft_model *model = NULL;
    weft_memory_clear_cache();
    const int64_t before = weft_memory_active();
    if (!CHECK_OK(weft_model_load(path, NULL, &model)) || !CHECK(stat(path, &file) == 0))
        return model;
    const bool mapped = strcmp(weft_device_name(weft_default_device()), "cpu") == 0;
    const int64_t taken = weft_memory_active() - before;
    CHECK(taken < (mapped ? 16384 : (int64_t)file.st_size + 65536));
    int found = 0;
    for (int p = 0; p < 2; p++) {
        for (int k = 0; k < 2; k++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.0.%s.%s.weight", places[p],
                     k       ? "down_proj"
                     : fused ? "gate_up_proj"
                             : "up_proj");
            weft_array **w = weft_nn_find(weft_model_module(model), name);
            found += w && weft_encoding_of(*w) == weft_encoding_find(type->name);
        }
    }
    CHECK_EQ_INT(found, 2);
    return model;
}

/* Sums of 256 products in another order, through two projections, norms and the head: within 1e-5
 * of the largest logit. */
static void same_logits(int config, const block_type *type, bool fused)
{
    char paths[N_FORMS][512];
    weft_model *decoded = NULL;
    if (!written(config, type, fused, paths))
        return;
    weft_model *model = loaded(paths[BLOCKS], fused, type);
    if (model && CHECK_OK(weft_model_load(paths[DECODED], NULL, &decoded))) {
        weft_scope_open();
        weft_array *got = weft_model_forward(model, tokens(), NULL);
        const double off = difference(got, weft_model_forward(decoded, tokens(), NULL));
        if (!CHECK(off < 1e-5))
            printf("  %s: off by %.3g of the largest\n", type->name, off);
        weft_scope_close(NULL);
    }
    weft_model_free(model);
    weft_model_free(decoded);
}

static void every_type(void)
{
    for (int i = 0; i < N_BLOCK_TYPES; i++)
        same_logits(QWEN, &block_types[i], false);
}

static void families(void)
{
    same_logits(MIXTRAL, &block_types[7], false);
    same_logits(GEMMA, &block_types[4], false);
}

/* Gates and ups of experts as one tensor. */
static void gates_with_ups(void)
{
    same_logits(GEMMA, &block_types[4], true);
    same_logits(GEMMA, &block_types[7], true);
    same_logits(QWEN, &block_types[9], true);
}

static weft_array *loss(void *context)
{
    weft_array *logits = weft_model_forward(context, tokens(), NULL);
    return weft_mean(weft_square(logits), WEFT_ALL_AXES, false);
}

/* Gradients of adapters, which go through the experts, are those of the decoded file. */
static void adapters_learn(void)
{
    char paths[N_FORMS][512];
    weft_model *models[N_FORMS] = {NULL};
    weft_nn_gradients g[N_FORMS];
    memset(g, 0, sizeof g);
    if (!written(GEMMA, &block_types[7], true, paths))
        return;
    weft_scope_open();
    for (int f = 0; f < N_FORMS; f++) {
        if (!CHECK_OK(weft_model_load(paths[f], NULL, &models[f])))
            goto end;
        weft_random_seed(11);
        const weft_nn_lora_options o = {
            .rank = 4, .targets = (const char *const[]){"q_proj"}, .n_targets = 1};
        if (!CHECK_OK(weft_nn_lora_inject(weft_model_module(models[f]), &o)))
            goto end;
        weft_array *value =
            weft_nn_value_and_grad(weft_model_module(models[f]), loss, models[f], &g[f]);
        CHECK(weft_ok(value) && weft_item(value) > 0);
    }
    if (CHECK_EQ_INT(g[BLOCKS].parameters.n, 2) && CHECK_EQ_INT(g[DECODED].parameters.n, 2)) {
        /* lora_B's; lora_A's are zeros while lora_B is. Cancellation in sums over the logits. */
        CHECK(difference(weft_scale(g[BLOCKS].arrays[1], 1e3),
                         weft_scale(g[DECODED].arrays[1], 1e3)) < 1e-4);
    }
end:
    for (int f = 0; f < N_FORMS; f++) {
        weft_nn_gradients_free(&g[f]);
        weft_model_free(models[f]);
    }
    weft_scope_close(NULL);
}

/* A GGUF file again, and a folder, whose gates and ups are apart. */
static void written_again(void)
{
    char paths[N_FORMS][512], again[512], folder[512];
    weft_model *model = NULL, *other[2] = {NULL};
    if (!written(GEMMA, &block_types[7], true, paths) ||
        !CHECK_OK(weft_model_load(paths[BLOCKS], NULL, &model)))
        return;
    snprintf(again, sizeof again, "%s", check_temporary("again.gguf"));
    snprintf(folder, sizeof folder, "%s", check_temporary("apart"));
    CHECK_OK(weft_model_save_gguf(model, again, NULL));
    CHECK_OK(weft_convert(paths[BLOCKS], folder, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        if (!CHECK_OK(weft_model_load(i ? folder : again, NULL, &other[i])))
            continue;
        weft_scope_open();
        weft_array *got = weft_model_forward(other[i], tokens(), NULL);
        CHECK(difference(got, weft_model_forward(model, tokens(), NULL)) < 1e-5);
        CHECK(weft_nn_find(weft_model_module(other[i]),
                           "model.layers.0.experts.switch_glu.up_proj.weight") != NULL);
        weft_scope_close(NULL);
        weft_model_free(other[i]);
    }
    weft_model_free(model);
}

/* More matrices than are computed together, selected by none, a few and many rows, in no order. */
static void many_matrices(void)
{
    enum { MATRICES = 40, ROWS = 9, ITEMS = 200 };
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16};
    int32_t rows[ITEMS], ids[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        rows[i] = i * 7 % ROWS - (i % 3 == 0 ? ROWS : 0); /* some from the end */
        ids[i] = i % 4 == 0 ? 5 : i * 13 % 37;            /* the last three never */
    }
    for (int d = 0; d < 2; d++) {
        weft_scope_open();
        weft_random_seed(5);
        weft_array *w = weft_random_uniform(NULL, WEFT_DIMS(MATRICES, 24, 64), -1, 1, WEFT_FLOAT32);
        weft_array *x = weft_random_uniform(NULL, WEFT_DIMS(ROWS, 64), -1, 1, WEFT_FLOAT32);
        x = weft_astype(x, dtypes[d]);
        w = weft_encode(w, weft_encoding_find("q8_0"));
        weft_array *at = weft_from_data(rows, WEFT_INT32, WEFT_DIMS(ITEMS));
        weft_array *chosen = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(ITEMS));
        weft_array *got = weft_gather_linear(x, w, at, chosen);
        weft_array *expected =
            weft_gather_linear(weft_astype(x, WEFT_FLOAT32), weft_decode(w), at, chosen);
        /* Sums of 64 in another order; half a bfloat16's ulp of the largest. */
        CHECK(difference(weft_astype(got, WEFT_FLOAT32), expected) < (d ? 0x1p-8 : 1e-6));
        weft_scope_close(NULL);
    }
}

/* Checks that a folder made from a GGUF file has a tensor, and none of MLX's stacks. */
static void expect_stored(const char *model, const char *name)
{
    char fixture[64], folder[600], path[700];
    weft_safetensors *file = NULL;
    const weft_convert_options o = {.replace = true};
    snprintf(fixture, sizeof fixture, "models/%s", model);
    snprintf(folder, sizeof folder, "%s", check_temporary("from-gguf"));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const char *gguf = check_temporary("experts.gguf");
    if (CHECK_OK(weft_convert(check_fixture(fixture), gguf, &o, NULL)) &&
        CHECK_OK(weft_convert(gguf, folder, &o, NULL)) &&
        CHECK_OK(weft_safetensors_open(path, &file))) {
        CHECK(weft_safetensors_find(file, name) >= 0);
        for (int i = 0; i < weft_safetensors_count(file); i++)
            CHECK(strstr(weft_safetensors_name(file, i), ".switch_") == NULL);
    }
    weft_safetensors_close(file);
}

static void folders_have_the_names_of_transformers(void)
{
    expect_stored("qwen3-moe", "model.layers.0.mlp.experts.1.up_proj.weight");
    expect_stored("mixtral", "model.layers.0.block_sparse_moe.experts.1.w3.weight");
    expect_stored("gemma4-moe", "model.layers.0.experts.gate_up_proj");
}

CHECK_MAIN("gguf_experts", CHECK_CASE(many_matrices), CHECK_CASE(every_type), CHECK_CASE(families),
           CHECK_CASE(gates_with_ups), CHECK_CASE(adapters_learn), CHECK_CASE(written_again),
           CHECK_CASE(folders_have_the_names_of_transformers))
