/* ops/random/threefry.h -- the Threefry 2x32 block function, 20 rounds (Salmon et al. 2011). */
#ifndef OPS_RANDOM_THREEFRY_H
#define OPS_RANDOM_THREEFRY_H

#include <stdint.h>

static inline void threefry(const uint32_t key[2], uint32_t block[2])
{
    static const unsigned char turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key[0], key[1], 0x1bd11bda ^ key[0] ^ key[1]};
    uint32_t a = block[0] + keys[0], b = block[1] + keys[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            unsigned turn = turns[group % 2][i];
            a += b;
            b = (b << turn | b >> (32 - turn)) ^ a;
        }
        a += keys[(group + 1) % 3];
        b += keys[(group + 2) % 3] + group + 1;
    }
    block[0] = a;
    block[1] = b;
}

#endif
