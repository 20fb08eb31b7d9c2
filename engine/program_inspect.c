/* engine/program_inspect.c -- reads the keys and queries that another program has written: a folder
 * with keys_00.bin, queries_00.bin and so on, float32, little-endian. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/failure.h"
#include "engine/program.h"
#include "weft/creation.h"
#include "weft/io.h"

enum { MOST_LAYERS = 4096, PATH = 4096 };

typedef int64_t shape[3]; /* heads, tokens, size */

/* Reads element i of a list of shapes. */
static weft_status read_shape(const weft__json *list, size_t i, shape out)
{
    weft__json at, number;
    size_t n = 0;
    weft_status status = weft__json_at(list, i, &at);
    if (status == WEFT_OK)
        status = weft__json_length(&at, &n);
    if (status == WEFT_OK && n != 3)
        status = weft_fail(WEFT_INVALID, "shapes: expected heads, tokens and size, got %zu", n);
    for (size_t k = 0; k < 3 && status == WEFT_OK; k++) {
        status = weft__json_at(&at, k, &number);
        if (status == WEFT_OK)
            status = weft__json_as_int(&number, &out[k]);
        if (status == WEFT_OK && (out[k] < 1 || out[k] > INT32_MAX))
            status = weft_fail(WEFT_INVALID, "shapes: expected positive numbers");
    }
    return status;
}

static weft_status read_array(const char *folder, const char *kind, size_t i, const shape of,
                              weft_array **slot)
{
    char path[PATH], *data = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s_%02zu.bin", folder, kind, i);
    weft_status status = weft_file_read(path, 0, &data, &size);
    if (status == WEFT_OK && (double)size != 4.0 * (double)of[0] * (double)of[1] * (double)of[2])
        status =
            weft_fail(WEFT_INVALID,
                      "%s: expected (%" PRId64 ", %" PRId64 ", %" PRId64 ") float32, got %zu bytes",
                      path, of[0], of[1], of[2], size);
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = weft_set(slot, weft_from_data(data, WEFT_FLOAT32, WEFT_DIMS(of[0], of[1], of[2])));
    weft_scope_close(NULL);
    weft_free(data);
    return status;
}

static weft_status read_layer(const weft__json *keys, const weft__json *queries, size_t i,
                              const char *folder, weft_inspection *x)
{
    weft_inspected_layer *layer = &x->layers[i];
    shape k = {0}, q = {0};
    weft_status status = read_shape(keys, i, k);
    layer->source = layer->source < 0 ? (int64_t)i : layer->source;
    if (status == WEFT_OK && i > 0 && k[1] != x->length)
        status = weft_fail(WEFT_INVALID, "shapes: layer %zu has %" PRId64 " tokens, not %" PRId64,
                           i, k[1], x->length);
    if (status == WEFT_OK)
        status = read_array(folder, "keys", i, k, &layer->keys);
    x->length = k[1];
    layer->n_kv_heads = k[0];
    layer->head_dim = k[2];
    if (status != WEFT_OK || queries->value == NULL)
        return status;
    status = read_shape(queries, i, q);
    if (status == WEFT_OK && q[1] != k[1])
        status = weft_fail(WEFT_INVALID, "query_shapes: layer %zu has %" PRId64 " tokens", i, q[1]);
    layer->n_heads = q[0];
    return status == WEFT_OK ? read_array(folder, "queries", i, q, &layer->queries) : status;
}

/* Reads the list of numbers at a key into new memory; *out stays NULL if it is absent. */
static weft_status read_numbers(const weft__json *answer, const char *key, int64_t **out, size_t *n)
{
    weft__json list, at;
    *n = 0;
    weft_status status = weft__json_find(answer, key, &list);
    if (status != WEFT_OK || list.value == NULL)
        return status;
    status = weft__json_length(&list, n);
    if (status == WEFT_OK && (*out = weft_calloc(*n + 1, sizeof **out)) == NULL)
        status = weft__out_of_memory("inspect", NULL);
    for (size_t i = 0; i < *n && status == WEFT_OK; i++) {
        status = weft__json_at(&list, i, &at);
        if (status == WEFT_OK)
            status = weft__json_as_int(&at, &(*out)[i]);
    }
    return status;
}

