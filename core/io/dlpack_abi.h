/* core/io/dlpack_abi.h -- the memory layout of the structs of DLPack 1.0. */
#ifndef CORE_IO_DLPACK_ABI_H
#define CORE_IO_DLPACK_ABI_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_CPU = 1 };
enum { DLPACK_READ_ONLY = 1 }; /* a flag */

typedef enum dlpack_code {
    DLPACK_INT,
    DLPACK_UINT,
    DLPACK_FLOAT,
    DLPACK_OPAQUE,
    DLPACK_BFLOAT,
    DLPACK_COMPLEX,
    DLPACK_BOOL
} dlpack_code;

typedef struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
} dlpack_tensor;

struct DLManagedTensor {
    dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
};

#endif
