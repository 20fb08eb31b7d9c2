/* backends/vulkan/self_test/self_test.c -- runs the trials of a device, or uses their stored
 * result. */
#include "backends/vulkan/self_test/self_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/vulkan/self_test/trial.h"
#include "backends/vulkan/shaders.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/timeline.h"
#include "weft/version.h"

enum { PATH = 1280, LINE = 512, KEPT = 8 };

typedef enum mode { ONCE, SKIP, FORCE } mode;

static weft_status read_mode(mode *out)
{
    const char *wanted = getenv("WEFT_VULKAN_SELF_TEST");
    *out = ONCE;
    if (!wanted || !wanted[0]) {
        return WEFT_OK;
    }
    if (strcmp(wanted, "skip") != 0 && strcmp(wanted, "force") != 0) {
        return weft_fail(WEFT_INVALID,
                         "vulkan: WEFT_VULKAN_SELF_TEST: expected skip or force, got '%.32s'",
                         wanted);
    }
    *out = wanted[0] == 's' ? SKIP : FORCE;
    return WEFT_OK;
}

/* ---- trials --------------------------------------------------------------------------------- */

static weft_status refuse(const weft_device *device, const weft__vulkan_device *d, const char *text)
{
    const weft__vulkan_physical *p = &d->physical;
    return weft_fail(WEFT_DEVICE,
                     "%s: %s (%s %s) computes wrong numbers: %s; update the driver, or set "
                     "WEFT_VULKAN_SELF_TEST=skip to use it anyway",
                     weft_device_name(device), p->properties.deviceName, p->driver.driverName,
                     p->driver.driverInfo, text);
}

/* `refused` receives the first failure of a required op. */
static weft_status run_trials(const weft_device *device, weft__vulkan_device *d,
                              weft__vulkan_verdict *v, char *refused, size_t size)
{
    for (int i = 0; i < weft__trials_count; i++) {
        const weft__trial *trial = &weft__trials_all[i];
        const bool needed = trial->feature == WEFT__TRIAL_NEEDED;
        if (!needed && (!d->physical.used[trial->feature] || v->wrong[trial->feature])) {
            continue;
        }
        weft__trials t = {.device = device, .state = d};
        const int64_t start = weft_timeline_now();
        weft_status status = trial->run(&t);
        weft_log_message(WEFT_LOG_DEBUG, "vulkan: self-test: %s in %.1f ms", trial->name,
                         (double)(weft_timeline_now() - start) / 1e6);
        if (status != WEFT_OK && (needed || status == WEFT_MEMORY)) {
            return status;
        }
        if (status != WEFT_OK) {
            snprintf(t.wrong, sizeof t.wrong, "%s", weft_error_message());
        }
        if (t.wrong[0] && needed) {
            snprintf(refused, size, "%s", t.wrong);
            return WEFT_OK;
        }
        if (t.wrong[0]) {
            v->wrong[trial->feature] = true;
            snprintf(v->about, sizeof v->about, "%s", t.wrong);
        }
    }
    return WEFT_OK;
}

/* ---- stored results -------------------------------------------------------------------------- */

