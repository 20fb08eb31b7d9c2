/* models/gguf_names.c -- the architectures and tensor names of GGUF files, and those of trees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/gguf.h"

static const weft__gguf_arch archs[] = {
    {"llama", "llama", true, false, 0},        {"gemma2", "gemma2", false, true, 1},
    {"gemma3", "gemma3_text", false, true, 1}, {"qwen2", "qwen2", false, false, 0},
    {"qwen3", "qwen3", false, false, 0},       {"qwen3moe", "qwen3_moe", false, false, 0},
    {"minicpm", "minicpm", true, false, 0},
};
enum { N_ARCHS = sizeof archs / sizeof *archs };

/* Families whose files are of another's architecture. */
static const struct {
    const char *model_type, *arch;
} relatives[] = {{"mistral", "llama"}, {"mixtral", "llama"}, {"gemma3", "gemma3"}};

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
              where, name, known.failed ? "" : known.at);
    weft_free(known.at);
    return NULL;
}

const weft__gguf_arch *weft__gguf_arch_of_type(const char *model_type)
{
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

typedef enum only { ANY, PLAIN, SANDWICH } only;

/* Of a layer, without ".weight" or ".bias". */
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
    {"ffn_gate_inp", "mlp.gate", ANY},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", ANY},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", ANY},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", ANY},
};

static const struct {
    const char *name, *path;
} whole[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

static bool fits(only o, const weft__gguf_arch *arch)
{
    return o == ANY || (o == SANDWICH) == arch->sandwich;
}

/* "blk.3.attn_q.weight" behind `start` -> 3, "attn_q", ".weight". */
static bool cut(const char *name, const char *start, long *layer, char middle[64], const char **end)
{
    const size_t n = strlen(start);
    if (strncmp(name, start, n) != 0 || name[n] < '0' || name[n] > '9')
        return false;
    char *rest;
    *layer = strtol(name + n, &rest, 10);
    *end = strrchr(rest, '.');
    if (*rest != '.' || *end <= rest || *layer < 0 ||
        (strcmp(*end, ".weight") != 0 && strcmp(*end, ".bias") != 0))
        return false;
    return snprintf(middle, 64, "%.*s", (int)(*end - rest - 1), rest + 1) < 64;
}

bool weft__gguf_to_path(const weft__gguf_arch *arch, const char *name, char *out, size_t size)
{
    long layer;
    char middle[64];
    const char *end;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(whole[i].name, name) == 0)
            return snprintf(out, size, "%s", whole[i].path) < (int)size;
    }
    for (size_t i = 0; cut(name, "blk.", &layer, middle, &end) && i < sizeof parts / sizeof *parts;
         i++) {
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
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(whole[i].path, path) == 0)
            return snprintf(out, size, "%s", whole[i].name) < (int)size;
    }
    for (size_t i = 0;
         cut(path, "model.layers.", &layer, middle, &end) && i < sizeof parts / sizeof *parts;
         i++) {
        if (fits(parts[i].only, arch) && strcmp(parts[i].path, middle) == 0)
            return snprintf(out, size, "blk.%ld.%s%s", layer, parts[i].name, end) < (int)size;
    }
    return false;
}
