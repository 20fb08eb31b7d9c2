/* weft/dlpack.h -- arrays shared with other libraries without copying, by the DLPack protocol.
 *
 * The structs are those of dlpack.h 1.0 (github.com/dmlc/dlpack), which Weft does not need: a
 * program that has that header can look into them, another hands them on. Arrays of the CPU only;
 * move others with weft_to first.
 */
#ifndef WEFT_DLPACK_H
#define WEFT_DLPACK_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Evaluates `a` and puts a tensor over its memory in *out, with its strides, marked as read-only:
 * the array stays as it is. The array's memory is held until the tensor's deleter is called, which
 * any thread may do. On a failure *out is NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_to_dlpack(weft_array *a,
                                                   struct DLManagedTensorVersioned **out)
    WEFT_NONNULL(2);

/* An array over the tensor's memory, any strides, which Weft does not write to and which must stay
 * unchanged. The tensor is taken, also on failure: its deleter is called when nothing needs the
 * memory any more. Types that Weft does not have and tensors that are not in host memory make an
 * error array. A tensor that is misaligned for its type, or for a default device that does not use
 * host memory in place, is copied. */
WEFT_API weft_array *weft_from_dlpack(struct DLManagedTensorVersioned *tensor) WEFT_NONNULL(1);

/* The same for the struct of DLPack before 1.0, which says neither version nor read-only. */
WEFT_NODISCARD WEFT_API weft_status weft_to_dlpack_unversioned(weft_array *a,
                                                               struct DLManagedTensor **out)
    WEFT_NONNULL(2);
WEFT_API weft_array *weft_from_dlpack_unversioned(struct DLManagedTensor *tensor) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
