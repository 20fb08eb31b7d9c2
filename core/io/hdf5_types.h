/* core/io/hdf5_types.h -- the types of HDF5 datasets and Weft's dtypes. */
#ifndef CORE_IO_HDF5_TYPES_H
#define CORE_IO_HDF5_TYPES_H

#include <hdf5.h>

#include "weft/dtype.h"

/* A new type for the dtype, in the machine's byte order (H5Tclose); negative: no memory. */
hid_t weft__hdf5_type(weft_dtype dtype);

/* The dtype whose elements a dataset's type has, whatever its byte order; false: none. */
bool weft__hdf5_dtype(hid_t type, weft_dtype *out);

#endif
