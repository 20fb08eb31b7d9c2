/* train/parallel/no_mpi.c -- what takes the place of mpi.c in a build without MPI. */
#include "train/parallel/parallel.h"

weft_status weft__mpi_open(const char *variable, long launched, const weft_group_type **type,
                           weft_group_place *place)
{
    (void)place;
    *type = NULL;
    return weft_fail(WEFT_UNSUPPORTED,
                     "group: an MPI launcher has started %ld processes (%s), but Weft was built "
                     "without MPI: install libopenmpi-dev or libmpich-dev and build it with "
                     "-Dmpi=enabled",
                     launched, variable);
}
