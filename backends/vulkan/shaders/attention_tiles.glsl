// backends/vulkan/shaders/attention_tiles.glsl -- products of tiles, for attention.glsl.

layout(constant_id = 5) const uint OWN = 4;   // items per invocation
layout(constant_id = 6) const uint OTHER = 4;
// Columns of the results in units of 64, 4 of each per invocation.
layout(constant_id = 7) const uint COLUMNS = 1;

const uint OWN_ITEMS = 16 * OWN, OTHER_ITEMS = 16 * OTHER;
const uint STEP = 16;          // elements of each item per step
const uint LINE = STEP / 4 + 1; // per staged item; one more avoids bank conflicts
const uint STAGED = (OWN_ITEMS + OTHER_ITEMS) * LINE;
const uint TILE_LINE = OWN_ITEMS + 1;

shared real4 staged[STAGED];
shared real tile[TILES * OTHER_ITEMS * TILE_LINE]; // [other item][own item]

real product[OWN * OTHER];           // own item i, other item j: at i OTHER + j
real4 result[RESULTS * OWN * COLUMNS];

uint tx = gl_LocalInvocationIndex % 16u, ty = gl_LocalInvocationIndex / 16u;

// Loads elements d to d + 3 of an item, padded with zeros.
real4 load_four(Words at, const uint dtype, uint start, int d, int width)
{
    real4 x = real4(0);
    for (int c = 0; c < 4; c++) {
        if (d + c < width) {
            x[c] = load_real(at, dtype, start + uint(d + c));
        }
    }
    return x;
}

// Stages STEP elements of `count` items starting at `first`; items at `end` and beyond are zero.
void stage(const View x, const bool rows, const uint dtype, int first, int end, const uint count,
           int d, int width, const uint to)
{
    uint part = gl_LocalInvocationIndex % (STEP / 4u);
    for (uint i = gl_LocalInvocationIndex / (STEP / 4u); i < count; i += 256u / (STEP / 4u)) {
        int item = first + int(i);
        real4 four = real4(0);
        if (item < end) {
            four = load_four(x.at, dtype, place_in(x, rows, uint(item)), d + 4 * int(part), width);
        }
        staged[to + i * LINE + part] = four;
    }
}

void multiply_staged()
{
    for (uint d = 0u; d < STEP / 4u; d++) {
        real4 own[OWN];
        for (uint i = 0u; i < OWN; i++) {
            own[i] = staged[(ty * OWN + i) * LINE + d];
        }
        for (uint j = 0u; j < OTHER; j++) {
            real4 other = staged[(OWN_ITEMS + tx + 16u * j) * LINE + d];
            for (uint i = 0u; i < OWN; i++) {
                product[i * OTHER + j] += dot(own[i], other);
            }
        }
    }
}

// product = own items times other items, over `width` elements. `rows`: own items are rows.
void multiply(const bool rows, const View own, const uint own_type, int own_first, int own_end,
              const View other, const uint other_type, int other_first, int other_end, int width)
{
    for (uint i = 0u; i < OWN * OTHER; i++) {
        product[i] = real(0);
    }
    for (int d = 0; d < width; d += int(STEP)) {
        barrier();
        stage(own, rows, own_type, own_first, own_end, OWN_ITEMS, d, width, 0u);
        stage(other, !rows, other_type, other_first, other_end, OTHER_ITEMS, d, width,
              OWN_ITEMS * LINE);
        barrier();
        multiply_staged();
    }
    barrier();
}

const uint WIDTH = 16 * COLUMNS; // vectors of four per staged line
const uint MOST = STAGED / WIDTH;

void add_staged(const uint results, const uint tiles, uint k0, uint n)
{
    for (uint k = 0u; k < n; k++) {
        for (uint c = 0u; c < COLUMNS; c++) {
            real4 x = staged[k * WIDTH + 16u * c + tx];
            for (uint i = 0u; i < OWN; i++) {
                real w = tile[tiles + (k0 + k) * TILE_LINE + ty * OWN + i];
                result[results + i * COLUMNS + c] += w * x;
            }
        }
    }
}

// result += tile of each own item times the other items. Column 4 tx + 64 c of own item i is at
// results + i COLUMNS + c.
void accumulate(const uint results, const uint tiles, const bool rows, const View other,
                const uint dtype, int first, int end, int width)
{
    for (uint k0 = 0u; k0 < OTHER_ITEMS; k0 += MOST) {
        uint n = min(MOST, OTHER_ITEMS - k0);
        barrier();
        for (uint e = gl_LocalInvocationIndex; e < n * WIDTH; e += 256u) {
            int item = first + int(k0 + e / WIDTH);
            real4 four = real4(0);
            if (item < end) {
                four = load_four(other.at, dtype, place_in(other, rows, uint(item)),
                                 4 * int(e % WIDTH), width);
            }
            staged[e] = four;
        }
        barrier();
        add_staged(results, tiles, k0, n);
    }
    barrier();
}

// Multiplies the results of own item i by `factor` and writes them to a row of `width` elements.
void store_result(Words at, const uint dtype, uint start, const uint results, uint i, int width,
                  real factor)
{
    for (uint c = 0u; c < COLUMNS; c++) {
        for (uint e = 0u; e < 4u; e++) {
            uint column = 64u * c + 4u * tx + e;
            if (column < uint(width)) {
                store_real(at, dtype, start + column,
                           result[results + i * COLUMNS + c][e] * factor);
            }
        }
    }
}

void clear_results()
{
    for (uint i = 0u; i < RESULTS * OWN * COLUMNS; i++) {
        result[i] = real4(0);
    }
}
