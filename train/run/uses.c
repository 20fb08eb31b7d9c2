/* train/run/uses.c -- commands that use what a run trained. */
#include <string.h>

#include <json-c/json.h>

#include "train/run/history.h"
#include "train/run/settings.h"

/* Adds a command; words that are NULL are left out. */
static void add(weft_run_use *uses, int *n, const char *purpose, const char *const *words,
                int n_words)
{
    weft_run_use *use = &uses[(*n)++];
    int k = 0;
    *use = (weft_run_use){.purpose = purpose};
    for (int i = 0; i < n_words; i++)
        if (words[i])
            use->words[k++] = words[i];
}

#define ADD(purpose, ...)                                                                          \
    add(uses, &n, purpose, (const char *const[]){__VA_ARGS__},                                     \
        (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* The base as the command line names it, or the trainer's options. */
static const char *base_of(const weft_history *h)
{
    const char *base = weft__history_text(h, "model", "name");
    for (weft__options o = {.words = weft__history_member(h, NULL, "command")};
         weft__options_next(&o);)
        base = o.name == NULL && *o.value ? o.value : base;
    return base;
}

static bool is_set(const weft_history *h, const char *name)
{
    return json_object_get_boolean(weft__history_member(h, "model", name));
}

int weft_history_uses(const weft_history *h, weft_run_use *uses)
{
    const char *task = weft__history_option(h, "task"), *system = weft__history_option(h, "system"),
               *base = base_of(h);
    const bool full = weft__history_number(h, "model", "adapters") == 0, gguf = is_set(h, "gguf");
    const char *model = full ? h->trained : base, *adapter = full ? NULL : h->trained;
    const char *flag = full ? NULL : "--adapter";
    int n = 0;
    if (h->trained == NULL || *base == '\0')
        return 0;
    if (task && (strcmp(task, "classify") == 0 || strcmp(task, "embed") == 0)) {
        ADD("use it", task, model, flag, adapter, "TEXT");
        return n;
    }
    if (weft__history_number(h, "data", "conversations") > 0)
        ADD("talk to it", "chat", model, flag, adapter, system ? "--system" : NULL, system);
    else
        ADD("use it", "generate", model, flag, adapter, "--prompt", "TEXT");
    if (gguf && full)
        ADD("a file for llama.cpp", "convert", model, "model.gguf");
    if (full)
        return n;
    const char *type = is_set(h, "mlx") ? "--type" : NULL;
    ADD("merge it into the model", "fuse", model, adapter, "fused", type, type ? "bf16" : NULL);
    if (gguf)
        ADD("the merged model for llama.cpp", "fuse", model, adapter, "fused.gguf");
    if (is_set(h, "gguf_adapter"))
        ADD("the adapter alone for llama.cpp", "convert", adapter, "adapter.gguf",
            "--adapter-format", "gguf", "--base", model);
    return n;
}
