/* models/gguf/names.c -- GGUF architectures, and the mapping between GGUF tensor names and tree
 * paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/config.h"
#include "models/gguf/gguf.h"

static const weft__gguf_arch archs[] = {
    {"llama", "llama", true, false, 0},         {"gemma2", "gemma2", false, true, 1},
    {"gemma3", "gemma3_text", false, true, 1},  {"qwen2", "qwen2", false, false, 0},
    {"qwen3", "qwen3", false, false, 0},        {"qwen3moe", "qwen3_moe", false, false, 0},
    {"minicpm", "minicpm", true, false, 0},     {"gemma4", "gemma4_text", false, true, 0},
    {"mistral3", "ministral3", true, false, 0},
};
enum { N_ARCHS = sizeof archs / sizeof *archs };

/* Families that are stored as another architecture. */
static const struct {
    const char *model_type, *arch;
} relatives[] = {
    {"mistral", "llama"},         {"ministral", "llama"},
    {"mixtral", "llama"},         {"mistral3", "mistral3"},
    {"gemma3", "gemma3"},         {"gemma4", "gemma4"},
    {"gemma4_unified", "gemma4"}, {"gemma4_unified_text", "gemma4"},
};

static const weft__gguf_arch *find(const char *name)
{
    for (int i = 0; i < N_ARCHS; i++) {
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    }
    return NULL;
}

const weft__gguf_arch *weft__gguf_arch_named(const char *name, const char *where)
{
    const weft__gguf_arch *arch = find(name);
    if (arch)
        return arch;
    weft__text known = {0};
    for (int i = 0; i < N_ARCHS; i++)
        weft__text_format(&known, "%s%s", i ? ", " : "", archs[i].name);
    weft_fail(WEFT_UNSUPPORTED, "%s: general.architecture '%s' is unsupported (supported: %s)",
              where, weft_printable(name), known.failed ? "" : known.at);
    weft_free(known.at);
    return NULL;
}

const weft__gguf_arch *weft__gguf_arch_of(const weft_config *config, const char *model_type)
{
    weft__json rope;
    double beta = 0;
    /* Mistral models whose queries are not scaled by position are stored as llama. */
    if (strcmp(model_type, "mistral3") == 0 &&
        (weft__config_rope_object(config, &rope) != WEFT_OK || rope.value == NULL ||
         weft__json_find_number(&rope, "llama_4_scaling_beta", &beta) != WEFT_OK || beta == 0))
        model_type = "llama";
    for (int i = 0; i < N_ARCHS; i++) {
        if (strcmp(archs[i].model_type, model_type) == 0)
            return &archs[i];
    }
    for (size_t i = 0; i < sizeof relatives / sizeof *relatives; i++) {
        if (strcmp(relatives[i].model_type, model_type) == 0)
            return find(relatives[i].arch);
    }
    return NULL;
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* The architectures to which an entry applies. OTHERS: all except gemma4. */
typedef enum only { ANY, PLAIN, SANDWICH, GEMMA4, OTHERS } only;

/* Tensors of a layer, without ".weight" or ".bias". */
static const struct {
    const char *name, *path;
    only only;
} parts[] = {
    {"attn_norm", "input_layernorm", ANY},
    {"attn_q", "self_attn.q_proj", ANY},
    {"attn_k", "self_attn.k_proj", ANY},
    {"attn_v", "self_attn.v_proj", ANY},
    {"attn_output", "self_attn.o_proj", ANY},
    {"attn_q_norm", "self_attn.q_norm", ANY},
    {"attn_k_norm", "self_attn.k_norm", ANY},
    {"ffn_norm", "post_attention_layernorm", PLAIN},
    {"post_attention_norm", "post_attention_layernorm", SANDWICH},
    {"ffn_norm", "pre_feedforward_layernorm", SANDWICH},
    {"post_ffw_norm", "post_feedforward_layernorm", SANDWICH},
    {"ffn_gate", "mlp.gate_proj", ANY},
    {"ffn_up", "mlp.up_proj", ANY},
    {"ffn_down", "mlp.down_proj", ANY},
    {"ffn_gate_inp", "mlp.gate", OTHERS},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", OTHERS},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", OTHERS},
    {"ffn_gate_up_exps", "mlp.switch_mlp.gate_up_proj", OTHERS},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", OTHERS},
    {"ffn_gate_inp", "router.proj", GEMMA4},
    {"ffn_gate_exps", "experts.switch_glu.gate_proj", GEMMA4},
    {"ffn_up_exps", "experts.switch_glu.up_proj", GEMMA4},
    {"ffn_gate_up_exps", "experts.switch_glu.gate_up_proj", GEMMA4},
    {"ffn_down_exps", "experts.switch_glu.down_proj", GEMMA4},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2", GEMMA4},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1", GEMMA4},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2", GEMMA4},
    {"inp_gate", "per_layer_input_gate", GEMMA4},
    {"proj", "per_layer_projection", GEMMA4},
    {"post_norm", "post_per_layer_input_norm", GEMMA4},
};

