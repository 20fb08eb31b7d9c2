/* backends/vulkan/kernels/quantized.c -- kernels for quantized matrices: products that decode while
 * loading, and decoding of rows. */
#include "backends/vulkan/kernels/quantized.h"
#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/product.h"
#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 256, NO_INDEX = 255, GATHER_LANES = 32, GATHER_THREADS = 128, SUPERBLOCK = 256 };

/* With at least this many rows, a matrix of at most so many bytes is decoded to 16 bits first, for
 * matrix cores. */
enum { DECODED_ROWS = 256, DECODED_ROOM = 512 << 20 };

/* codes.glsl */
typedef struct codes_record {
    uint64_t codes, scales, biases;
    uint32_t code_group, code_row, scale_group, scale_row;
} codes_record;

/* A quantized matrix as the shaders describe it. */
typedef struct coded {
    codes_record record;
    uint32_t format;
    int64_t rows, width;
} coded;

static uint32_t format_of(int64_t kind, int64_t bits, int64_t group, weft_dtype scale)
{
    return (uint32_t)(kind | bits << 8 | group << 12 | (int64_t)scale << 24);
}

static uint64_t address_of(const weft_tensor *t)
{
    return t->buffer ? weft__vulkan_address(t) : 0;
}

/* An encoded tensor; the rows of all its matrices are numbered consecutively. Blocks of GGUF types
 * are at `codes`. */
static coded coded_of_encoded(const weft_tensor *t)
{
    const weft_encoding *e = t->encoding;
    const int64_t width = t->shape.at[t->shape.n - 1];
    const uint32_t block = (uint32_t)e->block_bytes;
    const bool parts = weft_encoding_has_parts(e->kind);
    const uint64_t at = address_of(t);
    const uint64_t codes = parts ? (uint64_t)(e->block_bytes - e->block * e->bits / 8) : 0;
    const uint64_t bias = e->kind == WEFT_ENCODING_AFFINE ? weft_dtype_size(e->scale) : 0;
    uint32_t row = (uint32_t)(width / e->block) * block;
    return (coded){.record = {.codes = at + codes,
                              .scales = at,
                              .biases = at + bias,
                              .code_group = block,
                              .code_row = row,
                              .scale_group = block,
                              .scale_row = row},
                   .format = format_of((int64_t)e->kind, e->bits, e->block, e->scale),
                   .rows = width ? weft_tensor_size(t) / width : 0,
                   .width = width};
}

/* Matrix `index` of separate tensors. */
static coded coded_apart(const weft_quantized_params *p, const weft_tensor *tensors, int64_t index)
{
    const weft_dims *shape = &tensors[1].shape;
    const int64_t groups = shape->at[shape->n - 1], rows = shape->at[shape->n - 2];
    const uint32_t size = (uint32_t)weft_dtype_size(tensors[1].dtype);
    codes_record r = {.code_group = (uint32_t)(p->group * p->bits / 8), .scale_group = size};
    r.code_row = (uint32_t)groups * r.code_group;
    r.scale_row = (uint32_t)groups * size;
    r.codes = address_of(&tensors[0]) + (uint64_t)(index * rows) * r.code_row;
    r.scales = address_of(&tensors[1]) + (uint64_t)(index * rows) * r.scale_row;
    if (p->mode == WEFT_ENCODING_AFFINE) {
        r.biases = address_of(&tensors[2]) + (uint64_t)(index * rows) * r.scale_row;
    }
    int64_t width = groups * p->group;
    return (coded){.record = r,
                   .format = format_of(p->mode, p->bits, p->group, tensors[1].dtype),
                   .rows = width ? weft_tensor_size(&tensors[1]) / groups : 0,
                   .width = width};
}

static bool narrow(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
}

/* Checks all operands except the encoded one, which must be of a kind that codes.glsl supports. */
static bool fits(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const weft_tensor *t = i < call->n_inputs ? &call->in[i] : &call->out[i - call->n_inputs];
        if (weft_tensor_size(t) > INT32_MAX ||
            (t->encoding && t->encoding->kind == WEFT_ENCODING_OTHER)) {
            return false;
        }
    }
    return true;
}

