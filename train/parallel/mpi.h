/* train/parallel/mpi.h -- interface between the module weft-mpi.so and the library.
 *
 * The module is loaded only in processes started by an MPI launcher. If libweft.so itself were
 * linked with MPI, every program that uses Weft would load MPI's libraries, some of which replace
 * signal handlers when they are loaded (libpsm2: SIGHUP, which nohup ignores, SIGSEGV and others).
 * The module does not link libweft.so, so a program with the static library has only one copy of
 * Weft. */
#ifndef WEFT_TRAIN_PARALLEL_MPI_H
#define WEFT_TRAIN_PARALLEL_MPI_H

#include "weft/group.h"

/* Library functions that the module uses. */
typedef struct weft__mpi_host {
    void *(*allocate)(size_t count, size_t size); /* zeroed; NULL: out of memory */
    void (*release)(void *memory);
    weft_status (*fail)(weft_status status, const char *format, ...);
    const char *(*printable)(const char *text);
} weft__mpi_host;

/* Connects this process; returns the group type and the process's rank and size. `launched` is the
 * number of processes according to the launcher's `variable`, for messages and checks. */
typedef weft_status weft__mpi_connect(const weft__mpi_host *host, const char *variable,
                                      long launched, const weft_group_type **type,
                                      weft_group_info *place);

/* The only exported symbol of the module. */
#define WEFT__MPI_SYMBOL "weft_mpi_module"
typedef struct weft__mpi_module {
    const char *version; /* WEFT_VERSION of the module, which must equal the library's */
    weft__mpi_connect *connect;
} weft__mpi_module;

#endif
