/* train/adapter/names.c -- opens the tensors of a PEFT adapter. Those of an adapter of a multimodal
 * class have the names of its modules, which are replaced by the paths of the text model. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/safetensors.h"
#include "train/adapter/adapter.h"

/* The name of a tensor without PEFT's prefix; NULL: it has none. */
static const char *module_of(const char *name)
{
    const size_t start = strlen(WEFT__ADAPTER_PREFIX);
    return strncmp(name, WEFT__ADAPTER_PREFIX, start) == 0 ? name + start : NULL;
}

/* Whether the name is one of a model without a head. */
static bool is_bare(const char *module)
{
    static const char *const parts[] = {"layers.", "encoder.", "embeddings.", "embed_tokens.",
                                        "pooler."};
    size_t i = 0;
    while (i < sizeof parts / sizeof *parts && strncmp(module, parts[i], strlen(parts[i])) != 0)
        i++;
    return i < sizeof parts / sizeof *parts;
}

static const weft__naming *naming_of_module(const char *module)
{
    return is_bare(module) ? &weft__names_bare : weft__naming_of(module);
}

static const weft__naming *naming_of(const weft_safetensors *file)
{
    const weft__naming *naming = &weft__names_text;
    for (int i = 0; i < weft_safetensors_count(file) && naming == &weft__names_text; i++) {
        const char *module = module_of(weft_safetensors_name(file, i));
        naming = module ? naming_of_module(module) : naming;
    }
    return naming;
}

static bool to_path(const char *name, char *out, size_t size)
{
    const char *module = module_of(name);
    char path[WEFT_NN_PATH];
    if (module && weft__tower_of(module))
        return false;
    snprintf(out, size, "%s", name);
    if (module && naming_of_module(module) != &weft__names_text) {
        weft__name_path(module, path, sizeof path);
        snprintf(out, size, WEFT__ADAPTER_PREFIX "%s", path);
    }
    return true;
}

/* An untrained adapter has a B of zeros, and changes nothing. */
static weft_status is_zero(const weft_safetensors *file, int i, bool *out)
{
    weft_scope_open_lean();
    weft_array *most = weft_max(weft_abs(weft_safetensors_get_at(file, i)), WEFT_ALL_AXES, false);
    const weft_status status = weft_eval(most);
    *out = status == WEFT_OK && weft_item(most) == 0;
    weft_scope_close(NULL);
    return status;
}

/* PEFT's suffixes match modules of the towers too. If only texts are trained, they stay as they
 * were. */
static weft_status check_towers(const weft_safetensors *file)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(file); i++) {
        const weft_safetensors_entry *at = weft_safetensors_at(file, i);
        const char *module = module_of(at->name);
        const char *tower = module ? weft__tower_of(module) : NULL;
        bool zero = strstr(at->name, ".lora_A.") || strstr(at->name, ".lora_magnitude_vector");
        if (tower && !zero && strstr(at->name, ".lora_B."))
            status = is_zero(file, i, &zero);
        if (status == WEFT_OK && tower && !zero)
            status = weft_fail(WEFT_UNSUPPORTED,
                               "%s: '%s' changes the %s: only adapters of the text model are "
                               "supported",
                               at->path, weft_printable(at->name), tower);
    }
    return status;
}

weft_status weft__adapter_open(const char *folder, weft_safetensors **out)
{
    char *path = weft_format("%s/%s", folder, WEFT__ADAPTER_TENSORS);
    char *pickle = weft_format("%s/adapter_model.bin", folder);
    weft_status status = path && pickle ? WEFT_OK : weft__out_of_memory(folder, "the adapter");
    *out = NULL;
    if (status == WEFT_OK && !weft__exists(path) && weft__exists(pickle))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: PyTorch's pickle format is unsupported: expected "
                           "adapter_model.safetensors, which PEFT's save_pretrained writes",
                           pickle);
    if (status == WEFT_OK)
        status = weft_safetensors_open(path, out);
    weft_free(path);
    weft_free(pickle);
    return status;
}

weft_status weft__adapter_use_paths(weft_safetensors *file, const weft__naming **naming)
{
    const weft_status status = check_towers(file);
    *naming = naming_of(file);
    return status == WEFT_OK ? weft__safetensors_rename(file, to_path) : status;
}
