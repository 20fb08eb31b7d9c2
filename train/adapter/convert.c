/* train/adapter/convert.c -- converts adapters between file formats. */
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "nn/module.h"
#include "train/adapter/adapter.h"
#include "train/adapter/list.h"
#include "weft/tool/run.h"

/* Fails with what `path` is when it has no adapter's configuration. */
static weft_status check_folder(const char *path, const char *config)
{
    if (weft__exists(config))
        return WEFT_OK;
    if (!weft__exists(path))
        return weft_fail(
            WEFT_IO,
            "%s: there is no such adapter: expected a folder with " WEFT__ADAPTER_CONFIG
            ", or a .gguf file",
            path);
    if (weft_run_exists(path))
        return weft_fail(WEFT_IO,
                         "%s: the folder of a run, not an adapter: its adapters are %s/last and, "
                         "with validation data, %s/best",
                         path, path, path);
    return weft_fail(WEFT_IO,
                     "%s: not an adapter: expected a folder with " WEFT__ADAPTER_CONFIG
                     ", or a .gguf file",
                     path);
}

/* Detects the format: mlx-lm's configuration has lora_parameters and no peft_type. */
static weft_status read_format(const char *path, weft_adapter_format *format, char **base)
{
    weft__json_doc doc = {0};
    weft__json kind, parameters;
    const char *name = NULL;
    *format = WEFT_ADAPTER_GGUF;
    *base = NULL;
    if (weft__ends_with(path, ".gguf"))
        return WEFT_OK;
    char *config = weft_format("%s/%s", path, WEFT__ADAPTER_CONFIG);
    weft_status status =
        config ? check_folder(path, config) : weft__out_of_memory(path, "reading the adapter");
    if (status == WEFT_OK)
        status = weft__json_read(config, &doc);
    weft_free(config);
    if (status != WEFT_OK)
        return status;
    const weft__json root = weft__json_root(&doc);
    status = weft__json_find(&root, "peft_type", &kind);
    if (status == WEFT_OK)
        status = weft__json_find(&root, "lora_parameters", &parameters);
    if (status == WEFT_OK) {
        const bool mlx = kind.value == NULL && parameters.value != NULL;
        *format = mlx ? WEFT_ADAPTER_MLX : WEFT_ADAPTER_PEFT;
        status = weft__json_find_string(&root, mlx ? "model" : "base_model_name_or_path", &name);
    }
    if (status == WEFT_OK && name && *name && (*base = weft_strdup(name)) == NULL)
        status = weft__out_of_memory(path, "its base");
    weft__json_free(&doc);
    return status;
}

weft_status weft_adapter_format_of(const char *adapter, weft_adapter_format *format, char **base)
{
    char *name = NULL;
    weft_adapter_format found = WEFT_ADAPTER_PEFT;
    const weft_status status = read_format(adapter, &found, &name);
    if (format)
        *format = found;
    if (base)
        *base = name;
    else
        weft_free(name);
    return status;
}

weft_status weft_adapter_save_as(weft_model *model, const char *path, const char *base_name,
                                 weft_adapter_format format)
{
    switch (format) {
    case WEFT_ADAPTER_PEFT:
        return weft_adapter_save(model, path, base_name);
    case WEFT_ADAPTER_MLX:
        return weft__adapter_mlx_write(model, path, base_name);
    case WEFT_ADAPTER_GGUF:
        return weft__adapter_gguf_write(model, path, base_name);
    }
    return weft_fail(WEFT_INVALID, "adapter: there is no format %d", (int)format);
}

weft_status weft__adapter_load_list(weft_model *model, const char *path, weft_adapter_format format,
                                    const weft_adapter_options *options)
{
    weft__adapter_list list = {0};
    weft_scope_open();
    weft_status status = format == WEFT_ADAPTER_GGUF ? weft__adapter_gguf_read(path, model, &list)
                                                     : weft__adapter_mlx_read(path, &list);
    for (int i = 0; status == WEFT_OK && i < list.n; i++) {
        const weft_module *m = weft_nn_find_module(weft_model_module(model), list.at[i].path);
        list.at[i].embedding = m && m->type == &weft__nn_embedding_type;
    }
    if (status == WEFT_OK)
        status = weft__adapter_list_check(&list, model,
                                          format == WEFT_ADAPTER_GGUF ? "GGUF" : "mlx-lm's");
    if (status == WEFT_OK)
        status = weft__adapter_list_put(&list, weft_model_module(model), path, options);
    weft_scope_close(NULL);
    weft__adapter_list_free(&list);
    return status;
}
