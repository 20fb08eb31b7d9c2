/* backends/cpu/rows_structure.c -- kernel rows for conversions, structural ops, indexing,
 * reductions, sorting and random words. Other ops use their reference kernel. */
#include "backends/cpu/backend.h"
#include "backends/cpu/structure.h"

#define REDUCTION(name, function)                                                                  \
    {                                                                                              \
        .op = name, .layout = WEFT_STRIDED, .fits = weft__cpu_is_not_complex,                      \
        .workspace = weft__cpu_reduce_workspace, .kernel = function                                \
    }

#define REDUCTION_OF_FLOATS(name, function)                                                        \
    {                                                                                              \
        .op = name, .layout = WEFT_STRIDED, .fits = weft__cpu_is_not_complex,                      \
        .workspace = weft__cpu_reduce_workspace, .kernel = function,                               \
        .takes_formula = weft__cpu_reduce_takes_formula                                            \
    }

#define SCAN(name, function)                                                                       \
    {                                                                                              \
        .op = name, .in_place = {1}, .fits = weft__cpu_is_not_complex,                             \
        .workspace = weft__cpu_scan_workspace, .kernel = function                                  \
    }

const weft_kernel_row weft__cpu_structure_rows[] = {
    {.op = "full", .kernel = weft__cpu_full},
    {.op = "arange", .fits = weft__cpu_arange_fits, .kernel = weft__cpu_arange},
    {.op = "cast", .layout = WEFT_STRIDED, .kernel = weft__cpu_copy},
    {.op = "copy", .layout = WEFT_STRIDED, .kernel = weft__cpu_copy},
    {.op = "contiguous", .layout = WEFT_STRIDED, .kernel = weft__cpu_copy},
    {.op = "reshape", .layout = WEFT_STRIDED, .kernel = weft__cpu_reshape},
    {.op = "slice_grad", .layout = WEFT_STRIDED, .kernel = weft__cpu_slice_grad},
    {.op = "dynamic_slice", .layout = WEFT_STRIDED, .kernel = weft__cpu_dynamic_slice},
    {.op = "slice_update",
     .layout = WEFT_STRIDED,
     .in_place = {1u << 0},
     .kernel = weft__cpu_slice_update},
    {.op = "slice_set",
     .layout = WEFT_STRIDED,
     .in_place = {1u << 0},
     .kernel = weft__cpu_slice_set},
    {.op = "concatenate", .layout = WEFT_STRIDED, .kernel = weft__cpu_concatenate},
    {.op = "pad", .layout = WEFT_STRIDED, .kernel = weft__cpu_pad},

    {.op = "take", .checks_first = true, .kernel = weft__cpu_take},
    {.op = "take_along_axis", .checks_first = true, .kernel = weft__cpu_take_along_axis},
    {.op = "bounded_index", .checks_first = true, .kernel = weft__cpu_bounded_index},
    {.op = "scatter_add",
     .in_place = {1u << 0},
     .fits = weft__cpu_is_not_complex,
     .workspace = weft__cpu_scatter_workspace,
     .checks_first = true,
     .kernel = weft__cpu_scatter_add},
    {.op = "scatter",
     .in_place = {1u << 0},
     .fits = weft__cpu_scatter_fits,
     .workspace = weft__cpu_scatter_workspace,
     .checks_first = true,
     .kernel = weft__cpu_scatter},
    {.op = "scatter_add_along_axis",
     .in_place = {1u << 0},
     .fits = weft__cpu_is_not_complex,
     .workspace = weft__cpu_scatter_along_workspace,
     .checks_first = true,
     .kernel = weft__cpu_scatter_add_along_axis},
    {.op = "put_along_axis",
     .in_place = {1u << 0},
     .checks_first = true,
     .kernel = weft__cpu_put_along_axis},

    REDUCTION_OF_FLOATS("sum", weft__cpu_sum),
    REDUCTION_OF_FLOATS("mean", weft__cpu_mean),
    REDUCTION("prod", weft__cpu_prod),
    REDUCTION_OF_FLOATS("max", weft__cpu_max),
    REDUCTION_OF_FLOATS("min", weft__cpu_min),
    REDUCTION("all", weft__cpu_all),
    REDUCTION("any", weft__cpu_any),
    {.op = "var",
     .layout = WEFT_STRIDED,
     .workspace = weft__cpu_var_workspace,
     .kernel = weft__cpu_var},

    {.op = "softmax",
     .in_place = {1u << 0},
     .fits = weft__cpu_softmax_fits,
     .kernel = weft__cpu_softmax},
    {.op = "log_softmax",
     .in_place = {1u << 0},
     .fits = weft__cpu_softmax_fits,
     .kernel = weft__cpu_log_softmax},
    {.op = "softmax_grad",
     .in_place = {1u << 0 | 1u << 1},
     .fits = weft__cpu_softmax_fits,
     .kernel = weft__cpu_softmax_grad},
    {.op = "log_softmax_grad",
     .in_place = {1u << 0 | 1u << 1},
     .fits = weft__cpu_softmax_fits,
     .kernel = weft__cpu_log_softmax_grad},
    {.op = "logsumexp", .fits = weft__cpu_logsumexp_fits, .kernel = weft__cpu_logsumexp},
    {.op = "argmax", .fits = weft__cpu_softmax_fits, .kernel = weft__cpu_argmax},
    {.op = "argmin", .fits = weft__cpu_softmax_fits, .kernel = weft__cpu_argmin},

    SCAN("cumsum", weft__cpu_cumsum),
    SCAN("cumprod", weft__cpu_cumprod),
    SCAN("cummax", weft__cpu_cummax),
    SCAN("cummin", weft__cpu_cummin),
    SCAN("logcumsumexp", weft__cpu_logcumsumexp),
    {.op = "linear_scan",
     .in_place = {3},
     .fits = weft__cpu_is_not_complex,
     .kernel = weft__cpu_linear_scan},
    {.op = "sort",
     .fits = weft__cpu_sort_fits,
     .workspace = weft__cpu_sort_workspace,
     .kernel = weft__cpu_sort},
    {.op = "argsort",
     .fits = weft__cpu_sort_fits,
     .workspace = weft__cpu_sort_workspace,
     .kernel = weft__cpu_argsort},
    {.op = "sort",
     .fits = weft__cpu_sort_wide_fits,
     .workspace = weft__cpu_sort_wide_workspace,
     .kernel = weft__cpu_sort_wide},
    {.op = "argsort",
     .fits = weft__cpu_sort_wide_fits,
     .workspace = weft__cpu_sort_wide_workspace,
     .kernel = weft__cpu_argsort_wide},
    {.op = "topk",
     .fits = weft__cpu_topk_fits,
     .workspace = weft__cpu_top_workspace,
     .kernel = weft__cpu_topk},
    {.op = "top_p",
     .signature = "f",
     .workspace = weft__cpu_top_workspace,
     .kernel = weft__cpu_top_p},
    {.op = "argpartition",
     .fits = weft__cpu_argpartition_fits,
     .workspace = weft__cpu_argpartition_workspace,
     .kernel = weft__cpu_argpartition},
    {.op = "searchsorted", .fits = weft__cpu_searchsorted_fits, .kernel = weft__cpu_searchsorted},

    {.op = "random_bits", .kernel = weft__cpu_random_bits},
};
const int weft__cpu_structure_row_count =
    sizeof weft__cpu_structure_rows / sizeof *weft__cpu_structure_rows;
