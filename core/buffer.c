/* core/buffer.c -- buffers: a cache by size in front of the devices, memory limits and counters. */
#include "core/buffer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "core/device.h"
#include "core/failpoint.h"
#include "core/shape.h"
#include "core/wire.h"

enum {
    SMALLEST = 64,
    NAMED_IN_MESSAGE = 3,
    SHARE = 8, /* cached and active buffers together: at most 1/8 above the highest active bytes, */
    SPARE = 1 << 25 /* plus this, so that small programs never return memory */
};

static const int64_t LARGEST = (int64_t)1 << 61; /* sizes up to this cannot overflow when rounded
                                                  * and added */

static struct {
    pthread_mutex_t lock;
    weft__buffer *buckets[WEFT__SIZE_BUCKETS]; /* cached buffers, newest first */
    weft__buffer *oldest, *newest;             /* cached buffers by age */
    weft__buffer *live;                        /* owned buffers in use */
    int64_t active, cached, peak, limit;
    int64_t highest;     /* highest active bytes since the start */
    int64_t held;        /* highest active + cached bytes since the last reset */
    int64_t cache_limit; /* WEFT_CACHE_AUTOMATIC, or set by the program */
    int64_t resets;      /* of the peaks */
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .limit = INT64_MAX, .cache_limit = WEFT_CACHE_AUTOMATIC};

/* Of the calling thread: active bytes that it has taken less those that it has released. */
static _Thread_local struct {
    int64_t active, peak;
} mine;

/* Eight buckets to a power of two. */
static int bucket_of(int64_t bytes, int64_t *rounded)
{
    if (bytes <= SMALLEST) {
        *rounded = SMALLEST;
        return 0;
    }
    int exponent = 63 - __builtin_clzll((unsigned long long)(bytes - 1));
    int64_t step = (int64_t)1 << (exponent - 3);
    if (step < SMALLEST) {
        step = SMALLEST;
    }
    int64_t size = (bytes + step - 1) / step * step;
    *rounded = size;
    exponent = 63 - __builtin_clzll((unsigned long long)size);
    int eighth = (int)((size >> (exponent - 3)) & 7);
    return (exponent - 6) * 8 + eighth + 1;
}

int64_t weft__bucket_bytes(int64_t bytes)
{
    int64_t rounded;
    bucket_of(bytes, &rounded);
    return rounded;
}

int weft__bucket_index(int64_t bytes)
{
    int64_t rounded;
    return bucket_of(bytes, &rounded);
}

/* ---- lists, under the lock ------------------------------------------------------------------ */

static void push(weft__buffer **head, weft__buffer *b)
{
    b->previous = NULL;
    b->next = *head;
    if (*head) {
        (*head)->previous = b;
    }
    *head = b;
}

static void remove_from(weft__buffer **head, weft__buffer *b)
{
    if (b->previous) {
        b->previous->next = b->next;
    } else {
        *head = b->next;
    }
    if (b->next) {
        b->next->previous = b->previous;
    }
    b->previous = b->next = NULL;
}

static void cache_remove(weft__buffer *b)
{
    int64_t rounded;
    remove_from(&pool.buckets[bucket_of(b->bytes, &rounded)], b);
    *(b->older ? &b->older->newer : &pool.oldest) = b->newer;
    *(b->newer ? &b->newer->older : &pool.newest) = b->older;
    b->older = b->newer = NULL;
    pool.cached -= b->bytes;
}

static void cache_insert(weft__buffer *b)
{
    int64_t rounded;
    push(&pool.buckets[bucket_of(b->bytes, &rounded)], b);
    b->older = pool.newest;
    b->newer = NULL;
    *(pool.newest ? &pool.newest->newer : &pool.oldest) = b;
    pool.newest = b;
    pool.cached += b->bytes;
}

static void destroy(weft__buffer *b)
{
    b->device->backend->release(b->device->state, b->handle);
    weft_free(b);
}

/* Removes cached buffers, oldest first, until at most `keep` bytes stay cached. Returns them as a
 * list linked by `next`. */
