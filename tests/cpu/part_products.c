/* tests/cpu/part_products.c -- random products for tests of bfloat16 parts, and their elements in
 * float64. */
#include "tests/cpu/part_products.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/quantized.h"
#include "tests/check.h"
#include "weft/gguf.h"
#include "weft/quantize.h"

enum { GUARD = 256 };

/* ---- Operands ------------------------------------------------------------------------------- */

/* Keeps as many bits of each element as `parts` bfloat16 numbers have. */
static void keep_parts(owned_tensor *x, int parts)
{
    uint32_t *bits = x->memory;
    for (int64_t i = 0; i < x->bytes / 4; i++)
        bits[i] &= parts == 1 ? 0xffff0000 : 0xffffff00;
}

static void fill_values(operand *x, int side, int64_t items, int64_t lines, int64_t k)
{
    const weft_tensor *t = &x->t.t;
    x->values = malloc((size_t)(items * lines * k + 1) * sizeof(double));
    for (int64_t i = 0; i < items * lines * k; i++) {
        const int64_t item = i / k / lines, line = i / k % lines, p = i % k;
        const int64_t at = side == 0 ? line * k + p : p * lines + line;
        x->values[i] = weft_tensor_get(t, item * lines * k + at);
    }
}

/* Encodes random rows, and decodes them to the values. */
static void make_codes(operand *x, const pair_case *c, int64_t n, uint32_t seed)
{
    const weft_encoding *e = weft_gguf_encoding(c->encoding);
    e = e ? e : weft_encoding_find(c->encoding);
    if (!CHECK(e != NULL && e->encode != NULL))
        exit(1);
    const int64_t rows = c->code_terms ? c->k : n, width = c->code_terms ? n : c->k;
    const int64_t row_bytes = weft_encoding_bytes(e, width);
    x->t = tensor_random(WEFT_FLOAT32, WEFT_DIMS(rows, width), LIE_DENSE, -1, 1, seed);
    x->blocks = malloc((size_t)(rows * row_bytes));
    x->values = malloc((size_t)(n * c->k) * sizeof(double));
    float *decoded = malloc((size_t)width * sizeof *decoded);
    for (int64_t i = 0; i < rows; i++) {
        e->encode(e, (const float *)x->t.memory + i * width, width, x->blocks + i * row_bytes);
        e->decode(e, x->blocks + i * row_bytes, width, decoded);
        for (int64_t j = 0; j < width; j++)
            x->values[c->code_terms ? j * c->k + i : i * c->k + j] = decoded[j];
    }
    free(decoded);
    weft_tensor t = x->t.t;
    t.data = x->blocks;
    t.encoding = e;
    x->codes = weft__cpu_codes_encoded(&t);
    x->shared = true;
}

static void make_operand(operand *x, const product_case *c, int pair, int side, uint32_t seed)
{
    const pair_case *p = &c->pair[pair];
    const int64_t lines = side == 0 ? c->m : c->n;
    x->shared = c->batch == 0 || (side == 1 && c->shared_b);
    if (side == 1 && p->encoding) {
        make_codes(x, p, c->n, seed);
        return;
    }
    const int64_t items = x->shared ? 1 : c->batch;
    const weft_dims shape =
        side == 0 ? WEFT_DIMS(items, lines, p->k) : WEFT_DIMS(items, p->k, lines);
    x->t = tensor_random(p->dtype[side], shape, p->layout[side], -1, 1, seed);
    if (p->parts[side])
        keep_parts(&x->t, p->parts[side]);
    fill_values(x, side, items, lines, p->k);
}

static cpu_matrix matrix_of(const operand *x, const pair_case *p, int side)
{
    const weft_tensor *t = &x->t.t;
    cpu_matrix matrix = {.dtype = t->dtype, .data = t->data, .parts = p->parts[side]};
    if (x->blocks) {
        matrix.data = NULL;
        matrix.codes = &x->codes;
        matrix.code_terms = p->code_terms;
        return matrix;
    }
    matrix.row = t->strides[1];
    matrix.column = t->strides[2];
    matrix.batch[0] = x->shared ? 0 : t->strides[0];
    return matrix;
}

