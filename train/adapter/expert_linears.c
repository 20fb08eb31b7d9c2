/* train/adapter/expert_linears.c -- PEFT adapters in which each expert is a linear with an adapter
 * of its own, as transformers had experts before version 5. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/lora.h"
#include "train/adapter/experts.h"
#include "train/adapter/list.h"

/* Whether the name contains ".experts.N.". */
static bool is_of_expert(const char *name)
{
    static const char part[] = ".experts.";
    const char *at = strstr(name, part);
    return at && isdigit((unsigned char)at[strlen(part)]);
}

bool weft__adapter_has_expert_linears(const weft_safetensors *file)
{
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        if (is_of_expert(weft_safetensors_at(file, i)->name))
            return true;
    }
    return false;
}

typedef struct reading {
    const weft__adapter_config *config;
    const weft_safetensors *file;
    const char *where;
    weft__adapter_list *out;
    int found; /* tensors of experts */
} reading;

/* ---- names ---------------------------------------------------------------------------------- */

/* The linear of expert e in a stack: "P.mlp.experts.3.gate_proj", or as Mixtral has it
 * "P.block_sparse_moe.experts.3.w1". */
static bool linear_name(const char *stack, int64_t e, bool mixtral, char *out, size_t size)
{
    static const char *const theirs[][2] = {
        {"gate_proj", "w1"}, {"down_proj", "w2"}, {"up_proj", "w3"}};
    char name[WEFT_NN_PATH];
    if (!weft__nn_stack_name(stack, false, name, sizeof name))
        return false;
    const char *last = strrchr(name, '.') + 1, *end = strstr(name, ".mlp.");
    const int before = (int)(last - 1 - name); /* "P.mlp.experts" */
    if (!mixtral)
        return snprintf(out, size, "%.*s.%d.%s", before, name, (int)e, last) < (int)size;
    for (size_t i = 0; end && i < sizeof theirs / sizeof *theirs; i++) {
        if (strcmp(last, theirs[i][0]) == 0)
            return snprintf(out, size, "%.*s.block_sparse_moe.experts.%d.%s", (int)(end - name),
                            name, (int)e, theirs[i][1]) < (int)size;
    }
    return false;
}

weft_status weft__adapter_scale_of(const weft__adapter_config *config, const char *linear,
                                   int64_t R, double *out)
{
    double alpha = 0;
    char name[WEFT_NN_PATH + 64];
    weft__name_in(config->naming, linear, name, sizeof name);
    const weft_status status = weft__adapter_pattern_find(&config->alphas, name, &alpha);
    alpha = alpha == 0 ? config->alpha : alpha;
    *out = alpha / (config->rslora ? sqrt((double)R) : (double)R);
    return status;
}

/* ---- experts -------------------------------------------------------------------------------- */

/* Stacks one factor of all experts: (n, R, in) or (n, out, R). NULL in *out: the file has none. */
static weft_status stack_factor(reading *r, const char *stack, const char *end, bool mixtral,
                                int64_t n, weft_array **parts, weft_array **out)
{
    char linear[WEFT_NN_PATH + 32], name[2 * WEFT_NN_PATH];
    *out = NULL;
    for (int64_t e = 0; e < n; e++) {
        if (!linear_name(stack, e, mixtral, linear, sizeof linear))
            return WEFT_OK;
        snprintf(name, sizeof name, WEFT__ADAPTER_PREFIX "%s.%s.weight", linear, end);
        const bool there = weft_safetensors_find(r->file, name) >= 0;
        if (!there && e == 0)
            return WEFT_OK;
        if (!there)
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: '%s' is missing: adapters of only some experts are unsupported",
                             r->where, name);
        parts[e] = weft_safetensors_get(r->file, name);
    }
    r->found += (int)n;
    *out = weft_stack(parts, (int)n, 0);
    return weft_ok(*out) ? WEFT_OK : weft__report(*out);
}

static weft_status scale_of_experts(const reading *r, const char *stack, bool mixtral, int64_t n,
                                    int64_t R, double *out)
{
    char linear[WEFT_NN_PATH + 32];
    weft_status status = WEFT_OK;
    for (int64_t e = 0; status == WEFT_OK && e < n; e++) {
        double scale = 1;
        if (linear_name(stack, e, mixtral, linear, sizeof linear))
            status = weft__adapter_scale_of(r->config, linear, R, &scale);
        if (status == WEFT_OK && e > 0 && scale != *out)
            status = weft_fail(WEFT_UNSUPPORTED,
                               "%s: alpha_pattern: another alpha for some experts is unsupported",
                               r->where);
        *out = scale;
    }
    return status;
}

