/* backends/cpu/conv.h -- convolutions as matrix products: sizes, and gathering of rows of x. */
#ifndef BACKENDS_CPU_CONV_H
#define BACKENDS_CPU_CONV_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"
#include "weft/op_params.h"

enum { CPU_CONV_AXES = 3 };

/* A convolution with three spatial axes; missing leading axes have size 1. */
typedef struct cpu_conv {
    weft_dtype dtype;
    int64_t N, C, O, groups;
    int64_t channels, outputs; /* of a group */
    int64_t in[CPU_CONV_AXES], out[CPU_CONV_AXES], kernel[CPU_CONV_AXES];
    int64_t stride[CPU_CONV_AXES], low[CPU_CONV_AXES];
    int64_t kernel_dilation[CPU_CONV_AXES], input_dilation[CPU_CONV_AXES];
    bool flip;
} cpu_conv;

/* With input dilation, outputs that are a period apart use the same taps and form a plain
 * convolution, called a phase. Along one axis: output first + q period reads x at q step + start +
 * t gap with element tap + t tap_step of the kernel. */
typedef struct cpu_conv_phase {
    int64_t first, period, outs;
    int64_t step, start, gap;
    int64_t taps, tap, tap_step;
} cpu_conv_phase;

typedef struct cpu_conv_part {
    const cpu_conv *conv;
    cpu_conv_phase axis[CPU_CONV_AXES];
    int64_t rows, taps; /* products of `outs` (and N), and of `taps` */
    bool dense;         /* row r of the part is row r of the output */
    /* Contiguous elements of x: `unit` taps of the last axis, or one. */
    int64_t unit, units;
} cpu_conv_part;

/* A range of terms: units [first, end); of a single unit possibly only some channels. */
typedef struct cpu_conv_terms {
    int64_t first, end;
    int64_t channel, channels; /* within a unit, whose taps' channels are counted consecutively */
} cpu_conv_terms;

/* Computes the sizes of a call of conv, or of conv_weight_grad, whose second input is the
 * cotangent. */
void weft__cpu_conv_sizes(const weft_call *call, bool weight_grad, cpu_conv *conv);

int64_t weft__cpu_conv_phases(const cpu_conv *conv);
void weft__cpu_conv_part_of(const cpu_conv *conv, int64_t phase, cpu_conv_part *part);

/* The row of the whole output that row `row` of the part is. */
int64_t weft__cpu_conv_row(const cpu_conv_part *part, int64_t row);
/* The tap of the kernel that tap `tap` of the part is. */
int64_t weft__cpu_conv_tap(const cpu_conv_part *part, int64_t tap);

/* The number of pieces of at most `most` terms, and piece i. */
int64_t weft__cpu_conv_pieces(const cpu_conv_part *part, int64_t most);
cpu_conv_terms weft__cpu_conv_piece(const cpu_conv_part *part, int64_t most, int64_t piece);
static inline int64_t weft__cpu_conv_terms_count(const cpu_conv_terms *t)
{
    return (t->end - t->first) * t->channels;
}

/* Gathers for rows [row, row + n) of the part the elements of x for these terms, as float32, with a
 * row stride of `pitch` floats. */
void weft__cpu_conv_fill(const cpu_conv_part *part, const void *x, int64_t group, int64_t row,
                         int64_t n, const cpu_conv_terms *terms, float *out, int64_t pitch);

/* Kernels in the rows of rows_conv.c. */
weft_kernel weft__cpu_conv, weft__cpu_conv_weight_grad, weft__cpu_conv_depthwise,
    weft__cpu_conv_depthwise_grad;
bool weft__cpu_conv_fits(const weft_call *call);
bool weft__cpu_conv_weight_grad_fits(const weft_call *call);
bool weft__cpu_conv_depthwise_fits(const weft_call *call);
bool weft__cpu_conv_depthwise_grad_fits(const weft_call *call);
int64_t weft__cpu_conv_workspace(const weft_call *call);
int64_t weft__cpu_conv_weight_grad_workspace(const weft_call *call);
int64_t weft__cpu_conv_depthwise_workspace(const weft_call *call);
int64_t weft__cpu_conv_depthwise_grad_workspace(const weft_call *call);

#endif
