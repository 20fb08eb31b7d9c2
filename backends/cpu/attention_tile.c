/* backends/cpu/attention_tile.c -- sizes, tiles and masking of attention and its gradient. */
#include <math.h>

#include "backends/cpu/attention.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

/* The stride of rows of n floats: an odd number of vectors, since rows that are a power of two
 * apart are in few sets of the L1 cache. */
static int64_t padded(int64_t n)
{
    return ((n + ATTENTION_VECTOR - 1) / ATTENTION_VECTOR | 1) * ATTENTION_VECTOR;
}

/* Queries of a stripe for `parts`: about ATTENTION_PART_ROWS rows, a multiple of a panel; 0: that
 * would be too many. */
static int64_t part_stripe(const cpu_attention *a)
{
    int64_t least = 1;
    while (least * a->G % a->kernels->parts.width != 0)
        least++;
    if (least * a->G > 4 * ATTENTION_PART_ROWS)
        return 0;
    return least * a->G < ATTENTION_PART_ROWS ? ATTENTION_PART_ROWS / (least * a->G) * least
                                              : least;
}

static int parts_of(const cpu_attention *a, int most)
{
    const weft_dtype q = a->q->dtype, k = a->k->dtype, v = a->v->dtype;
    if (a->kernels->parts.width == 0 || a->bits || a->D < ATTENTION_VECTOR ||
        a->Dv < ATTENTION_VECTOR || part_stripe(a) == 0)
        return 0;
    if (q == WEFT_BFLOAT16 && k == WEFT_BFLOAT16 && v == WEFT_BFLOAT16)
        return 1;
    return k == WEFT_FLOAT16 && v == WEFT_FLOAT16 && most >= 2 ? 2 : 0;
}

cpu_attention weft__cpu_attention_of(const weft_call *call, const weft_tensor *mask, int64_t rows,
                                     int parts)
{
    const weft_attention_params *params = call->params;
    const bool codes = call->in[1].dtype == WEFT_UINT8;
    const int stored = codes ? 7 : 3, others = params->has_mask + params->has_lengths +
                                               params->has_first + params->has_ends;
    const weft_tensor *q = &call->in[0], *k = &call->in[1], *v = &call->in[codes ? 4 : 2];
    cpu_attention a = {.params = call->params,
                       .kernels = weft__cpu_kernels(),
                       .q = q,
                       .k = k,
                       .v = v,
                       .mask = mask,
                       .B = q->shape.at[0],
                       .L = q->shape.at[1],
                       .H = q->shape.at[2],
                       .D = q->shape.at[3],
                       .S = k->shape.at[1],
                       .Hk = k->shape.at[2],
                       .Dv = v->shape.at[3]};
    if (call->n_inputs == stored + 1 + others) {
        a.pages = &call->in[stored];
        a.S *= a.pages->shape.at[1];
    }
    a.own = a.S - a.L;
    a.window = smaller(a.params->window, a.S + a.L);
    if (a.params->has_first)
        a.first = &call->in[call->n_inputs - 1 - a.params->has_ends];
    if (a.params->has_ends)
        a.ends = &call->in[call->n_inputs - 1];
    if (codes) {
        a.bits = k->shape.at[3] == a.D ? 8 : 4;
        a.Dv = a.Dv * 8 / a.bits;
    }
    a.G = a.Hk > 0 ? a.H / a.Hk : 1;
    int64_t most = a.G > 0 && a.G < rows ? rows / a.G : 1;
    a.n_blocks = (a.L + most - 1) / most;
    a.block = a.n_blocks > 0 ? (a.L + a.n_blocks - 1) / a.n_blocks : 1;
    a.stripe = a.G < ATTENTION_STRIPE ? ATTENTION_STRIPE / a.G : 1;
    a.parts = parts_of(&a, parts);
    if (a.parts)
        a.stripe = part_stripe(&a);
    if (a.stripe > a.block)
        a.stripe = a.block;
    a.D_ld = padded(a.D);
    a.Dv_ld = padded(a.Dv);
    return a;
}

static int64_t length_of(const cpu_attention *a, int64_t b)
{
    if (a->lengths == NULL)
        return a->S;
    const int64_t length = a->lengths[b * a->lengths_step];
    return length < 0 ? 0 : length < a->S ? length : a->S;
}

void weft__cpu_attention_cut(cpu_attention *a, const weft_tensor *lengths)
{
    a->lengths = lengths->data;
    a->lengths_step = a->B > 1 ? lengths->strides[0] : 0;
    int64_t longest = 0;
    for (int64_t b = 0; b < a->B; b++)
        longest = length_of(a, b) > longest ? length_of(a, b) : longest;
    a->S = longest;
}

static int64_t bound_of(const weft_tensor *bounds, int64_t b, int64_t l)
{
    return ((const int32_t *)bounds->data)[b * bounds->strides[0] + l * bounds->strides[1]];
}

