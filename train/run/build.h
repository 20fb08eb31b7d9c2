/* train/run/build.h -- describes the program and the machine, on which the bytes of a result
 * depend. */
#ifndef WEFT_TRAIN_RUN_BUILD_H
#define WEFT_TRAIN_RUN_BUILD_H

#include "core/io/text.h"
#include "weft/array.h"

/* Writes the member "build" of a JSON object, followed by a comma: version, build id (the linker's
 * hash of the library, "" if it has none), compiler, architecture, processor, threads, and the
 * device with its description: the kernels of a CPU, the name and driver of a GPU. */
void weft__build_write(weft__text *t, const weft_device *device);

#endif
