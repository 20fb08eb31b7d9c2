/* backends/cpu/isa.h -- selects the instruction set of the kernels.
 *
 * Files in isa/ are compiled once per instruction set. Each has one function with external linkage,
 *
 *     void CPU_NAME(weft__fill_norm)(cpu_kernels *table) { table->rms_row = rms_row; ... }
 *
 * whose name gets the suffix _portable, _avx2 or _avx512; everything else in it is static.
 * kernels.c calls those that the machine can run, the portable ones first.
 */
#ifndef BACKENDS_CPU_ISA_H
#define BACKENDS_CPU_ISA_H

typedef enum cpu_isa { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_ISA_COUNT } cpu_isa;

/* The best instruction set of this machine, or a lower one given by the environment variable
 * WEFT_CPU_ISA (portable, avx2, avx512). Constant during the process. */
cpu_isa weft__cpu_isa(void);

const char *weft__cpu_isa_name(cpu_isa isa);

#define CPU_JOIN_(name, suffix) name##_##suffix
#define CPU_JOIN(name, suffix) CPU_JOIN_(name, suffix)
#define CPU_NAME(name) CPU_JOIN(name, CPU_ISA)

/* Declares the fill functions of a file in isa/, one per instruction set. */
#if defined(__x86_64__)
#define CPU_DECLARE_FILL(name, table)                                                              \
    void name##_portable(table *);                                                                 \
    void name##_avx2(table *);                                                                     \
    void name##_avx512(table *)
/* Calls the fill functions that the machine can run, slowest first. */
#define CPU_FILL(name, table, isa)                                                                 \
    do {                                                                                           \
        name##_portable(table);                                                                    \
        if ((isa) >= CPU_AVX2)                                                                     \
            name##_avx2(table);                                                                    \
        if ((isa) >= CPU_AVX512)                                                                   \
            name##_avx512(table);                                                                  \
    } while (0)
#else
#define CPU_DECLARE_FILL(name, table) void name##_portable(table *)
#define CPU_FILL(name, table, isa) ((void)(isa), name##_portable(table))
#endif

#endif
