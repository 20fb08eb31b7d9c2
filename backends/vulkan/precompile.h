/* backends/vulkan/precompile.h -- finds the pipelines that the rest of a plan needs, and compiles
 * them on all cores before the plan continues. */
#ifndef BACKENDS_VULKAN_PRECOMPILE_H
#define BACKENDS_VULKAN_PRECOMPILE_H

#include "backends/vulkan/dispatch.h"

typedef struct weft__vulkan_device weft__vulkan_device;

/* Called with the stream's lock, in a kernel whose pipeline is not compiled. Runs the kernels of
 * the plan from this one on as a dry run, and compiles their pipelines. Does nothing the second
 * time in a plan. */
void weft__vulkan_precompile(weft__vulkan_device *d, const weft_call *call);

/* Whether the calling thread runs kernels as a dry run: they record nothing and write nothing. */
bool weft__vulkan_is_dry_run(void);

/* Takes the place of recording the launch. */
void weft__vulkan_dry_launch(const weft_call *call, const weft__vulkan_launch *launch);

#endif
