/* backends/cpu/conv_part.c -- sizes and phases of convolutions, and gathering of rows of x. */
#include <string.h>

#include "backends/cpu/conv.h"
#include "backends/cpu/sizes.h"

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void weft__cpu_conv_sizes(const weft_call *call, bool weight_grad, cpu_conv *conv)
{
    const weft_conv_params *p = call->params;
    const weft_tensor *x = &call->in[0];
    const weft_dims *out = weight_grad ? &call->in[1].shape : &call->out[0].shape;
    const weft_dims *weight = weight_grad ? &call->out[0].shape : &call->in[1].shape;
    int axes = x->shape.n - 2, last = axes + 1;
    *conv = (cpu_conv){.dtype = x->dtype,
                       .N = x->shape.at[0],
                       .C = x->shape.at[last],
                       .O = out->at[last],
                       .groups = p->groups,
                       .flip = p->flip};
    conv->channels = conv->C / p->groups;
    conv->outputs = conv->O / p->groups;
    for (int i = 0; i < CPU_CONV_AXES; i++) {
        int axis = i - CPU_CONV_AXES + axes;
        bool there = axis >= 0;
        conv->in[i] = there ? x->shape.at[axis + 1] : 1;
        conv->out[i] = there ? out->at[axis + 1] : 1;
        conv->kernel[i] = there ? weight->at[axis + 1] : 1;
        conv->stride[i] = there ? p->stride.at[axis] : 1;
        conv->low[i] = there ? p->pad_low.at[axis] : 0;
        conv->kernel_dilation[i] = there ? p->kernel_dilation.at[axis] : 1;
        conv->input_dilation[i] = there ? p->input_dilation.at[axis] : 1;
    }
}

/* ---- Phases --------------------------------------------------------------------------------- */

static int64_t period_of(const cpu_conv *conv, int axis)
{
    int64_t dilation = conv->input_dilation[axis];
    return dilation / greatest_divisor(conv->stride[axis], dilation);
}

int64_t weft__cpu_conv_phases(const cpu_conv *conv)
{
    return period_of(conv, 0) * period_of(conv, 1) * period_of(conv, 2);
}

/* Output o and tap j read the dilated x at o stride + j kernel_dilation - low, which is an element
 * of x only if input_dilation divides it. */
static void set_phase(const cpu_conv *conv, int axis, int64_t first, cpu_conv_phase *p)
{
    int64_t dilation = conv->input_dilation[axis], period = period_of(conv, axis);
    int64_t gap = conv->kernel_dilation[axis], kernel = conv->kernel[axis];
    int64_t tap_step = dilation / greatest_divisor(gap, dilation);
    int64_t at = first * conv->stride[axis] - conv->low[axis], tap = 0;
    *p = (cpu_conv_phase){
        .first = first,
        .period = period,
        .outs = first < conv->out[axis] ? ceil_div(conv->out[axis] - first, period) : 0,
        .step = conv->stride[axis] * period / dilation,
        .gap = tap_step * gap / dilation,
        .tap_step = tap_step};
    while (tap < tap_step && tap < kernel && (at + tap * gap) % dilation != 0) {
        tap++;
    }
    if (tap < tap_step && tap < kernel) {
        p->taps = ceil_div(kernel - tap, tap_step);
        p->start = (at + tap * gap) / dilation;
        p->tap = tap;
    }
    if (conv->flip) {
        p->tap = kernel - 1 - p->tap;
        p->tap_step = -tap_step;
    }
}

void weft__cpu_conv_part_of(const cpu_conv *conv, int64_t phase, cpu_conv_part *part)
{
    *part = (cpu_conv_part){.conv = conv, .rows = conv->N, .taps = 1, .dense = true};
    for (int axis = CPU_CONV_AXES - 1; axis >= 0; axis--) {
        int64_t period = period_of(conv, axis);
        set_phase(conv, axis, phase % period, &part->axis[axis]);
        phase /= period;
        part->rows *= part->axis[axis].outs;
        part->taps *= part->axis[axis].taps;
        part->dense = part->dense && period == 1;
    }
    const cpu_conv_phase *last = &part->axis[CPU_CONV_AXES - 1];
    bool together =
        last->gap == 1 && conv->groups == 1 && last->taps > 1 && last->taps * conv->C <= 128;
    part->unit = together ? last->taps : 1;
    part->units = part->taps / part->unit;
}

/* The multi-index of a row: n, and the output along each axis. */
static void split_row(const cpu_conv_part *part, int64_t row, int64_t *n, int64_t *at)
{
    for (int axis = CPU_CONV_AXES - 1; axis >= 0; axis--) {
        at[axis] = row % part->axis[axis].outs;
        row /= part->axis[axis].outs;
    }
    *n = row;
}

int64_t weft__cpu_conv_row(const cpu_conv_part *part, int64_t row)
{
    int64_t index, at[CPU_CONV_AXES];
    if (part->dense) {
        return row;
    }
    split_row(part, row, &index, at);
    for (int axis = 0; axis < CPU_CONV_AXES; axis++) {
        const cpu_conv_phase *p = &part->axis[axis];
        index = index * part->conv->out[axis] + p->first + at[axis] * p->period;
    }
    return index;
}