/* ---- Decoding ------------------------------------------------------------------------------- */

typedef struct decoding {
    const weft_tensor *indices; /* row indices; NULL: all rows */
    uint64_t to;
    weft_dtype dtype, rounded; /* product and sum with scale and bias are rounded to `rounded` */
    int64_t count;             /* elements */
    bool packed;               /* groups of four 16-bit elements at `to` are aligned */
} decoding;

/* Vectors of four elements that an invocation decodes: more where scales are packed, as in the
 * blocks of 256, since the elements share one. */
static uint32_t fours_of(const coded *w, const decoding *d)
{
    if (!d->packed || w->width % 8 != 0 || d->to % 16 != 0) {
        return 1;
    }
    return (w->format >> 12 & 4095) == SUPERBLOCK ? 4 : 2;
}

static weft_status decode(const weft_call *call, const coded *w, const decoding *d)
{
    const uint32_t fours = fours_of(w, d);
    struct {
        uint64_t w, indices, to, fault;
        uint32_t fault_code, count, width, extent;
    } push = {.w = weft__vulkan_record(call, &w->record, sizeof w->record),
              .indices = d->indices ? weft__vulkan_address(d->indices) : 0,
              .to = d->to,
              .fault = weft__vulkan_fault(call),
              .fault_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, w->rows),
              .count = (uint32_t)(d->count / (4 * fours)),
              .width = (uint32_t)(w->width / (4 * fours)),
              .extent = (uint32_t)w->rows};
    weft__vulkan_launch launch = {
        .shader = &weft__shader_codes_rows,
        .n_constants = 6,
        .constants = {w->format, (uint32_t)d->dtype,
                      d->indices ? (uint32_t)d->indices->dtype : (uint32_t)NO_INDEX,
                      (uint32_t)d->rounded, d->packed, fours},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(push.count, GROUP),
        .work = 64.0 * (double)d->count};
    return push.w ? weft__vulkan_dispatch(call, &launch) : weft_error_status();
}

bool weft__vulkan_decodes(const weft_tensor *t)
{
    return t->encoding && t->encoding->kind != WEFT_ENCODING_OTHER;
}

weft_status weft__vulkan_decode_rows(const weft_call *call, const weft_tensor *t, int64_t first,
                                     int64_t rows, weft_dtype dtype, uint64_t to)
{
    coded w = coded_of_encoded(t);
    w.record.codes += (uint64_t)first * w.record.code_row;
    w.record.scales += (uint64_t)first * w.record.scale_row;
    w.record.biases += (uint64_t)first * w.record.scale_row;
    w.rows = rows;
    const decoding d = {.to = to,
                        .dtype = dtype,
                        .rounded = WEFT_FLOAT32,
                        .count = rows * w.width,
                        .packed = weft_dtype_size(dtype) == 2};
    return decode(call, &w, &d);
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Whether blocks begin at a multiple of 16 bytes or, of affine codes, each group is scale and bias
 * in one word and whole words of codes. */
static bool is_aligned(const coded *w)
{
    const codes_record *r = &w->record;
    if ((w->format & 255) != WEFT_ENCODING_AFFINE) {
        return r->codes % 16 == 0;
    }
    return r->biases == r->scales + 2 && (r->codes | r->scales) % 4 == 0 &&
           (r->code_group | r->code_row | r->scale_group | r->scale_row) % 4 == 0;
}

/* x (m, terms) times w or its transpose. */
static weft__vulkan_product product_of(const coded *w, bool transposed, const weft_tensor *x,
                                       const weft_tensor *y, int64_t m, int64_t x_row)
{
    return (weft__vulkan_product){
        .rows = m,
        .columns = transposed ? w->rows : w->width,
        .terms = transposed ? w->width : w->rows,
        .sizes = {1, 1, 1, 1},
        .a = {.dtype = x->dtype, .address = address_of(x), .outer = x_row, .term = 1},
        .b = {.dtype = WEFT_FLOAT32,
              .format = w->format,
              .aligned = is_aligned(w),
              .outer = transposed ? w->width : 1,
              .term = transposed ? 1 : w->width},
        .y_dtype = y->dtype,
        .y = address_of(y)};
}

static weft_status run(const weft_call *call, weft__vulkan_product *p, const coded *w)
{
    p->b.address = weft__vulkan_record(call, &w->record, sizeof w->record);
    return p->b.address ? weft__vulkan_product_run(call, p, weft__vulkan_workspace(call))
                        : weft_error_status();
}

static weft__vulkan_product product_of_linear(const weft_call *call, const coded *w)
{
    const weft_linear_params *params = call->params;
    const weft_tensor *x = &call->in[0];
    int64_t terms = x->shape.at[x->shape.n - 1];
    weft__vulkan_product p = product_of(w, !params->transposed, x, &call->out[0],
                                        terms ? weft_tensor_size(x) / terms : 0, terms);
    if (weft__vulkan_own_inputs(call) > 2) {
        p.has_bias = true;
        p.bias_dtype = call->in[2].dtype;
        p.bias = address_of(&call->in[2]);
        p.bias_stride = 1;
    }
    return p;
}

/* Bytes of the matrix in 16 bits; 0: it is decoded while the product loads it. */
static int64_t decoded_bytes(const weft_call *call, const weft__vulkan_product *p, const coded *w)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const int64_t bytes = (w->rows * w->width * 2 + 63) / 64 * 64;
    return cores && weft__vulkan_cores_multiply(cores, p->a.dtype) && p->rows >= DECODED_ROWS &&
                   bytes <= DECODED_ROOM && w->width % 8 == 0
               ? bytes
               : 0;
}