static weft__buffer *evict(int64_t keep)
{
    weft__buffer *out = NULL;
    weft__buffer *b = pool.oldest;
    while (b && pool.cached > keep) {
        weft__buffer *newer = b->newer;
        if (atomic_load(&b->busy) == 0) {
            cache_remove(b);
            weft__unwire(b);
            b->next = out;
            out = b;
        }
        b = newer;
    }
    return out;
}

static void destroy_chain(weft__buffer *b)
{
    while (b) {
        weft__buffer *next = b->next;
        destroy(b);
        b = next;
    }
}

static int64_t eighth_of_memory(void)
{
    static int64_t eighth;
    if (eighth == 0) {
        const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        eighth = pages > 0 && page > 0 ? pages * page / 8 : (int64_t)1 << 30;
    }
    return eighth;
}

/* Bytes that may stay cached now. The automatic limit follows the active bytes, so that buffers of
 * sizes that do not recur (batches of unequal lengths) do not accumulate. */
static int64_t cache_limit(void)
{
    if (pool.cache_limit != WEFT_CACHE_AUTOMATIC) {
        return pool.cache_limit;
    }
    const int64_t most = eighth_of_memory(),
                  rest = pool.highest + pool.highest / SHARE + SPARE - pool.active;
    const int64_t room = pool.limit - pool.active, least = rest < most ? rest : most;
    return room < least ? room : least;
}

static void count_held(void)
{
    if (pool.active + pool.cached > pool.held) {
        pool.held = pool.active + pool.cached;
    }
}

/* ---- allocation ----------------------------------------------------------------------------- */

static bool is_free(const weft__buffer *b, const void *owner)
{
    return atomic_load(&b->busy) == 0 || (owner && b->owner == owner);
}

static weft__buffer *take_cached(weft_device *device, int64_t bytes, const void *owner)
{
    int64_t rounded;
    weft__buffer *b = pool.buckets[bucket_of(bytes, &rounded)];
    while (b && (b->device != device || !is_free(b, owner))) {
        b = b->next;
    }
    if (b) {
        cache_remove(b);
    }
    return b;
}

/* Reports "out of memory" with the three largest live arrays. Called with the lock held. */
static void report_full(const weft_device *device, int64_t bytes, bool limit)
{
    char largest[512] = "";
    size_t length = 0;
    const weft__buffer *seen[NAMED_IN_MESSAGE] = {NULL};
    for (int k = 0; k < NAMED_IN_MESSAGE; k++) {
        const weft__buffer *best = NULL;
        for (const weft__buffer *b = pool.live; b; b = b->next) {
            bool named = b == seen[0] || b == seen[1];
            if (!named && (!best || b->bytes > best->bytes)) {
                best = b;
            }
        }
        if (!best) {
            break;
        }
        seen[k] = best;
        char shape[WEFT_SHAPE_TEXT];
        length +=
            (size_t)snprintf(largest + length, sizeof largest - length, "%s%s %s %s: %lld",
                             k ? ", " : "", best->label, weft__shape_text(&best->shape, shape),
                             weft_dtype_name(best->dtype), (long long)best->bytes);
        if (length >= sizeof largest) {
            break;
        }
    }
    const char *what = limit ? "memory limit reached" : "out of memory";
    weft_fail(WEFT_MEMORY,
              "%s: %s: expected %lld bytes more, got %lld active%s%lld%s; largest arrays: %s",
              device->name, what, (long long)bytes, (long long)pool.active,
              limit ? " of " : " (peak ", (long long)(limit ? pool.limit : pool.peak),
              limit ? "" : ")", largest[0] ? largest : "none");
}

/* A device's peak since the last reset, when it was its active bytes. */
static void note_peak(weft_device *d)
{
    if (d->peak_since != pool.resets) {
        d->peak_since = pool.resets;
        d->peak = d->active;
    }
    d->peak = d->active > d->peak ? d->active : d->peak;
}

static void add_active(weft_device *device, int64_t bytes)
{
    note_peak(device);
    pool.active += bytes;
    mine.active += bytes;
    device->active += bytes;
}

/* Counts bytes as active before they are allocated, so that several threads together respect the
 * limit. */
static bool reserve(weft_device *device, int64_t bytes)
{
    if (pool.active > pool.limit - bytes) {
        report_full(device, bytes, true);
        return false;
    }
    add_active(device, bytes);
    if (pool.active > pool.highest) {
        pool.highest = pool.active;
    }
    return true;
}

