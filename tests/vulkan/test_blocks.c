/* tests/vulkan/test_blocks.c -- matrices in the block types of GGUF files on the Vulkan device,
 * against the CPU's. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/block_types.h"
#include "tests/vulkan/both.h"
#include "weft/quantize.h"
#include "weft/transforms.h"

typedef struct scene {
    const block_type *type;
    int64_t rows, width; /* of the matrix */
    int64_t count;       /* matrices; 0: one, and no axis for it */
    int64_t m;           /* rows that are multiplied by it */
    weft_dtype dtype;
} scene;

/* The same blocks on the default device. */
static weft_array *matrix(const scene *s)
{
    const weft_encoding *e = weft_encoding_find(s->type->name);
    const int64_t count = s->count ? s->count : 1;
    const int64_t n = count * s->rows * s->width / e->block * e->block_bytes;
    const weft_dims shape =
        s->count ? WEFT_DIMS(count, s->rows, s->width) : WEFT_DIMS(s->rows, s->width);
    uint8_t *bytes = malloc((size_t)n);
    uint32_t state = 7;
    block_fill(bytes, n, s->type, e->block_bytes, 0x18, &state);
    weft_device *device = weft_default_device();
    weft_set_default_device(weft_device_get("cpu"));
    weft_array *w = weft_from_blocks(bytes, e, s->dtype, shape, free, bytes);
    weft_set_default_device(device);
    return weft_to(w, device);
}

static weft_array *make_halves(const void *context)
{
    const scene *s = context;
    return weft_astype(matrix(s), WEFT_FLOAT16);
}

static weft_array *make_decoded(const void *context)
{
    return weft_decode(matrix(context));
}

static weft_array *make_taken(const void *context)
{
    const scene *s = context;
    const double ids[] = {3, 0, (double)s->rows - 1, 3};
    return weft_take(matrix(s), both_list(ids, WEFT_DIMS(4), WEFT_INT32), 0);
}

static weft_array *make_product(const void *context)
{
    const scene *s = context;
    weft_array *x = both_draw(WEFT_DIMS(s->m, s->width), s->dtype, -1, 1);
    return weft_linear(x, matrix(s), NULL);
}

static int product(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = weft_linear(in[0], context, NULL);
    return 1;
}

/* The gradient of the rows: the product with the other axis. */
static weft_array *make_gradient(const void *context)
{
    const scene *s = context;
    weft_array *w = matrix(s), *dx = NULL;
    weft_array *x = both_draw(WEFT_DIMS(s->m, s->width), s->dtype, -1, 1);
    weft_array *dy = both_draw(WEFT_DIMS(s->m, s->rows), s->dtype, -1, 1);
    CHECK_OK(weft_vjp(product, w, &x, 1, &dy, NULL, 1, &dx));
    return dx;
}

/* Rows through two of three matrices. */
static weft_array *make_chosen(const void *context)
{
    const scene *s = context;
    const double rows[] = {0, 3, 1, 1}, ids[] = {2, 0, 0, 2};
    weft_array *x = both_draw(WEFT_DIMS(s->m, s->width), s->dtype, -1, 1);
    return weft_gather_linear(x, matrix(s), both_list(rows, WEFT_DIMS(4), WEFT_INT32),
                              both_list(ids, WEFT_DIMS(4), WEFT_INT32));
}

static void rows_of_every_type(void)
{
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        const scene s = {.type = &block_types[i], .rows = 9, .width = 512, .dtype = WEFT_FLOAT32};
        both_same(make_decoded, &s, 0, block_types[i].name);
        both_same(make_halves, &s, 0, block_types[i].name);
        both_same(make_taken, &s, 0, block_types[i].name);
    }
}

/* Sums of 512 products, whose terms are up to 16, in another order: partial sums reach hundreds, of
 * which half an ulp is 1.5e-5; a few of these at worst. */
static void check_products(const scene *s)
{
    char label[80];
    snprintf(label, sizeof label, "%lld rows, %s", (long long)s->m, s->type->name);
    const double tolerance = s->dtype == WEFT_FLOAT32 ? 1e-4 : 0x1p-9;
    both_same(make_product, s, tolerance, label);
    if (s->m > 1) {
        both_same(make_gradient, s, tolerance, label);
    }
}

