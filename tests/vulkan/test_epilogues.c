/* tests/vulkan/test_epilogues.c -- ops that kernels apply to their own results (residual sums and
 * gates of products, rotations written to caches): the same bits as ops one by one; and the number
 * of launches and barriers for a token of a decoder. */
#include <stdio.h>
#include <string.h>

#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/weft.h"

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};

/* ---- Separate and fused --------------------------------------------------------------------- */

typedef struct expression {
    int kind; /* of `results` */
    bool transposed, encoded, other_first;
    weft_dtype dtype;
    int64_t rows, columns, terms;
    weft_array *x, *w[2], *residual, *positions, *frequencies, *cache, *start;
} expression;

enum { SUM, SWIGLU, GEGLU, WRITE, KINDS };
static const char *const names[] = {"sum", "swiglu", "geglu", "write"};

static weft_array *linear(const expression *e, int i)
{
    weft_array *in[] = {e->x, e->w[i]};
    const weft_linear_params params = {.transposed = e->transposed};
    return weft_apply(weft_op_find("linear"), in, 2, &params);
}

static weft_array *result(const expression *e, bool one_by_one)
{
    if (e->kind == WRITE) {
        weft_array *k = weft_rope(e->x, e->positions, e->frequencies, false, 1);
        return weft_slice_update(e->cache, both_apart(k, one_by_one), e->start, WEFT_DIMS(1));
    }
    weft_array *y = both_apart(linear(e, 0), one_by_one);
    if (e->kind == SUM)
        return e->other_first ? weft_add(e->residual, y) : weft_add(y, e->residual);
    weft_array *up = both_apart(linear(e, 1), one_by_one);
    return e->kind == SWIGLU ? weft_swiglu(y, up) : weft_geglu(y, up);
}

static weft_array *weight(const expression *e)
{
    const weft_dims shape =
        e->transposed ? WEFT_DIMS(e->terms, e->columns) : WEFT_DIMS(e->columns, e->terms);
    weft_array *w = both_draw(shape, e->dtype, -1, 1);
    if (e->encoded)
        w = weft_encode(w, weft_encoding_find("q8_0"));
    return w;
}

static void make_operands(expression *e)
{
    e->x = both_draw(WEFT_DIMS(1, e->rows, e->terms), e->dtype, -1, 1);
    e->w[0] = weight(e);
    e->w[1] = weight(e);
    e->residual = both_draw(WEFT_DIMS(1, e->rows, e->columns), e->dtype, -4, 4);
    weft_array *all[] = {e->x, e->w[0], e->w[1], e->residual};
    for (int i = 0; i < 4; i++)
        CHECK_OK(weft_eval(all[i]));
}

static int64_t on_cores(void)
{
    weft_counter all[16];
    const int n = weft_device_counters(weft_default_device(), all, 16);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, "commands on matrix cores") == 0)
            return all[i].value;
    return 0;
}

/* The same bits whether the parts are computed together or one by one. together: whether one kernel
 * is expected to compute it, except on matrix cores. */
static void same_bits(const expression *e, bool together)
{
    char label[160];
    snprintf(label, sizeof label, "%s of %s: %lld x %lld, %lld terms%s%s%s", names[e->kind],
             weft_dtype_name(e->dtype), (long long)e->rows, (long long)e->columns,
             (long long)e->terms, e->transposed ? ", transposed" : "",
             e->encoded ? ", encoded" : "", e->other_first ? ", residual first" : "");
    weft_scope_open_lean();
    const int64_t before = both_fused(), before_cores = on_cores();
    weft_array *one = result(e, false);
    CHECK_OK(weft_eval(one));
    const int64_t between = both_fused();
    const bool cores = on_cores() != before_cores; /* with parts of the terms it is */
    weft_array *other = result(e, true);
    CHECK_OK(weft_eval(other));
    check_that(cores || (between > before) == together, __FILE__, __LINE__, "%s: %s as one", label,
               together ? "not" : "unexpectedly");
    CHECK_EQ_INT(both_fused(), between);
    check_that(both_equal(one, other), __FILE__, __LINE__, "%s: other bits", label);
    weft_scope_close(NULL);
}

static void check_products(int kind, int64_t most_rows)
{
    static const int64_t sizes[][3] = {{1, 512, 300},  {1, 70, 2048}, {3, 96, 64},
                                       {8, 1030, 128}, {20, 72, 96},  {70, 136, 1024}};
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int form = 0; form < 3; form++) {
                expression e = {.kind = kind,
                                .dtype = dtypes[d],
                                .rows = sizes[i][0],
                                .columns = sizes[i][1],
                                .terms = sizes[i][2] / (form == 2 ? 32 : 1) * (form == 2 ? 32 : 1),
                                .transposed = form == 1,
                                .encoded = form == 2,
                                .other_first = i % 2};
                if (form == 1 && kind != SUM)
                    continue;
                if (both_few() && (size_t)form != (i + d) % 3) /* each size with each dtype */
                    continue;
                weft_scope_open();
                make_operands(&e);
                same_bits(&e, kind == SUM || e.rows <= most_rows);
                weft_scope_close(NULL);
            }
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

