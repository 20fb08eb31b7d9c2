/* tests/cpu/arm64_bytes.c -- the kernels of 8-bit products for each instruction set of AArch64,
 * without the rest of the library, so that tests/arm64.sh can build it in seconds.
 *
 * arm64_bytes ISA: fails unless ISA is the instruction set that is chosen, and its kernels and
 * those below it are exact. */
#include <stdio.h>
#include <string.h>

#include "tests/cpu/int8_integers.h"

int main(int argc, char **argv)
{
    const cpu_isa best = weft__cpu_isa();
    int64_t wrong = argc != 2 || strcmp(argv[1], weft__cpu_isa_name(best)) != 0;
    if (wrong)
        printf("expected %s, chosen: %s\n", argc == 2 ? argv[1] : "one argument",
               weft__cpu_isa_name(best));
    for (cpu_isa isa = CPU_BASELINE; isa <= best; isa++) {
        cpu_kernels kernels = {.lanes = 0};
        CPU_FILL_BYTES(weft__fill_int8, &kernels, isa);
        const int64_t sums =
            int8_wrong_sums(&kernels, false, 255) + int8_wrong_sums(&kernels, true, 15);
        const int64_t roundings = int8_wrong_roundings(&kernels);
        if (sums + roundings > 0)
            printf("%s: %d wrong sums, %d wrong roundings\n", weft__cpu_isa_name(isa), (int)sums,
                   (int)roundings);
        wrong += sums + roundings;
    }
    return wrong > 0;
}
