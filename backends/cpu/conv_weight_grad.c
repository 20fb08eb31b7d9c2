/* backends/cpu/conv_weight_grad.c -- the gradient of a convolution's weight, as matrix products.
 *
 * Its transpose (terms, O) is the sum over rows of the gathered elements of x times the row's
 * cotangents. A task has some of the terms, so that rows are gathered once, and if there are few
 * terms, some of the rows. The cotangents of a number of blocks of rows are packed for all tasks.
 */
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

enum {
    TERMS = 192,             /* of a task */
    BLOCK = 256,             /* rows gathered at a time */
    PACKED_FLOATS = 2 << 20, /* packed cotangents */
    ENOUGH_TASKS = 16,
    MOST_SPLITS = 8,
    SPLIT_FLOATS = 4 << 20 /* sums of all splits */
};

typedef struct plan {
    cpu_conv conv;
    cpu_conv_part part;
    const cpu_kernels *kernels;
    const void *x;
    const char *ct;
    char *dw;
    int64_t padded;        /* columns: outputs of a group, rounded up to whole panels */
    int64_t pieces, terms; /* terms: of all pieces */
    int64_t splits;
    int64_t stretch; /* blocks of rows that are packed at a time */
    int64_t sums;    /* floats per split */
    int64_t pitch;
    float *packed, *sum, *rows;
    int64_t group, first, blocks; /* of the running pass: its first block, number of blocks */
} plan;

static void make_plan(const weft_call *call, plan *p)
{
    *p = (plan){.kernels = weft__cpu_kernels(),
                .x = call->in[0].data,
                .ct = call->in[1].data,
                .dw = call->out[0].data};
    weft__cpu_conv_sizes(call, true, &p->conv);
    weft__cpu_conv_part_of(&p->conv, 0, &p->part);
    const int64_t width = p->kernels->gemm_columns;
    p->padded = ceil_div(larger(p->conv.outputs, 1), width) * width;
    p->pieces = weft__cpu_conv_pieces(&p->part, TERMS);
    p->terms = p->part.taps * p->conv.channels;
    p->sums = p->terms * p->padded;
    int64_t blocks = ceil_div(larger(p->part.rows, 1), BLOCK);
    p->stretch = smaller(blocks, larger(PACKED_FLOATS / (BLOCK * p->padded), 1));
    p->splits = smaller(ceil_div(ENOUGH_TASKS, larger(p->pieces, 1)), MOST_SPLITS);
    p->splits = smaller(p->splits, SPLIT_FLOATS / larger(p->sums, 1));
    p->splits = smaller(larger(p->splits, 1), p->stretch);
    p->pitch = ceil_div(larger(TERMS, p->part.unit), 16) * 16 + 16;
}

static int64_t rows_floats(const plan *p)
{
    return BLOCK * p->pitch;
}

bool weft__cpu_conv_weight_grad_fits(const weft_call *call)
{
    cpu_conv c;
    weft__cpu_conv_sizes(call, true, &c);
    return weft__cpu_narrow(c.dtype) && weft__cpu_conv_phases(&c) == 1;
}

int64_t weft__cpu_conv_weight_grad_workspace(const weft_call *call)
{
    plan p;
    make_plan(call, &p);
    int64_t floats =
        p.stretch * BLOCK * p.padded + p.splits * p.sums + weft__cpu_workers() * rows_floats(&p);
    return floats * (int64_t)sizeof(float);
}

/* ---- One range of row blocks ----------------------------------------------------------------- */

static int64_t rows_of_block(const plan *p, int64_t block)
{
    return smaller(BLOCK, p->part.rows - (p->first + block) * BLOCK);
}

static void pack_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t size = (int64_t)weft_dtype_size(p->conv.dtype);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = (p->first + i) * BLOCK, column = p->group * p->conv.outputs;
        p->kernels->pack_b(p->conv.dtype, p->ct + (row * p->conv.O + column) * size, p->conv.O, 1,
                           rows_of_block(p, i), p->conv.outputs, p->packed + i * BLOCK * p->padded);
    }
}

