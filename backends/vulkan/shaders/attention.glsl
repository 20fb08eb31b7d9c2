// backends/vulkan/shaders/attention.glsl -- common parts of the attention kernels: their arguments,
// which keys a query sees, and the scores.
#include "math.glsl"
#include "attention_arguments.glsl"

// The score of the product with a visible key; `slope` is the derivative of the softcap.
real score_of(real product, int b, int l, int head, int key, out real slope)
{
    real s = product * p.at.scale;
    slope = real(1);
    if (p.at.softcap > real(0)) {
        real t = tanh_(s / p.at.softcap);
        s = p.at.softcap * t;
        slope = real(1) - t * t;
    }
    if (MASK_TYPE != NO_MASK) {
        uint i = uint(b) * p.at.mask_at[0] + uint(head) * p.at.mask_at[1] +
                 uint(l) * p.at.mask_at[2] + uint(key) * p.at.mask_at[3];
        if (MASK_TYPE == BOOL) {
            s = load_byte(p.at.mask, i) != 0u ? s : HIDDEN;
        } else {
            s += load_real(p.at.mask, MASK_TYPE, i);
        }
    }
    return s;
}
