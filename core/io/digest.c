/* core/io/digest.c -- digests of files: SHA-256, and git's hash of a blob, by the system's
 * libcrypto. */
#include "core/io/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "core/failure.h"
#include "weft/memory.h"

enum { PIECE = 1 << 20, PIECES_BETWEEN_STEPS = 16 };

static weft_status update(EVP_MD_CTX *hash, int fd, const char *path, char *piece,
                          weft__digest_step *step, void *context)
{
    int pieces = 0;
    for (int64_t at = 0;;) {
        if (step != NULL && ++pieces % PIECES_BETWEEN_STEPS == 0 &&
            !step(context, at, "verifying its hash"))
            return weft_fail(WEFT_CANCELLED, "%s: stopped", path);
        const ssize_t got = pread(fd, piece, PIECE, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(WEFT_IO, "%s: read: %s", path, strerror(errno));
        if (got == 0)
            return WEFT_OK;
        if (EVP_DigestUpdate(hash, piece, (size_t)got) != 1)
            return weft_fail(WEFT_IO, "%s: computing its hash failed", path);
        at += got;
    }
}

weft_status weft__digest(int fd, const char *path, size_t digits, int64_t size,
                         weft__digest_step *step, void *context, char out[65])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    char front[32];
    const int in_front = snprintf(front, sizeof front, "blob %lld", (long long)size) + 1;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    char *piece = weft_malloc(PIECE);
    weft_status status = WEFT_OK;
    if (hash == NULL || piece == NULL)
        status = weft__out_of_memory(path, "hashing it");
    else if (EVP_DigestInit_ex(hash, digits == 64 ? EVP_sha256() : EVP_sha1(), NULL) != 1 ||
             (digits == 40 && EVP_DigestUpdate(hash, front, (size_t)in_front) != 1))
        status =
            weft_fail(WEFT_UNSUPPORTED, "%s: the system's libcrypto lacks the hash function", path);
    if (status == WEFT_OK)
        status = update(hash, fd, path, piece, step, context);
    if (status == WEFT_OK && (EVP_DigestFinal_ex(hash, bytes, &n) != 1 || 2 * n != digits))
        status = weft_fail(WEFT_IO, "%s: computing its hash failed", path);
    for (unsigned i = 0; i < n && status == WEFT_OK; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    EVP_MD_CTX_free(hash);
    weft_free(piece);
    return status;
}
weft_status weft__digest_of(const char *path, weft__digest_step *step, void *context, int64_t *size,
                            char out[65])
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return weft_fail(WEFT_IO, "%s: %s", path, strerror(errno));
    weft_status status = WEFT_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        status = weft_fail(WEFT_IO, "%s: expected a file", path);
    if (status == WEFT_OK)
        status = weft__digest(fd, path, 64, info.st_size, step, context, out);
    if (status == WEFT_OK)
        *size = info.st_size;
    close(fd);
    return status;
}
