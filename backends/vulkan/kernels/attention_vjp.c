/* backends/vulkan/kernels/attention_vjp.c -- the gradient of attention, tile by tile: by tiles of
 * queries for dq, and by tiles of keys for dk and dv, so that no two workgroups write to the same
 * memory. The probabilities are recomputed from the log-sum-exp (Dao et al. 2022). */
#include "backends/vulkan/kernels/attention.h"
#include "backends/vulkan/shaders.h"

enum { ROWS = 8 /* rows per workgroup of attention_delta */ };

/* rowsum(do o) */
int64_t weft__vulkan_attention_vjp_workspace(const weft_call *call)
{
    const attention a = weft__vulkan_attention_of(call, 6);
    return a.B * a.L * a.H * (a.wide ? 8 : 4);
}

static int64_t divide(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Launches with `own` items per thread, and as many tiles as `items` need. */
static weft_status run_tiles(const weft_call *call, const attention *a,
                             const weft__vulkan_shader *shader, attention_arguments *arguments,
                             uint32_t own, int64_t items, int64_t width)
{
    const uint32_t constants[] = {own, a->wide ? 2 : 4,
                                  (uint32_t)divide(width > 0 ? width : 1, ATTENTION_COLUMNS),
                                  call->in[5].dtype};
    const int64_t tiles = divide(items, own * ATTENTION_SIDE);
    arguments->tiles = (int32_t)tiles;
    return weft__vulkan_attention_launch(call, a, shader, arguments, constants, 4,
                                         tiles * a->pairs);
}

weft_status weft__vulkan_attention_vjp(const weft_call *call)
{
    const attention a = weft__vulkan_attention_of(call, 6);
    const weft_tensor *o = &call->in[3], *lse = &call->in[4], *d_o = &call->in[5];
    attention_arguments arguments;
    weft__vulkan_attention_arguments(&a, &arguments);
    arguments.o = weft__vulkan_address_or_0(o);
    arguments.lse = weft__vulkan_address_or_0(lse);
    arguments.d_o = weft__vulkan_address_or_0(d_o);
    arguments.dq = weft__vulkan_address_or_0(&call->out[0]);
    arguments.dk = weft__vulkan_address_or_0(&call->out[1]);
    arguments.dv = weft__vulkan_address_or_0(&call->out[2]);
    arguments.work = weft__vulkan_workspace(call);
    weft__vulkan_attention_strides(o, 3, arguments.o_at);
    weft__vulkan_attention_strides(d_o, 3, arguments.d_o_at);
    weft__vulkan_attention_strides(lse, 2, arguments.lse_at);

    const uint32_t dtypes[] = {o->dtype, d_o->dtype};
    attention delta = a;
    delta.work = 0;
    weft_status status = weft__vulkan_attention_launch(
        call, &delta, a.wide ? &weft__shader_attention_delta_f64 : &weft__shader_attention_delta,
        &arguments, dtypes, 2, divide(a.B * a.L * a.H, ROWS));
    if (status == WEFT_OK && weft__vulkan_attention_fits_cores(call, &a, d_o)) {
        status = weft__vulkan_attention_run_cores(call, &a, &weft__shader_attention_cores_dq,
                                                  &arguments, a.rows, true);
        if (status == WEFT_OK) {
            status = weft__vulkan_attention_run_cores(call, &a, &weft__shader_attention_cores_dkv,
                                                      &arguments, a.S, true);
        }
        return status;
    }
    if (status == WEFT_OK) {
        const uint32_t own = weft__vulkan_attention_own(&a, a.rows, a.D, 4);
        status = run_tiles(call, &a,
                           a.wide ? &weft__shader_attention_dq_f64 : &weft__shader_attention_dq,
                           &arguments, own, a.rows, a.D);
    }
    if (status == WEFT_OK) {
        const int64_t width = a.D > a.Dv ? a.D : a.Dv;
        const uint32_t own = weft__vulkan_attention_own(&a, a.S, 2 * width, 2);
        status = run_tiles(call, &a,
                           a.wide ? &weft__shader_attention_dkv_f64 : &weft__shader_attention_dkv,
                           &arguments, own, a.S, width);
    }
    return status;
}
