/* train/adapter/experts.c -- adapters of experts in PEFT's format. PEFT has one adapter for each
 * parameter of a stack: gate and up projections are one parameter, and one matrix holds the factors
 * of all experts. */
#include "train/adapter/experts.h"

#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "nn/lora.h"

/* ---- names ---------------------------------------------------------------------------------- */

typedef struct survey {
    weft__names *stacks, *adapted;
} survey;

static weft_status look(void *context, const char *path, weft_module **field)
{
    const survey *s = context;
    const weft_module *m = *field;
    const bool adapted = m->type == &weft_nn_lora_stack_type;
    const bool inside = m->parent && m->parent->type == &weft_nn_lora_stack_type;
    if (inside || (!adapted && m->type != &weft__nn_stack_type))
        return WEFT_OK;
    weft_status status = s->stacks ? weft__names_add(s->stacks, path) : WEFT_OK;
    if (status == WEFT_OK && adapted && s->adapted)
        status = weft__names_add(s->adapted, path);
    return status;
}

weft_status weft__adapter_stacks(weft_module *tree, weft__names *stacks, weft__names *adapted)
{
    survey s = {stacks, adapted};
    return weft_nn_visit_modules(tree, look, &s);
}

static weft_status add_parameters(const weft__names *paths, weft__names *out)
{
    weft_status status = WEFT_OK;
    char name[WEFT_NN_PATH];
    for (int i = 0; status == WEFT_OK && i < paths->n; i++) {
        if (!weft__nn_stack_name(paths->at[i], true, name, sizeof name))
            return weft_fail(WEFT_UNSUPPORTED, "adapter: %s: PEFT has no name for it",
                             paths->at[i]);
        if (!weft__names_have(out, name))
            status = weft__names_add(out, name);
    }
    return status;
}

weft_status weft__adapter_parameters(weft_module *tree, weft__names *all, weft__names *adapted)
{
    weft__names stacks = {0}, chosen = {0};
    weft_status status = weft__adapter_stacks(tree, &stacks, &chosen);
    if (status == WEFT_OK)
        status = add_parameters(&stacks, all);
    if (status == WEFT_OK)
        status = add_parameters(&chosen, adapted);
    weft__names_free(&stacks);
    weft__names_free(&chosen);
    return status;
}

/* Adds the weights of the linears that PEFT has to find as parameters. */
static weft_status add_weights(const weft__names *linears, bool routers, weft__names *out)
{
    static const char *const ends[] = {"gate", "router", "gate_proj", "up_proj", "down_proj"};
    const size_t n = routers ? 2 : sizeof ends / sizeof *ends;
    weft_status status = WEFT_OK;
    for (int i = 0; i < linears->n; i++) {
        char name[WEFT_NN_PATH + 16];
        snprintf(name, sizeof name, "%s.weight", linears->at[i]);
        for (size_t k = 0; status == WEFT_OK && k < n; k++) {
            if (weft__adapter_is_suffix(linears->at[i], ends[k]))
                status = weft__names_add(out, name);
        }
    }
    return status;
}

weft_status weft__adapter_move_linears(weft_module *tree, bool routers, weft__names *linears,
                                       weft__names *all, weft__names *adapted)
{
    weft__names every = {0};
    const char *dora = NULL;
    int n = 0;
    const bool experts = all->n > 0;
    routers = routers || (experts && strstr(all->at[0], ".mlp.experts.") == NULL);
    weft_status status = experts ? weft__adapter_linears(tree, &every, NULL) : WEFT_OK;
    status = status == WEFT_OK && experts ? add_weights(&every, routers, all) : status;
    weft__names_free(&every);
    for (int i = 0; experts && i < linears->n; i++) {
        char *path = linears->at[i], name[WEFT_NN_PATH + 16];
        const weft_nn_lora_linear *m = (const weft_nn_lora_linear *)weft_nn_find_module(tree, path);
        snprintf(name, sizeof name, "%s.weight", path);
        const bool moved = status == WEFT_OK && weft__names_have(all, name);
        if (!moved || m->lora_magnitude_vector) {
            dora = moved ? path : dora;
            linears->at[n++] = path;
            continue;
        }
        status = weft__names_add(adapted, name);
        weft_free(path);
    }
    linears->n = experts ? n : linears->n;
    if (dora)
        weft_log_message(WEFT_LOG_WARNING,
                         "adapter: %s: PEFT cannot load DoRA of it in a model with experts", dora);
    return status;
}

