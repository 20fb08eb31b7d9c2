/* backends/cpu/indices.h -- shared by the kernels that read and write at indices. */
#ifndef BACKENDS_CPU_INDICES_H
#define BACKENDS_CPU_INDICES_H

#include "weft/indexing.h"
#include "weft/op.h"

/* A shape split at one axis: element (o, i, j) is at (o * length + i) * inner + j. */
typedef struct cpu_extents {
    int64_t outer, length, inner;
} cpu_extents;

cpu_extents weft__cpu_extents_of(const weft_tensor *t, int64_t axis);

/* Fails if an index in the second input is out of range for an axis of `length`; without index
 * checks only if the axis is empty. */
weft_status weft__cpu_check_indices(const weft_call *call, int64_t length);

/* Element i of a dense integer tensor. */
static inline int64_t weft__cpu_index_value(weft_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case WEFT_UINT8:
        return ((const uint8_t *)data)[i];
    case WEFT_UINT16:
        return ((const uint16_t *)data)[i];
    case WEFT_UINT32:
        return ((const uint32_t *)data)[i];
    case WEFT_INT8:
        return ((const int8_t *)data)[i];
    case WEFT_INT16:
        return ((const int16_t *)data)[i];
    case WEFT_INT32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

/* The same as an index into an axis of `length`, clamped to the axis if it is out of range, which
 * happens if indices are not checked. A uint64 above 2^63 counts as negative. */
static inline int64_t weft__cpu_clamped_index(const weft_tensor *t, int64_t i, int64_t length)
{
    int64_t index = weft__cpu_index_value(t->dtype, t->data, i);
    index += index < 0 && t->dtype != WEFT_UINT64 ? length : 0;
    return index < 0 ? 0 : index < length ? index : length - 1;
}

#endif
