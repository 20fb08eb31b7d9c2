/* core/io/digest_absent.c -- digests of files in builds without libcrypto. */
#include "core/io/digest.h"

static weft_status absent(const char *path)
{
    return weft_fail(WEFT_UNSUPPORTED, "%s: hashing it: this build lacks libcrypto", path);
}

weft_status weft__digest(int fd, const char *path, size_t digits, int64_t size,
                         weft__digest_step *step, void *context, char out[65])
{
    (void)fd, (void)digits, (void)size, (void)step, (void)context, (void)out;
    return absent(path);
}

weft_status weft__digest_of(const char *path, weft__digest_step *step, void *context, int64_t *size,
                            char out[65])
{
    (void)step, (void)context, (void)size, (void)out;
    return absent(path);
}
