/* backends/vulkan/kernels/rows_reduce.c -- kernel rows for reductions, softmax, scans and sorts. */
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/reduce.h"

/* Inputs in place, or copied if they have too many axes. */
#define REDUCTION(name)                                                                            \
    {.op = name,                                                                                   \
     .layout = WEFT_STRIDED,                                                                       \
     .fits = weft__vulkan_reduce_fits,                                                             \
     .workspace = weft__vulkan_reduce_workspace,                                                   \
     .kernel = weft__vulkan_reduce},                                                               \
    {                                                                                              \
        .op = name, .layout = WEFT_CONTIGUOUS, .fits = weft__vulkan_reduce_copied_fits,            \
        .workspace = weft__vulkan_reduce_workspace, .kernel = weft__vulkan_reduce                  \
    }

/* Inputs in place, or copied, which leaves at most two axes. `over`: the inputs that the result may
 * overwrite. */
#define ALONG_AXIS(name, accepts, accepts_copied, bytes, function, over)                           \
    {.op = name,                                                                                   \
     .layout = WEFT_STRIDED,                                                                       \
     .in_place = {over},                                                                           \
     .fits = accepts,                                                                              \
     .workspace = bytes,                                                                           \
     .kernel = function},                                                                          \
    {                                                                                              \
        .op = name, .layout = WEFT_CONTIGUOUS, .in_place = {over}, .fits = accepts_copied,         \
        .workspace = bytes, .kernel = function                                                     \
    }
#define SOFTMAX(name)                                                                              \
    ALONG_AXIS(name, weft__vulkan_softmax_fits, weft__vulkan_walk_fits,                            \
               weft__vulkan_softmax_workspace, weft__vulkan_softmax, 1)
#define SOFTMAX_GRAD(name)                                                                         \
    ALONG_AXIS(name, weft__vulkan_softmax_fits, weft__vulkan_walk_fits, NULL,                      \
               weft__vulkan_softmax_grad, 3)
#define SORT(name)                                                                                 \
    ALONG_AXIS(name, weft__vulkan_sort_fits, weft__vulkan_sort_copied_fits,                        \
               weft__vulkan_sort_workspace, weft__vulkan_sort, 0)

#define SCAN(name)                                                                                 \
    ALONG_AXIS(name, weft__vulkan_scan_fits, weft__vulkan_walk_fits, NULL, weft__vulkan_scan, 0)

static const weft_kernel_row rows[] = {
    REDUCTION("sum"),
    {.op = "sum_squares",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_sum_squares_fits,
     .workspace = weft__vulkan_sum_squares_workspace,
     .kernel = weft__vulkan_sum_squares},
    REDUCTION("mean"),
    REDUCTION("prod"),
    REDUCTION("max"),
    REDUCTION("min"),
    REDUCTION("all"),
    REDUCTION("any"),
    REDUCTION("logsumexp"),
    REDUCTION("argmax"),
    REDUCTION("argmin"),
    SOFTMAX("softmax"),
    SOFTMAX("log_softmax"),
    SOFTMAX_GRAD("softmax_grad"),
    SOFTMAX_GRAD("log_softmax_grad"),
    SCAN("cumprod"),
    SCAN("cummax"),
    SCAN("cummin"),
    SCAN("cumargmax"),
    SCAN("cumargmin"),
    SCAN("logcumsumexp"),
    {.op = "linear_scan",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_walk_fits,
     .kernel = weft__vulkan_scan},
    ALONG_AXIS("cumsum", weft__vulkan_cumsum_fits, weft__vulkan_walk_fits,
               weft__vulkan_cumsum_workspace, weft__vulkan_cumsum, 1),
    SORT("sort"),
    SORT("argsort"),
};

const weft__vulkan_family weft__vulkan_reductions = {rows, sizeof rows / sizeof *rows};