/* The product with the decoded matrix at `address`. */
static weft__vulkan_product with_decoded(const weft__vulkan_product *p, uint64_t address)
{
    weft__vulkan_product decoded = *p;
    decoded.b.format = 0;
    decoded.b.dtype = p->a.dtype;
    decoded.b.address = address;
    return decoded;
}

static bool linear_fits(const weft_call *call)
{
    return call->in[1].encoding && fits(call) && narrow(call->in[0].dtype) &&
           narrow(call->out[0].dtype) && (call->n_inputs < 3 || narrow(call->in[2].dtype));
}

/* The second matrix of an epilogue. */
static coded twin_of(const weft_call *call)
{
    return coded_of_encoded(&call->in[1 + weft__vulkan_own_inputs(call)]);
}

static bool linear_takes_epilogue(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[1]);
    weft__vulkan_product p = product_of_linear(call, &w);
    if (call->epilogue->n_results == 2) {
        const coded twin = twin_of(call);
        if (twin.format != w.format || twin.width != w.width || twin.rows != w.rows) {
            return false;
        }
    }
    return weft__vulkan_product_takes(call, &p);
}

static bool linear_takes_prologue(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[1]);
    const weft__vulkan_product p = product_of_linear(call, &w);
    return weft__vulkan_product_takes_norm(call, &p);
}

static int64_t linear_workspace(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[1]);
    weft__vulkan_product p = product_of_linear(call, &w);
    const int64_t bytes = decoded_bytes(call, &p, &w);
    if (bytes > 0) {
        p = with_decoded(&p, 0);
    }
    return bytes + weft__vulkan_product_workspace(call, &p);
}

/* Decodes as it loads. */
static weft_status run_linear(const weft_call *call, weft__vulkan_product *p, const coded *w)
{
    uint64_t twin = 0;
    if (call->epilogue && call->epilogue->n_results == 2) {
        const coded second = twin_of(call);
        twin = weft__vulkan_record(call, &second.record, sizeof second.record);
        p->b.aligned = p->b.aligned && is_aligned(&second);
        if (!twin) {
            return weft_error_status();
        }
    }
    p->b.address = weft__vulkan_record(call, &w->record, sizeof w->record);
    if (!p->b.address) {
        return weft_error_status();
    }
    weft__vulkan_product_join(call, p, twin);
    weft__vulkan_product_normalize(call, p);
    return weft__vulkan_product_run(call, p, weft__vulkan_workspace(call));
}

