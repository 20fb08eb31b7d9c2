/* nn/lora_bank.h -- a bank's members, and how rows of a batch compute with different ones. */
#ifndef WEFT_NN_LORA_BANK_H
#define WEFT_NN_LORA_BANK_H

#include "nn/lora.h"

/* A module that can be put into the tree instead of its base, and taken out again. */
typedef struct weft__lora_part {
    weft_module *parent, **field, *base;
    const char *name;
    weft_module *module;
} weft__lora_part;

typedef struct weft__lora_parts {
    weft__lora_part *at;
    int n;
} weft__lora_parts;

struct weft_nn_lora_member {
    weft__lora_parts parts; /* the modules are weft_nn_lora_linear */
    bool alone;             /* in uniform batches only: of experts, of shared rows, or
                             * weft_nn_lora_bank_set_apart */
    uint64_t id;            /* never reused in a bank; above 0 */
};

struct weft_nn_lora_bank {
    weft_module *tree;
    weft_nn_lora_member **members;
    int n;
    uint64_t ids, version;        /* version: changes with the list of members */
    const weft__lora_parts *used; /* in the tree now; NULL: none */
    weft__lora_parts mixed;       /* modules of lora_mixed.c, for the members of one version */
    uint64_t mixed_version;
    weft_array *rows; /* borrowed during a call: see weft__lora_bank_set_rows */
};

/* Whether sequences with the two members (NULL: without adapters) can be in one batch. */
bool weft__lora_can_mix(const weft_nn_lora_member *a, const weft_nn_lora_member *b);

/* The member's number for weft__lora_bank_set_rows; 0 for NULL. Valid for one version. */
int32_t weft__lora_number(const weft_nn_lora_bank *bank, const weft_nn_lora_member *member);

/* Makes the tree compute each row with a member of its own. Builds the modules for that if members
 * have come or gone. After a failure the tree computes without adapters. */
weft_status weft__lora_bank_mix(weft_nn_lora_bank *bank);

/* The members' numbers of the rows, int32 (B), for the calls that follow: every input of an adapted
 * module must have B vectors in all. Borrowed; NULL after the calls. */
void weft__lora_bank_set_rows(weft_nn_lora_bank *bank, weft_array *rows);

/* ---- lora_mixed.c --------------------------------------------------------------------------- */

/* Creates the module for the adapters `at` of all members (NULL entries: the member has none) of
 * `base`, without taking ownership of that; its arrays are evaluated. */
weft_status weft__lora_mixed_new(const weft_nn_lora_bank *bank, weft_nn_lora_linear *const *at,
                                 weft_module *base, weft_module **out);
/* The slot for the base. */
weft_module **weft__lora_mixed_base(weft_module *m);

#endif
