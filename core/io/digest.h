/* core/io/digest.h -- digests of files: SHA-256, and git's hash of a blob. */
#ifndef WEFT_CORE_IO_DIGEST_H
#define WEFT_CORE_IO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

/* Called between chunks with the bytes done so far; false stops with WEFT_CANCELLED. */
typedef bool weft__digest_step(void *context, int64_t done, const char *message);

/* The digest of an open file in hexadecimal: SHA-256 if `digits` is 64, git's SHA-1 of a blob of
 * `size` bytes if it is 40. `step` may be NULL. WEFT_UNSUPPORTED in a build without libcrypto. */
weft_status weft__digest(int fd, const char *path, size_t digits, int64_t size,
                         weft__digest_step *step, void *context, char out[65]);

/* The SHA-256 and the size of a file. */
weft_status weft__digest_of(const char *path, weft__digest_step *step, void *context, int64_t *size,
                            char out[65]);

#endif
