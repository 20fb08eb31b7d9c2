/* backends/cpu/kernels.c -- fills the kernel table: baseline kernels first, then faster ones that
 * the machine can run. */
#include "backends/cpu/kernels.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_kernels table;

static void fill(cpu_isa isa)
{
    table.parts = (cpu_part_kernels){0};
#if defined(WEFT_WITH_AMX)
    if (isa >= CPU_AMX) {
        weft__fill_amx_amx(&table);
        weft__fill_amx_dense_amx(&table);
    }
#endif
    CPU_FILL(weft__fill_attention, &table, isa);
    CPU_FILL(weft__fill_codes, &table, isa);
    CPU_FILL(weft__fill_conv, &table, isa);
    CPU_FILL(weft__fill_convert_rows, &table, isa);
    CPU_FILL(weft__fill_delta, &table, isa);
    CPU_FILL(weft__fill_fft, &table, isa);
    CPU_FILL(weft__fill_gemm, &table, isa);
    CPU_FILL(weft__fill_gemv, &table, isa);
    CPU_FILL(weft__fill_gemv_codes, &table, isa);
    CPU_FILL_BYTES(weft__fill_int8, &table, isa);
    CPU_FILL(weft__fill_int8_pack, &table, isa);
    CPU_FILL(weft__fill_int8_rows, &table, isa);
    CPU_FILL(weft__fill_kv_codes, &table, isa);
    CPU_FILL(weft__fill_loss, &table, isa);
    CPU_FILL(weft__fill_norm, &table, isa);
    CPU_FILL(weft__fill_random, &table, isa);
    CPU_FILL(weft__fill_reduce, &table, isa);
    CPU_FILL(weft__fill_reduce_wide, &table, isa);
    CPU_FILL(weft__fill_rope, &table, isa);
    CPU_FILL(weft__fill_tiles, &table, isa);
}

static void fill_best(void)
{
    fill(weft__cpu_isa());
}

const cpu_kernels *weft__cpu_kernels(void)
{
    pthread_once(&once, fill_best);
    return &table;
}

cpu_isa weft__cpu_use_isa(cpu_isa isa)
{
    pthread_once(&once, fill_best);
    if (isa > weft__cpu_isa())
        isa = weft__cpu_isa();
    fill(isa);
    return isa;
}