int64_t weft__cpu_conv_tap(const cpu_conv_part *part, int64_t tap)
{
    int64_t index = 0, step = 1;
    for (int axis = CPU_CONV_AXES - 1; axis >= 0; axis--) {
        const cpu_conv_phase *p = &part->axis[axis];
        index += (p->tap + tap % p->taps * p->tap_step) * step;
        tap /= p->taps;
        step *= part->conv->kernel[axis];
    }
    return index;
}

/* ---- Terms ---------------------------------------------------------------------------------- */

/* Several units per piece, or several pieces per unit. */
static int64_t units_of_piece(const cpu_conv_part *part, int64_t most)
{
    int64_t length = part->unit * part->conv->channels;
    int64_t fit = length > 0 && length <= most ? most / length : 1;
    return part->units > 0 ? ceil_div(part->units, ceil_div(part->units, fit)) : 1;
}

static int64_t pieces_of_unit(const cpu_conv_part *part, int64_t most)
{
    int64_t length = part->unit * part->conv->channels;
    return length > most ? ceil_div(length, most) : 1;
}

int64_t weft__cpu_conv_pieces(const cpu_conv_part *part, int64_t most)
{
    return ceil_div(part->units, units_of_piece(part, most)) * pieces_of_unit(part, most);
}

cpu_conv_terms weft__cpu_conv_piece(const cpu_conv_part *part, int64_t most, int64_t piece)
{
    int64_t length = part->unit * part->conv->channels;
    int64_t units = units_of_piece(part, most), pieces = pieces_of_unit(part, most);
    int64_t width = pieces > 1 ? ceil_div(length, pieces) : length;
    int64_t first = piece / pieces * units, channel = piece % pieces * width;
    int64_t end = first + units < part->units ? first + units : part->units;
    int64_t channels = channel + width < length ? width : length - channel;
    return (cpu_conv_terms){first, end, channel, channels > 0 ? channels : 0};
}

/* ---- Rows of x ------------------------------------------------------------------------------ */

/* The position in x at which a row of the part begins along each axis; it may be outside. */
typedef struct corner {
    int64_t n, at[CPU_CONV_AXES];
} corner;

static void copy(const cpu_conv *conv, const char *x, int64_t from, float *out, int64_t n)
{
    if (conv->dtype == WEFT_FLOAT32) {
        memcpy(out, x + from * (int64_t)sizeof(float), (size_t)n * sizeof(float));
    } else {
        weft__cpu_kernels()->decode(conv->dtype, x + from * 2, out, n);
    }
}

static bool inside(int64_t at, int64_t size)
{
    return at >= 0 && at < size;
}

/* Gathers one unit of one row: `n` floats, zeros outside of x. */
static void fill_unit(const cpu_conv_part *part, const char *x, int64_t group, const corner *c,
                      int64_t unit, const cpu_conv_terms *t, float *out)
{
    const cpu_conv *conv = part->conv;
    const cpu_conv_phase *axis = part->axis;
    int64_t per_row = axis[2].taps / part->unit, rest = unit / per_row;
    int64_t at0 = c->at[0] + rest / axis[1].taps * axis[0].gap;
    int64_t at1 = c->at[1] + rest % axis[1].taps * axis[1].gap;
    int64_t at2 = c->at[2] + unit % per_row * axis[2].gap;
    int64_t before = at2 < 0 ? -at2 : 0, after = at2 + part->unit - conv->in[2];
    after = after > 0 ? after : 0;
    if (!inside(at0, conv->in[0]) || !inside(at1, conv->in[1]) || before + after >= part->unit) {
        memset(out, 0, (size_t)t->channels * sizeof *out);
        return;
    }
    int64_t from = (((c->n * conv->in[0] + at0) * conv->in[1] + at1) * conv->in[2] + at2) * conv->C;
    from += group * conv->channels + t->channel;
    int64_t zeros = before * conv->C, last = after * conv->C;
    if (before + after == 0) {
        copy(conv, x, from, out, t->channels);
        return;
    }
    memset(out, 0, (size_t)zeros * sizeof *out);
    copy(conv, x, from + zeros, out + zeros, t->channels - zeros - last);
    memset(out + t->channels - last, 0, (size_t)last * sizeof *out);
}

void weft__cpu_conv_fill(const cpu_conv_part *part, const void *x, int64_t group, int64_t row,
                         int64_t n, const cpu_conv_terms *terms, float *out, int64_t pitch)
{
    const cpu_conv_phase *axis = part->axis;
    int64_t at[CPU_CONV_AXES];
    corner c;
    split_row(part, row, &c.n, at);
    for (int64_t i = 0; i < n; i++) {
        for (int a = 0; a < CPU_CONV_AXES; a++) {
            c.at[a] = at[a] * axis[a].step + axis[a].start;
        }
        float *to = out + i * pitch;
        for (int64_t unit = terms->first; unit < terms->end; unit++) {
            fill_unit(part, x, group, &c, unit, terms, to);
            to += terms->channels;
        }
        for (int a = CPU_CONV_AXES - 1; a >= 0 && ++at[a] == axis[a].outs; a--) {
            at[a] = 0;
            c.n += a == 0;
        }
    }
}
