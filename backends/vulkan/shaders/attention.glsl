// backends/vulkan/shaders/attention.glsl -- common parts of the attention kernels: their arguments,
// which keys a query sees, and the scores.
#include "math.glsl"
#include "attention_arguments.glsl"

#ifndef PAGE // keys of a page, 0: they are not in pages: a constant of the shaders that support it
const uint PAGE = 0;
#endif
const bool PAGED = PAGE > 0;

// Row b of the batch has the pages TABLE[b PAGES + i], of which LAST is the last. These arguments
// are in the places of those of gradients (attention.h).
#define TABLE p.at.dk
#define PAGES p.at.d_o_at[0]
#define LAST p.at.d_o_at[1]

// keys_of, or the keys of all pages, where `across` is where the row's pages begin in the table.
View keys_of_row(Words at, const uint strides[3], int b, int hk)
{
    View x = keys_of(at, strides, PAGED ? 0 : b, hk);
    x.across = PAGED ? uint(b) * PAGES : 0u;
    return x;
}

// place_of for such keys.
uint place_in(const View x, const bool rows, uint i)
{
    if (PAGED && !rows) {
        i = min(TABLE.at[x.across + i / PAGE], LAST) * PAGE + i % PAGE;
    }
    return place_of(x, rows, i);
}

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
