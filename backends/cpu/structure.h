/* backends/cpu/structure.h -- the kernels used in rows_structure.c. */
#ifndef BACKENDS_CPU_STRUCTURE_H
#define BACKENDS_CPU_STRUCTURE_H

#include "weft/backend.h"

/* structure.c: any dtype */
weft_kernel weft__cpu_full, weft__cpu_arange, weft__cpu_reshape, weft__cpu_slice_grad,
    weft__cpu_dynamic_slice, weft__cpu_slice_update, weft__cpu_slice_set, weft__cpu_concatenate,
    weft__cpu_pad;

/* gather.c: any dtype */
weft_kernel weft__cpu_take, weft__cpu_take_along_axis, weft__cpu_bounded_index;

/* scatter.c: replacement for any dtype, otherwise real dtypes */
weft_kernel weft__cpu_scatter_add, weft__cpu_scatter_add_along_axis, weft__cpu_scatter,
    weft__cpu_put_along_axis;
int64_t weft__cpu_scatter_workspace(const weft_call *call);
int64_t weft__cpu_scatter_along_workspace(const weft_call *call);

/* reduce.c: all dtypes except complex64, any axes; mean and var: floats */
weft_kernel weft__cpu_sum, weft__cpu_mean, weft__cpu_prod, weft__cpu_max, weft__cpu_min,
    weft__cpu_all, weft__cpu_any, weft__cpu_var;
int64_t weft__cpu_reduce_workspace(const weft_call *call);
int64_t weft__cpu_var_workspace(const weft_call *call);
bool weft__cpu_reduce_takes_formula(const weft_call *call); /* sum, mean, max, min */
bool weft__cpu_is_not_complex(const weft_call *call);

/* softmax.c: float32 and 16-bit floats, last axis */
weft_kernel weft__cpu_softmax, weft__cpu_log_softmax, weft__cpu_softmax_grad,
    weft__cpu_log_softmax_grad, weft__cpu_logsumexp, weft__cpu_argmax, weft__cpu_argmin;
bool weft__cpu_scatter_fits(const weft_call *call);
bool weft__cpu_softmax_fits(const weft_call *call);
bool weft__cpu_logsumexp_fits(const weft_call *call);

/* scan.c: all dtypes except complex64, any axis; the last two: floats */
weft_kernel weft__cpu_cumsum, weft__cpu_cumprod, weft__cpu_cummax, weft__cpu_cummin,
    weft__cpu_logcumsumexp, weft__cpu_linear_scan;
int64_t weft__cpu_scan_workspace(const weft_call *call);
/* Elements per part of a row, of which there are `rows`. Each part is summed from 0 and then gets
 * the sum of the parts before it. Parts are summed by `fold_reals` over tiles. */
int64_t weft__cpu_scan_part(int64_t length, int64_t rows);
enum { CPU_SCAN_TILE = 512 };

/* sort.c: dtypes of up to 32 bits, last axis */
weft_kernel weft__cpu_sort, weft__cpu_argsort;
bool weft__cpu_sort_fits(const weft_call *call);
int64_t weft__cpu_sort_workspace(const weft_call *call);

/* fft.c: the three transforms, any axis */
weft_kernel weft__cpu_fft;
int64_t weft__cpu_fft_workspace(const weft_call *call);
/* Sorting helpers for the same dtypes: the key of element i of a row, which sorts as the element
 * does; the keys of n elements; and sorting n items, a key in the upper half and any data in the
 * lower half, by keys of key_bits bits, stably. Returns the list that has the result. n > 0. */
uint32_t weft__cpu_sort_key(weft_dtype dtype, const void *row, int64_t i);
void weft__cpu_make_keys(weft_dtype dtype, const void *row, int64_t n, uint32_t *keys);
const uint64_t *weft__cpu_sort_items(uint64_t *items, uint64_t *scratch, int64_t n, int key_bits);

/* top.c: the k largest, for dtypes of up to 32 bits, last axis; and the top-p threshold */
weft_kernel weft__cpu_topk, weft__cpu_top_p;
bool weft__cpu_topk_fits(const weft_call *call);
int64_t weft__cpu_top_workspace(const weft_call *call);

/* sort_wide.c: sorts for 64-bit dtypes; partitions and searches for all except complex64 */
weft_kernel weft__cpu_sort_wide, weft__cpu_argsort_wide, weft__cpu_argpartition,
    weft__cpu_searchsorted;
bool weft__cpu_sort_wide_fits(const weft_call *call);
bool weft__cpu_argpartition_fits(const weft_call *call);
bool weft__cpu_searchsorted_fits(const weft_call *call);
int64_t weft__cpu_sort_wide_workspace(const weft_call *call);
int64_t weft__cpu_argpartition_workspace(const weft_call *call);

/* random.c */
weft_kernel weft__cpu_random_bits;
/* Blocks first ... first + n - 1 of `count` words under a key: words first + i and, where there are
 * that many, first + i + (count + 1) / 2. */
void weft__cpu_random_words(const uint32_t key[2], int64_t count, int64_t first, int64_t n,
                            uint32_t *a, uint32_t *b);

/* Whether the first input is float32, float16 or bfloat16. */
bool weft__cpu_is_narrow(const weft_call *call);

/* n elements from element `first` of a dense row, as float32: in place, or decoded into `room`. */
const float *weft__cpu_floats(weft_dtype dtype, const void *row, int64_t first, int64_t n,
                              float *room);
/* Stores elements likewise. */
void weft__cpu_store(weft_dtype dtype, const float *from, void *row, int64_t first, int64_t n);

bool weft__cpu_arange_fits(const weft_call *call);

#endif
