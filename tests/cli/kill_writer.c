/* tests/cli/kill_writer.c -- writes one file by the library, for test_cli_kills: KIND MODEL OUT. */
#include <stdio.h>
#include <string.h>

#include "weft/weft.h"

static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
enum { N = sizeof ids / sizeof *ids };

static weft_status write_prompt_cache(weft_model *model, const char *out)
{
    weft_prompt_cache *cache = NULL;
    const weft_prompt_cache_options options = {.min_tokens = 1};
    weft_status status = weft_prompt_cache_new(model, &options, &cache);
    if (status == WEFT_OK)
        status = weft_prompt_cache_warm(cache, ids, N, NULL, 0);
    if (status == WEFT_OK)
        status = weft_prompt_cache_save(cache, out);
    weft_prompt_cache_free(cache);
    return status;
}

static weft_status write_state(weft_model *model, const char *out)
{
    weft_generator *g = NULL;
    int32_t id;
    weft_status status =
        weft_generator_new(model, ids, N, &(weft_generate_options){.max_tokens = 4}, &g);
    if (status == WEFT_OK)
        status = weft_generator_next(g, &id, NULL);
    if (status == WEFT_OK)
        status = weft_state_save(g, out, NULL);
    weft_generator_free(g);
    return status;
}

static weft_status write_arrays(const char *kind, const char *out)
{
    weft_array *a = weft_arange(0, 5000, 1, WEFT_FLOAT32);
    const char *const names[] = {"a"};
    if (strcmp(kind, "npz") == 0)
        return weft_npz_save(out, names, &a, 1, false);
    return weft_hdf5_save(out, names, &a, 1);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    weft_status status = WEFT_OK;
    weft_model *model = NULL;
    const bool needs_model = strcmp(argv[1], "prompt_cache") == 0 || strcmp(argv[1], "state") == 0;
    if (needs_model)
        status = weft_model_load(argv[2], NULL, &model);
    weft_scope_open();
    if (status == WEFT_OK && strcmp(argv[1], "prompt_cache") == 0)
        status = write_prompt_cache(model, argv[3]);
    else if (status == WEFT_OK && needs_model)
        status = write_state(model, argv[3]);
    else if (status == WEFT_OK)
        status = write_arrays(argv[1], argv[3]);
    weft_scope_close(NULL);
    weft_model_free(model);
    if (status != WEFT_OK)
        fprintf(stderr, "weft: %s\n", weft_error_message());
    return status == WEFT_UNSUPPORTED ? 77 : status != WEFT_OK;
}
