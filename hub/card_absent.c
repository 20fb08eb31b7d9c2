/* hub/card_absent.c -- the card of a dataset in builds without libyaml: refused if it names files.
 */
#include <string.h>

#include "hub/dataset.h"

weft_status weft__hub_card_parse(const char *text, size_t length, const char *path,
                                 weft__hub_card *out)
{
    static const char key[] = "configs:";
    *out = (weft__hub_card){0};
    for (const char *at = text, *end = text + length; at && at + sizeof key <= end;) {
        if (memcmp(at, key, sizeof key - 1) == 0)
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: this build of Weft has no libyaml, which its header needs: name "
                             "the data files themselves",
                             path);
        at = memchr(at, '\n', (size_t)(end - at));
        at += at != NULL;
    }
    return WEFT_OK;
}
