// backends/vulkan/shaders/reduce_logsum.comp -- logsumexp.
#version 460
#include "common.glsl"
#include "reduce_push.glsl"
#include "logsum.glsl"
#include "lanes.glsl"

layout(constant_id = 5) const uint X_TYPE = FLOAT32;

ACC element(uint i, uint r)
{
    return term(load_real(p.x, X_TYPE, i));
}

void finish(ACC acc, uint o)
{
    real result = abs(acc.x) == INFINITE ? acc.x : acc.x + log_(acc.y);
    store_real(p.result, X_TYPE, o, is_nan(acc.y) ? NO_NUMBER : result);
}
#include "reduce.glsl"
