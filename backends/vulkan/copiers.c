/* backends/vulkan/copiers.c -- threads that copy memory together. */
#include "backends/vulkan/copiers.h"

#include <string.h>
#include <unistd.h>

/* Part i of n of the copy. */
static void copy_part(const weft__vulkan_copiers *c, size_t i, size_t n)
{
    const size_t from = c->bytes / n * i, to = i + 1 < n ? c->bytes / n * (i + 1) : c->bytes;
    memcpy(c->to + from, c->from + from, to - from);
}

static void *work(void *context)
{
    weft__vulkan_copiers *c = context;
    uint64_t seen = 1;
    size_t own = 0;
    pthread_mutex_lock(&c->lock);
    while (own < (size_t)c->n && !pthread_equal(c->threads[own], pthread_self())) {
        own++;
    }
    while (true) {
        while (!c->stop && c->turn == seen) {
            pthread_cond_wait(&c->begin, &c->lock);
        }
        if (c->stop) {
            break;
        }
        seen = c->turn;
        pthread_mutex_unlock(&c->lock);
        copy_part(c, own + 1, (size_t)c->n + 1);
        pthread_mutex_lock(&c->lock);
        if (--c->working == 0) {
            pthread_cond_signal(&c->end);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* The threads wait for the lock, so that they see all of them. */
static void start(weft__vulkan_copiers *c)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    const int wanted = processors < WEFT__VULKAN_COPIERS ? (int)processors : WEFT__VULKAN_COPIERS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begin, NULL);
    pthread_cond_init(&c->end, NULL);
    pthread_mutex_lock(&c->lock);
    c->turn = 1;
    while (c->n + 1 < wanted && pthread_create(&c->threads[c->n], NULL, work, c) == 0) {
        c->n++;
    }
    pthread_mutex_unlock(&c->lock);
}

void weft__vulkan_copy_memory(weft__vulkan_copiers *c, char *to, const char *from, size_t bytes)
{
    if (c->turn == 0) {
        start(c);
    }
    pthread_mutex_lock(&c->lock);
    c->to = to;
    c->from = from;
    c->bytes = bytes;
    c->working = c->n;
    c->turn++;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    copy_part(c, 0, (size_t)c->n + 1);
    pthread_mutex_lock(&c->lock);
    while (c->working > 0) {
        pthread_cond_wait(&c->end, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void weft__vulkan_copiers_close(weft__vulkan_copiers *c)
{
    if (c->turn == 0) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->begin);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->n; i++) {
        pthread_join(c->threads[i], NULL);
    }
    pthread_cond_destroy(&c->end);
    pthread_cond_destroy(&c->begin);
    pthread_mutex_destroy(&c->lock);
}