/* By vector; and for a few types, since a software driver takes a second for each shader, by tile,
 * backwards and with float16 activations. */
static void products_of_every_type(void)
{
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        scene s = {
            .type = &block_types[i], .rows = 33, .width = 512, .m = 1, .dtype = WEFT_FLOAT32};
        check_products(&s);
        if (i % 4 == 1) { /* Q4_1, Q2_K, Q6_K */
            s.m = 5;
            check_products(&s);
            s.m = 40;
            s.dtype = WEFT_FLOAT16;
            check_products(&s);
        }
    }
}

/* ---- Codes that are read by whole words ------------------------------------------------------ */

typedef struct coded_rows {
    const char *encoding;
    int64_t width; /* with odd numbers of blocks, whose rows begin within a word, and with more */
    int64_t m;
    weft_dtype dtype;
} coded_rows;

static weft_array *make_by_words(const void *context)
{
    const coded_rows *s = context;
    weft_device *device = weft_default_device();
    weft_array *x = both_draw(WEFT_DIMS(s->m, s->width), s->dtype, -1, 1);
    weft_set_default_device(weft_device_get("cpu"));
    weft_array *w = both_draw(WEFT_DIMS(37, s->width), WEFT_FLOAT32, -1, 1);
    w = weft_encode(w, weft_encoding_find(s->encoding));
    CHECK_OK(weft_eval(w));
    weft_set_default_device(device);
    return weft_linear(x, weft_to(w, device), NULL);
}

/* Sums of up to 4,384 products whose root mean square is 1/3: partial sums reach 22, so rounding
 * them in any order gives at most sqrt(4384) 2^-24 22 = 9e-5; 1.8e-5 was seen. */
static void products_by_whole_words(void)
{
    static const coded_rows all[] = {
        {"q8_0", 480, 1, WEFT_FLOAT32},
        {"q8_0", 4384, 3, WEFT_FLOAT32},
        {"q8_0", 32, 1, WEFT_BFLOAT16},
        {"q4_k", 256, 1, WEFT_FLOAT32},
        {"q4_k", 4352, 1, WEFT_FLOAT32},
        {"q4_k", 2816, 8, WEFT_FLOAT16},
        {"q6_k", 256, 1, WEFT_FLOAT32},
        {"q6_k", 4352, 1, WEFT_FLOAT32},
        {"q6_k", 2816, 3, WEFT_BFLOAT16},
        {"affine-4-64-bfloat16", 448, 1, WEFT_FLOAT32},
        {"affine-4-32-float16", 4384, 2, WEFT_FLOAT32},
        {"affine-4-128-bfloat16", 4352, 1, WEFT_BFLOAT16},
        {"affine-4-64-float32", 448, 1, WEFT_FLOAT32}, /* these two are not */
        {"affine-8-64-bfloat16", 448, 1, WEFT_FLOAT32},
    };
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char label[80];
        snprintf(label, sizeof label, "%lld rows of %lld, %s", (long long)all[i].m,
                 (long long)all[i].width, all[i].encoding);
        both_same(make_by_words, &all[i], all[i].dtype == WEFT_FLOAT32 ? 4e-5 : 0x1p-7, label);
    }
}

/* As in products_of_every_type. */
static void chosen_matrices(void)
{
    if (!both_there()) {
        return;
    }
    for (int i = 0; i < N_BLOCK_TYPES; i += 4) { /* Q4_0, Q8_0, Q5_K, MXFP4 */
        scene s = {&block_types[i], .rows = 21, .width = 256,
                   .count = 3,      .m = 4,     .dtype = WEFT_FLOAT32};
        both_same(make_chosen, &s, 1e-4, s.type->name);
        s.dtype = WEFT_BFLOAT16;
        both_same(make_chosen, &s, 0x1p-7, s.type->name);
    }
}

CHECK_MAIN("vulkan_blocks", CHECK_CASE(rows_of_every_type), CHECK_CASE(products_of_every_type),
           CHECK_CASE(products_by_whole_words), CHECK_CASE(chosen_matrices))
