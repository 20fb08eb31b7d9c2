// backends/vulkan/shaders/norm_sums.comp -- dw and db of the norms: sums over the rows of a part,
// then (TOTAL) over the parts. A workgroup processes 64 columns with four invocations per column.
#version 460
#include "common.glsl"

layout(constant_id = 0) const uint X_TYPE = FLOAT32;
layout(constant_id = 1) const uint CT_TYPE = FLOAT32;
layout(constant_id = 2) const bool TOTAL = false;
layout(constant_id = 3) const uint OUT_TYPE = FLOAT32; // dtype of dw and db
layout(local_size_x = 64, local_size_y = 4) in;

layout(push_constant, scalar) uniform Push
{
    Words x, ct, stats, parts; // stats: inverse root and mean of each row; parts: (n, 2, width)
    Words dw, db;              // 0 if not requested
    uint x_at[2], ct_at[2];
    uint rows, inner, width, per_part, blocks; // with TOTAL, rows are parts
}
p;

#ifdef WIDE
const uint REAL_TYPE = FLOAT64;
#else
const uint REAL_TYPE = FLOAT32;
#endif

shared real sums[2][4][64];

void add_row(uint row, uint column, inout real dw, inout real db)
{
    if (TOTAL) {
        dw += load_real(p.parts, REAL_TYPE, 2u * row * p.width + column);
        db += load_real(p.parts, REAL_TYPE, (2u * row + 1u) * p.width + column);
        return;
    }
    uint outer = row / p.inner, inner = row % p.inner;
    real inverse = load_real(p.stats, REAL_TYPE, 2u * row);
    real mean = load_real(p.stats, REAL_TYPE, 2u * row + 1u);
    real x = load_real(p.x, X_TYPE, outer * p.x_at[0] + inner * p.x_at[1] + column);
    real ct = load_real(p.ct, CT_TYPE, outer * p.ct_at[0] + inner * p.ct_at[1] + column);
    dw += ct * ((x - mean) * inverse);
    db += ct;
}

void store_sum(uint part, uint which, Words total, uint column, real sum)
{
    if (!TOTAL) {
        store_real(p.parts, REAL_TYPE, (2u * part + which) * p.width + column, sum);
    } else if (uvec2(total) != uvec2(0)) {
        store_real(total, OUT_TYPE, column, sum);
    }
}

void main()
{
    uint lane = gl_LocalInvocationID.x, turn = gl_LocalInvocationID.y;
    uint part = group_index() / p.blocks, column = group_index() % p.blocks * 64u + lane;
    uint end = min((part + 1u) * p.per_part, p.rows);
    real dw = real(0), db = real(0);
    for (uint row = part * p.per_part + turn; column < p.width && row < end; row += 4u) {
        add_row(row, column, dw, db);
    }
    sums[0][turn][lane] = dw;
    sums[1][turn][lane] = db;
    barrier();
    // The dispatch may have more workgroups than there are parts; surplus ones store nothing.
    if (turn == 0u && column < p.width && (part * p.per_part < p.rows || part == 0u)) {
        for (uint i = 1u; i < 4u; i++) {
            dw += sums[0][i][lane];
            db += sums[1][i][lane];
        }
        store_sum(part, 0u, p.dw, column, dw);
        store_sum(part, 1u, p.db, column, db);
    }
}
