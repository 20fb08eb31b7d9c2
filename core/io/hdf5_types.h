/* core/io/hdf5_types.h -- maps HDF5 types to Weft's dtypes. */
#ifndef CORE_IO_HDF5_TYPES_H
#define CORE_IO_HDF5_TYPES_H

#include <hdf5.h>

#include "weft/dtype.h"
#include "weft/status.h"

/* A new HDF5 type for the dtype, in native byte order; close it with H5Tclose. Negative: out of
 * memory. */
hid_t weft__hdf5_type(weft_dtype dtype);

/* The dtype for a dataset's type, in any byte order; false: none. */
bool weft__hdf5_dtype(hid_t type, weft_dtype *out);

/* A thread enters the library before it calls it, and leaves it afterwards; one at a time. */
typedef struct weft__hdf5_quiet {
    H5E_auto2_t print;
    void *context;
} weft__hdf5_quiet;

weft__hdf5_quiet weft__hdf5_enter(void);
void weft__hdf5_leave(weft__hdf5_quiet q);

/* Records the innermost error that the library reports. */
weft_status weft__hdf5_failed(weft_status status, const char *path, const char *name);

#endif
