/* weft/version.h -- the version of these headers, and of the library that is linked. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers that a program was compiled with. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.1.0"

/* The version of the library that the program runs with, as in "0.1.0": a literal, never NULL. */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
