/* train/parallel/mpi.h -- what the module weft-mpi.so and the library give each other.
 *
 * The module is loaded only in a process that an MPI launcher has started. If libweft.so itself
 * were linked with MPI, every program that uses Weft would load MPI's libraries, some of which
 * replace signal handlers when they are loaded (libpsm2: SIGHUP, which nohup ignores, SIGSEGV and
 * others). The module does not link libweft.so, so that a program with the static library has only
 * one copy of Weft.
 */
#ifndef WEFT_TRAIN_PARALLEL_MPI_H
#define WEFT_TRAIN_PARALLEL_MPI_H

#include "weft/group.h"

/* Functions of the library for the module. */
typedef struct weft__mpi_host {
    void *(*allocate)(size_t count, size_t size); /* zeros; NULL when there is no memory */
    void (*release)(void *memory);
    weft_status (*fail)(weft_status status, const char *format, ...);
    const char *(*printable)(const char *text);
} weft__mpi_host;

/* Connects this process. The type of MPI and the process's place in it; `variable` of the launcher
 * says that it has started `launched` processes. */
typedef weft_status weft__mpi_connect(const weft__mpi_host *host, const char *variable,
                                      long launched, const weft_group_type **type,
                                      weft_group_info *place);

/* The one symbol of the module. */
#define WEFT__MPI_SYMBOL "weft_mpi_module"
typedef struct weft__mpi_module {
    const char *version; /* WEFT_VERSION of the module's sources: the library's own, or no use */
    weft__mpi_connect *connect;
} weft__mpi_module;

#endif
