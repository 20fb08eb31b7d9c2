/* core/version.c -- the version of the library. */
#include "weft/version.h"

const char *weft_version(void)
{
    return WEFT_VERSION;
}
