/* tests/reference/main.c -- write_reference FOLDER [--vulkan | --vulkan-again]: writes the
 * generated documents into a folder such as docs/; with --vulkan the inventory's last column is
 * measured where a row is new, or in all rows. */
#include "tests/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

static int fail(void)
{
    fprintf(stderr, "%s\n", weft_error_message());
    return 1;
}

int main(int argc, char **argv)
{
    char root[256], *folder = argc > 1 ? realpath(argv[1], NULL) : NULL, path[512], *old = NULL;
    bool vulkan = argc > 2 && strncmp(argv[2], "--vulkan", 8) == 0;
    bool again = argc > 2 && strcmp(argv[2], "--vulkan-again") == 0;
    if (folder == NULL) {
        fprintf(stderr, "usage: write_reference FOLDER [--vulkan | --vulkan-again]\n");
        return 2;
    }
    snprintf(root, sizeof root, "%s", check_source("."));
    weft_device *device = vulkan ? weft_device_get("vulkan") : NULL;
    char scratch[] = "/tmp/weft-reference-XXXXXX";
    if ((vulkan && device == NULL) || mkdtemp(scratch) == NULL || chdir(scratch) != 0)
        return fail();
    snprintf(path, sizeof path, "%s/reference", folder);
    if (weft_folder_make(path) != WEFT_OK)
        return fail();
    weft_scope_open();
    for (int i = 0; reference_headers[i] != NULL; i++) {
        snprintf(path, sizeof path, "%s/reference/%s.md", folder, reference_headers[i]);
        if (write_reference(reference_headers[i], root, path) != WEFT_OK)
            return fail();
    }
    snprintf(path, sizeof path, "%s/reference/README.md", folder);
    if (write_reference_list(root, path) != WEFT_OK)
        return fail();
    snprintf(path, sizeof path, "%s/reference/functions.md", folder);
    if (write_functions(root, path) != WEFT_OK)
        return fail();
    snprintf(path, sizeof path, "%s/names.md", folder);
    if (write_names(path) != 0)
        return fail();
    snprintf(path, sizeof path, "%s/function-support.md", folder);
    if (weft_file_read(path, 0, &old, NULL) != WEFT_OK)
        old = NULL; /* the first one */
    int wrong = write_inventory(path, old, device, again, scratch);
    printf("%d functions, %d cells that are empty or wrong\n", line_count(), wrong);
    weft_scope_close(NULL);
    weft_free(old);
    free(folder);
    remove("line.npy");
    if (chdir("/") == 0)
        rmdir(scratch);
    return wrong != 0;
}