static void residuals_are_added_by_products(void)
{
    if (both_there())
        check_products(SUM, 0);
}

static void gates_are_applied_by_products_of_few_rows(void)
{
    if (both_there()) {
        check_products(SWIGLU, 8);
        check_products(GEGLU, 8);
    }
}

static void rotations_are_written_to_caches(void)
{
    static const int32_t starts[] = {0, 5, 61, 1000, -3};
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
            weft_scope_open();
            const int32_t at[] = {3, 4, 7};
            expression e = {.kind = WRITE, .dtype = dtypes[d]};
            e.x = both_draw(WEFT_DIMS(2, 3, 5, 16), e.dtype, -2, 2);
            e.cache = both_draw(WEFT_DIMS(2, 64, 5, 16), e.dtype, -2, 2);
            e.frequencies = both_draw(WEFT_DIMS(6), WEFT_FLOAT32, 0, 1);
            e.positions = weft_from_data(at, WEFT_INT32, WEFT_DIMS(3));
            e.start = weft_from_data(&starts[i], WEFT_INT32, WEFT_DIMS(1));
            weft_array *all[] = {e.x, e.cache, e.frequencies, e.positions, e.start};
            for (int k = 0; k < 5; k++)
                CHECK_OK(weft_eval(all[k]));
            same_bits(&e, true); /* the cache is held: it is copied */
            weft_scope_close(NULL);
        }
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* ---- What must not be fused ----------------------------------------------------------------- */