static void count_in(weft__buffer *b, const char *label, const weft_spec *spec)
{
    b->label = label;
    b->shape = spec->shape;
    b->dtype = spec->dtype;
    atomic_store(&b->refs, 1);
    push(&pool.live, b);
    weft__wire(b);
    count_held();
    if (pool.active > pool.peak) {
        pool.peak = pool.active;
    }
    if (mine.active > mine.peak) {
        mine.peak = mine.active;
    }
    note_peak(b->device);
}

static weft__buffer *allocate(weft_device *device, int64_t bytes)
{
    if (weft__allocation_fails()) {
        return NULL;
    }
    weft__buffer *b = weft_calloc(1, sizeof *b);
    if (!b) {
        return NULL;
    }
    b->device = device;
    b->bytes = bytes;
    b->owned = true;
    b->handle = device->backend->allocate(device->state, bytes, &b->host);
    if (!b->handle) { /* retry after freeing the cached buffers */
        weft_memory_clear_cache();
        b->handle = device->backend->allocate(device->state, bytes, &b->host);
    }
    if (!b->handle) {
        weft_free(b);
        return NULL;
    }
    return b;
}

weft__buffer *weft__buffer_new(weft_device *device, int64_t bytes, const void *owner,
                               const char *label, const weft_spec *spec)
{
    if (bytes > LARGEST) {
        weft_fail(WEFT_MEMORY, "%s: out of memory: expected %lld bytes", device->name,
                  (long long)bytes);
        return NULL;
    }
    int64_t rounded = weft__bucket_bytes(bytes);
    pthread_mutex_lock(&pool.lock);
    bool room = reserve(device, rounded);
    weft__buffer *b = room ? take_cached(device, rounded, owner) : NULL;
    if (room && !b) {
        weft__buffer *chain = evict(cache_limit()); /* active bytes have grown */
        pthread_mutex_unlock(&pool.lock);
        destroy_chain(chain);
        b = allocate(device, rounded);
        pthread_mutex_lock(&pool.lock);
    }
    if (b) {
        b->plan = 0;
        if (!owner) { /* with an owner, the step that fills the buffer waits instead */
            atomic_store(&b->failed, false);
        }
        count_in(b, label, spec);
    } else if (room) {
        add_active(device, -rounded);
        report_full(device, rounded, false);
    }
    pthread_mutex_unlock(&pool.lock);
    return b;
}

weft__buffer *weft__buffer_foreign(weft_device *device, void *data, int64_t bytes,
                                   void (*release)(void *context), void *context)
{
    weft__buffer *b = weft_calloc(1, sizeof *b);
    if (!b) {
        weft_fail(WEFT_MEMORY, "out of memory");
        return NULL;
    }
    b->device = device;
    b->handle = b->host = data;
    b->bytes = bytes;
    b->release = release;
    b->release_context = context;
    atomic_store(&b->refs, 1);
    return b;
}

/* ---- references ----------------------------------------------------------------------------- */

void weft__buffer_ref(weft__buffer *b)
{
    atomic_fetch_add(&b->refs, 1);
}

static void release_foreign(weft__buffer *b)
{
    if (b->release) {
        b->release(b->release_context);
    }
    weft_free(b);
}

static void retire_owned(weft__buffer *b)
{
    pthread_mutex_lock(&pool.lock);
    remove_from(&pool.live, b);
    add_active(b->device, -b->bytes);
    cache_insert(b);
    weft__buffer *chain = evict(cache_limit());
    pthread_mutex_unlock(&pool.lock);
    destroy_chain(chain);
}

void weft__buffer_unref(weft__buffer *b)
{
    if (atomic_fetch_sub(&b->refs, 1) != 1) {
        return;
    }
    if (b->stand_in) {
        weft_free(b);
    } else if (b->owned) {
        retire_owned(b);
    } else {
        release_foreign(b);
    }
}

void weft__buffer_begin(weft__buffer *b)
{
    atomic_fetch_add(b->owned ? &b->busy : &b->refs, 1);
}

