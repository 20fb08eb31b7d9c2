/* backends/cpu/isa/conv.c -- depthwise convolutions. Must equal the reference kernel of the op conv
 * within rounding (tests/ops/test_op_table.c). */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

enum { OUTPUTS = 4 }; /* outputs that share a load of the weight */

/* LANES channels from c on, of n <= OUTPUTS outputs; n is a compile-time constant at each inlined
 * call. */
SIMD void outputs_of(weft_dtype dtype, const cpu_depthwise *d, int64_t o, int n, int64_t c)
{
    vf sum[OUTPUTS];
    for (int i = 0; i < n; i++)
        sum[i] = (vf){0};
    for (int64_t t = 0; t < d->taps; t++) {
        const int64_t x = d->x_at[t] + o * d->x_step + c;
        const vf w = vload(d->weight + d->w_at[t] + c);
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
            sum[i] += w * vload_as(dtype, d->x, x + i * d->x_step);
    }
    for (int i = 0; i < n; i++)
        vstore(d->y + (o + i) * d->y_step + c, sum[i]);
}

SIMD void depthwise_as(weft_dtype dtype, const cpu_depthwise *d)
{
    int64_t o = 0;
    for (; o + OUTPUTS <= d->outputs; o += OUTPUTS)
        for (int64_t c = 0; c + LANES <= d->channels; c += LANES)
            outputs_of(dtype, d, o, OUTPUTS, c);
    for (; o < d->outputs; o++)
        for (int64_t c = 0; c + LANES <= d->channels; c += LANES)
            outputs_of(dtype, d, o, 1, c);
    for (o = 0; o < d->outputs; o++) {
        for (int64_t c = d->channels / LANES * LANES; c < d->channels; c++) {
            float sum = 0;
            for (int64_t t = 0; t < d->taps; t++)
                sum +=
                    d->weight[d->w_at[t] + c] * get_as(dtype, d->x, d->x_at[t] + o * d->x_step + c);
            d->y[o * d->y_step + c] = sum;
        }
    }
}

static void depthwise(weft_dtype dtype, const cpu_depthwise *d)
{
    if (dtype == WEFT_BFLOAT16)
        depthwise_as(WEFT_BFLOAT16, d);
    else if (dtype == WEFT_FLOAT16)
        depthwise_as(WEFT_FLOAT16, d);
    else
        depthwise_as(WEFT_FLOAT32, d);
}

SIMD void depthwise_grad_as(weft_dtype dtype, const void *x, int64_t x_step, const void *ct,
                            int64_t ct_step, int64_t outputs, int64_t channels, float *sums)
{
    int64_t c = 0;
    for (; c + LANES <= channels; c += LANES) {
        vf even = vload(sums + c), odd = {0};
        int64_t o = 0;
        for (; o + 2 <= outputs; o += 2) {
            even += vload_as(dtype, x, o * x_step + c) * vload_as(dtype, ct, o * ct_step + c);
            odd += vload_as(dtype, x, (o + 1) * x_step + c) *
                   vload_as(dtype, ct, (o + 1) * ct_step + c);
        }
        for (; o < outputs; o++)
            even += vload_as(dtype, x, o * x_step + c) * vload_as(dtype, ct, o * ct_step + c);
        vstore(sums + c, even + odd);
    }
    for (; c < channels; c++)
        for (int64_t o = 0; o < outputs; o++)
            sums[c] += get_as(dtype, x, o * x_step + c) * get_as(dtype, ct, o * ct_step + c);
}

static void depthwise_grad(weft_dtype dtype, const void *x, int64_t x_step, const void *ct,
                           int64_t ct_step, int64_t outputs, int64_t channels, float *sums)
{
    if (dtype == WEFT_BFLOAT16)
        depthwise_grad_as(WEFT_BFLOAT16, x, x_step, ct, ct_step, outputs, channels, sums);
    else if (dtype == WEFT_FLOAT16)
        depthwise_grad_as(WEFT_FLOAT16, x, x_step, ct, ct_step, outputs, channels, sums);
    else
        depthwise_grad_as(WEFT_FLOAT32, x, x_step, ct, ct_step, outputs, channels, sums);
}

void CPU_NAME(weft__fill_conv)(cpu_kernels *table)
{
    table->depthwise = depthwise;
    table->depthwise_grad = depthwise_grad;
}
