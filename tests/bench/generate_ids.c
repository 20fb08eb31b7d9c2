/* tests/bench/generate_ids.c -- for bridge.py: generate_ids BACKEND MODEL MOST CANCEL ID...: the
 * ids that an engine generates greedily after the given ones. If CANCEL is above 0, another thread
 * cancels after that many ids. Prints the ids, and why it ended. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "weft/weft.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n, cancel;
    weft_engine *engine;
} run = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, NULL};

static bool show(void *context, const weft_generated *token)
{
    (void)context;
    if (token->id < 0)
        return true;
    printf("%d ", (int)token->id);
    pthread_mutex_lock(&run.lock);
    run.n++;
    pthread_cond_broadcast(&run.changed);
    pthread_mutex_unlock(&run.lock);
    return true;
}

static void *cancel(void *context)
{
    (void)context;
    pthread_mutex_lock(&run.lock);
    while (run.n < run.cancel)
        pthread_cond_wait(&run.changed, &run.lock);
    pthread_mutex_unlock(&run.lock);
    weft_engine_cancel(run.engine);
    return NULL;
}

int main(int argc, char **argv)
{
    int32_t ids[256];
    size_t n = 0;
    pthread_t thread;
    if (argc < 6)
        return 2;
    for (int i = 5; i < argc && n < 256; i++)
        ids[n++] = atoi(argv[i]);
    const weft_engine_options load = {.backend = argv[1], .dtype = WEFT_FLOAT32};
    const weft_generate_options o = {.max_tokens = atoi(argv[3])};
    const weft_engine_request request = {.ids = ids, .n_ids = n, .options = &o};
    weft_status status = weft_engine_load(argv[2], &load, &run.engine);
    run.cancel = atoi(argv[4]);
    if (status == WEFT_OK && run.cancel > 0 && pthread_create(&thread, NULL, cancel, NULL) != 0)
        return 2;
    if (status == WEFT_OK)
        status = weft_engine_generate(run.engine, &request, show, NULL);
    if (status == WEFT_OK && run.cancel > 0)
        pthread_join(thread, NULL);
    if (status == WEFT_OK)
        puts(weft_finish_name(weft_engine_metrics_of(run.engine).reason));
    else
        fprintf(stderr, "generate_ids: %s\n", weft_error_message());
    weft_engine_free(run.engine);
    return status != WEFT_OK;
}
