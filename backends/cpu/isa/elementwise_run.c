/* backends/cpu/isa/elementwise_run.c -- several simple ops in one loop: x op y1 op y2 ..., with the
 * results between them in registers. Each op rounds as its own kernel does. */
#include "backends/cpu/elementwise_kernels.h"
#include "backends/cpu/isa/simd.h"

enum { VECTORS = 8 }; /* that are worked on at a time, to be worth the choice of the op */

SIMD vf choose(vi condition, vf x, vf y)
{
    return (vf)(((vi)x & condition) | ((vi)y & ~condition));
}

/* a[v] op= y[v], for all v. */
#define EACH_VECTOR(expression)                                                                    \
    do {                                                                                           \
        _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                                  \
        {                                                                                          \
            const vf x = a[v], y = *(const vf_any *)(from + v * LANES);                            \
            a[v] = (expression);                                                                   \
        }                                                                                          \
    } while (0)

static void run(const cpu_run_step *steps, int n_steps, const float *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += VECTORS * LANES) {
        vf a[VECTORS];
        _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)
        {
            a[v] = *(const vf_any *)(in + i + v * LANES);
        }
        for (int s = 0; s < n_steps; s++) {
            const float *from = steps[s].y + i;
            switch (steps[s].op) {
            case CPU_RUN_ADD:
                EACH_VECTOR(x + y);
                break;
            case CPU_RUN_SUB:
                EACH_VECTOR(x - y);
                break;
            case CPU_RUN_SUB_FROM:
                EACH_VECTOR(y - x);
                break;
            case CPU_RUN_MUL:
                EACH_VECTOR(x * y);
                break;
            case CPU_RUN_MIN:
                EACH_VECTOR(choose((x < y) | (x != x), x, y));
                break;
            case CPU_RUN_MIN_OF:
                EACH_VECTOR(choose((y < x) | (y != y), y, x));
                break;
            case CPU_RUN_MAX:
                EACH_VECTOR(choose((x > y) | (x != x), x, y));
                break;
            case CPU_RUN_MAX_OF:
                EACH_VECTOR(choose((y > x) | (y != y), y, x));
                break;
            case CPU_RUN_NONE:
                break;
            }
        }
        _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)
        {
            *(vf_any *)(out + i + v * LANES) = a[v];
        }
    }
}

void CPU_NAME(weft__fill_elementwise_run)(cpu_elementwise_table *table)
{
    table->run = run;
    table->run_elements = VECTORS * LANES;
}
