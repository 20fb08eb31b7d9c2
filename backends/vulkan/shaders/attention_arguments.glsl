// backends/vulkan/shaders/attention_arguments.glsl -- the arguments of the attention kernels, and
// which keys a query sees.
//
// The G query heads of a key head form one matrix with rows r = l G + g. A workgroup owns 16 OWN
// items of one kind (rows or keys) and loops over the other kind, 16 OTHER at a time. It has 16 x
// 16 invocations: invocation (y, x) processes the own items y OWN + i and the other items x + 16 j.

const uint NO_MASK = 255;
layout(constant_id = 0) const uint Q_TYPE = FLOAT32; // also of o and dq
layout(constant_id = 1) const uint K_TYPE = FLOAT32;
layout(constant_id = 2) const uint V_TYPE = FLOAT32;
layout(constant_id = 3) const uint MASK_TYPE = NO_MASK;
layout(constant_id = 4) const uint G = 1;
#ifndef CORES // the shaders with matrix cores define their own sizes
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
    uint mask_at[4];                // strides of B, H, L, S
    uint o_at[3], d_o_at[3], lse_at[2];
    int L, S, Hk, D, Dv;
    int offset, window;       // query l sees keys j with l + offset - window < j <= l + offset
    int first, chunk, chunks; // chunk c of the keys starts at first + c chunk
    int tiles;                // workgroups per pair of b and hk
    int pairs;                // B Hk
    int cut; // 0: no lengths; 1: lengths end the keys; 2: the offset counts from the length, too
    real scale, softcap;
};

layout(push_constant, scalar) uniform Push
{
    Arguments at;
    uint first_group; // of a launch that is divided
}
p;

// The index of a workgroup in its launch.
int launch_index()
{
    return int(p.first_group + group_index());
}

#define HIDDEN real(-INFINITY)

// Items of one head in an array. Item i starts at first + i step. Row r of q starts at first + r /
// G step + r % G across, where `across` is the stride of the heads.
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

// The index of a row of q in (B, L, H).
uint out_row_of(int b, int hk, int row)
{
    return (uint(b) * uint(p.at.L) + uint(row) / G) * uint(p.at.Hk) * G + uint(hk) * G +
           uint(row) % G;
}

// The end of the keys and the offset for this workgroup's batch element: S and the offset of the
// arguments, unless there are lengths.
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