/* The last two components of a path: "experts.gate_up_proj". */
static const char *short_name(const char *parameter)
{
    const char *at = strrchr(parameter, '.');
    while (at && at > parameter && at[-1] != '.')
        at--;
    return at ? at : parameter;
}

static int count_named(const weft__names *names, const char *end)
{
    int n = 0;
    for (int i = 0; i < names->n; i++)
        n += weft__adapter_is_suffix(names->at[i], end);
    return n;
}

weft_status weft__adapter_parameter_targets(const weft__names *all, const weft__names *adapted,
                                            weft__names *out)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < adapted->n; i++) {
        const char *end = short_name(adapted->at[i]);
        const bool every = count_named(all, end) == count_named(adapted, end);
        const char *target = every ? end : adapted->at[i];
        if (!weft__names_have(out, target))
            status = weft__names_add(out, target);
    }
    weft__names_sort(out);
    return status;
}

/* ---- from a tree ---------------------------------------------------------------------------- */

static weft_nn_lora_linear *adapter_at(weft_module *tree, const char *path)
{
    weft_module *m = weft_nn_find_module(tree, path);
    return m && m->type == &weft_nn_lora_stack_type ? (weft_nn_lora_linear *)m : NULL;
}

/* The stacks that form a parameter: one stack, or the gate and up stacks. */
typedef struct parts {
    weft_nn_lora_linear *gate, *up; /* for a single stack: gate is that stack, up is NULL */
    bool halves;                    /* the parameter has both halves; one of them may be NULL */
} parts;

static parts parts_of(weft_module *tree, const char *path)
{
    char other[WEFT_NN_PATH] = "";
    const char *dot = strrchr(path, '.');
    const bool is_gate = strcmp(dot + 1, "gate_proj") == 0;
    weft_nn_lora_linear *m = adapter_at(tree, path);
    if (!weft__nn_stack_name(path, true, other, sizeof other) ||
        !weft__adapter_is_suffix(other, "gate_up_proj") ||
        weft__adapter_is_suffix(path, "gate_up_proj"))
        return (parts){.gate = m};
    snprintf(other, sizeof other, "%.*s.%s", (int)(dot - path), path,
             is_gate ? "up_proj" : "gate_proj");
    weft_nn_lora_linear *sibling = adapter_at(tree, other);
    return (parts){is_gate ? m : sibling, is_gate ? sibling : m, true};
}

static bool is_shared(const parts *p)
{
    return weft__lora_A(p->gate) == weft__lora_A(p->up) && p->gate->scale == p->up->scale;
}

/* Whether the gates and ups of a parameter alternate; otherwise gates are first. */
static bool alternates(const char *path)
{
    return strstr(path, ".mlp.experts.") != NULL;
}

/* The rows of gates and ups (n, F, R) as those of one parameter (n, 2 F, R). */
static weft_array *one_of_two(weft_array *gate, weft_array *up, bool alternate)
{
    weft_dims shape = weft_shape(gate);
    weft_array *both[] = {gate, up};
    shape.at[1] *= 2;
    return alternate ? weft_reshape(weft_stack(both, 2, 2), shape) : weft_concatenate(both, 2, 1);
}

/* The gates (first 0) or ups (first 1) among the rows (n, 2 F, R) of a parameter. */
static weft_array *one_part(weft_array *both, int first, bool alternate)
{
    const int64_t n = weft_dim(both, 0), F = weft_dim(both, 1) / 2, R = weft_dim(both, 2);
    if (!alternate)
        return weft_slice_axis(both, 1, first * F, (first + 1) * F);
    both = weft_reshape(both, WEFT_DIMS(n, F, 2, R));
    return weft_squeeze(weft_slice_axis(both, 2, first, first + 1), 2);
}

/* Joins both halves into one adapter with A (n, R, in) and B (n, out, R). A missing half gets rows
 * of zeros. Halves that do not share A become the blocks of one adapter with the sum of both ranks.
 */
