/* tests/cplusplus/check.h -- a check for the C++ programs. */
#ifndef TESTS_CPLUSPLUS_CHECK_H
#define TESTS_CPLUSPLUS_CHECK_H

#include <cstdio>

inline int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                            \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
