/* core/io/hdf5_types.h -- maps HDF5 types to Weft's dtypes. */
#ifndef CORE_IO_HDF5_TYPES_H
#define CORE_IO_HDF5_TYPES_H

#include <hdf5.h>

#include "weft/dtype.h"

/* A new HDF5 type for the dtype, in native byte order; close it with H5Tclose. Negative: out of
 * memory. */
hid_t weft__hdf5_type(weft_dtype dtype);

/* The dtype for a dataset's type, in any byte order; false: none. */
bool weft__hdf5_dtype(hid_t type, weft_dtype *out);

#endif