/* Without `ends`: *to does not fall from query to query. */
static void sees(const cpu_attention *a, int64_t b, int64_t l, int64_t *from, int64_t *to)
{
    const int64_t S = length_of(a, b), window = a->window;
    const int64_t own = l + (a->params->causal ? S - a->L : a->own); /* the query's own key */
    *from = 0;
    *to = S;
    if (a->params->causal)
        *to = smaller(*to, larger(own + 1, 0));
    if (window > 0) {
        *from = larger(own - window + 1, 0);
        *to = smaller(*to, larger(own + window, 0));
    }
    if (a->first)
        *from = larger(*from, bound_of(a->first, b, l));
}

void weft__cpu_attention_sees(const cpu_attention *a, int64_t b, int64_t l, int64_t *from,
                              int64_t *to)
{
    sees(a, b, l, from, to);
    if (a->ends)
        *to = smaller(*to, larger(bound_of(a->ends, b, l), 0));
}

void weft__cpu_attention_sees_any(const cpu_attention *a, int64_t b, int64_t l0, int64_t n,
                                  int64_t *from, int64_t *to)
{
    int64_t least, most;
    weft__cpu_attention_sees(a, b, l0, from, to);
    weft__cpu_attention_sees(a, b, l0 + n - 1, &least, &most);
    *to = larger(*to, most);
    for (int64_t l = l0 + 1; (a->first || a->ends) && l < l0 + n; l++) {
        weft__cpu_attention_sees(a, b, l, &least, &most);
        *from = smaller(*from, least);
        *to = larger(*to, most);
    }
}

int64_t weft__cpu_attention_keys(const cpu_attention *a, int64_t b, int64_t l, int64_t s0,
                                 int64_t n)
{
    int64_t from, to;
    sees(a, b, l, &from, &to);
    to = to > s0 ? (to - s0 + ATTENTION_STRIPE - 1) / ATTENTION_STRIPE * ATTENTION_STRIPE : 0;
    return to < n ? to : n;
}

int64_t weft__cpu_attention_run_end(const cpu_attention *a, int64_t b, int64_t l, int64_t end)
{
    int64_t from, to, before;
    if (a->first == NULL)
        return end;
    weft__cpu_attention_sees(a, b, l, &from, &before);
    for (l++; l < end; l++, before = to) {
        weft__cpu_attention_sees(a, b, l, &from, &to);
        if (from >= before)
            break;
    }
    return l;
}

static int64_t page_of(const cpu_attention *a, int64_t b, int64_t i)
{
    return ((const int32_t *)a->pages->data)[b * a->pages->strides[0] + i * a->pages->strides[1]];
}

const char *weft__cpu_attention_row(const cpu_attention *a, const weft_tensor *x, int64_t b,
                                    int64_t i, int64_t h)
{
    if (a->pages && x != a->q) {
        const int64_t page = x->shape.at[1];
        b = page_of(a, b, i / page);
        i %= page;
    }
    int64_t offset = b * x->strides[0] + i * x->strides[1] + h * x->strides[2];
    return (const char *)x->data + offset * (int64_t)weft_dtype_size(x->dtype);
}

int64_t weft__cpu_attention_run(const cpu_attention *a, int64_t s0, int64_t n)
{
    const int64_t page = a->k->shape.at[1];
    return a->pages ? smaller(n, page - s0 % page) : n;
}

void weft__cpu_attention_load(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t l0,
                              int64_t n_l, int64_t h0, int64_t n_h, float factor, float *out,
                              int64_t ld)
{
    const int64_t width = x->shape.at[3];
    for (int64_t l = l0; l < l0 + n_l; l++) {
        for (int64_t h = h0; h < h0 + n_h; h++, out += ld) {
            a->kernels->decode(x->dtype, weft__cpu_attention_row(a, x, b, l, h), out, width);
            if (factor != 1)
                a->kernels->scale_row(out, width, factor);
            for (int64_t i = width; i < ld; i++)
                out[i] = 0;
        }
    }
}

void weft__cpu_attention_mask(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t s0,
                              int64_t n, float *out)
{
    const weft_tensor *m = a->mask;
    const int64_t at[4] = {b, h, l, s0};
    int64_t offset = 0;
    for (int i = 0; i < 4; i++)
        offset += m->shape.at[i] == 1 ? 0 : at[i] * m->strides[i];
    const int64_t step = m->shape.at[3] == 1 ? 0 : m->strides[3];
    const char *data = (const char *)m->data + offset * (int64_t)weft_dtype_size(m->dtype);
    if (m->dtype == WEFT_BOOL) {
        for (int64_t j = 0; j < n; j++)
            out[j] = data[j * step] ? 0.0f : -INFINITY;
    } else if (step == 1) {
        a->kernels->decode(m->dtype, data, out, n);
    } else {
        for (int64_t j = 0; j < n; j++)
            a->kernels->decode(m->dtype, data + j * step * (int64_t)weft_dtype_size(m->dtype),
                               out + j, 1);
    }
}

