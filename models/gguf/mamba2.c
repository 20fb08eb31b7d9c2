/* models/gguf/mamba2.c -- layers of Mamba 2 in GGUF files: decay rates instead of their logarithms,
 * and taps, rates and norms in other shapes. */
#include <stdio.h>

#include "core/io/text.h"
#include "models/gguf/arch.h"
#include "weft/ops.h"

weft_array *weft__gguf_mamba2(const char *path, weft_array *a, const weft__mamba2_config *c)
{
    if (weft__ends_with(path, ".conv1d.weight"))
        return weft__gguf_taps(a, c != NULL);
    if (weft__ends_with(path, ".D"))
        return weft_reshape(a, c ? WEFT_DIMS(-1, 1) : WEFT_DIMS(-1));
    if (weft__ends_with(path, ".A_log")) {
        a = weft_astype(a, WEFT_FLOAT32);
        return c ? weft_reshape(weft_negative(weft_exp(a)), WEFT_DIMS(-1, 1))
                 : weft_log(weft_negative(weft_reshape(a, WEFT_DIMS(-1))));
    }
    if (weft__ends_with(path, "mamba.norm.weight") || weft__ends_with(path, "mixer.norm.weight"))
        return weft_reshape(a, c ? WEFT_DIMS(c->groups, -1) : WEFT_DIMS(-1));
    return a;
}

void weft__gguf_read_mamba2(weft__gguf_reader *r, const char *const keys[6])
{
    char bias[64];
    int64_t mixes = 0;
    const int64_t heads = weft__gguf_integer(r, "ssm.time_step_rank", 0);
    const int64_t width = weft__gguf_integer(r, "ssm.inner_size", 0);
    weft__gguf_copy(r, keys[0], "ssm.time_step_rank");
    weft__gguf_add_integer(r, keys[1], heads > 0 && width % heads == 0 ? width / heads : 0);
    weft__gguf_copy(r, keys[2], "ssm.group_count");
    weft__gguf_copy(r, keys[3], "ssm.state_size");
    weft__gguf_copy(r, keys[4], "ssm.conv_kernel");
    while (mixes < weft__gguf_integer(r, "block_count", 0)) {
        snprintf(bias, sizeof bias, "blk.%lld.ssm_in.weight", (long long)mixes);
        if (weft__gguf_has(r, bias))
            break;
        mixes++;
    }
    snprintf(bias, sizeof bias, "blk.%lld.ssm_conv1d.bias", (long long)mixes);
    weft__gguf_add_bool(r, keys[5], weft__gguf_has(r, bias));
}

weft_status weft__gguf_write_mamba2(weft__gguf_facts *f, const weft__mamba2_config *c)
{
    weft__gguf_put_integer(f, "ssm.conv_kernel", c->taps);
    weft__gguf_put_integer(f, "ssm.inner_size", c->heads * c->head_dim);
    weft__gguf_put_integer(f, "ssm.state_size", c->state_size);
    weft__gguf_put_integer(f, "ssm.time_step_rank", c->heads);
    weft__gguf_put_integer(f, "ssm.group_count", c->groups);
    if (c->projection_bias || c->output_bias || !c->conv_bias)
        return weft__gguf_refuse(
            f, "a bias of Mamba 2's projections, or a convolution without a bias");
    if (c->norm_first && !c->no_norm)
        return weft__gguf_refuse(f, "mamba_norm_before_gate with a norm");
    return WEFT_OK;
}
