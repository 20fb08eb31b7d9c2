/* core/version.c -- the library's own version. */
#include "weft/version.h"

const char *weft_version(void)
{
    return WEFT_VERSION;
}
