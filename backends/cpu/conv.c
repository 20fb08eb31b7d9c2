/* backends/cpu/conv.c -- convolutions as matrix products: rows of x are gathered per tile, the
 * weight is packed in panels.
 *
 * A tile's rows are gathered for some of the terms at a time and stay in the L2 cache, so the
 * memory needed does not grow with the kernel's size. The work is divided by shape only.
 */
#include "backends/cpu/conv.h"

#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

enum {
    K_BLOCK = 512,              /* terms per piece */
    ROW_PANELS = 8,             /* panels of rows in a tile */
    TILE_COLUMNS = 512,         /* columns of the largest tile */
    PACKED_FLOATS = 2 << 20,    /* packed floats of the weight at a time */
    ENOUGH_TILES = 16,          /* tiles sufficient for load balance */
    SMALL_TILE_FLOPS = 2 << 20, /* tiles smaller than this are not divided further */
    PACK_GRAIN = 32768          /* floats packed per task */
};

/* How a part is divided, and the state of the running pass. */
typedef struct plan {
    cpu_conv conv;
    cpu_conv_part part;
    const cpu_kernels *kernels;
    const void *x, *weight;
    char *y;
    int64_t merged;                 /* groups of the call that one group of the plan merges */
    bool own_c;                     /* tiles of y are computed in separate memory first */
    int64_t terms, pieces;          /* of the part */
    int64_t pass_groups, columns;   /* of a pass: several whole groups, or columns of one */
    int64_t tile_m, tile_n, pitch;  /* pitch: row stride of the gathered rows */
    int64_t packed, rows_a, rows_c; /* in floats: shared; per worker */
    float *memory;
    int64_t first_group, first_column, groups, width; /* of the running pass */
} plan;

/* ---- Planning ------------------------------------------------------------------------------- */

/* A matrix product with x as it is: every output uses one element, in order. */
static bool is_product(const cpu_conv *conv)
{
    bool plain = conv->groups == 1;
    for (int axis = 0; axis < CPU_CONV_AXES; axis++)
        plain = plain && conv->kernel[axis] == 1 && conv->stride[axis] == 1 &&
                conv->low[axis] == 0 && conv->input_dilation[axis] == 1 &&
                conv->in[axis] == conv->out[axis];
    return plain;
}

static cpu_gemm product_of(const weft_call *call, const cpu_conv *conv)
{
    int64_t rows = conv->N * conv->in[0] * conv->in[1] * conv->in[2];
    return (cpu_gemm){.m = rows,
                      .n = conv->O,
                      .k = conv->C,
                      .a = {conv->dtype, call->in[0].data, .row = conv->C, .column = 1},
                      .b = {conv->dtype, call->in[1].data, .row = 1, .column = conv->C},
                      .c_dtype = conv->dtype,
                      .c = call->out[0].data};
}

/* Small groups are merged until they fill a panel's columns; the weight is zero outside of its
 * blocks. This costs as much arithmetic as mostly empty panels, but fewer and longer rows of x are
 * gathered. */
static void merge_groups(plan *p)
{
    cpu_conv *c = &p->conv;
    p->merged = 1;
    for (int64_t n = 2; n <= c->groups && n * c->outputs <= p->kernels->gemm_columns; n++)
        p->merged = c->groups % n == 0 ? n : p->merged;
    c->groups /= p->merged;
    c->channels *= p->merged;
    c->outputs *= p->merged;
}

static void choose_tiles(plan *p)
{
    const int64_t rows = p->kernels->gemm_rows, width = p->kernels->gemm_columns;
    const int64_t M = larger(p->part.rows, 1);
    int64_t tiles_m = ceil_div(M, rows * ROW_PANELS), tiles_n = ceil_div(p->columns, TILE_COLUMNS);
    for (;;) {
        p->tile_m = round_up(ceil_div(M, tiles_m), rows);
        p->tile_n = round_up(ceil_div(p->columns, tiles_n), width);
        int64_t flops = 2 * p->tile_m * p->tile_n * p->terms;
        if (tiles_m * tiles_n * p->pass_groups >= ENOUGH_TILES || flops < 2 * SMALL_TILE_FLOPS)
            break;
        if (p->tile_n > p->tile_m && p->tile_n > width)
            tiles_n *= 2;
        else if (p->tile_m > rows)
            tiles_m *= 2;
        else
            break;
    }
}