/* Reads "sources" and "ids", which are optional. */
static weft_status read_lists(const weft__json *answer, weft_inspection *x)
{
    int64_t *sources = NULL, *ids = NULL;
    size_t n_sources, n_ids = 0;
    weft_status status = read_numbers(answer, "sources", &sources, &n_sources);
    for (int64_t i = 0; i < x->n_layers; i++) {
        const bool known = status == WEFT_OK && i < (int64_t)n_sources;
        x->layers[i].source = known && sources[i] < x->n_layers ? sources[i] : -1;
    }
    if (status == WEFT_OK)
        status = read_numbers(answer, "ids", &ids, &n_ids);
    if (status == WEFT_OK && ids != NULL &&
        (x->ids = weft_calloc(n_ids + 1, sizeof *x->ids)) == NULL)
        status = weft__out_of_memory("inspect", NULL);
    for (size_t i = 0; i < n_ids && status == WEFT_OK; i++)
        x->ids[i] = (int32_t)ids[i];
    x->length = (int64_t)n_ids;
    weft_free(sources);
    weft_free(ids);
    return status;
}

static weft_status read_all(const weft__json *answer, const char *folder, weft_inspection *x)
{
    weft__json keys, queries;
    size_t n_layers = 0, n_queries = 0;
    weft_status status = weft__json_get(answer, "shapes", &keys);
    if (status == WEFT_OK)
        status = weft__json_length(&keys, &n_layers);
    if (status == WEFT_OK)
        status = weft__json_find(answer, "query_shapes", &queries);
    if (status == WEFT_OK && queries.value != NULL)
        status = weft__json_length(&queries, &n_queries);
    if (status == WEFT_OK && (n_layers < 1 || n_layers > MOST_LAYERS ||
                              (queries.value != NULL && n_queries != n_layers)))
        status = weft_fail(WEFT_INVALID, "shapes: expected one for each of the layers");
    if (status == WEFT_OK && (x->layers = weft_calloc(n_layers, sizeof *x->layers)) == NULL)
        status = weft__out_of_memory("inspect", NULL);
    if (status != WEFT_OK)
        return status;
    x->n_layers = (int64_t)n_layers;
    status = read_lists(answer, x);
    const int64_t n_ids = x->length;
    for (size_t i = 0; i < n_layers && status == WEFT_OK; i++)
        status = read_layer(&keys, &queries, i, folder, x);
    if (status == WEFT_OK && x->ids != NULL && n_ids != x->length)
        status =
            weft_fail(WEFT_INVALID, "ids: expected %" PRId64 ", got %" PRId64, x->length, n_ids);
    return status;
}

/* Deletes the files and the folder, whether they were read or not. */
static void delete_files(const char *folder, int64_t n_layers)
{
    static const char *const kinds[] = {"keys", "queries"};
    char path[PATH];
    for (int64_t i = 0; i < 2 * n_layers; i++) {
        snprintf(path, sizeof path, "%s/%s_%02" PRId64 ".bin", folder, kinds[i % 2], i / 2);
        unlink(path);
    }
    rmdir(folder);
}

weft_status weft__inspection_read(const weft__json *answer, const char *architecture,
                                  weft_inspection **out)
{
    const char *folder = NULL;
    weft_status status = weft__json_get_string(answer, "path", &folder);
    if (status != WEFT_OK)
        return status;
    weft_inspection *x = weft_calloc(1, sizeof *x);
    if (x == NULL)
        return weft__out_of_memory("inspect", NULL);
    x->architecture = architecture;
    status = read_all(answer, folder, x);
    delete_files(folder, x->n_layers);
    if (status == WEFT_OK)
        *out = x;
    else
        weft_inspection_free(x);
    return status;
}
