/* backends/cpu/encoded.c -- encodes and decodes rows: cast and take of encoded arrays, encode,
 * quantize, dequantize. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/quantized.h"
#include "backends/cpu/rows.h"
#include "weft/quantize.h"

enum { GRAIN = 8192 }; /* elements */

/* The data of the tasks. */
typedef struct rows_job {
    const weft_call *call;
    const cpu_kernels *kernels;
    const weft_encoding *encoding;
    cpu_codes codes;
    int64_t width;  /* elements per row */
    int64_t height; /* take: number of rows of the table */
    weft_dtype dtype;
    char *out;
    float *scratch; /* one row per worker */
} rows_job;

static rows_job job_of(const weft_call *call, const weft_tensor *rows)
{
    return (rows_job){.call = call,
                      .kernels = weft__cpu_kernels(),
                      .width = rows->shape.at[rows->shape.n - 1],
                      .dtype = call->out[0].dtype,
                      .out = call->out[0].data,
                      .scratch = call->workspace};
}

static int64_t out_bytes(const rows_job *j)
{
    return j->width * (int64_t)weft_dtype_size(j->dtype);
}

static float *scratch_of(const rows_job *j, int worker)
{
    return j->scratch + worker * weft__cpu_row_room(j->width);
}

static void for_rows(rows_job *j, const weft_tensor *rows, cpu_task *task)
{
    int64_t n = j->width ? weft_tensor_size(rows) / j->width : 0;
    weft__cpu_parallel(n, GRAIN / (j->width + 1), task, j);
}

/* Decodes row `row` of the codes to row `to` of the output. */
static void decode_row(const rows_job *j, int64_t row, int64_t to, int worker)
{
    char *out = j->out + to * out_bytes(j);
    bool plain = j->dtype == WEFT_FLOAT32;
    float *x = plain ? (float *)(void *)out : scratch_of(j, worker);
    j->kernels->decode_codes(&j->codes, row, 0, j->width / j->codes.group, x);
    if (!plain)
        j->kernels->encode(j->dtype, x, out, j->width);
}

int64_t weft__cpu_encoded_workspace(const weft_call *call)
{
    const weft_tensor *rows =
        call->out[0].dtype == WEFT_UINT32 || call->out[0].encoding ? &call->in[0] : &call->out[0];
    int64_t width = rows->shape.at[rows->shape.n - 1];
    if (weft_tensor_size(rows) == 0)
        return 0; /* the row length is free in encodings without it */
    return weft__cpu_workers() * weft__cpu_row_room(width) * (int64_t)sizeof(float);
}

/* ---- cast, take ----------------------------------------------------------------------------- */

bool weft__cpu_cast_encoded_fits(const weft_call *call)
{
    return call->in[0].encoding && weft__cpu_narrow(call->out[0].dtype);
}

static void cast_rows(void *context, int64_t begin, int64_t end, int worker)
{
    for (int64_t row = begin; row < end; row++)
        decode_row(context, row, row, worker);
}

weft_status weft__cpu_cast_encoded(const weft_call *call)
{
    rows_job j = job_of(call, &call->in[0]);
    j.codes = weft__cpu_codes_encoded(&call->in[0]);
    for_rows(&j, &call->in[0], cast_rows);
    return WEFT_OK;
}

bool weft__cpu_take_encoded_fits(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return weft__cpu_cast_encoded_fits(call) && call->in[0].shape.n == 2 && p->axis == -2;
}

static int64_t row_at(const rows_job *j, int64_t i)
{
    int64_t index = weft_tensor_get_int(&j->call->in[1], i);
    return index < 0 && j->call->in[1].dtype != WEFT_UINT64 ? index + j->height : index;
}

static void take_rows(void *context, int64_t begin, int64_t end, int worker)
{
    for (int64_t i = begin; i < end; i++)
        decode_row(context, row_at(context, i), i, worker);
}

weft_status weft__cpu_take_encoded(const weft_call *call)
{
    const weft_tensor *indices = &call->in[1];
    rows_job j = job_of(call, &call->in[0]);
    j.codes = weft__cpu_codes_encoded(&call->in[0]);
    j.height = call->in[0].shape.at[0];
    for (int64_t i = 0; i < weft_tensor_size(indices); i++)
        if (row_at(&j, i) < 0 || row_at(&j, i) >= j.height)
            return weft_fail(
                WEFT_INVALID, "%s: index %lld is out of range for an axis of size %lld",
                call->op->name, (long long)weft_tensor_get_int(indices, i), (long long)j.height);
    for_rows(&j, &call->out[0], take_rows);
    return WEFT_OK;
}

/* ---- encode, quantize ----------------------------------------------------------------------- */

