/* train/adapter/mlx.c -- adapters in mlx-lm's format. adapters.safetensors has A and B transposed,
 * and the configuration has one rank and one scale. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/text.h"
#include "nn/lora.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"
#include "train/run/number.h"

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status read_config(const char *folder, double *scale, double *dropout)
{
    weft__json_doc doc = {0};
    weft__json parameters, at;
    const char *kind = NULL;
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_CONFIG);
    weft_status status =
        path ? weft__json_read(path, &doc) : weft__out_of_memory(folder, "reading the adapter");
    weft_free(path);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = weft__json_find_string(&root, "fine_tune_type", &kind);
    if (status == WEFT_OK && kind && strcmp(kind, "lora") != 0 && strcmp(kind, "dora") != 0)
        status =
            weft__json_fail(&root, WEFT_UNSUPPORTED,
                            "fine_tune_type: expected lora or dora, got %s", weft_printable(kind));
    if (status == WEFT_OK)
        status = weft__json_get(&root, "lora_parameters", &parameters);
    if (status == WEFT_OK)
        status = weft__json_get(&parameters, "scale", &at);
    if (status == WEFT_OK)
        status = weft__json_as_number(&at, scale);
    if (status == WEFT_OK)
        status = weft__json_find_number(&parameters, "dropout", dropout);
    if (status == WEFT_OK && (*scale == 0 || !isfinite(*scale)))
        status = weft__json_fail(&at, WEFT_INVALID, "expected a number other than 0");
    if (status == WEFT_OK && !(*dropout >= 0 && *dropout < 1))
        status = weft__json_fail(&parameters, WEFT_INVALID, "dropout: expected [0, 1), got %g",
                                 *dropout);
    weft__json_free(&doc);
    return status;
}

static weft_status read_tensor(const weft_safetensors *file, int i, double scale,
                               weft__adapter_list *out)
{
    const weft_safetensors_entry *from = weft_safetensors_at(file, i);
    const char *dot = strrchr(from->name, '.');
    const char *end = dot ? dot + 1 : "";
    char path[WEFT_NN_PATH], name[WEFT_NN_PATH];
    const bool is_A = strcmp(end, "lora_a") == 0, is_B = strcmp(end, "lora_b") == 0;
    const bool fits = dot && snprintf(name, sizeof name, "%.*s", (int)(dot - from->name),
                                      from->name) < WEFT_NN_PATH;
    if (!fits || (!is_A && !is_B && strcmp(end, "m") != 0))
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: '%s': expected names that end with .lora_a, .lora_b "
                         "or .m",
                         from->path, weft_printable(from->name));
    if (weft__naming_of(name) != &weft__names_text)
        weft__name_path(name, path, sizeof path);
    else
        snprintf(path, sizeof path, "%s", name);
    weft__adapter_entry *e = weft__adapter_list_entry(out, path);
    if (e == NULL)
        return WEFT_MEMORY;
    weft_array *a = weft_safetensors_get(file, from->name);
    e->scale = scale;
    if (!is_A && !is_B)
        e->m = a;
    else if (weft_ndim(a) != 2 && weft_ndim(a) != 3)
        return weft_fail(WEFT_UNSUPPORTED, "%s: '%s': expected a matrix, got %d dims", from->path,
                         weft_printable(from->name), weft_ndim(a));
    else if (is_A) /* adapters of experts are not transposed */
        e->A = weft_ndim(a) == 3 ? a : weft_swapaxes(a, 0, 1);
    else
        e->B = weft_ndim(a) == 3 ? a : weft_swapaxes(a, 0, 1);
    return WEFT_OK;
}

weft_status weft__adapter_mlx_read(const char *folder, weft__adapter_list *out)
{
    weft_safetensors *file = NULL;
    double scale = 1;
    weft_status status = read_config(folder, &scale, &out->dropout);
    if (status != WEFT_OK)
        return status;
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_MLX_TENSORS);
    status = path ? weft_safetensors_open(path, &file)
                  : weft__out_of_memory(folder, "reading the adapter");
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(file); i++)
        status = read_tensor(file, i, scale, out);
    weft_safetensors_close(file);
    weft_free(path);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static weft_array *wide(weft_array *a)
{
    return weft_astype(a, WEFT_FLOAT32);
}

/* Pads the rank axis with zeros to the given rank. */
static weft_array *padded(weft_array *a, int axis, int64_t rank)
{
    weft_dims shape = weft_shape(a);
    const int at = axis + shape.n;
    if (shape.at[at] == rank)
        return a;
    shape.at[at] = rank - shape.at[at];
    weft_array *zeros = weft_zeros(shape, weft_dtype_of(a));
    return weft_concatenate((weft_array *[]){a, zeros}, 2, axis);
}

static weft_status add_tensor(weft__names *names, weft_array **arrays, const char *module,
                              const char *end, weft_array *a)
{
    char name[WEFT_NN_PATH + 64];
    snprintf(name, sizeof name, "%s.%s", module, end);
    arrays[names->n] = weft_contiguous(a);
    return weft__names_add(names, name);
}

