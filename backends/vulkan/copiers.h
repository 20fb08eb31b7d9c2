/* backends/vulkan/copiers.h -- threads that copy memory together. */
#ifndef BACKENDS_VULKAN_COPIERS_H
#define BACKENDS_VULKAN_COPIERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEFT__VULKAN_COPIERS = 12 }; /* at most, with the caller's */

/* Zeroed: no thread was started yet. One thread at a time uses it. */
typedef struct weft__vulkan_copiers {
    pthread_t threads[WEFT__VULKAN_COPIERS];
    int n; /* started threads */
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t turn; /* incremented for each copy */
    int working;
    bool stop;
    char *to;
    const char *from;
    size_t bytes;
} weft__vulkan_copiers;

/* memcpy with half of the processors. Starts the threads when first called; without threads the
 * caller copies. */
void weft__vulkan_copy_memory(weft__vulkan_copiers *c, char *to, const char *from, size_t bytes);

/* Ends the threads. */
void weft__vulkan_copiers_close(weft__vulkan_copiers *c);

#endif