void make_product(product *p, const product_case *c)
{
    memset(p, 0, sizeof *p);
    p->c = *c;
    for (int i = 0; i < c->pairs; i++) {
        for (int side = 0; side < SIDES; side++)
            make_operand(&p->operand[i][side], c, i, side, (uint32_t)(2 * i + side + 1));
        p->more[i] = (cpu_pair){c->pair[i].k, matrix_of(&p->operand[i][0], &c->pair[i], 0),
                                matrix_of(&p->operand[i][1], &c->pair[i], 1)};
    }
    const weft_dims shape = WEFT_DIMS(c->batch ? c->batch : 1, c->m, c->n);
    p->before = tensor_random(c->c, shape, LIE_DENSE, -1, 1, 90);
    p->out = tensor_empty(c->c, shape);
    p->bias = malloc((size_t)c->n * sizeof *p->bias);
    for (int64_t j = 0; j < c->n; j++)
        p->bias[j] = (float)j / 7 - 2;
    p->g = (cpu_gemm){.m = c->m,
                      .n = c->n,
                      .k = c->pair[0].k,
                      .batch = c->batch ? WEFT_DIMS(c->batch) : (weft_dims){0},
                      .a = p->more[0].a,
                      .b = p->more[0].b,
                      .c_dtype = c->c,
                      .c = p->out.memory,
                      .bias = c->bias ? p->bias : NULL,
                      .accumulate = c->accumulate,
                      .coarse = c->coarse,
                      .more = p->more + 1,
                      .n_more = c->pairs - 1};
}

void free_product(product *p)
{
    for (int i = 0; i < p->c.pairs; i++)
        for (int side = 0; side < SIDES; side++) {
            tensor_free(&p->operand[i][side].t);
            free(p->operand[i][side].blocks);
            free(p->operand[i][side].values);
        }
    tensor_free(&p->before);
    tensor_free(&p->out);
    free(p->bias);
}

/* ---- Running and checking ---------------------------------------------------------------------
 */

const char *label_of(const product_case *c)
{
    static char text[300];
    const pair_case *p = &c->pair[0];
    snprintf(text, sizeof text,
             "%lldx%lldx%lld, %s layout %d times %s layout %d to %s, batch %lld%s%s%s%s, %d pairs",
             (long long)c->m, (long long)c->n, (long long)p->k, weft_dtype_name(p->dtype[0]),
             p->layout[0], p->encoding ? p->encoding : weft_dtype_name(p->dtype[1]), p->layout[1],
             weft_dtype_name(c->c), (long long)c->batch, c->shared_b ? ", shared" : "",
             c->bias ? ", bias" : "", c->accumulate ? ", accumulate" : "",
             c->coarse ? ", coarse" : "", c->pairs);
    return text;
}

bool run_with_guard(const cpu_gemm *g, bool parts)
{
    const int64_t bytes = parts ? weft__cpu_by_parts.workspace(g) : weft__cpu_gemm_workspace(g);
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)bytes + GUARD) != 0)
        exit(1);
    unsigned char *workspace = memory;
    memset(workspace, 0xff, (size_t)bytes + GUARD); /* NaN for code that reads before it writes */
    bool finite = true;
    if (parts)
        finite = weft__cpu_by_parts.run(g, workspace);
    else
        weft__cpu_gemm(g, workspace);
    int changed = 0;
    for (int i = 0; i < GUARD; i++)
        changed += workspace[bytes + i] != 0xff;
    CHECK_EQ_INT(changed, 0);
    free(memory);
    return finite;
}

bool run_parts(product *p)
{
    if (p->c.accumulate)
        memcpy(p->out.memory, p->before.memory, (size_t)p->out.bytes);
    return run_with_guard(&p->g, true);
}

double exact_element(const product *p, int64_t item, int64_t i, int64_t j, double *magnitude)
{
    const product_case *c = &p->c;
    double sum = c->bias ? p->bias[j] : 0;
    if (c->accumulate)
        sum += weft_tensor_get(&p->before.t, (item * c->m + i) * c->n + j);
    *magnitude = fabs(sum);
    for (int q = 0; q < c->pairs; q++) {
        const int64_t k = c->pair[q].k;
        const operand *a = &p->operand[q][0], *b = &p->operand[q][1];
        const double *x = a->values + ((a->shared ? 0 : item) * c->m + i) * k;
        const double *y = b->values + ((b->shared ? 0 : item) * c->n + j) * k;
        for (int64_t r = 0; r < k; r++) {
            sum += x[r] * y[r];
            *magnitude += fabs(x[r] * y[r]);
        }
    }
    return sum;
}
