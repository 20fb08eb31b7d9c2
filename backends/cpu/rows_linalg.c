/* backends/cpu/rows_linalg.c -- kernel rows for linear algebra and Fourier transforms. Empty
 * matrices use the reference kernel. */
#include "backends/cpu/backend.h"
#include "backends/cpu/linalg.h"
#include "backends/cpu/structure.h"

#define ROW(name, room)                                                                            \
    {                                                                                              \
        .op = #name, .fits = weft__cpu_linalg_fits, .workspace = room, .kernel = weft__cpu_##name  \
    }

const weft_kernel_row weft__cpu_linalg_rows[] = {
    ROW(qr, weft__cpu_qr_workspace),
    ROW(lu, weft__cpu_lu_workspace),
    ROW(cholesky, NULL),
    ROW(solve, weft__cpu_solve_workspace),
    ROW(solve_triangular, NULL),
    ROW(det, weft__cpu_solve_workspace),
    ROW(slogdet, weft__cpu_solve_workspace),
    ROW(svd, weft__cpu_svd_workspace),
    ROW(eigh, weft__cpu_eigh_workspace),
    ROW(eig, weft__cpu_eig_workspace),
    {.op = "fft",
     .layout = WEFT_STRIDED,
     .workspace = weft__cpu_fft_workspace,
     .kernel = weft__cpu_fft},
    {.op = "rfft",
     .layout = WEFT_STRIDED,
     .workspace = weft__cpu_fft_workspace,
     .kernel = weft__cpu_fft},
    {.op = "irfft",
     .layout = WEFT_STRIDED,
     .workspace = weft__cpu_fft_workspace,
     .kernel = weft__cpu_fft},
};
#undef ROW

const int weft__cpu_linalg_row_count = sizeof weft__cpu_linalg_rows / sizeof *weft__cpu_linalg_rows;
