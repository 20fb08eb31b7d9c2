/* tests/fuzz/fuzz_hub_list.c -- a hub's list of a repository's files, and the files selected from
 * it; the bytes in front of a NUL are patterns. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\0', size);
    const size_t n = end != NULL ? (size_t)(end - data) : 0, start = end != NULL ? n + 1 : 0;
    char *patterns = malloc(n + 1);
    weft__hub_list list;
    if (patterns == NULL)
        return 0;
    memcpy(patterns, data, n);
    patterns[n] = '\0';
    for (int i = 0; i < 3; i++) {
        if (weft__hub_list_parse((const char *)data + start, size - start, "list", &list) !=
            WEFT_OK)
            break;
        (void)weft__hub_list_choose(&list, i == 0 ? NULL : patterns, i == 2, "org/name");
        for (int k = 0; k < list.n; k++) {
            if (!weft__hub_is_path(list.files[k].path) || list.files[k].size < 0)
                abort();
        }
        weft__hub_list_free(&list);
    }
    free(patterns);
    return 0;
}