static void make_part(plan *p, int64_t phase)
{
    const int64_t width = p->kernels->gemm_columns;
    weft__cpu_conv_part_of(&p->conv, phase, &p->part);
    p->terms = p->part.taps * p->conv.channels;
    p->pieces = weft__cpu_conv_pieces(&p->part, K_BLOCK);
    int64_t padded = round_up(larger(p->conv.outputs, 1), width), k = larger(p->terms, 1);
    p->columns = smaller(padded, larger(PACKED_FLOATS / k / width * width, width));
    p->pass_groups = p->columns < padded ? 1 : smaller(p->conv.groups, PACKED_FLOATS / k / padded);
    p->pass_groups = larger(p->pass_groups, 1);
    choose_tiles(p);
    cpu_conv_terms piece = {0};
    int64_t most = 0;
    for (int64_t i = 0; i < smaller(p->pieces, 2); i++) {
        piece = weft__cpu_conv_piece(&p->part, K_BLOCK, i);
        most = larger(most, weft__cpu_conv_terms_count(&piece));
    }
    p->pitch = round_up(most, 16) + 16; /* avoids that rows share cache sets */
    p->own_c = p->conv.dtype != WEFT_FLOAT32 || !p->part.dense;
    p->packed = p->pass_groups * p->columns * p->terms;
    p->rows_a = p->tile_m * p->pitch;
    p->rows_c = p->own_c ? round_up(p->tile_m * p->tile_n, 16) : 0;
}

static int64_t floats_of(const plan *p)
{
    return round_up(p->packed, 16) + weft__cpu_workers() * (p->rows_a + p->rows_c);
}

bool weft__cpu_conv_fits(const weft_call *call)
{
    return weft__cpu_narrow(call->in[0].dtype);
}

int64_t weft__cpu_conv_workspace(const weft_call *call)
{
    plan p = {.kernels = weft__cpu_kernels()};
    weft__cpu_conv_sizes(call, false, &p.conv);
    if (is_product(&p.conv)) {
        cpu_gemm g = product_of(call, &p.conv);
        return weft__cpu_gemm_workspace(&g);
    }
    int64_t most = 0;
    merge_groups(&p);
    for (int64_t phase = 0; phase < weft__cpu_conv_phases(&p.conv); phase++) {
        make_part(&p, phase);
        most = larger(most, floats_of(&p));
    }
    return most * (int64_t)sizeof(float);
}

/* ---- Packing the weight --------------------------------------------------------------------- */

/* Packs a panel of merged groups: each column has only the channels of its own group. */
static void pack_merged(const plan *p, int64_t group, int64_t column, float *out)
{
    const cpu_conv *c = &p->conv;
    const int64_t width = p->kernels->gemm_columns, size = (int64_t)weft_dtype_size(c->dtype);
    const int64_t channels = c->channels / p->merged, outputs = c->outputs / p->merged;
    const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    memset(out, 0, (size_t)(p->terms * width) * sizeof *out);
    for (int64_t j = 0; j < width && column + j < c->outputs; j++) {
        const int64_t own = (column + j) / outputs * channels;
        const char *from =
            (const char *)p->weight + (group * c->outputs + column + j) * taps * channels * size;
        for (int64_t tap = 0; tap < p->part.taps; tap++) {
            const int64_t place = weft__cpu_conv_tap(&p->part, tap) * channels;
            float *to = out + (tap * c->channels + own) * width + j;
            for (int64_t k = 0; k < channels; k++)
                p->kernels->decode(c->dtype, from + (place + k) * size, to + k * width, 1);
        }
    }
}

static void pack_panel(const plan *p, int64_t group, int64_t column, float *out)
{
    const cpu_conv *c = &p->conv;
    const int64_t width = p->kernels->gemm_columns, size = (int64_t)weft_dtype_size(c->dtype);
    int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2], row = taps * c->channels;
    int64_t n = smaller(width, c->outputs - column);
    const char *from = (const char *)p->weight + (group * c->outputs + column) * row * size;
    if (p->merged > 1) {
        pack_merged(p, group, column, out);
        return;
    }
    if (p->part.taps == taps && !c->flip) { /* all taps, in order */
        p->kernels->pack_b(c->dtype, from, 1, row, row, n, out);
        return;
    }
    for (int64_t tap = 0; tap < p->part.taps; tap++) {
        int64_t place = weft__cpu_conv_tap(&p->part, tap) * c->channels;
        p->kernels->pack_b(c->dtype, from + place * size, 1, row, c->channels, n,
                           out + tap * c->channels * width);
    }
}