static void join(const parts *p, bool alternate, weft__adapter_parameter *out)
{
    const weft_nn_lora_linear *one = p->gate ? p->gate : p->up;
    weft_array *A = weft__lora_A(one), *gate = one->lora_B, *up = one->lora_B;
    out->scale = one->scale;
    if (p->gate == NULL || p->up == NULL) {
        weft_array *zeros = weft_zeros(weft_shape(one->lora_B), weft_dtype_of(one->lora_B));
        gate = p->gate ? gate : zeros;
        up = p->up ? up : zeros;
    } else if (is_shared(p)) {
        up = p->up->lora_B;
    } else {
        weft_array *other = weft_scale(p->up->lora_B, p->up->scale / out->scale);
        weft_array *left = weft_zeros(weft_shape(other), weft_dtype_of(other));
        weft_array *right = weft_zeros(weft_shape(gate), weft_dtype_of(gate));
        A = weft_concatenate((weft_array *[]){A, weft__lora_A(p->up)}, 2, 1);
        /* Each half is padded with zeros in the shape of the other half: (n, out, R). */
        gate = weft_concatenate((weft_array *[]){gate, left}, 2, 2);
        up = weft_concatenate((weft_array *[]){right, other}, 2, 2);
    }
    out->A = A;
    out->B = one_of_two(gate, up, alternate);
}

weft_status weft__adapter_parameter_of(weft_module *tree, const char *path,
                                       weft__adapter_parameter *out)
{
    const parts p = parts_of(tree, path);
    const char *dot = strrchr(path, '.');
    char down[WEFT_NN_PATH];
    *out = (weft__adapter_parameter){.first = !p.halves || strcmp(dot + 1, "up_proj") != 0 ||
                                              p.gate == NULL};
    if (!weft__nn_stack_name(path, true, out->name, sizeof out->name))
        return weft_fail(WEFT_UNSUPPORTED, "adapter: %s: PEFT has no name for it", path);
    if (p.halves) {
        join(&p, alternates(path), out);
    } else {
        out->A = weft__lora_A(p.gate);
        out->B = p.gate->lora_B;
        out->scale = p.gate->scale;
    }
    out->rank = weft_dim(out->A, 1);
    snprintf(down, sizeof down, "%.*s.down_proj", (int)(dot - path), path);
    out->inner = strcmp(dot + 1, "down_proj") != 0 && adapter_at(tree, down) != NULL;
    const int64_t n = weft_dim(out->A, 0), rows = weft_dim(out->B, 1);
    out->A = weft_reshape(out->A, WEFT_DIMS(n * out->rank, weft_dim(out->A, 2)));
    out->B = weft_reshape(weft_moveaxis(out->B, 0, -1), WEFT_DIMS(rows, out->rank * n));
    return weft_ok(out->A) && weft_ok(out->B) ? WEFT_OK
                                              : weft__report(weft_ok(out->A) ? out->B : out->A);
}

/* ---- into a tree ---------------------------------------------------------------------------- */

/* The parameter whose adapter contains the tensor: "P.experts.base_layer.lora_A.weight" belongs to
 * the first of two parameters, "P.experts.lora_A.weight" to the last. NULL: not a tensor of these
 * parameters. */
static const char *parameter_of(const weft__names *parameters, const char *name, bool *is_A)
{
    const char *const ends[] = {".lora_A.weight", ".lora_B.weight"};
    static const char layer[] = ".base_layer";
    const char *found = NULL;
    size_t n = strlen(name);
    for (int k = 0; k < 2; k++) {
        const size_t m = strlen(ends[k]);
        if (n > m && strcmp(name + n - m, ends[k]) == 0) {
            *is_A = k == 0;
            n -= m;
            break;
        }
    }
    if (n == strlen(name))
        return NULL;
    const size_t m = strlen(layer);
    const bool inner = n > m && strncmp(name + n - m, layer, m) == 0;
    n -= inner ? m : 0;
    for (int i = 0; i < parameters->n; i++) {
        const char *at = parameters->at[i], *dot = strrchr(at, '.');
        if ((size_t)(dot - at) != n || strncmp(at, name, n) != 0)
            continue;
        const bool down = strcmp(dot, ".down_proj") == 0;
        if (inner ? !down : (down || found == NULL))
            found = at;
    }
    return found;
}

/* Checks that axis `axis` of a tensor is a multiple of n. */
static weft_status check_shape(const char *name, weft_array *a, int axis, int64_t n)
{
    if (!weft_ok(a))
        return weft__report(a);
    if (weft_ndim(a) == 2 && weft_dim(a, axis) > 0 && weft_dim(a, axis) % n == 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: expected a matrix with a multiple of %lld %s",
                     weft_printable(name), (long long)n, axis == 0 ? "rows" : "columns");
}

