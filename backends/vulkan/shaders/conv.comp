// backends/vulkan/shaders/conv.comp -- convolution as a tiled product: gathered rows of x and the
// weight, 16 terms at a time through shared memory; 4 by 4 results per invocation.
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TYPE = FLOAT32;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sizes {
    ivec3 size, outs, kernel, stride, low, kernel_dilation, input_dilation;
    int C, O, channels, outputs; // channels, outputs: per group
    int rows, taps, flip;
};

layout(push_constant, scalar) uniform Push {
    Words x, weight, y;
    Sizes s;
    uint row_tiles, column_tiles;
    uint first_group; // of a launch that is divided
} p;

const int TILE = 64, TERMS = 16, PITCH = TILE + 1;

shared real a_tile[TERMS * PITCH];
shared real b_tile[TERMS * PITCH];

// The offset of a row's first element of x, and its coordinates along the axes.
struct Corner {
    int n;
    ivec3 at;
};

Corner corner_of(int row)
{
    ivec3 outs = p.s.outs, at;
    at.z = row % outs.z;
    row /= outs.z;
    at.y = row % outs.y;
    row /= outs.y;
    at.x = row % outs.x;
    return Corner(row / outs.x, at * p.s.stride - p.s.low);
}

real x_at(Corner c, int group, int term)
{
    int tap = term / p.s.channels, channel = term - tap * p.s.channels;
    ivec3 kernel = p.s.kernel, j;
    j.z = tap % kernel.z;
    tap /= kernel.z;
    j.y = tap % kernel.y;
    j.x = tap / kernel.y;
    ivec3 at = c.at + j * p.s.kernel_dilation, dilation = p.s.input_dilation;
    ivec3 place = at / dilation, size = p.s.size;
    bool inside = at.x >= 0 && at.y >= 0 && at.z >= 0 && place.x < size.x && place.y < size.y &&
                  place.z < size.z && place * dilation == at;
    if (!inside) {
        return real(0);
    }
    int pixel = ((c.n * size.x + place.x) * size.y + place.y) * size.z + place.z;
    return load_real(p.x, TYPE, uint(pixel * p.s.C + group * p.s.channels + channel));
}

real weight_at(int group, int output_, int term)
{
    int tap = term / p.s.channels, channel = term - tap * p.s.channels;
    tap = p.s.flip != 0 ? p.s.taps - 1 - tap : tap;
    int row = group * p.s.outputs + output_;
    return load_real(p.weight, TYPE, uint((row * p.s.taps + tap) * p.s.channels + channel));
}

void main()
{
    int self = int(gl_LocalInvocationID.x), tile = int(p.first_group + group_index());
    int row = tile % int(p.row_tiles) * TILE;
    tile /= int(p.row_tiles);
    int column = tile % int(p.column_tiles) * TILE, group = tile / int(p.column_tiles);
    bool there = group * p.s.outputs < p.s.O;
    int terms = there ? p.s.taps * p.s.channels : 0;
    int term = self % TERMS, line = self / TERMS; // what this invocation loads: lines 16 apart
    int across = self % 16, down = self / 16;     // what it computes
    Corner corners[4];
    [[unroll]] for (int i = 0; i < 4; i++) {
        corners[i] = corner_of(min(row + line + 16 * i, p.s.rows - 1));
    }
    real sums[16];
    [[unroll]] for (int i = 0; i < 16; i++) {
        sums[i] = real(0);
    }
    for (int k = 0; k < terms; k += TERMS) {
        bool inside = k + term < terms;
        [[unroll]] for (int i = 0; i < 4; i++) {
            int at = line + 16 * i;
            a_tile[term * PITCH + at] =
                inside && row + at < p.s.rows ? x_at(corners[i], group, k + term) : real(0);
            b_tile[term * PITCH + at] = inside && column + at < p.s.outputs
                                            ? weight_at(group, column + at, k + term)
                                            : real(0);
        }
        barrier();
        for (int t = 0; t < TERMS; t++) {
            [[unroll]] for (int i = 0; i < 4; i++) {
                real a = a_tile[t * PITCH + down + 16 * i];
                [[unroll]] for (int j = 0; j < 4; j++) {
                    sums[4 * i + j] += a * b_tile[t * PITCH + across + 16 * j];
                }
            }
        }
        barrier();
    }
    [[unroll]] for (int i = 0; i < 4; i++) {
        [[unroll]] for (int j = 0; j < 4; j++) {
            int y_row = row + down + 16 * i, y_column = column + across + 16 * j;
            if (there && y_row < p.s.rows && y_column < p.s.outputs) {
                store_real(p.y, TYPE, uint(y_row * p.s.O + group * p.s.outputs + y_column),
                           sums[4 * i + j]);
            }
        }
    }
}