void weft__buffer_end(weft__buffer *b)
{
    if (b->owned) {
        atomic_fetch_sub(&b->busy, 1); /* after this another thread may free the buffer */
    } else {
        weft__buffer_unref(b);
    }
}

void weft__buffer_each(void (*change)(weft__buffer *b))
{
    pthread_mutex_lock(&pool.lock);
    for (weft__buffer *b = pool.live; b; b = b->next) {
        change(b);
    }
    for (weft__buffer *b = pool.oldest; b; b = b->newer) {
        change(b);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* ---- the public counters -------------------------------------------------------------------- */

static int64_t read_locked(const int64_t *value)
{
    pthread_mutex_lock(&pool.lock);
    int64_t result = *value;
    pthread_mutex_unlock(&pool.lock);
    return result;
}

int64_t weft_memory_active(void)
{
    return read_locked(&pool.active);
}

int64_t weft_memory_peak(void)
{
    return read_locked(&pool.peak);
}

int64_t weft_memory_thread_active(void)
{
    return mine.active;
}

int64_t weft_memory_thread_peak(void)
{
    return mine.peak;
}

int64_t weft_device_active(const weft_device *device)
{
    return read_locked(&device->active);
}

int64_t weft_device_peak(const weft_device *device)
{
    pthread_mutex_lock(&pool.lock);
    const int64_t peak = device->peak_since == pool.resets ? device->peak : device->active;
    pthread_mutex_unlock(&pool.lock);
    return peak;
}

int64_t weft_memory_cached(void)
{
    return read_locked(&pool.cached);
}

int64_t weft_memory_limit(void)
{
    return read_locked(&pool.limit);
}

int64_t weft_memory_peak_held(void)
{
    return read_locked(&pool.held);
}

static bool is_elsewhere(void)
{
    for (const weft__buffer *b = pool.live; b; b = b->next) {
        if (!b->device->backend->host_memory) {
            return true;
        }
    }
    for (const weft__buffer *b = pool.oldest; b; b = b->newer) {
        if (!b->device->backend->host_memory) {
            return true;
        }
    }
    return false;
}

/* Resident memory of the process without pages of files and shared memory; 0: unknown. */
static int64_t anonymous(void)
{
    long long resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return 0;
    }
    const bool known = fscanf(file, "%*d %lld %lld", &resident, &shared) == 2;
    fclose(file);
    return known ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

int64_t weft__memory_outside(void)
{
    const int64_t all = anonymous();
    pthread_mutex_lock(&pool.lock);
    const int64_t outside = all - pool.active - pool.cached;
    const bool counted = outside > 0 && !is_elsewhere();
    pthread_mutex_unlock(&pool.lock);
    return counted ? outside : 0;
}

/* Freed memory that the C library keeps counts as outside although it was in buffers at the peak:
 * the process never held more than the most that was resident. */
int64_t weft__memory_peak_process(void)
{
    struct rusage usage = {.ru_maxrss = 0};
    const int64_t held = weft_memory_peak_held(), all = held + weft__memory_outside(),
                  resident = getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss * 1024 : 0;
    return resident == 0 || all <= resident ? all : held > resident ? held : resident;
}

void weft_memory_reset_peak(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.peak = pool.active;
    pool.held = pool.active + pool.cached;
    pool.resets++;
    pthread_mutex_unlock(&pool.lock);
    mine.peak = mine.active;
}

int64_t weft_memory_set_limit(int64_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    int64_t before = pool.limit;
    pool.limit = bytes < 0 ? 0 : bytes;
    pthread_mutex_unlock(&pool.lock);
    return before;
}

int64_t weft_memory_set_cache_limit(int64_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    const int64_t before = pool.cache_limit;
    pool.cache_limit = bytes < 0 ? WEFT_CACHE_AUTOMATIC : bytes;
    weft__buffer *chain = evict(cache_limit());
    pthread_mutex_unlock(&pool.lock);
    destroy_chain(chain);
    return before;
}

void weft_memory_clear_cache(void)
{
    pthread_mutex_lock(&pool.lock);
    weft__buffer *chain = evict(0);
    pthread_mutex_unlock(&pool.lock);
    destroy_chain(chain);
#ifdef __GLIBC__ /* which keeps freed memory for later allocations */
    (void)malloc_trim(0);
#endif
}
