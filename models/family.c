/* models/family.c -- the names of a family's tensors. */
#include "models/family.h"

#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "models/names.h"

const weft_model_family *weft__family_of_text(const weft_model_family *family)
{
    return family->text_type ? weft_model_family_find(family->text_type) : family;
}

/* Those that most families have. */
static const weft__tensor_name usual[] = {
    {"token_embd.weight", "model.embed_tokens.weight", NULL},
    {"output_norm.weight", "model.norm.weight", NULL},
    {"output.weight", "lm_head.weight", NULL},
    {"attn_norm", "input_layernorm", NULL},
    {"attn_q", "self_attn.q_proj", NULL},
    {"attn_k", "self_attn.k_proj", NULL},
    {"attn_v", "self_attn.v_proj", NULL},
    {"attn_output", "self_attn.o_proj", NULL},
    {"attn_q_norm", "self_attn.q_norm", NULL},
    {"attn_k_norm", "self_attn.k_norm", NULL},
    {"ffn_norm", "post_attention_layernorm", NULL},
    {"ffn_gate", "mlp.gate_proj", NULL},
    {"ffn_up", "mlp.up_proj", NULL},
    {"ffn_down", "mlp.down_proj", NULL},
    {"ffn_gate_inp", "mlp.gate", NULL},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", "mlp.experts.0.gate_proj.weight"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", "mlp.experts.0.up_proj.weight"},
    {"ffn_gate_up_exps", "mlp.switch_mlp.gate_up_proj", NULL},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", "mlp.experts.0.down_proj.weight"},
    {NULL, NULL, NULL},
};

/* A name in two parts: a numbered prefix such as "blk.3.", if it has one, and the rest, whose last
 * part may be ".weight" or ".bias". */
typedef struct parts {
    int n_layer; /* the number's digits; 0: no prefix */
    const char *layer, *rest, *end;
} parts;

static parts parts_of(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    parts p = {.rest = name};
    const size_t digits = strncmp(name, prefix, n) == 0 ? strspn(name + n, "0123456789") : 0;
    if (digits > 0 && name[n + digits] == '.')
        p = (parts){(int)digits, name + n, name + n + digits + 1, NULL};
    p.end = strrchr(p.rest, '.');
    if (p.end == NULL || (strcmp(p.end, ".weight") != 0 && strcmp(p.end, ".bias") != 0))
        p.end = p.rest + strlen(p.rest);
    return p;
}

/* Whether the entry is one tensor, with its ending. */
static bool is_whole(const weft__tensor_name *t)
{
    return strchr(t->gguf, '.') || weft__ends_with(t->path, ".weight");
}

static bool is_complete(const char *path)
{
    return strncmp(path, "model.", 6) == 0 || strncmp(path, "lm_head.", 8) == 0 ||
           weft__is_label_head(path);
}

static bool equals(const char *entry, const char *at, const char *end)
{
    return strlen(entry) == (size_t)(end - at) && strncmp(entry, at, (size_t)(end - at)) == 0;
}

/* The entry for a name, by the column `gguf` or `path`: the family's own ones come first. */
static const weft__tensor_name *find(const weft__family *family, const parts *p, bool by_gguf)
{
    const weft__tensor_name *const lists[] = {family->names ? family->names : usual, usual};
    for (int i = 0; i < 2; i++) {
        for (const weft__tensor_name *t = lists[i]; t->path; t++) {
            const char *end = is_whole(t) ? p->rest + strlen(p->rest) : p->end;
            if (is_complete(t->path) == (p->n_layer == 0) &&
                equals(by_gguf ? t->gguf : t->path, p->rest, end))
                return t;
        }
    }
    return NULL;
}

/* Writes the name of an entry's other column. */
static bool put(const parts *p, const weft__tensor_name *t, const char *prefix, const char *other,
                char *out, size_t size)
{
    const char *end = is_whole(t) ? "" : p->end;
    const int n = p->n_layer == 0 ? snprintf(out, size, "%s%s", other, end)
                                  : snprintf(out, size, "%s%.*s.%s%s", prefix, p->n_layer, p->layer,
                                             other, end);
    return n >= 0 && (size_t)n < size;
}

static const char blocks[] = "blk.";

static const char *layers_of(const weft__family *family)
{
    return family->layers ? family->layers : "model.layers.";
}

bool weft__name_from_gguf(const weft__family *family, const char *name, char *out, size_t size)
{
    const parts p = parts_of(name, blocks);
    const weft__tensor_name *t = find(family, &p, true);
    return t && put(&p, t, layers_of(family), t->path, out, size);
}

bool weft__name_to_gguf(const weft__family *family, const char *path, char *out, size_t size)
{
    const parts p = parts_of(path, layers_of(family));
    const weft__tensor_name *t = find(family, &p, false);
    return t && put(&p, t, blocks, t->gguf, out, size);
}

bool weft__name_stored(const weft__family *family, const char *path, char *out, size_t size)
{
    parts p = parts_of(path, layers_of(family));
    const weft__tensor_name *t = find(family, &p, false);
    p.end = "";
    return t && t->stored && put(&p, t, layers_of(family), t->stored, out, size);
}
