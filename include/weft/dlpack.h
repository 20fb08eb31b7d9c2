/* weft/dlpack.h -- sharing arrays with other libraries without copying (DLPack).
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

/* Evaluates `a` and sets *out to a read-only tensor over its memory, with its strides. The caller
 * owns the tensor; the memory is held until its deleter is called, which any thread may do.
 * Failures are those of weft_eval, and WEFT_UNSUPPORTED for an array that is not in host memory;
 * *out is then NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_to_dlpack(weft_array *a,
                                                   struct DLManagedTensorVersioned **out)
    WEFT_NONNULL(2);

/* An array over the tensor's memory, with its shape, strides and dtype. Weft does not write to the
 * memory, which must stay unchanged. Takes ownership of the tensor, even on failure: its deleter is
 * called when the memory is no longer used. An unknown dtype, or memory that is not the host's,
 * gives an error array. A misaligned tensor is copied, and so is one for a default device that does
 * not use host memory in place. */
WEFT_API weft_array *weft_from_dlpack(struct DLManagedTensorVersioned *tensor) WEFT_NONNULL(1);

/* The same, with the same shapes, dtypes, ownership and errors, for the struct of DLPack
 * before 1.0, which has neither a version nor a read-only flag. */
WEFT_NODISCARD WEFT_API weft_status weft_to_dlpack_unversioned(weft_array *a,
                                                               struct DLManagedTensor **out)
    WEFT_NONNULL(2);
WEFT_API weft_array *weft_from_dlpack_unversioned(struct DLManagedTensor *tensor) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