static uint64_t add(uint64_t hash, const void *from, size_t n)
{
    const unsigned char *bytes = from;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* A hash of everything that a result depends on. For software drivers this includes the machine's
 * processor. */
static uint64_t key_of(const weft__vulkan_device *d)
{
    const weft__vulkan_physical *p = &d->physical;
    char host[256] = "";
    if (p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        (void)gethostname(host, sizeof host - 1);
    }
    const uint64_t digest = weft__shaders_digest;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = add(hash, WEFT_VERSION, sizeof WEFT_VERSION);
    hash = add(hash, &digest, sizeof digest);
    hash = add(hash, p->properties.deviceName, strlen(p->properties.deviceName));
    hash = add(hash, p->driver.driverName, strlen(p->driver.driverName));
    hash = add(hash, p->driver.driverInfo, strlen(p->driver.driverInfo));
    hash = add(hash, &p->properties.driverVersion, sizeof p->properties.driverVersion);
    hash = add(hash, p->used, sizeof p->used);
    return add(hash, host, strlen(host));
}

/* A line: the key, the failed features as bits, "refused" or "used", and a description. */
static bool parse(const char *line, uint64_t key, weft__vulkan_verdict *v, char *refused,
                  size_t size)
{
    unsigned long long kept;
    unsigned wrong;
    char kind[16];
    int at = 0;
    if (sscanf(line, "%16llx %x %15s %n", &kept, &wrong, kind, &at) != 3 || kept != key) {
        return false;
    }
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        v->wrong[i] = wrong >> i & 1;
    }
    const int length = (int)strcspn(line + at, "\n");
    if (strcmp(kind, "refused") == 0) {
        snprintf(refused, size, "%.*s", length, line + at);
    } else {
        snprintf(v->about, sizeof v->about, "%.*s", length, line + at);
    }
    return true;
}

/* Opens the results of earlier runs as a stream over *text (weft_free), or returns NULL. */
static FILE *open_kept(const char *path, char **text)
{
    size_t n = 0;
    *text = NULL;
    if (access(path, R_OK) != 0 || weft_file_read(path, 0, text, &n) != WEFT_OK || n == 0) {
        return NULL;
    }
    return fmemopen(*text, n, "r");
}

static bool recall(const weft__vulkan_device *d, uint64_t key, weft__vulkan_verdict *v,
                   char *refused, size_t size)
{
    char path[PATH], line[LINE], *kept = NULL;
    FILE *file = weft__vulkan_cache_path(d, "test", false, path, sizeof path)
                     ? open_kept(path, &kept)
                     : NULL;
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        found = parse(line, key, v, refused, size);
    }
    if (file) {
        fclose(file);
    }
    weft_free(kept);
    return found;
}

/* Stores the new result first, then the latest of the others. */
static void keep(const weft__vulkan_device *d, uint64_t key, const weft__vulkan_verdict *v,
                 const char *refused)
{
    char path[PATH], text[(KEPT + 1) * LINE], line[LINE], *before;
    if (!weft__vulkan_cache_path(d, "test", true, path, sizeof path)) {
        return;
    }
    unsigned wrong = 0;
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        wrong |= v->wrong[i] ? 1u << i : 0;
    }
    size_t n = (size_t)snprintf(text, LINE, "%016llx %x %s %s\n", (unsigned long long)key, wrong,
                                refused[0] ? "refused" : "used", refused[0] ? refused : v->about);
    FILE *file = open_kept(path, &before);
    for (int i = 1; file && i < KEPT && fgets(line, sizeof line, file);) {
        unsigned long long kept;
        if (sscanf(line, "%16llx", &kept) == 1 && kept != key && strchr(line, '\n')) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", line);
            i++;
        }
    }
    if (file) {
        fclose(file);
    }
    weft_free(before);
    weft__vulkan_cache_write(path, text, n);
}

/* ---- the test ------------------------------------------------------------------------------- */

weft_status weft__vulkan_self_test(const weft_device *device, weft__vulkan_device *d,
                                   weft__vulkan_verdict *out)
{
    char refused[256] = "";
    mode wanted;
    *out = (weft__vulkan_verdict){.about = "self-test passed"};
    weft_status status = read_mode(&wanted);
    if (status != WEFT_OK || wanted == SKIP) {
        snprintf(out->about, sizeof out->about, "self-test skipped");
        return status;
    }
    const uint64_t key = key_of(d);
    if (wanted == FORCE || !recall(d, key, out, refused, sizeof refused)) {
        status = run_trials(device, d, out, refused, sizeof refused);
        if (status != WEFT_OK) {
            return status;
        }
        keep(d, key, out, refused);
    }
    return refused[0] ? refuse(device, d, refused) : WEFT_OK;
}
