/* models/gguf/sampling.c -- the sampler options of generation_config.json in GGUF metadata:
 * general.sampling.* and suppressed tokens. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "models/generation.h"
#include "models/gguf/arch.h"
#include "models/gguf/gguf.h"
#include "weft/memory.h"

static const char temperature_key[] = "general.sampling.temp",
                  top_k_key[] = "general.sampling.top_k",
                  suppress_key[] = "tokenizer.ggml.suppress_tokens",
                  penalty_key[] = "general.sampling.penalty_repeat",
                  last_key[] = "general.sampling.penalty_last_n";

/* Keys whose numbers are the same in both. */
static const struct {
    const char *key, *name;
} numbers[] = {
    {"general.sampling.top_p", "top_p"},
    {"general.sampling.min_p", "min_p"},
    {"general.sampling.xtc_probability", "xtc_probability"},
    {"general.sampling.xtc_threshold", "xtc_threshold"},
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

/* ---- from a file ---------------------------------------------------------------------------- */

static bool number(const weft_gguf *file, const char *key, double *out)
{
    return weft_gguf_value_number(weft_gguf_value_find(file, key), 0, out) && isfinite(*out);
}

static void add_suppressed(const weft_gguf *file, weft__text *out)
{
    int64_t id;
    const weft_gguf_value *v = weft_gguf_value_find(file, suppress_key);
    for (int64_t i = 0; weft_gguf_value_int(v, i, &id); i++)
        weft__text_format(out, i ? ",%lld" : ",\"suppress_tokens\":[%lld", (long long)id);
    if (weft_gguf_value_int(v, 0, &id))
        weft__text_format(out, "]");
}

static void add_sampling(const weft_gguf *file, weft__text *out)
{
    double x;
    int64_t integer;
    if (number(file, temperature_key, &x)) {
        weft__text_format(out, ",\"do_sample\":%s", x > 0 ? "true" : "false");
        if (x > 0)
            weft__gguf_add_number(out, "temperature", x);
    }
    if (weft_gguf_value_int(weft_gguf_value_find(file, top_k_key), 0, &integer))
        weft__text_format(out, ",\"top_k\":%lld", (long long)(integer > 0 ? integer : 0));
    for (int i = 0; i < N_NUMBERS; i++) {
        if (number(file, numbers[i].key, &x))
            weft__gguf_add_number(out, numbers[i].name, x);
    }
    /* A penalty over 0 tokens has no effect. */
    if (number(file, penalty_key, &x) &&
        !(weft_gguf_value_int(weft_gguf_value_find(file, last_key), 0, &integer) && integer <= 0))
        weft__gguf_add_number(out, "repetition_penalty", x);
    add_suppressed(file, out);
}

weft_status weft__gguf_generation(const weft_gguf *file, weft_config **out)
{
    const char *where = weft_gguf_path(file);
    weft__text rest = {0};
    *out = NULL;
    add_sampling(file, &rest);
    if (!rest.failed && rest.n == 0)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    char *text = rest.failed ? NULL : weft_format("{%s}", rest.at + 1);
    status = text ? weft_config_parse(text, where, out) : weft__out_of_memory(where, NULL);
    weft_free(text);
    weft_free(rest.at);
    return status;
}

/* ---- into a file ---------------------------------------------------------------------------- */

weft_status weft__gguf_put_sampling(weft__gguf_facts *f)
{
    const weft__generation_config *g = weft__model_generation(f->model);
    const weft_config *c = g->config;
    if (c == NULL)
        return WEFT_OK;
    const bool decides = weft_config_has(c, "do_sample");
    if (decides && !weft_config_bool(c, "do_sample", true))
        weft__gguf_put_number(f, temperature_key, 0);
    else if (decides || weft_config_has(c, "temperature"))
        weft__gguf_put_number(f, temperature_key, weft_config_double(c, "temperature", 1));
    if (weft_config_has(c, "top_k"))
        weft__gguf_put_signed(f, top_k_key, weft_config_int(c, "top_k", 0));
    for (int i = 0; i < N_NUMBERS; i++) {
        if (weft_config_has(c, numbers[i].name))
            weft__gguf_put_number(f, numbers[i].key, weft_config_double(c, numbers[i].name, 0));
    }
    if (weft_config_has(c, "repetition_penalty"))
        weft__gguf_put_number(f, penalty_key, weft_config_double(c, "repetition_penalty", 1));
    return g->suppress.n > 0 ? weft__gguf_put_ids(f, suppress_key, g->suppress.at, g->suppress.n)
                             : WEFT_OK;
}
