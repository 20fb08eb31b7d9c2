/* models/registry.c -- model families by model_type: the built-in ones, and those added by
 * programs. */
#include "models/family.h"

#include <pthread.h>
#include <string.h>

enum { MOST_ADDED = 64 };

static const weft_model_family *const own[] = {
#define FAMILY(name) &weft__family_##name,
#include "models/families/table.h"
#undef FAMILY
};
enum { N_OWN = sizeof own / sizeof *own };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const weft_model_family *added[MOST_ADDED];
static int n_added;

static const weft_model_family *at(int i)
{
    if (i < 0 || i >= N_OWN + n_added)
        return NULL;
    return i < N_OWN ? own[i] : added[i - N_OWN];
}

static const weft_model_family *find(const char *model_type)
{
    for (int i = 0; i < N_OWN + n_added; i++) {
        if (strcmp(at(i)->model_type, model_type) == 0)
            return at(i);
    }
    return NULL;
}

weft_status weft_model_register(const weft_model_family *family)
{
    if (family->model_type == NULL || family->build == NULL || family->hidden == NULL ||
        family->head == NULL)
        return weft_fail(WEFT_INVALID,
                         "model family: expected a model_type, build, hidden and head");
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&lock);
    if (find(family->model_type))
        status = weft_fail(WEFT_INVALID, "model family '%s': there is one already",
                           weft_printable(family->model_type));
    else if (n_added == MOST_ADDED)
        status = weft_fail(WEFT_INVALID, "model family '%s': more than %d were added",
                           weft_printable(family->model_type), MOST_ADDED);
    else
        added[n_added++] = family;
    pthread_mutex_unlock(&lock);
    return status;
}

const weft_model_family *weft_model_family_find(const char *model_type)
{
    pthread_mutex_lock(&lock);
    const weft_model_family *family = find(model_type);
    pthread_mutex_unlock(&lock);
    return family;
}

int weft_model_family_count(void)
{
    pthread_mutex_lock(&lock);
    const int n = N_OWN + n_added;
    pthread_mutex_unlock(&lock);
    return n;
}

const weft_model_family *weft_model_family_at(int i)
{
    pthread_mutex_lock(&lock);
    const weft_model_family *family = at(i);
    pthread_mutex_unlock(&lock);
    return family;
}
