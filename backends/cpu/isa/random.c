/* backends/cpu/isa/random.c -- Threefry 2x32, 20 rounds (Salmon et al. 2011), on many blocks at
 * once. Equals ops/random/threefry.h; tests/ops/test_random.c checks this. */
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/kernels.h"

static void threefry(const uint32_t *key, uint32_t *restrict a, uint32_t *restrict b, int64_t n)
{
    static const unsigned char turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key[0], key[1], 0x1bd11bda ^ key[0] ^ key[1]};
    const int64_t bytes = n * (int64_t)sizeof *a;
    check_write(a, bytes, 0, 1);
    check_write(b, bytes, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        a[i] += keys[0];
        b[i] += keys[1];
    }
    for (uint32_t round = 0; round < 20; round++) {
        unsigned turn = turns[round / 4 % 2][round % 4], back = 32 - turn;
        uint32_t group = round / 4 + 1, last = round % 4 == 3 ? 1 : 0;
        uint32_t add_a = last ? keys[group % 3] : 0;
        uint32_t add_b = last ? keys[(group + 1) % 3] + group : 0;
        for (int64_t i = 0; i < n; i++) {
            uint32_t sum = a[i] + b[i];
            b[i] = ((b[i] << turn | b[i] >> back) ^ sum) + add_b;
            a[i] = sum + add_a;
        }
    }
}

void CPU_NAME(weft__fill_random)(cpu_kernels *table)
{
    table->threefry = threefry;
}
