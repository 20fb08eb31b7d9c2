/* backends/vulkan/spirv/library.h -- the library module from which shaders are composed: finds its
 * functions by name, and copies the part that a new main needs. */
#ifndef BACKENDS_VULKAN_SPIRV_LIBRARY_H
#define BACKENDS_VULKAN_SPIRV_LIBRARY_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv/words.h"

typedef struct spirv_library spirv_library;

/* The module of shaders/library.comp, read once; NULL with a message when out of memory. */
const spirv_library *weft__spirv_library(void);

/* The first id that a new main may use. */
uint32_t weft__spirv_bound(const spirv_library *library);

/* A function by its name with the types of its parameters, as glslang writes them, "add_(f1;f1;",
 * or, if the name is unique, without, "item_("; 0: not found. */
uint32_t weft__spirv_find(const spirv_library *library, const char *name);

/* The type of a function's result, and that of its parameter i. */
uint32_t weft__spirv_result(const spirv_library *library, uint32_t function);
uint32_t weft__spirv_parameter(const spirv_library *library, uint32_t function, int i);

/* A new main: the instructions between OpLabel and OpFunctionEnd, and new constants. */
typedef struct spirv_main {
    spirv_words constants, body;
    uint32_t label; /* of its first block */
    uint32_t bound; /* largest id + 1 */
} spirv_main;

/* The library with that main, without anything that main does not reach; out->failed: out of
 * memory. */
void weft__spirv_link(const spirv_library *library, const spirv_main *main, spirv_words *out);

#endif