static weft_status read_stack(reading *r, weft_module *tree, const char *stack)
{
    const weft_module *m = weft_nn_find_module(tree, stack);
    const int64_t n = weft_dim(*weft_nn_find((weft_module *)m, "weight"), 0);
    weft_array *A = NULL, *B = NULL;
    weft_array **parts = weft_calloc((size_t)n + 1, sizeof(weft_array *));
    weft_status status = parts ? WEFT_OK : weft__out_of_memory(r->where, "its tensors");
    bool mixtral = false;
    if (status == WEFT_OK)
        status = stack_factor(r, stack, "lora_A", false, n, parts, &A);
    if (status == WEFT_OK && A == NULL) {
        mixtral = true;
        status = stack_factor(r, stack, "lora_A", true, n, parts, &A);
    }
    if (status == WEFT_OK && A)
        status = stack_factor(r, stack, "lora_B", mixtral, n, parts, &B);
    weft_free(parts);
    if (status != WEFT_OK || A == NULL)
        return status;
    weft__adapter_entry *entry = weft__adapter_list_entry(r->out, stack);
    if (entry == NULL)
        return WEFT_MEMORY;
    entry->A = A;
    entry->B = B;
    return B ? scale_of_experts(r, stack, mixtral, n, weft_dim(B, -1), &entry->scale) : WEFT_OK;
}

/* ---- the other linears ---------------------------------------------------------------------- */

/* A router of Mixtral was "P.block_sparse_moe.gate", and is "P.mlp.gate". */
static bool path_of(const char *name, char *out, size_t size)
{
    static const char theirs[] = ".block_sparse_moe.";
    const size_t start = strlen(WEFT__ADAPTER_PREFIX), n = strlen(name),
                 m = strlen(".lora_A.weight");
    if (n <= start + m || strncmp(name, WEFT__ADAPTER_PREFIX, start) != 0)
        return false;
    snprintf(out, size, "%.*s", (int)(n - m - start), name + start);
    char rest[WEFT_NN_PATH], *at = strstr(out, theirs);
    if (at) {
        snprintf(rest, sizeof rest, "%s", at + strlen(theirs));
        snprintf(at, size - (size_t)(at - out), ".mlp.%s", rest);
    }
    return true;
}

static weft_status read_linear(reading *r, weft_module *tree, const char *name)
{
    char path[WEFT_NN_PATH];
    const bool is_A = weft__adapter_is_suffix(name, "lora_A.weight");
    const bool is_B = weft__adapter_is_suffix(name, "lora_B.weight");
    const bool named = (is_A || is_B) && path_of(name, path, sizeof path);
    const weft_module *m = named ? weft_nn_find_module(tree, path) : NULL;
    if (m == NULL || m->type != &weft_nn_linear_type)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: '%s' beside adapters of single experts is unsupported: expected "
                         "lora_A and lora_B of linears",
                         r->where, weft_printable(name));
    weft__adapter_entry *entry = weft__adapter_list_entry(r->out, path);
    if (entry == NULL)
        return WEFT_MEMORY;
    weft_array *a = weft_safetensors_get(r->file, name);
    if (is_A)
        entry->A = a;
    else
        entry->B = a;
    return is_B && weft_ok(a)
               ? weft__adapter_scale_of(r->config, path, weft_dim(a, -1), &entry->scale)
               : WEFT_OK;
}

weft_status weft__adapter_check_linears(const weft__adapter_config *c, const char *where,
                                        const char *beside)
{
    const char *what = c->dora ? "DoRA"
                       : c->whole.value && json_object_array_length(c->whole.value) > 0
                           ? "modules_to_save"
                       : c->tokens.value ? "trainable_token_indices"
                       : c->parameters.value && json_object_array_length(c->parameters.value) > 0
                           ? "target_parameters"
                           : NULL;
    return what == NULL ? WEFT_OK
                        : weft_fail(WEFT_UNSUPPORTED, "%s: %s beside adapters of %s is unsupported",
                                    where, what, beside);
}

static weft_status read_all(reading *r, weft_module *tree)
{
    weft__names stacks = {0};
    weft_status status = weft__adapter_stacks(tree, &stacks, NULL);
    int named = 0;
    for (int i = 0; status == WEFT_OK && i < stacks.n; i++)
        status = read_stack(r, tree, stacks.at[i]);
    weft__names_free(&stacks);
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(r->file); i++) {
        const char *name = weft_safetensors_at(r->file, i)->name;
        const bool expert = is_of_expert(name);
        named += expert;
        if (!expert)
            status = read_linear(r, tree, name);
    }
    if (status == WEFT_OK && r->found != named)
        status = weft_fail(WEFT_INVALID,
                           "%s: %d of its %d tensors of experts fit no experts of the model",
                           r->where, named - r->found, named);
    return status;
}

weft_status weft__adapter_load_expert_linears(weft_module *tree, const weft__adapter_config *config,
                                              const weft_safetensors *file, const char *where,
                                              const weft_adapter_options *options)
{
    weft__adapter_list list = {0};
    reading r = {.config = config, .file = file, .where = where, .out = &list};
    weft_scope_open();
    weft_status status = weft__adapter_check_linears(config, where, "single experts");
    if (status == WEFT_OK)
        status = read_all(&r, tree);
    if (status == WEFT_OK)
        status = weft__adapter_list_put(&list, tree, where, options);
    weft_scope_close(NULL);
    weft__adapter_list_free(&list);
    return status;
}