static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t width = p->kernels->gemm_columns, panels = ceil_div(p->width, width);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / panels, column = i % panels * width;
        pack_panel(p, p->first_group + group, p->first_column + column,
                   p->memory + (group * p->columns + column) * p->terms);
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static char *y_at(const plan *p, int64_t row, int64_t column)
{
    int64_t place = weft__cpu_conv_row(&p->part, row) * p->conv.O + column;
    return p->y + place * (int64_t)weft_dtype_size(p->conv.dtype);
}

static void run_tile(const plan *p, int64_t group, int64_t row, int64_t column, int worker)
{
    const int64_t width = p->kernels->gemm_columns;
    float *a = p->memory + round_up(p->packed, 16) + worker * (p->rows_a + p->rows_c);
    float *own = a + p->rows_a;
    const float *b = p->memory + (group * p->columns + column) * p->terms;
    int64_t first = (p->first_group + group) * p->conv.outputs + p->first_column + column;
    cpu_block block = {.m = smaller(p->tile_m, p->part.rows - row),
                       .n = smaller(p->tile_n, p->width - column),
                       .a = a,
                       .a_panel = p->kernels->gemm_rows * p->pitch,
                       .a_row = p->pitch,
                       .a_k = 1,
                       .b_k = width,
                       .b_panel = width * p->terms};
    block.c = p->own_c ? own : (float *)(void *)y_at(p, row, first);
    block.c_row = p->own_c ? p->tile_n : p->conv.O;
    for (int64_t i = 0; i < larger(p->pieces, 1); i++) {
        cpu_conv_terms piece = weft__cpu_conv_piece(&p->part, K_BLOCK, i);
        block.k = p->pieces > 0 ? weft__cpu_conv_terms_count(&piece) : 0;
        block.add = i > 0;
        block.b = b + (piece.first * p->part.unit * p->conv.channels + piece.channel) * width;
        if (block.k > 0)
            weft__cpu_conv_fill(&p->part, p->x, p->first_group + group, row, block.m, &piece, a,
                                p->pitch);
        p->kernels->gemm_block(&block);
    }
    for (int64_t i = 0; p->own_c && i < block.m; i++) {
        char *to = y_at(p, row + i, first);
        if (p->conv.dtype == WEFT_FLOAT32)
            memcpy(to, own + i * p->tile_n, (size_t)block.n * sizeof(float));
        else
            p->kernels->encode(p->conv.dtype, own + i * p->tile_n, to, block.n);
    }
}

static void tile_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t tiles_m = ceil_div(p->part.rows, p->tile_m);
    const int64_t tiles_n = ceil_div(p->width, p->tile_n);
    for (int64_t i = begin; i < end; i++)
        run_tile(p, i / (tiles_m * tiles_n), i / tiles_n % tiles_m * p->tile_m,
                 i % tiles_n * p->tile_n, worker);
}

static void run_pass(plan *p)
{
    const int64_t width = p->kernels->gemm_columns;
    p->groups = smaller(p->pass_groups, p->conv.groups - p->first_group);
    p->width = smaller(p->columns, p->conv.outputs - p->first_column);
    weft__cpu_parallel(p->groups * ceil_div(p->width, width),
                       PACK_GRAIN / (width * (p->terms + 1)) + 1, pack_task, p);
    int64_t tiles = ceil_div(p->part.rows, p->tile_m) * ceil_div(p->width, p->tile_n);
    int64_t flops = 2 * p->tile_m * smaller(p->tile_n, p->width) * (p->terms + 1);
    weft__cpu_parallel(p->groups * tiles, SMALL_TILE_FLOPS / flops, tile_task, p);
}

weft_status weft__cpu_conv(const weft_call *call)
{
    plan p = {.kernels = weft__cpu_kernels(),
              .x = call->in[0].data,
              .weight = call->in[1].data,
              .y = call->out[0].data,
              .memory = call->workspace};
    if (weft_tensor_size(&call->out[0]) == 0)
        return WEFT_OK;
    weft__cpu_conv_sizes(call, false, &p.conv);
    if (is_product(&p.conv)) {
        cpu_gemm g = product_of(call, &p.conv);
        weft__cpu_gemm(&g, call->workspace);
        return WEFT_OK;
    }
    merge_groups(&p);
    for (int64_t phase = 0; phase < weft__cpu_conv_phases(&p.conv); phase++) {
        make_part(&p, phase);
        if (p.part.rows == 0)
            continue;
        for (p.first_group = 0; p.first_group < p.conv.groups; p.first_group += p.pass_groups)
            for (p.first_column = 0; p.first_column < p.conv.outputs; p.first_column += p.columns)
                run_pass(&p);
    }
    return WEFT_OK;
}
