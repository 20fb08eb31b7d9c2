/* nn/lora_bank.c -- adapters of one tree, which are put into it and taken out between calls. */
#include "nn/lora_bank.h"

#include "core/failure.h"
#include "core/list.h"
#include "nn/tokens.h"

/* ---- parts ---------------------------------------------------------------------------------- */

static weft__lora_part *add_part(weft__lora_parts *parts)
{
    if (!weft__list_more(parts->at, parts->n))
        return NULL;
    parts->at[parts->n] = (weft__lora_part){0};
    return &parts->at[parts->n++];
}

/* The field for the base in a part's module. */
static weft_module **base_of(const weft_nn_lora_bank *bank, const weft__lora_parts *parts,
                             weft_module *m)
{
    return parts == &bank->mixed ? weft__lora_mixed_base(m) : &((weft_nn_lora_linear *)m)->base;
}

/* Frees the modules, which are not in the tree. */
static void free_parts(weft_nn_lora_bank *bank, weft__lora_parts *parts)
{
    for (int i = 0; i < parts->n; i++) {
        *base_of(bank, parts, parts->at[i].module) = NULL;
        weft_nn_free(parts->at[i].module);
    }
    weft_free(parts->at);
    *parts = (weft__lora_parts){0};
}

/* Puts other modules into the tree; NULL: none. */
static void put(weft_nn_lora_bank *bank, const weft__lora_parts *parts)
{
    if (bank->used == parts)
        return;
    for (int i = 0; bank->used && i < bank->used->n; i++) {
        const weft__lora_part *p = &bank->used->at[i];
        weft__nn_put_child(p->parent, p->name, p->field, p->base);
    }
    for (int i = 0; parts && i < parts->n; i++) {
        const weft__lora_part *p = &parts->at[i];
        weft__nn_put_child(p->module, "", base_of(bank, parts, p->module), p->base);
        weft__nn_put_child(p->parent, p->name, p->field, p->module);
    }
    bank->used = parts;
}

/* ---- members -------------------------------------------------------------------------------- */

weft_status weft_nn_lora_bank_new(weft_module *tree, weft_nn_lora_bank **out)
{
    *out = weft_calloc(1, sizeof **out);
    if (*out == NULL)
        return weft__out_of_memory("lora", "a bank of adapters");
    (*out)->tree = tree;
    return WEFT_OK;
}

static void free_member(weft_nn_lora_bank *bank, weft_nn_lora_member *member)
{
    free_parts(bank, &member->parts);
    weft_free(member);
}

void weft_nn_lora_bank_free(weft_nn_lora_bank *bank)
{
    if (bank == NULL)
        return;
    put(bank, NULL);
    free_parts(bank, &bank->mixed);
    for (int i = 0; i < bank->n; i++)
        free_member(bank, bank->members[i]);
    weft_free(bank->members);
    weft_free(bank);
}

static bool has_shared_rows(const weft_module *base)
{
    return base->type == &weft_nn_linear_type && ((const weft_nn_linear *)base)->shared_rows;
}

static weft_status take(void *context, const char *path, weft_module **field)
{
    weft_nn_lora_member *member = context;
    if (weft__is_tokens(*field))
        return weft_fail(WEFT_UNSUPPORTED,
                         "lora: rows of tokens (%s) cannot be switched off and on", path);
    if (!weft__is_lora(*field) || (*field)->parent == NULL)
        return WEFT_OK;
    weft__lora_part *part = add_part(&member->parts);
    if (part == NULL)
        return weft__out_of_memory("lora", "a list of adapters");
    weft_nn_lora_linear *m = (weft_nn_lora_linear *)*field;
    *part = (weft__lora_part){.parent = m->module.parent,
                              .field = field,
                              .base = m->base,
                              .name = m->module.name,
                              .module = &m->module};
    member->alone = member->alone || m->module.type == &weft_nn_lora_stack_type ||
                    m->start_A != NULL || m->merged || has_shared_rows(m->base);
    *field = m->base;
    return WEFT_OK;
}