static weft_status linear(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[1]);
    weft__vulkan_product p = product_of_linear(call, &w);
    const int64_t bytes = decoded_bytes(call, &p, &w);
    if (bytes == 0) {
        return run_linear(call, &p, &w);
    }
    weft__vulkan_product_join(call, &p, 0);
    const uint64_t workspace = weft__vulkan_workspace(call);
    const decoding to = {.to = workspace,
                         .dtype = p.a.dtype,
                         .rounded = WEFT_FLOAT32,
                         .count = w.rows * w.width,
                         .packed = true};
    const weft_status status = decode(call, &w, &to);
    p = with_decoded(&p, workspace);
    return status == WEFT_OK ? weft__vulkan_product_run(call, &p, workspace + (uint64_t)bytes)
                             : status;
}

/* Pair j of x and w, whose matrices are contiguous. */
static weft__vulkan_product product_of_pair(const weft_call *call, int64_t j, coded *w)
{
    const weft_quantized_params *params = call->params;
    const weft_tensor *x = &call->in[0], *y = &call->out[0];
    const int64_t M = x->shape.at[1], T = x->shape.at[2], C = y->shape.at[2];
    const int64_t size = (int64_t)weft_dtype_size(x->dtype);
    *w = coded_apart(params, call->in + 1, call->in[2].shape.at[0] == 1 ? 0 : j);
    w->rows = call->in[2].shape.at[1];
    weft__vulkan_product p = product_of(w, params->transposed, x, y, M, T);
    p.a.address += (uint64_t)(j * M * T * size);
    p.y += (uint64_t)(j * M * C * size);
    return p;
}

static bool matmul_fits(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    return !p->gathered && fits(call) && narrow(call->in[0].dtype) &&
           (p->mode != WEFT_ENCODING_AFFINE || narrow(call->in[2].dtype));
}

static int64_t matmul_workspace(const weft_call *call)
{
    coded w;
    weft__vulkan_product p = product_of_pair(call, 0, &w);
    return weft__vulkan_product_workspace(call, &p);
}

static weft_status matmul(const weft_call *call)
{
    weft_status status = WEFT_OK;
    for (int64_t j = 0; j < call->out[0].shape.at[0] && status == WEFT_OK; j++) {
        coded w;
        weft__vulkan_product p = product_of_pair(call, j, &w);
        status = run(call, &p, &w);
    }
    return status;
}

/* ---- Products with selected matrices --------------------------------------------------------- */

/* x (A, M, K), or (A, K) with M = 1, times the matrices of (B, N, K) that the last two inputs
 * select. */
static weft_status run_gather(const weft_call *call, const coded *w, int64_t matrices)
{
    const weft_tensor *x = &call->in[0], *y = &call->out[0];
    const weft_tensor *lhs = &call->in[call->n_inputs - 2], *rhs = lhs + 1;
    struct gather_codes_push {
        uint64_t a, lhs, rhs, y, b, fault;
        uint32_t a_code, b_code;
        int32_t a_length, b_length;
        uint32_t count, rows, columns, terms, first_group;
    } push = {.a = address_of(x),
              .lhs = address_of(lhs),
              .rhs = address_of(rhs),
              .y = address_of(y),
              .b = weft__vulkan_record(call, &w->record, sizeof w->record),
              .fault = weft__vulkan_fault(call),
              .a_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, x->shape.at[0]),
              .b_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, matrices),
              .a_length = (int32_t)x->shape.at[0],
              .b_length = (int32_t)matrices,
              .count = (uint32_t)weft_tensor_size(y),
              .rows = (uint32_t)(y->shape.n > 2 ? y->shape.at[1] : 1),
              .columns = (uint32_t)y->shape.at[y->shape.n - 1],
              .terms = (uint32_t)w->width};
    uint32_t lanes = 1;
    while (lanes < GATHER_LANES && lanes * 8 < push.terms) {
        lanes *= 2;
    }
    weft__vulkan_launch launch = {.shader = &weft__shader_gather_codes,
                                  .n_constants = 5,
                                  .constants = {w->format, (uint32_t)y->dtype, (uint32_t)lhs->dtype,
                                                (uint32_t)rhs->dtype, lanes},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .first_at = offsetof(struct gather_codes_push, first_group),
                                  .groups = weft__vulkan_groups(push.count, GATHER_THREADS / lanes),
                                  .work = 2.0 * push.count * push.terms};
    return push.b ? weft__vulkan_dispatch(call, &launch) : weft_error_status();
}

