/* weft/print.h -- arrays as text, as NumPy prints them. */
#ifndef WEFT_PRINT_H
#define WEFT_PRINT_H

#include <stdio.h>

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default. */
typedef struct weft_print_options {
    int precision;     /* digits after the point at most: 8; negative: none */
    int64_t threshold; /* arrays of more elements are shown by their edges: 1000 */
    int edge_items;    /* how many from each end of an axis: 3 */
    int line_width;    /* columns: 75 */
    bool suppress;     /* no exponents for the sake of small numbers */
} weft_print_options;

/* Evaluates `a` and returns its elements as numpy.array2string does, without a newline at the end,
 * in a new string (weft_free); of a large array only the edges are read. NULL after a failure
 * (weft_error_message). NULL options: all zero. */
WEFT_API char *weft_to_text(weft_array *a, const weft_print_options *options);

/* Writes the same text and a newline to `out`. Fails as weft_eval does, and with WEFT_IO. */
WEFT_NODISCARD WEFT_API weft_status weft_print(weft_array *a, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
