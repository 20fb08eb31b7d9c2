// backends/vulkan/shaders/attention_arguments.glsl -- the arguments of the attention kernels, and
// what a query sees of a key.
//
// The G query heads of a key head are one matrix with rows r = l G + g. A workgroup owns 16 OWN of
// its own items (rows or keys) and meets 16 OTHER of the others at a time. Threads are 16 x 16:
// thread (y, x) has the own items y OWN + i and, of the others, x + 16 j.

const uint NO_MASK = 255;
layout(constant_id = 0) const uint Q_TYPE = FLOAT32; // of o and dq too
layout(constant_id = 1) const uint K_TYPE = FLOAT32;
layout(constant_id = 2) const uint V_TYPE = FLOAT32;
layout(constant_id = 3) const uint MASK_TYPE = NO_MASK;
layout(constant_id = 4) const uint G = 1;
#ifndef CORES // whose shaders have sizes of their own
layout(local_size_x = 256) in;
#endif

#ifdef WIDE
#define real4 dvec4
const uint REAL_TYPE = FLOAT64;
#else
#define real4 vec4
const uint REAL_TYPE = FLOAT32;
#endif

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Arguments
{
    Words q, k, v, mask, lengths, o, lse, d_o, dq, dk, dv, work;
    uint q_at[3], k_at[3], v_at[3]; // strides of B, L or S, H or Hk
    uint mask_at[4];                // of B, H, L, S
    uint o_at[3], d_o_at[3], lse_at[2];
    int L, S, Hk, D, Dv;
    int offset, window;       // query l sees keys j with l + offset - window < j <= l + offset
    int first, chunk, chunks; // chunk c of the keys starts at first + c chunk
    int tiles;                // workgroups of a pair of b and hk
    int pairs;                // B Hk
    int cut; // 0: no lengths; 1: they end the keys; 2: and the offset counts from there
    real scale, softcap;
};

layout(push_constant, scalar) uniform Push
{
    Arguments at;
}
p;

#define HIDDEN real(-INFINITY)

// Items of one head in an array: item i starts at first + i step, and row r of q, in which `across`
// is the stride of the heads, at first + r / G step + r % G across.
struct View {
    Words at;
    uint first, step, across;
};

View rows_of(Words at, const uint strides[3], int b, int hk)
{
    return View(at, uint(b) * strides[0] + uint(hk) * G * strides[2], strides[1], strides[2]);
}

View keys_of(Words at, const uint strides[3], int b, int hk)
{
    return View(at, uint(b) * strides[0] + uint(hk) * strides[2], strides[1], 0u);
}

uint place_of(const View x, const bool rows, uint i)
{
    return x.first + (rows ? i / G * x.step + i % G * x.across : i * x.step);
}

// A row of q in (B, L, H).
uint out_row_of(int b, int hk, int row)
{
    return (uint(b) * uint(p.at.L) + uint(row) / G) * uint(p.at.Hk) * G + uint(hk) * G +
           uint(row) % G;
}

// Where the keys of this workgroup's row of the batch end, and its offset: S and that of the
// arguments but for lengths.
int keys_end, keys_offset;

void cut_keys(int b)
{
    keys_end = p.at.S;
    keys_offset = p.at.offset;
    if (p.at.cut != 0) {
        keys_end = clamp(int(p.at.lengths.at[b]), 0, p.at.S);
        keys_offset += p.at.cut == 2 ? keys_end : 0;
    }
}

bool sees(int l, int key)
{
    int ahead = l + keys_offset - key;
    return ahead >= 0 && ahead < p.at.window;
}