static void results_with_other_readers_are_stored(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    weft_scope_open();
    expression e = {.kind = SUM, .dtype = WEFT_FLOAT32, .rows = 2, .columns = 64, .terms = 64};
    make_operands(&e);
    const int64_t before = both_fused();
    weft_array *y = linear(&e, 0), *sum = weft_add(y, e.residual); /* y is readable here */
    CHECK_OK(weft_eval(sum));
    CHECK_EQ_INT(both_fused(), before);
    float first;
    CHECK_OK(
        weft_read(weft_slice_axis(weft_slice_axis(y, 2, 0, 1), 1, 0, 1), WEFT_FLOAT32, &first, 1));
    weft_scope_open_lean();
    weft_array *z = linear(&e, 0), *both[] = {weft_add(z, e.residual), weft_negative(z)};
    CHECK_OK(weft_eval_n(both, 2));
    CHECK_EQ_INT(both_fused(), before);
    weft_array *own = weft_add(linear(&e, 1), linear(&e, 0)); /* one of them is stored */
    CHECK_OK(weft_eval(own));
    CHECK_EQ_INT(both_fused(), before + 1);
    weft_scope_close(NULL);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

/* The result reuses the residual's memory if nothing else needs it, and not if the product still
 * reads it. */
static void a_residual_that_is_the_input_is_not_overwritten(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (int own = 0; own < 2; own++) {
        weft_scope_open();
        expression e = {.dtype = WEFT_BFLOAT16, .rows = 4, .columns = 256, .terms = 256};
        make_operands(&e);
        weft_scope_open_lean();
        weft_array *x = weft_negative(e.x), *kept = weft_negative(e.x);
        CHECK_OK(weft_eval(weft_keep(kept)));
        weft_array *in[] = {x, e.w[0]}, *in_kept[] = {kept, e.w[0]};
        const weft_linear_params params = {0};
        const weft_op *op = weft_op_find("linear");
        weft_array *residual = own ? x : weft_negative(e.residual);
        weft_array *y = weft_add(residual, weft_apply(op, in, 2, &params));
        CHECK_OK(weft_eval(y));
        weft_array *product = both_apart(weft_apply(op, in_kept, 2, &params), true);
        weft_array *want = weft_add(own ? kept : weft_negative(e.residual), product);
        CHECK_OK(weft_eval(want));
        CHECK(both_equal(y, want));
        weft_drop(kept);
        weft_scope_close(NULL);
        weft_scope_close(NULL);
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* ---- A decoder ------------------------------------------------------------------------------ */

/* Tokens: enough for compiled steps, which users have. */
enum { FEW = 10, MORE = 14 };

static const char config_format[] =
    "{\"model_type\": \"%s\", \"vocab_size\": 512, \"hidden_size\": 128, \"intermediate_size\": "
    "256, \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 32, \"max_position_embeddings\": 512, \"rope_theta\": 10000.0, "
    "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}";

static bool ignore(void *context, const weft_generated *token)
{
    (void)context;
    (void)token;
    return true;
}

typedef struct work {
    int64_t commands, barriers;
} work;

enum { MOST_TEXTS = 16 };

static void generate(weft_model *model, int64_t tokens, size_t texts)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5};
    const weft_generate_options o = {.max_tokens = tokens, .ignore_eos = true};
    weft_generate_request requests[MOST_TEXTS];
    weft_generated_row rows[MOST_TEXTS];
    weft_generate_stats stats;
    if (texts == 1) {
        CHECK_OK(weft_generate(model, NULL, ids, 5, &o, ignore, NULL, &stats));
        return;
    }
    for (size_t i = 0; i < texts; i++)
        requests[i] = (weft_generate_request){.prompt = {ids, 5}, .options = &o};
    CHECK_OK(weft_generate_batch(model, NULL, requests, texts, NULL, NULL, NULL, rows));
    for (size_t i = 0; i < texts; i++)
        CHECK_OK(rows[i].status);
    weft_generated_rows_free(rows, texts);
}

/* Counts of generating `tokens` of each of the texts together. */
static work work_of(weft_device *vulkan, weft_model *model, int64_t tokens, size_t texts)
{
    weft_counter all[16];
    work w = {0};
    CHECK_OK(weft_device_profile(vulkan, true));
    generate(model, tokens, texts);
    const int n = weft_device_counters(vulkan, all, 16);
    for (int i = 0; i < n; i++) {
        w.commands = strcmp(all[i].name, "commands") == 0 ? all[i].value : w.commands;
        w.barriers = strcmp(all[i].name, "barriers") == 0 ? all[i].value : w.barriers;
    }
    CHECK_OK(weft_device_profile(vulkan, false));
    return w;
}

/* Counts of one token, as the difference of two runs. */
static work work_of_token(const char *family, int layers, size_t texts)
{
    char text[600];
    weft_config *config = NULL;
    weft_model *model = NULL;
    work few = {0}, more = {0};
    weft_device *vulkan = weft_device_get("vulkan");
    weft_set_default_device(vulkan);
    snprintf(text, sizeof text, config_format, family, layers);
    weft_scope_open();
    if (CHECK_OK(weft_config_parse(text, family, &config)) &&
        CHECK_OK(weft_model_new(config, &model)) &&
        CHECK_OK(weft_nn_cast(weft_model_module(model), WEFT_BFLOAT16))) {
        few = work_of(vulkan, model, FEW, texts);
        more = work_of(vulkan, model, MORE, texts);
    }
    weft_model_free(model);
    weft_config_free(config);
    weft_scope_close(NULL);
    weft_set_default_device(weft_device_get("cpu"));
    return (work){(more.commands - few.commands) / (MORE - FEW),
                  (more.barriers - few.barriers) / (MORE - FEW)};
}

/* `commands` and `barriers` are a layer's. Launches of one pipeline that wait together are one, so
 * that there may be fewer. */
static void check_family(const char *family, size_t texts, int64_t commands, int64_t barriers)
{
    enum { HEAD_COMMANDS = 8, HEAD_BARRIERS = 6 }; /* of the embedding, the head and the draw */
    const int layers = both_few() ? 8 : 32;
    const work all = work_of_token(family, layers, texts);
    printf("%s, %zu texts: a token of %d layers: %lld launches, %lld barriers\n", family, texts,
           layers, (long long)all.commands, (long long)all.barriers);
    CHECK(all.commands >= layers && all.commands <= layers * commands + HEAD_COMMANDS);
    CHECK(all.barriers >= layers && all.barriers <= layers * barriers + HEAD_BARRIERS);
}

/* Of a layer: norm, q, k, v | rotations and writes | attention | o and sum | norm, gate, up | down
 * and sum. */
static void a_layer_takes_few_launches(void)
{
    if (both_there()) {
        check_family("llama", 1, 7, 5); /* one launch for rotations, writes and attention */
        check_family("qwen3", 1, 10, 6);
        check_family("llama", 4, 7, 5);
    }
}

CHECK_MAIN("vulkan_epilogues", CHECK_CASE(residuals_are_added_by_products),
           CHECK_CASE(gates_are_applied_by_products_of_few_rows),
           CHECK_CASE(rotations_are_written_to_caches),
           CHECK_CASE(results_with_other_readers_are_stored),
           CHECK_CASE(a_residual_that_is_the_input_is_not_overwritten),
           CHECK_CASE(a_layer_takes_few_launches))
