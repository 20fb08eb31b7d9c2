/* backends/cpu/isa.h -- selects the instruction set of the kernels.
 *
 * Files in isa/ are compiled once per instruction set. Each has one function with external linkage,
 *
 *     void CPU_NAME(weft__fill_norm)(cpu_kernels *table) { table->rms_row = rms_row; ... }
 *
 * whose name gets the instruction set as a suffix; everything else in it is static. kernels.c calls
 * those that the machine can run, the baseline first.
 */
#ifndef BACKENDS_CPU_ISA_H
#define BACKENDS_CPU_ISA_H

/* Those of the processor's architecture; each includes the ones before it. */
#if defined(__x86_64__)
typedef enum cpu_isa {
    CPU_PORTABLE,
    CPU_AVX2,
    CPU_AVX512,
    CPU_AMX, /* products of tiles of bfloat16 */
    CPU_ISA_COUNT,
    CPU_BASELINE = CPU_PORTABLE
} cpu_isa;
#elif defined(__aarch64__)
typedef enum cpu_isa {
    CPU_NEON,
    CPU_DOTPROD, /* products of four bytes */
    CPU_I8MM,    /* products of matrices of bytes */
    CPU_ISA_COUNT,
    CPU_BASELINE = CPU_NEON
} cpu_isa;
#else
typedef enum cpu_isa { CPU_PORTABLE, CPU_ISA_COUNT, CPU_BASELINE = CPU_PORTABLE } cpu_isa;
#endif

/* The best instruction set of this machine, or a lower one given by the environment variable
 * WEFT_CPU_ISA (portable, avx2, avx512, amx; on AArch64 neon, dotprod, i8mm). Constant during the
 * process. */
cpu_isa weft__cpu_isa(void);

const char *weft__cpu_isa_name(cpu_isa isa);

/* What `weft info` says of the kernels. */
const char *weft__cpu_isa_description(cpu_isa isa);

#define CPU_JOIN_(name, suffix) name##_##suffix
#define CPU_JOIN(name, suffix) CPU_JOIN_(name, suffix)
#define CPU_NAME(name) CPU_JOIN(name, CPU_ISA)

/* CPU_DECLARE_FILL declares the fill functions of a file in isa/, one per instruction set; CPU_FILL
 * calls those that the machine can run, slowest first. CPU_DECLARE_FILL_BYTES and CPU_FILL_BYTES
 * are for isa/int8.c, which AArch64 compiles for more instruction sets than the other files. */
#if defined(__x86_64__)
#define CPU_DECLARE_FILL(name, table)                                                              \
    void name##_portable(table *);                                                                 \
    void name##_avx2(table *);                                                                     \
    void name##_avx512(table *)
#if defined(WEFT_WITHOUT_AVX512) /* some builds for tests (meson.build) */
#define CPU_FILL_AVX512(name, table) ((void)0)
#else
#define CPU_FILL_AVX512(name, table) name##_avx512(table)
#endif
#define CPU_FILL(name, table, isa)                                                                 \
    do {                                                                                           \
        name##_portable(table);                                                                    \
        if ((isa) >= CPU_AVX2)                                                                     \
            name##_avx2(table);                                                                    \
        if ((isa) >= CPU_AVX512)                                                                   \
            CPU_FILL_AVX512(name, table);                                                          \
    } while (0)
#define CPU_DECLARE_FILL_BYTES CPU_DECLARE_FILL
#define CPU_FILL_BYTES CPU_FILL
#elif defined(__aarch64__)
#define CPU_DECLARE_FILL(name, table) void name##_neon(table *)
#define CPU_FILL(name, table, isa) ((void)(isa), name##_neon(table))
#define CPU_DECLARE_FILL_BYTES(name, table)                                                        \
    void name##_neon(table *);                                                                     \
    void name##_dotprod(table *);                                                                  \
    void name##_i8mm(table *)
#define CPU_FILL_BYTES(name, table, isa)                                                           \
    do {                                                                                           \
        name##_neon(table);                                                                        \
        if ((isa) >= CPU_DOTPROD)                                                                  \
            name##_dotprod(table);                                                                 \
        if ((isa) >= CPU_I8MM)                                                                     \
            name##_i8mm(table);                                                                    \
    } while (0)
#else
#define CPU_DECLARE_FILL(name, table) void name##_portable(table *)
#define CPU_FILL(name, table, isa) ((void)(isa), name##_portable(table))
#define CPU_DECLARE_FILL_BYTES CPU_DECLARE_FILL
#define CPU_FILL_BYTES CPU_FILL
#endif

#endif