weft_status weft_nn_lora_bank_take(weft_nn_lora_bank *bank, weft_nn_lora_member **out)
{
    *out = NULL;
    put(bank, NULL);
    weft_nn_lora_member *member = weft_calloc(1, sizeof *member);
    weft_status status = member && weft__list_more(bank->members, bank->n)
                             ? weft_nn_visit_modules(bank->tree, take, member)
                             : weft__out_of_memory("lora", "an adapter of a bank");
    if (status == WEFT_OK && member->parts.n == 0)
        status = weft_fail(WEFT_INVALID, "lora: expected a tree with adapters");
    if (status != WEFT_OK) {
        weft_nn_lora_remove(bank->tree);
        if (member)
            free_member(bank, member);
        return status;
    }
    member->id = ++bank->ids;
    bank->version++;
    bank->members[bank->n++] = *out = member;
    return WEFT_OK;
}

void weft_nn_lora_bank_set_apart(weft_nn_lora_member *member)
{
    member->alone = true;
}

void weft_nn_lora_bank_drop(weft_nn_lora_bank *bank, weft_nn_lora_member *member)
{
    if (member == NULL)
        return;
    put(bank, NULL);
    free_parts(bank, &bank->mixed); /* they borrow what the version had */
    int n = 0;
    for (int i = 0; i < bank->n; i++) {
        if (bank->members[i] != member)
            bank->members[n++] = bank->members[i];
    }
    bank->n = n;
    bank->version++;
    free_member(bank, member);
}

void weft_nn_lora_bank_use(weft_nn_lora_bank *bank, const weft_nn_lora_member *member)
{
    put(bank, member ? &member->parts : NULL);
}

/* ---- batches -------------------------------------------------------------------------------- */

bool weft__lora_can_mix(const weft_nn_lora_member *a, const weft_nn_lora_member *b)
{
    return a == b || !((a && a->alone) || (b && b->alone));
}

int32_t weft__lora_number(const weft_nn_lora_bank *bank, const weft_nn_lora_member *member)
{
    int i = 0;
    while (i < bank->n && bank->members[i] != member)
        i++;
    return i < bank->n ? i + 1 : 0;
}

void weft__lora_bank_set_rows(weft_nn_lora_bank *bank, weft_array *rows)
{
    bank->rows = rows;
}

/* The member's adapter for a field of the tree; NULL: none. */
static weft_nn_lora_linear *find(const weft_nn_lora_member *member, weft_module **field)
{
    for (int i = 0; !member->alone && i < member->parts.n; i++) {
        if (member->parts.at[i].field == field)
            return (weft_nn_lora_linear *)member->parts.at[i].module;
    }
    return NULL;
}

/* Adds the module for a field that has an adapter, unless there is one already. */
static weft_status add_mixed(weft_nn_lora_bank *bank, const weft__lora_part *from,
                             weft_nn_lora_linear **at)
{
    for (int i = 0; i < bank->mixed.n; i++) {
        if (bank->mixed.at[i].field == from->field)
            return WEFT_OK;
    }
    for (int i = 0; i < bank->n; i++)
        at[i] = find(bank->members[i], from->field);
    weft_module *m = NULL;
    const weft_status status = weft__lora_mixed_new(bank, at, from->base, &m);
    if (status != WEFT_OK)
        return status;
    weft__lora_part *part = add_part(&bank->mixed);
    if (part == NULL) {
        weft_nn_free(m);
        return weft__out_of_memory("lora", "the adapters of a batch");
    }
    *part = *from;
    part->module = m;
    return WEFT_OK;
}

weft_status weft__lora_bank_mix(weft_nn_lora_bank *bank)
{
    weft_status status = WEFT_OK;
    if (bank->mixed_version != bank->version || bank->mixed.n == 0) {
        weft_nn_lora_linear **at = weft_malloc(((size_t)bank->n + 1) * sizeof(*at));
        put(bank, NULL);
        free_parts(bank, &bank->mixed);
        status = at ? WEFT_OK : weft__out_of_memory("lora", "the adapters of a batch");
        for (int i = 0; status == WEFT_OK && i < bank->n; i++) {
            const weft_nn_lora_member *member = bank->members[i];
            for (int k = 0; status == WEFT_OK && !member->alone && k < member->parts.n; k++)
                status = add_mixed(bank, &member->parts.at[k], at);
        }
        weft_free(at);
        bank->mixed_version = bank->version;
        if (status != WEFT_OK)
            free_parts(bank, &bank->mixed);
    }
    if (status == WEFT_OK)
        put(bank, &bank->mixed);
    return status;
}