/* Tensors of a gemma4 layer, with complete names. */
static const struct {
    const char *name, *path;
} scales[] = {
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"layer_output_scale.weight", "layer_scalar"},
};

static const struct {
    const char *name, *path;
} integer[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
};

static bool fits(only o, const weft__gguf_arch *arch)
{
    const bool gemma4 = strcmp(arch->name, "gemma4") == 0;
    switch (o) {
    case ANY:
        return true;
    case PLAIN:
        return !arch->sandwich;
    case SANDWICH:
        return arch->sandwich;
    case GEMMA4:
        return gemma4;
    case OTHERS:
        return !gemma4;
    }
    return false;
}

/* Parses "blk.3." or another numbered prefix: *layer is 3, and the rest is returned; NULL: no such
 * prefix. */
static const char *behind(const char *name, const char *start, long *layer)
{
    const size_t n = strlen(start);
    if (strncmp(name, start, n) != 0 || name[n] < '0' || name[n] > '9')
        return NULL;
    char *rest;
    *layer = strtol(name + n, &rest, 10);
    return *rest == '.' && *layer >= 0 ? rest + 1 : NULL;
}

/* Splits "attn_q.weight" into "attn_q" and ".weight". */
static bool cut(const char *rest, char middle[64], const char **end)
{
    *end = strrchr(rest, '.');
    if (*end == NULL || (strcmp(*end, ".weight") != 0 && strcmp(*end, ".bias") != 0))
        return false;
    return snprintf(middle, 64, "%.*s", (int)(*end - rest), rest) < 64;
}

bool weft__gguf_to_path(const weft__gguf_arch *arch, const char *name, char *out, size_t size)
{
    long layer;
    char middle[64];
    const char *end;
    for (size_t i = 0; i < sizeof integer / sizeof *integer; i++) {
        if (strcmp(integer[i].name, name) == 0)
            return snprintf(out, size, "%s", integer[i].path) < (int)size;
    }
    const char *rest = behind(name, "blk.", &layer);
    for (size_t i = 0; rest && fits(GEMMA4, arch) && i < sizeof scales / sizeof *scales; i++) {
        if (strcmp(scales[i].name, rest) == 0)
            return snprintf(out, size, "model.layers.%ld.%s", layer, scales[i].path) < (int)size;
    }
    for (size_t i = 0; rest && cut(rest, middle, &end) && i < sizeof parts / sizeof *parts; i++) {
        if (fits(parts[i].only, arch) && strcmp(parts[i].name, middle) == 0)
            return snprintf(out, size, "model.layers.%ld.%s%s", layer, parts[i].path, end) <
                   (int)size;
    }
    return false;
}

bool weft__gguf_from_path(const weft__gguf_arch *arch, const char *path, char *out, size_t size)
{
    long layer;
    char middle[64];
    const char *end;
    for (size_t i = 0; i < sizeof integer / sizeof *integer; i++) {
        if (strcmp(integer[i].path, path) == 0)
            return snprintf(out, size, "%s", integer[i].name) < (int)size;
    }
    const char *rest = behind(path, "model.layers.", &layer);
    for (size_t i = 0; rest && fits(GEMMA4, arch) && i < sizeof scales / sizeof *scales; i++) {
        if (strcmp(scales[i].path, rest) == 0)
            return snprintf(out, size, "blk.%ld.%s", layer, scales[i].name) < (int)size;
    }
    for (size_t i = 0; rest && cut(rest, middle, &end) && i < sizeof parts / sizeof *parts; i++) {
        if (fits(parts[i].only, arch) && strcmp(parts[i].path, middle) == 0)
            return snprintf(out, size, "blk.%ld.%s%s", layer, parts[i].name, end) < (int)size;
    }
    return false;
}
