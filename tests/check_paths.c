/* tests/check_paths.c -- paths of fixtures and temporary files of the tests. */
#include "tests/check_paths.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

typedef struct path {
    struct path *next;
    char text[];
} path;

/* Threads of a suite ask for paths at once: ranks, clients of a server. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static path *paths;
static char *temporary;

/* "a/b" as a path that lives until the suite ends. */
static const char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    path *p = malloc(sizeof *p + size);
    if (!p) {
        perror("tests: path");
        exit(EXIT_FAILURE);
    }
    snprintf(p->text, size, "%s/%s", folder, name);
    pthread_mutex_lock(&lock);
    p->next = paths;
    paths = p;
    pthread_mutex_unlock(&lock);
    return p->text;
}

const char *check_source(const char *name)
{
    return join(CHECK_SOURCE_ROOT, name);
}

const char *check_fixture(const char *name)
{
    return join(CHECK_SOURCE_ROOT "/tests/golden", name);
}

const char *check_shared(const char *name)
{
    const char *folder = getenv("WEFT_SHARED");
    const char *found = join(folder ? folder : CHECK_SOURCE_ROOT "/../shared", name);
    return access(found, R_OK) == 0 ? found : NULL;
}

const char *check_built(const char *name)
{
    return join(CHECK_BUILD_ROOT, name);
}

const char *check_temporary(const char *name)
{
    pthread_mutex_lock(&lock);
    if (!temporary) {
        const char *folder = getenv("TMPDIR");
        if (asprintf(&temporary, "%s/weft-test-XXXXXX", folder ? folder : "/tmp") < 0 ||
            !mkdtemp(temporary)) {
            perror("tests: temporary folder");
            exit(EXIT_FAILURE);
        }
    }
    pthread_mutex_unlock(&lock);
    return join(temporary, name);
}

static int remove_entry(const char *name, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(name);
}

void check_paths_release(void)
{
    if (temporary) {
        nftw(temporary, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(temporary);
        temporary = NULL;
    }
    while (paths) {
        path *next = paths->next;
        free(paths);
        paths = next;
    }
}
