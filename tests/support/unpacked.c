/* tests/support/unpacked.c -- the real tokenizers of ../shared. */
#include "tests/support/unpacked.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

const char *unpacked_tokenizer(const char *name)
{
    static char folder[1024];
    char path[128], command[2300];
    snprintf(path, sizeof path, "tokenizers/%s.tar.xz", name);
    const char *archive = check_shared(path), *parent = check_temporary(name);
    if (!archive) {
        check_skip("../shared has no tokenizer %s", name);
        return NULL;
    }
    snprintf(command, sizeof command, "mkdir -p '%s' && tar -xJf '%s' -C '%s'", parent, archive,
             parent);
    if (system(command) != 0) {
        check_skip("tar cannot unpack %s", archive);
        return NULL;
    }
    snprintf(folder, sizeof folder, "%s/%s", parent, name);
    return folder;
}