/* A row of the input as float32. */
static const float *float_row(const rows_job *j, int64_t row, int worker)
{
    const weft_tensor *x = &j->call->in[0];
    const char *from = (const char *)x->data + row * j->width * (int64_t)weft_dtype_size(x->dtype);
    if (x->dtype == WEFT_FLOAT32)
        return (const float *)(const void *)from;
    j->kernels->decode(x->dtype, from, scratch_of(j, worker), j->width);
    return scratch_of(j, worker);
}

static void encode_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = context;
    const weft_encoding *e = j->encoding;
    const int64_t bytes = weft_encoding_bytes(e, j->width);
    for (int64_t row = begin; row < end; row++)
        e->encode(e, float_row(j, row, worker), j->width, j->out + row * bytes);
}

weft_status weft__cpu_encode(const weft_call *call)
{
    rows_job j = job_of(call, &call->in[0]);
    j.encoding = call->out[0].encoding;
    for_rows(&j, &call->in[0], encode_rows);
    return WEFT_OK;
}

bool weft__cpu_quantize_fits(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    return !p->has_global;
}

static void quantize_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = context;
    const weft_encoding *e = j->encoding;
    const weft_tensor *out = j->call->out;
    const int64_t groups = j->width / e->block, codes = e->block * e->bits / 8;
    const size_t scale = weft_dtype_size(out[1].dtype);
    for (int64_t row = begin; row < end; row++) {
        const float *x = float_row(j, row, worker);
        for (int64_t g = 0; g < groups; g++) {
            char block[WEFT_MAX_BLOCK + 16];
            int64_t at = row * groups + g;
            e->encode(e, x + g * e->block, e->block, block);
            memcpy((char *)out[1].data + at * (int64_t)scale, block, scale);
            if (j->call->n_outputs > 2)
                memcpy((char *)out[2].data + at * (int64_t)scale, block + scale, scale);
            memcpy((char *)out[0].data + at * codes, block + e->block_bytes - codes, (size_t)codes);
        }
    }
}

weft_status weft__cpu_quantize(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    rows_job j = job_of(call, &call->in[0]);
    /* Encodes with the blocks split into separate tensors. */
    j.encoding =
        weft_encoding_of_kind((weft_encoding_kind)p->mode, p->bits, p->group, call->in[0].dtype);
    for_rows(&j, &call->in[0], quantize_rows);
    return WEFT_OK;
}

/* ---- dequantize ----------------------------------------------------------------------------- */

bool weft__cpu_dequantize_fits(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    return !p->has_global && weft__cpu_narrow(call->out[0].dtype) &&
           (p->mode != WEFT_ENCODING_AFFINE || weft__cpu_narrow(call->in[1].dtype));
}

/* For 16-bit scales, product and sum are rounded separately. */
static void round_groups(const rows_job *j, int64_t row, float *x)
{
    const weft_tensor *scales = &j->call->in[1], *biases = &j->call->in[2];
    const int64_t group = j->codes.group, groups = j->width / group;
    for (int64_t g = 0; g < groups; g++, x += group) {
        uint16_t half[WEFT_MAX_BLOCK];
        float scale = (float)weft_tensor_get(scales, row * groups + g);
        float bias = (float)weft_tensor_get(biases, row * groups + g);
        for (int64_t i = 0; i < group; i++)
            x[i] *= scale;
        j->kernels->encode(scales->dtype, x, half, group);
        j->kernels->decode(scales->dtype, half, x, group);
        for (int64_t i = 0; i < group; i++)
            x[i] += bias;
        j->kernels->encode(scales->dtype, x, half, group);
        j->kernels->decode(scales->dtype, half, x, group);
    }
}

static void dequantize_rows(void *context, int64_t begin, int64_t end, int worker)
{
    static const float one = 1, zero = 0;
    const rows_job *j = context;
    cpu_codes whole = j->codes; /* the codes of the whole matrix */
    whole.scale = WEFT_FLOAT32;
    whole.scales = (const char *)&one;
    whole.biases = (const char *)&zero;
    whole.scale_group = whole.scale_row = 0;
    bool rounds = j->codes.kind == WEFT_ENCODING_AFFINE && j->codes.scale != WEFT_FLOAT32;
    for (int64_t row = begin; row < end; row++) {
        if (!rounds) {
            decode_row(j, row, row, worker);
            continue;
        }
        float *x = scratch_of(j, worker);
        j->kernels->decode_codes(&whole, row, 0, j->width / whole.group, x);
        round_groups(j, row, x);
        j->kernels->encode(j->dtype, x, j->out + row * out_bytes(j), j->width);
    }
}

weft_status weft__cpu_dequantize(const weft_call *call)
{
    rows_job j = job_of(call, &call->out[0]);
    j.codes = weft__cpu_codes_apart(call->params, call->in, 0);
    for_rows(&j, &call->out[0], dequantize_rows);
    return WEFT_OK;
}
