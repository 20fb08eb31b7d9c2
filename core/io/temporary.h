/* core/io/temporary.h -- temporary files, folders and links beside the paths that they replace.
 *
 * The name is PATH.part-PID-COUNT. While its writer lives it has a lock on the file or folder, so
 * that the leftovers of killed writers can be told from those in use: process ids repeat. On file
 * systems without locks leftovers stay, and the next free name is used.
 */
#ifndef WEFT_CORE_IO_TEMPORARY_H
#define WEFT_CORE_IO_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

typedef enum weft__temporary_kind {
    WEFT__TEMPORARY_FILE,
    WEFT__TEMPORARY_FOLDER
} weft__temporary_kind;

/* Deletes the leftovers for `path`, then makes a new file or folder for it and locks it. The caller
 * frees *name and closes *fd, which ends the lock. */
weft_status weft__temporary_new(const char *path, weft__temporary_kind kind, char **name, int *fd);

/* Makes a symbolic link to `target` at `path`, and replaces an existing file. */
weft_status weft__link_replace(const char *target, const char *path);

/* Appended to a temporary folder's name: what it replaces, while it is moved aside on file systems
 * that cannot exchange two folders. */
#define WEFT__TEMPORARY_OLD ".old"

/* Whether leftovers for a name, the first n characters of `name`, are to be deleted. `certain` is
 * false for a file NAME.part-NUMBER, which other programs write, too. */
typedef bool weft__temporary_choice(const char *name, size_t n, bool certain, const void *context);

/* Deletes the leftovers for chosen names in a folder, and moves back what killed writers had moved
 * aside. What cannot be deleted stays. */
void weft__temporary_clean(const char *folder, weft__temporary_choice *chosen, const void *context);

#endif