/* Computes one piece of the terms over the blocks of one split. */
static void run_piece(const plan *p, int64_t index, int64_t split, float *rows)
{
    const int64_t width = p->kernels->gemm_columns;
    int64_t share = ceil_div(p->blocks, p->splits), first = split * share;
    int64_t end = smaller(first + share, p->blocks);
    cpu_conv_terms piece = weft__cpu_conv_piece(&p->part, TERMS, index);
    int64_t term = piece.first * p->part.unit * p->conv.channels + piece.channel;
    cpu_block block = {.m = weft__cpu_conv_terms_count(&piece),
                       .n = p->conv.outputs,
                       .a = rows,
                       .a_row = 1,
                       .a_k = p->pitch,
                       .a_panel = p->kernels->gemm_rows,
                       .b_k = width,
                       .c = p->sum + split * p->sums + term * p->padded,
                       .c_row = p->padded,
                       .add = true};
    for (int64_t i = first; i < end; i++) {
        block.k = rows_of_block(p, i);
        block.b = p->packed + i * BLOCK * p->padded;
        block.b_panel = width * block.k;
        weft__cpu_conv_fill(&p->part, p->x, p->group, (p->first + i) * BLOCK, block.k, &piece, rows,
                            p->pitch);
        p->kernels->gemm_block(&block);
    }
}

static void piece_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    for (int64_t i = begin; i < end; i++)
        run_piece(p, i / p->splits, i % p->splits, p->rows + worker * rows_floats(p));
}

/* ---- Transposing the sums -------------------------------------------------------------------- */

/* Items are the outputs of the group. */
static void turn_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    const int64_t size = (int64_t)weft_dtype_size(p->conv.dtype);
    const int64_t row =
        p->conv.kernel[0] * p->conv.kernel[1] * p->conv.kernel[2] * p->conv.channels;
    (void)worker;
    for (int64_t o = begin; o < end; o++) {
        for (int64_t tap = 0; tap < p->part.taps; tap++) {
            int64_t place = weft__cpu_conv_tap(&p->part, tap) * p->conv.channels;
            char *to = p->dw + ((p->group * p->conv.outputs + o) * row + place) * size;
            for (int64_t c = 0; c < p->conv.channels; c++) {
                float sum = 0;
                for (int64_t s = 0; s < p->splits; s++)
                    sum += p->sum[s * p->sums + (tap * p->conv.channels + c) * p->padded + o];
                p->kernels->encode(p->conv.dtype, &sum, to + c * size, 1);
            }
        }
    }
}

weft_status weft__cpu_conv_weight_grad(const weft_call *call)
{
    plan p;
    make_plan(call, &p);
    if (weft_tensor_size(&call->out[0]) == 0)
        return WEFT_OK;
    /* Taps that read only the zeros of a dilated input are in no part. */
    memset(p.dw, 0, (size_t)weft_tensor_size(&call->out[0]) * weft_dtype_size(p.conv.dtype));
    p.packed = call->workspace;
    p.sum = p.packed + p.stretch * BLOCK * p.padded;
    p.rows = p.sum + p.splits * p.sums;
    int64_t blocks = ceil_div(p.part.rows, BLOCK);
    for (p.group = 0; p.group < p.conv.groups; p.group++) {
        memset(p.sum, 0, (size_t)(p.splits * p.sums) * sizeof *p.sum);
        for (p.first = 0; p.first < blocks; p.first += p.stretch) {
            p.blocks = smaller(p.stretch, blocks - p.first);
            weft__cpu_parallel(p.blocks, 1, pack_task, &p);
            weft__cpu_parallel(p.pieces * p.splits, 1, piece_task, &p);
        }
        weft__cpu_parallel(p.conv.outputs, 4096 / larger(p.terms, 1) + 1, turn_task, &p);
    }
    return WEFT_OK;
}
