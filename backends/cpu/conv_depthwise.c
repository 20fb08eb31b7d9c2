/* backends/cpu/conv_depthwise.c -- convolutions with as many groups as channels, and the gradient
 * of their weight. There are no sums over channels, so vectors run along them. */
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"

enum {
    GRAIN_FLOPS = 1 << 20, /* of a task */
    MOST_PARTS = 16        /* parts of the rows, each with separate sums */
};

static int64_t taps_of(const cpu_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

static bool is_depthwise(const cpu_conv *c)
{
    return weft__cpu_narrow(c->dtype) && c->channels == 1 && c->outputs == 1;
}

/* ---- Along a line of outputs: the last axis ------------------------------------------------- */

/* A line of outputs of a part, and which taps of the other axes are inside. */
typedef struct line {
    const cpu_conv_part *part;
    int64_t n, at[CPU_CONV_AXES]; /* outputs of the part; for the last axis 0 */
} line;

static line line_of(const cpu_conv_part *part, int64_t index)
{
    line l = {.part = part};
    for (int axis = 1; axis >= 0; axis--) {
        l.at[axis] = index % part->axis[axis].outs;
        index /= part->axis[axis].outs;
    }
    l.n = index;
    return l;
}

/* The index in x for the other axes' taps of `tap`, and position `at2` of the last axis; -1:
 * outside. */
static int64_t x_place(const line *l, int64_t tap, int64_t at2)
{
    const cpu_conv *c = l->part->conv;
    const cpu_conv_phase *axis = l->part->axis;
    tap /= axis[2].taps;
    int64_t at1 = l->at[1] * axis[1].step + axis[1].start + tap % axis[1].taps * axis[1].gap;
    int64_t at0 = l->at[0] * axis[0].step + axis[0].start + tap / axis[1].taps * axis[0].gap;
    if (at0 < 0 || at0 >= c->in[0] || at1 < 0 || at1 >= c->in[1])
        return -1;
    return (((l->n * c->in[0] + at0) * c->in[1] + at1) * c->in[2] + at2) * c->C;
}

/* The position in x of tap t of the last axis for the first output. */
static int64_t last_start(const cpu_conv_phase *last, int64_t t)
{
    return last->start + t * last->gap;
}

/* The outputs along the last axis for which tap t is inside x: [*first, *end). */
static void outputs_inside(const line *l, int64_t t, int64_t *first, int64_t *end)
{
    const cpu_conv_phase *last = &l->part->axis[2];
    int64_t start = last_start(last, t), size = l->part->conv->in[2], step = last->step;
    *first = start >= 0 ? 0 : (-start + step - 1) / step;
    *end = start >= size ? 0 : (size - 1 - start) / step + 1;
    *end = *end < last->outs ? *end : last->outs;
    *first = *first < *end ? *first : *end;
}

static int64_t y_place(const line *l, int64_t q)
{
    const cpu_conv *c = l->part->conv;
    int64_t row = l->n;
    for (int axis = 0; axis < CPU_CONV_AXES; axis++) {
        const cpu_conv_phase *p = &l->part->axis[axis];
        row = row * c->out[axis] + p->first + (axis == 2 ? q : l->at[axis]) * p->period;
    }
    return row * c->C;
}

/* ---- Forward -------------------------------------------------------------------------------- */

typedef struct plan {
    cpu_conv conv;
    cpu_conv_part part;
    const weft_tensor *x, *y;
    const float *weight; /* (taps, C) */
    float *scratch;      /* per worker: a line of outputs, then the offsets of taps */
    int64_t scratch_floats;
} plan;

/* Floats of a line of outputs, which are needed for 16-bit floats. */
static int64_t line_floats(const cpu_conv *c)
{
    return c->dtype == WEFT_FLOAT32 ? 0 : vectors(c->out[2] * c->C);
}

static int64_t scratch_floats(const cpu_conv *c)
{
    return line_floats(c) + vectors(2 * taps_of(c) * (int64_t)(sizeof(int64_t) / sizeof(float)));
}

bool weft__cpu_conv_depthwise_fits(const weft_call *call)
{
    cpu_conv c;
    weft__cpu_conv_sizes(call, false, &c);
    return is_depthwise(&c);
}

int64_t weft__cpu_conv_depthwise_workspace(const weft_call *call)
{
    cpu_conv c;
    weft__cpu_conv_sizes(call, false, &c);
    int64_t floats = vectors(taps_of(&c) * c.C) + weft__cpu_workers() * scratch_floats(&c);
    return floats * (int64_t)sizeof(float);
}

/* Computes outputs [q, end) of the line, which all use the same taps of the last axis. */
static void run_outputs(const plan *p, const line *l, int64_t q, int64_t end, float *y,
                        int64_t y_step, int64_t *places)
{
    const cpu_conv_phase *last = &p->part.axis[2];
    cpu_depthwise d = {.channels = p->conv.C,
                       .outputs = end - q,
                       .x = p->x->data,
                       .x_step = last->step * p->conv.C,
                       .x_at = places,
                       .weight = p->weight,
                       .w_at = places + taps_of(&p->conv),
                       .y = y + q * y_step,
                       .y_step = y_step};
    for (int64_t tap = 0; tap < p->part.taps; tap++) {
        int64_t at2 = last_start(last, tap % last->taps) + q * last->step;
        int64_t place = at2 < 0 || at2 >= p->conv.in[2] ? -1 : x_place(l, tap, at2);
        if (place >= 0) {
            places[d.taps] = place;
            places[taps_of(&p->conv) + d.taps++] = weft__cpu_conv_tap(&p->part, tap) * p->conv.C;
        }
    }
    weft__cpu_kernels()->depthwise(p->conv.dtype, &d);
}

static void run_line(const plan *p, int64_t index, float *scratch)
{
    const cpu_conv_phase *last = &p->part.axis[2];
    line l = line_of(&p->part, index);
    bool plain = p->conv.dtype == WEFT_FLOAT32;
    int64_t C = p->conv.C, first = 0, end = last->outs;
    int64_t *places = (int64_t *)(void *)(scratch + line_floats(&p->conv));
    float *y = plain ? (float *)p->y->data + y_place(&l, 0) : scratch;
    int64_t y_step = plain ? last->period * C : C;
    for (int64_t t = 0; t < last->taps; t++) {
        int64_t from, to;
        outputs_inside(&l, t, &from, &to);
        first = larger(first, from);
        end = to < end ? to : end;
    }
    end = larger(first, end); /* in between, every tap is inside */
    for (int64_t q = 0; q < first && q < last->outs; q++)
        run_outputs(p, &l, q, q + 1, y, y_step, places);
    if (first < end)
        run_outputs(p, &l, first, end, y, y_step, places);
    for (int64_t q = end; q < last->outs; q++)
        run_outputs(p, &l, q, q + 1, y, y_step, places);
    for (int64_t q = 0; !plain && q < last->outs; q++)
        weft__cpu_kernels()->encode(p->conv.dtype, scratch + q * C,
                                    (char *)p->y->data + y_place(&l, q) * 2, C);
}

static void line_task(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    for (int64_t i = begin; i < end; i++)
        run_line(p, i, p->scratch + worker * p->scratch_floats);
}

/* Transposes the weight (C, taps) to (taps, C) in float32. */
static void turn_weight(const weft_tensor *weight, int64_t taps, int64_t C, float *out)
{
    for (int64_t c = 0; c < C; c++)
        for (int64_t t = 0; t < taps; t++)
            out[t * C + c] = (float)weft_tensor_get(weight, c * taps + t);
}

weft_status weft__cpu_conv_depthwise(const weft_call *call)
{
    plan p = {.x = &call->in[0], .y = &call->out[0], .weight = call->workspace};
    weft__cpu_conv_sizes(call, false, &p.conv);
    int64_t taps = taps_of(&p.conv);
    if (weft_tensor_size(p.y) == 0)
        return WEFT_OK;
    turn_weight(&call->in[1], taps, p.conv.C, call->workspace);
    p.scratch = (float *)call->workspace + vectors(taps * p.conv.C);
    p.scratch_floats = scratch_floats(&p.conv);
    for (int64_t phase = 0; phase < weft__cpu_conv_phases(&p.conv); phase++) {
        weft__cpu_conv_part_of(&p.conv, phase, &p.part);
        int64_t outs = p.part.axis[2].outs, lines = outs > 0 ? p.part.rows / outs : 0;
        int64_t flops = 2 * outs * p.conv.C * (p.part.taps + 1);
        weft__cpu_parallel(lines, GRAIN_FLOPS / larger(flops, 1) + 1, line_task, &p);
    }
    return WEFT_OK;
}

/* ---- The gradient of the weight ------------------------------------------------------------- */

/* The lines are divided into parts, each with its sums (taps, C), which are then added in order. */
typedef struct grad_plan {
    cpu_conv conv;
    cpu_conv_part part;
    const weft_tensor *x, *ct;
    float *sums;
    int64_t lines, chunk;
} grad_plan;

static int64_t parts_of(const cpu_conv *c)
{
    int64_t lines = c->N * c->out[0] * c->out[1];
    return lines < MOST_PARTS ? larger(lines, 1) : MOST_PARTS;
}

bool weft__cpu_conv_depthwise_grad_fits(const weft_call *call)
{
    cpu_conv c;
    weft__cpu_conv_sizes(call, true, &c);
    return is_depthwise(&c) && weft__cpu_conv_phases(&c) == 1;
}

int64_t weft__cpu_conv_depthwise_grad_workspace(const weft_call *call)
{
    cpu_conv c;
    weft__cpu_conv_sizes(call, true, &c);
    return parts_of(&c) * vectors(taps_of(&c) * c.C) * (int64_t)sizeof(float);
}

static void grad_line(const grad_plan *p, int64_t index, float *sums)
{
    const cpu_conv_phase *last = &p->part.axis[2];
    const int64_t C = p->conv.C;
    line l = line_of(&p->part, index);
    int64_t size = (int64_t)weft_dtype_size(p->conv.dtype);
    for (int64_t tap = 0; tap < p->part.taps; tap++) {
        int64_t first, end;
        outputs_inside(&l, tap % last->taps, &first, &end);
        int64_t at2 = last_start(last, tap % last->taps) + first * last->step;
        int64_t place = first < end ? x_place(&l, tap, at2) : -1;
        if (place < 0)
            continue;
        weft__cpu_kernels()->depthwise_grad(
            p->conv.dtype, (const char *)p->x->data + place * size, last->step * C,
            (const char *)p->ct->data + y_place(&l, first) * size, C, end - first, C,
            sums + weft__cpu_conv_tap(&p->part, tap) * C);
    }
}

static void grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const grad_plan *p = context;
    int64_t floats = vectors(taps_of(&p->conv) * p->conv.C);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *sums = p->sums + i * floats;
        int64_t stop = (i + 1) * p->chunk < p->lines ? (i + 1) * p->chunk : p->lines;
        memset(sums, 0, (size_t)floats * sizeof *sums);
        for (int64_t index = i * p->chunk; index < stop; index++)
            grad_line(p, index, sums);
    }
}

weft_status weft__cpu_conv_depthwise_grad(const weft_call *call)
{
    grad_plan p = {.x = &call->in[0], .ct = &call->in[1], .sums = call->workspace};
    weft__cpu_conv_sizes(call, true, &p.conv);
    weft__cpu_conv_part_of(&p.conv, 0, &p.part);
    int64_t taps = taps_of(&p.conv), C = p.conv.C, parts = parts_of(&p.conv);
    p.lines = p.part.axis[2].outs > 0 ? p.part.rows / p.part.axis[2].outs : 0;
    p.chunk = (p.lines + parts - 1) / parts;
    weft__cpu_parallel(parts, 1, grad_task, &p);
    for (int64_t c = 0; c < C; c++) {
        for (int64_t t = 0; t < taps; t++) {
            double sum = 0;
            for (int64_t i = 0; i < parts; i++)
                sum += (double)p.sums[i * vectors(taps * C) + t * C + c];
            weft_tensor_set(&call->out[0], c * taps + t, sum);
        }
    }
    return WEFT_OK;
}
