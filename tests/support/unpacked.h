/* tests/support/unpacked.h -- the real tokenizers of ../shared. */
#ifndef TESTS_SUPPORT_UNPACKED_H
#define TESTS_SUPPORT_UNPACKED_H

/* Unpacks ../shared/tokenizers/NAME.tar.xz; returns its folder, valid until the next call. NULL:
 * the archive is absent or cannot be unpacked, and the case is skipped. */
const char *unpacked_tokenizer(const char *name);

#endif
