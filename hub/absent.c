/* hub/absent.c -- stubs for builds without libcurl. */
#include "weft/hub.h"

weft_status weft_hub_pull(const char *name, const weft_hub_options *options, char **folder)
{
    (void)options;
    *folder = NULL;
    return weft_fail(WEFT_UNSUPPORTED, "%s: this Weft was built without libcurl", name);
}