static bool gather_linear_fits(const weft_call *call)
{
    return call->in[1].encoding && fits(call) && narrow(call->in[0].dtype);
}

static weft_status gather_linear(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[1]);
    return run_gather(call, &w, call->in[1].shape.at[0]);
}

static bool gather_matmul_fits(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    return p->gathered && p->transposed && fits(call) && narrow(call->in[0].dtype) &&
           (p->mode != WEFT_ENCODING_AFFINE || narrow(call->in[2].dtype));
}

static weft_status gather_matmul(const weft_call *call)
{
    coded w = coded_apart(call->params, call->in + 1, 0);
    return run_gather(call, &w, call->in[2].shape.at[0]);
}

/* ---- Decoding rows --------------------------------------------------------------------------- */

static weft_status rows_as_floats(const weft_call *call, const coded *w, const weft_tensor *indices,
                                  weft_dtype rounded)
{
    const weft_tensor *out = &call->out[0];
    const decoding to = {.indices = indices,
                         .to = weft__vulkan_address(out),
                         .dtype = out->dtype,
                         .rounded = rounded,
                         .count = weft_tensor_size(out),
                         .packed = weft_dtype_size(out->dtype) == 2 &&
                                   weft__vulkan_address(out) % 8 == 0};
    return decode(call, w, &to);
}

static bool cast_fits(const weft_call *call)
{
    return call->in[0].encoding && fits(call) && narrow(call->out[0].dtype);
}

static weft_status cast(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[0]);
    return rows_as_floats(call, &w, NULL, WEFT_FLOAT32);
}

static bool take_fits(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return cast_fits(call) && call->in[0].shape.n == 2 && p->axis == -2;
}

static weft_status take(const weft_call *call)
{
    coded w = coded_of_encoded(&call->in[0]);
    return rows_as_floats(call, &w, &call->in[1], WEFT_FLOAT32);
}

static bool dequantize_fits(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    return !p->has_global && fits(call) && narrow(call->out[0].dtype) &&
           (p->mode != WEFT_ENCODING_AFFINE || narrow(call->in[1].dtype));
}

/* Affine mode rounds product and sum to the dtype of the scales. */
static weft_status dequantize(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    coded w = coded_apart(p, call->in, 0);
    weft_dtype scales = call->in[1].dtype;
    return rows_as_floats(call, &w, NULL, p->mode == WEFT_ENCODING_AFFINE ? scales : WEFT_FLOAT32);
}

/* ---- The rows ------------------------------------------------------------------------------- */

static const weft_kernel_row rows[] = {
    {.op = "linear",
     .takes_encoded = 1 << 1,
     .fits = linear_fits,
     .workspace = linear_workspace,
     .kernel = linear,
     .takes_epilogue = linear_takes_epilogue,
     .takes_prologue = linear_takes_prologue},
    {.op = "quantized_matmul",
     .fits = matmul_fits,
     .workspace = matmul_workspace,
     .kernel = matmul},
    {.op = "quantized_matmul", .fits = gather_matmul_fits, .kernel = gather_matmul},
    {.op = "gather_linear",
     .takes_encoded = 1 << 1,
     .fits = gather_linear_fits,
     .kernel = gather_linear},
    {.op = "cast", .takes_encoded = 1 << 0, .fits = cast_fits, .kernel = cast},
    {.op = "take", .takes_encoded = 1 << 0, .fits = take_fits, .kernel = take},
    {.op = "dequantize", .fits = dequantize_fits, .kernel = dequantize},
};

const weft__vulkan_family weft__vulkan_quantized = {rows, sizeof rows / sizeof *rows};
