/* tests/support/unpacked.h -- the real tokenizers of ../shared. */
#ifndef TESTS_SUPPORT_UNPACKED_H
#define TESTS_SUPPORT_UNPACKED_H

/* Unpacks ../shared/tokenizers/NAME.tar.xz; returns its folder, valid until the next call. NULL:
 * there is none, and the case counts as skipped. */
const char *unpacked_tokenizer(const char *name);

#endif
