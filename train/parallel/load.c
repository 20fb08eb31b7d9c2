/* train/parallel/load.c -- finds and loads weft-mpi.so. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "train/parallel/mpi.h"
#include "train/parallel/parallel.h"
#include "weft/memory.h"
#include "weft/version.h"

/* Looks for the module beside the library or program that contains this code, in its folder weft/,
 * and in the installation folder. NULL: not found. */
static char *find_module(void)
{
    static const char place = 0;
    Dl_info info;
    const char *slash = NULL;
    int folder = 0;
    if (dladdr(&place, &info) != 0 && (slash = strrchr(info.dli_fname, '/')) != NULL)
        folder = (int)(slash - info.dli_fname);
    for (int i = slash ? 0 : 2; i < 3; i++) {
        char *path = i == 2 ? weft_format("%s", WEFT_MODULE_DIR "/weft-mpi.so")
                            : weft_format("%.*s/%sweft-mpi.so", folder, info.dli_fname,
                                          i == 0 ? "" : "weft/");
        if (path == NULL || access(path, R_OK) == 0)
            return path;
        weft_free(path);
    }
    return NULL;
}

static weft_status load(const char *path, const weft__mpi_module **module)
{
    /* RTLD_GLOBAL: components that MPI loads may need its symbols. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "mpi: %s", dlerror());
    *module = dlsym(library, WEFT__MPI_SYMBOL);
    if (*module == NULL || strcmp((*module)->version, WEFT_VERSION) != 0)
        return weft_fail(WEFT_UNSUPPORTED, "mpi: %s: expected the module of Weft %s, found %s",
                         path, WEFT_VERSION, *module ? (*module)->version : "another library");
    return WEFT_OK;
}

weft_status weft__mpi_open(const char *variable, long launched, const weft_group_type **type,
                           weft_group_info *place)
{
    static const weft__mpi_host host = {.allocate = weft_calloc,
                                        .release = weft_free,
                                        .fail = weft_fail,
                                        .printable = weft_printable};
    const weft__mpi_module *module = NULL;
    char *path = find_module();
    if (path == NULL)
        return weft_fail(WEFT_UNSUPPORTED,
                         "group: an MPI launcher has started %ld processes (%s), but Weft was "
                         "built without MPI: install the package weft-mpi, or libopenmpi-dev or "
                         "libmpich-dev and build it with -Dmpi=enabled",
                         launched, variable);
    const weft_status status = load(path, &module);
    weft_free(path);
    return status == WEFT_OK ? module->connect(&host, variable, launched, type, place) : status;
}
