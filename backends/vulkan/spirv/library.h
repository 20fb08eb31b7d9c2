/* backends/vulkan/spirv/library.h -- the module that written shaders are made of: its functions by
 * name, and a copy of it with no more than a new main needs. */
#ifndef BACKENDS_VULKAN_SPIRV_LIBRARY_H
#define BACKENDS_VULKAN_SPIRV_LIBRARY_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv/words.h"

typedef struct spirv_library spirv_library;

/* The module of shaders/library.comp, read once; NULL with a message when there is no memory. */
const spirv_library *weft__spirv_library(void);

/* Ids from here on are free for a new main. */
uint32_t weft__spirv_bound(const spirv_library *library);

/* A function by its name with the types of its parameters, as glslang writes them, "add_(f1;f1;",
 * or, where there is no other of that name, without, "item_("; 0: there is none. */
uint32_t weft__spirv_find(const spirv_library *library, const char *name);

/* The type of a function's result, and of its parameter i. */
uint32_t weft__spirv_result(const spirv_library *library, uint32_t function);
uint32_t weft__spirv_parameter(const spirv_library *library, uint32_t function, int i);

/* A main to be: instructions between OpLabel and OpFunctionEnd, and new constants. */
typedef struct spirv_main {
    spirv_words constants, body;
    uint32_t label; /* of its first block */
    uint32_t bound; /* one more than the largest id */
} spirv_main;

/* The library with that main, and without what it does not reach; out->failed: no memory. */
void weft__spirv_link(const spirv_library *library, const spirv_main *main, spirv_words *out);

#endif