static weft_status put(weft__adapter_tensors *out, const char *stack, const char *part,
                       weft_array *a)
{
    char name[WEFT_NN_PATH + 16];
    snprintf(name, sizeof name, "%s.%s", stack, part);
    out->arrays[out->names.n] = a;
    return weft__names_add(&out->names, name);
}

/* The stack in the list with the given PEFT name and last component; NULL: none. */
static const char *stack_of(const weft__names *stacks, const char *parameter, const char *last)
{
    char name[WEFT_NN_PATH];
    for (int i = 0; i < stacks->n; i++) {
        if (weft__adapter_is_suffix(stacks->at[i], last) &&
            weft__nn_stack_name(stacks->at[i], true, name, sizeof name) &&
            strcmp(name, parameter) == 0)
            return stacks->at[i];
    }
    return NULL;
}

/* Adds B, converted from (out, R n) to (n, out, R). For gate and up stacks the result is split. */
static weft_status put_B(const weft__names *stacks, const char *parameter, const char *name,
                         int64_t n, weft_array *a, weft__adapter_tensors *out)
{
    const char *gate = stack_of(stacks, parameter, "gate_proj");
    const char *up = stack_of(stacks, parameter, "up_proj");
    const int64_t rows = weft_dim(a, 0), rank = weft_dim(a, 1) / n;
    a = weft_moveaxis(weft_reshape(a, WEFT_DIMS(rows, rank, n)), -1, 0);
    if (gate == NULL || up == NULL)
        return put(out, stack_of(stacks, parameter, strrchr(parameter, '.') + 1), "lora_B", a);
    if (rows % 2 != 0)
        return weft_fail(WEFT_INVALID, "%s: expected gates and ups, as many of each, got %lld rows",
                         weft_printable(name), (long long)rows);
    const bool alternate = alternates(gate);
    const weft_status status = put(out, gate, "lora_B", one_part(a, 0, alternate));
    return status == WEFT_OK ? put(out, up, "lora_B", one_part(a, 1, alternate)) : status;
}

static weft_status put_tensor(weft_module *tree, const weft__names *stacks, const char *parameter,
                              bool is_A, const char *name, weft_array *a,
                              weft__adapter_tensors *out)
{
    const char *gate = stack_of(stacks, parameter, "gate_proj");
    const char *stack = gate ? gate : stack_of(stacks, parameter, strrchr(parameter, '.') + 1);
    const weft_module *m = weft_nn_find_module(tree, stack);
    const int64_t n = weft_dim(*weft_nn_find((weft_module *)m, "weight"), 0);
    const weft_status status = check_shape(name, a, is_A ? 0 : 1, n);
    if (status != WEFT_OK)
        return status;
    if (!is_A)
        return put_B(stacks, parameter, name, n, a, out);
    const weft_dims shape = WEFT_DIMS(n, weft_dim(a, 0) / n, weft_dim(a, 1));
    return put(out, stack, "lora_A", weft_reshape(a, shape));
}

weft_status weft__adapter_read_tensors(weft_module *tree, const weft_safetensors *file,
                                       weft__adapter_tensors *out)
{
    const size_t n = (size_t)weft_safetensors_count(file), start = strlen(WEFT__ADAPTER_PREFIX);
    weft__names stacks = {0}, parameters = {0};
    out->arrays = weft_calloc(2 * n + 1, sizeof(weft_array *));
    weft_status status = out->arrays ? WEFT_OK : weft__out_of_memory("adapter", "its tensors");
    if (status == WEFT_OK)
        status = weft__adapter_stacks(tree, NULL, &stacks);
    if (status == WEFT_OK)
        status = add_parameters(&stacks, &parameters);
    for (int i = 0; status == WEFT_OK && i < (int)n; i++) {
        const char *name = weft_safetensors_at(file, i)->name, *parameter = NULL;
        bool is_A = false;
        if (strncmp(name, WEFT__ADAPTER_PREFIX, start) == 0)
            parameter = parameter_of(&parameters, name + start, &is_A);
        weft_array *a = weft_safetensors_get(file, name);
        if (parameter) {
            status = put_tensor(tree, &stacks, parameter, is_A, name, a, out);
        } else {
            out->arrays[out->names.n] = a;
            status = weft__names_add(&out->names, name);
        }
    }
    weft__names_free(&stacks);
    weft__names_free(&parameters);
    return status;
}

void weft__adapter_tensors_free(weft__adapter_tensors *tensors)
{
    weft__names_free(&tensors->names);
    weft_free(tensors->arrays);
    *tensors = (weft__adapter_tensors){0};
}