cpu_kv_codes weft__cpu_attention_codes_at(const cpu_attention *a, const weft_tensor *x, int64_t b,
                                          int64_t s0, int64_t hk)
{
    const weft_tensor *steps = x + 1, *least = x + 2;
    const int64_t width = x->shape.at[3] * 8 / a->bits;
    return (cpu_kv_codes){.bits = a->bits,
                          .width = width,
                          .group = width / steps->shape.at[3],
                          .codes = (const uint8_t *)weft__cpu_attention_row(a, x, b, s0, hk),
                          .steps = (const float *)weft__cpu_attention_row(a, steps, b, s0, hk),
                          .least = (const float *)weft__cpu_attention_row(a, least, b, s0, hk),
                          .code_row = x->strides[1],
                          .step_row = steps->strides[1],
                          .least_row = least->strides[1]};
}

void weft__cpu_attention_pack(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t s0,
                              int64_t n, int64_t hk, float *out)
{
    a->kernels->pack_b(x->dtype, weft__cpu_attention_row(a, x, b, s0, hk), 1, x->strides[1],
                       x->shape.at[3], n, out);
}

int64_t weft__cpu_attention_depth(const cpu_attention *a, int64_t k)
{
    const int64_t step = a->kernels->parts.step;
    return (k + step - 1) / step * step / 2;
}

void weft__cpu_attention_pack_a(const cpu_attention *a, int parts, const float *x, int64_t ld,
                                int64_t rows, int64_t k, float *out)
{
    a->kernels->parts.pack_a(WEFT_FLOAT32, parts, x, ld, 1, rows, k, out);
}

void weft__cpu_attention_pack_across(const cpu_attention *a, const float *x, int64_t ld,
                                     int64_t rows, int64_t k, float *out)
{
    a->kernels->parts.pack_a(WEFT_FLOAT32, 1, x, 1, ld, rows, k, out);
}

void weft__cpu_attention_pack_b(const cpu_attention *a, const weft_tensor *x, int64_t b, int64_t s0,
                                int64_t n, int64_t hk, bool across, float *out)
{
    const int64_t width = x->shape.at[3], row = x->strides[1];
    a->kernels->parts.pack_b(x->dtype, 1, weft__cpu_attention_row(a, x, b, s0, hk),
                             across ? 1 : row, across ? row : 1, across ? width : n,
                             across ? n : width, out);
}

void weft__cpu_attention_multiply(const cpu_attention *a, const cpu_attention_product *p)
{
    const int64_t width = a->kernels->parts.width;
    const int a_parts = p->a_parts ? p->a_parts : 1, b_parts = p->b_parts ? p->b_parts : 1;
    const cpu_block block = {.m = p->m,
                             .n = p->n,
                             .k = p->k,
                             .a = p->a,
                             .a_panel = width * a_parts * weft__cpu_attention_depth(a, p->k),
                             .b = p->b,
                             .b_panel = width * b_parts * weft__cpu_attention_depth(a, p->b_k),
                             .c = p->c,
                             .c_row = p->c_row,
                             .add = p->add,
                             .a_parts = a_parts,
                             .b_parts = b_parts,
                             .orders = a_parts + b_parts > 3 ? 3 : 2};
    a->kernels->parts.block(&block);
}

bool weft__cpu_attention_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (!weft__cpu_narrow(call->in[i].dtype) && call->in[i].dtype != WEFT_BOOL &&
            call->in[i].dtype != WEFT_INT32)
            return false;
    return call->in[0].shape.at[3] > 0;
}

bool weft__cpu_attention_codes_fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        const weft_dtype dtype = call->in[i].dtype;
        if (!weft__cpu_narrow(dtype) && dtype != WEFT_BOOL && dtype != WEFT_INT32 &&
            dtype != WEFT_UINT8)
            return false;
    }
    return call->in[0].shape.at[3] > 0 && call->in[4].shape.at[3] > 0;
}

bool weft__cpu_attention_pages_fits(const weft_call *call)
{
    return call->in[1].dtype == WEFT_UINT8 ? weft__cpu_attention_codes_fits(call)
                                           : weft__cpu_attention_fits(call);
}

bool weft__cpu_attention_has_pages(const cpu_attention *a)
{
    const int64_t n = a->k->shape.at[0];
    bool there = true;
    for (int64_t b = 0; a->pages && b < a->B; b++) {
        for (int64_t i = 0; i < a->pages->shape.at[1]; i++)
            there = there && page_of(a, b, i) >= 0 && page_of(a, b, i) < n;
    }
    return there;
}