/* Adds an adapter in float32. A scale that differs from the common one is multiplied into B. */
static weft_status add_entry(const weft__adapter_entry *e, const weft__naming *naming, int64_t rank,
                             double scale, weft__names *names, weft_array **arrays)
{
    char module[WEFT_NN_PATH + 32];
    weft__name_in(naming, e->path, module, sizeof module);
    const bool experts = weft_ndim(e->A) == 3;
    if (experts && weft__adapter_is_suffix(e->path, "gate_up_proj"))
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: mlx-lm has gates and ups apart: expected an adapter of a model in "
                         "MLX's format",
                         e->path);
    weft_array *A = padded(wide(e->A), -2, rank); /* (R, in) or (n, R, in) */
    weft_array *B = padded(wide(e->B), -1, rank); /* (out, R) or (n, out, R) */
    if (e->scale != scale)
        B = weft_scale(B, e->scale / scale);
    A = experts ? A : weft_swapaxes(A, 0, 1);
    B = experts ? B : weft_swapaxes(B, 0, 1);
    weft_status status = add_tensor(names, arrays, module, "lora_a", A);
    if (status == WEFT_OK)
        status = add_tensor(names, arrays, module, "lora_b", B);
    if (status == WEFT_OK && e->m)
        status = add_tensor(names, arrays, module, "m", wide(e->m));
    return status;
}

static weft_status write_tensors(const weft__adapter_list *list, const weft__naming *naming,
                                 int64_t rank, double scale, const char *folder)
{
    weft__names names = {0};
    weft_array **arrays = weft_calloc(3 * (size_t)list->n, sizeof(weft_array *));
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_MLX_TENSORS);
    weft_status status = arrays && path ? WEFT_OK : weft__out_of_memory(folder, "the adapter");
    for (int i = 0; status == WEFT_OK && i < list->n; i++)
        status = add_entry(&list->at[i], naming, rank, scale, &names, arrays);
    if (status == WEFT_OK)
        status =
            weft_safetensors_save(path, (const char *const *)names.at, arrays, names.n, NULL, 0);
    weft__names_free(&names);
    weft_free(arrays);
    weft_free(path);
    return status;
}

/* A key is the path within a layer; for a module outside the layers, its complete name. */
static weft_status add_key(const char *path, const weft__naming *naming, weft__names *keys)
{
    static const char layers[] = "model.layers.";
    char key[WEFT_NN_PATH + 32];
    const bool inside = strncmp(path, layers, strlen(layers)) == 0;
    const char *dot = inside ? strchr(path + strlen(layers), '.') : NULL;
    if (dot)
        snprintf(key, sizeof key, "%s", dot + 1);
    else
        weft__name_in(naming, path, key, sizeof key);
    return weft__names_have(keys, key) ? WEFT_OK : weft__names_add(keys, key);
}

static weft_status write_config(const weft__adapter_list *list, const weft__naming *naming,
                                int64_t rank, double scale, const char *folder,
                                const char *base_name)
{
    char number[WEFT__NUMBER_TEXT];
    weft__names keys = {0};
    weft__text t = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < list->n; i++)
        status = add_key(list->at[i].path, naming, &keys);
    weft__text_format(&t,
                      "{\n  \"fine_tune_type\": \"%s\",\n  \"lora_parameters\": {\n"
                      "    \"rank\": %lld,\n",
                      list->at[0].m ? "dora" : "lora", (long long)rank);
    weft__text_format(&t, "    \"scale\": %s,\n", weft__number(scale, number));
    weft__text_format(&t, "    \"dropout\": %s,\n    \"keys\": [",
                      weft__number(list->dropout, number));
    for (int i = 0; i < keys.n; i++) {
        weft__text_format(&t, i ? ", " : "");
        weft__text_quote(&t, keys.at[i]);
    }
    weft__text_format(&t, "]\n  },\n  \"model\": ");
    weft__text_quote(&t, base_name ? base_name : "");
    weft__text_format(&t, ",\n  \"num_layers\": -1\n}\n");
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_CONFIG);
    if (status == WEFT_OK)
        status = path && !t.failed ? weft_file_write(path, t.at, t.n)
                                   : weft__out_of_memory(folder, "the adapter's configuration");
    weft__names_free(&keys);
    weft_free(t.at);
    weft_free(path);
    return status;
}

weft_status weft__adapter_mlx_write(weft_model *model, const char *folder, const char *base_name)
{
    weft__adapter_list list = {0};
    int64_t rank = 0;
    const weft__naming *naming = weft__config_mlx_naming(weft_model_config(model));
    weft_scope_open();
    weft_status status = weft__adapter_list_for(model, "mlx-lm's", &list);
    for (int i = 0; i < list.n; i++)
        rank = weft_dim(list.at[i].B, -1) > rank ? weft_dim(list.at[i].B, -1) : rank;
    weft__folder f = {.path = NULL};
    if (status == WEFT_OK)
        status = weft__adapter_check_folder(folder);
    if (status == WEFT_OK)
        status = weft__folder_open_new(folder, &f);
    if (status == WEFT_OK)
        status = write_tensors(&list, naming, rank, list.at[0].scale, f.path);
    if (status == WEFT_OK)
        status = write_config(&list, naming, rank, list.at[0].scale, f.path, base_name);
    if (status == WEFT_OK)
        status = weft__adapter_remove_others(f.path, WEFT__ADAPTER_MLX_TENSORS);
    status = weft__folder_replace(&f, folder, status);
    weft_scope_close(NULL);
    weft__adapter_list_free(&list);
    return status;
}
