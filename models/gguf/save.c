/* models/gguf/save.c -- saves a model as a GGUF file: tensors with the format's names and row
 * order, metadata, tokenizer. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "core/list.h"
#include "core/shape.h"
#include "models/config.h"
#include "models/convert/convert.h"
#include "models/convert/rules.h"
#include "models/gguf/arch.h"
#include "models/save.h"
#include "text/gguf/gguf.h"
#include "weft/ops.h"
#include "weft/quantize.h"

/* The parameter from which a tensor is made; NULL: none. */
typedef struct source {
    char *path;
    weft_array **slot;
    int part; /* 1 or 2: the first or the second of its two tensors; 0: it is one tensor */
} source;

typedef struct saver {
    weft__gguf_facts facts;
    char **names;
    weft_array **arrays; /* what will be made from the sources: only shapes and types, never
                          * evaluated */
    source *sources;
    int n;
    weft__gguf_source from;
    weft__types types; /* of the matrices */
    bool writing;      /* arrays are evaluated */
} saver;

/* ---- tensors -------------------------------------------------------------------------------- */

static weft_status add(saver *s, const char *name, const source *from, weft_array *a)
{
    const char *where = s->facts.where;
    if (!weft__list_more(s->names, s->n) || !weft__list_more(s->arrays, s->n) ||
        !weft__list_more(s->sources, s->n))
        return weft__out_of_memory(where, "the list of tensors");
    s->names[s->n] = weft_strdup(name);
    s->sources[s->n] = *from;
    s->sources[s->n].path = weft_strdup(from->path ? from->path : "");
    s->arrays[s->n] = a;
    s->n++;
    return s->names[s->n - 1] && s->sources[s->n - 1].path
               ? WEFT_OK
               : weft__out_of_memory(where, "the list of tensors");
}

/* Reorders rows from halves to pairs, the inverse of reading. */
weft_array *weft__gguf_pairs(weft_array *a, int64_t heads)
{
    const weft_dims shape = weft_shape(a);
    const int64_t half = shape.at[0] / heads / 2, rest = weft_size(a) / shape.at[0];
    weft_array *parts = weft_reshape(a, WEFT_DIMS(heads, 2, half, rest));
    return weft_reshape(weft_swapaxes(parts, 1, 2), shape);
}

weft_array *weft__gguf_taps(weft_array *a, bool to_file)
{
    const int64_t C = weft_dim(a, 0), n = C > 0 ? weft_size(a) / C : 0;
    return weft_reshape(a, to_file ? WEFT_DIMS(C, n) : WEFT_DIMS(C, 1, n));
}

/* Blocks are encoded on the CPU with all threads, even if the model is on another device. Fails for
 * values that blocks cannot have. */
static weft_array *encoded(const saver *s, const char *name, weft_array *a, const char *type)
{
    const weft_encoding *e = weft_gguf_encoding(type);
    a = weft_astype(weft_to(a, weft_device_get("cpu")), WEFT_FLOAT32);
    if (s->writing && weft_eval(a) == WEFT_OK) {
        const int64_t at = weft__first_not_finite(a);
        if (at >= 0)
            return weft_error_array("%s: tensor '%s': value %lld is NaN or infinite, which %s "
                                    "cannot store",
                                    s->facts.where, name, (long long)at, type);
    }
    return weft_encode(a, e);
}

/* Finds a type by its name, case-insensitively; NULL: unknown. */
static const char *known_type(const char *name, size_t n)
{
    static const char *const types[] = {"F32",  "F16",  "BF16", "Q8_0",
                                        "Q4_0", "Q4_K", "Q5_K", "Q6_K"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i]) == n && strncasecmp(types[i], name, n) == 0)
            return types[i];
    }
    return NULL;
}

/* The type of a parameter that changed, if it keeps its own: Q8_0 if that cannot be encoded. */
static const char *kept_type(const saver *s, const char *name, const weft_array *own)
{
    const int at = s->from.file ? weft_gguf_find(s->from.file, name) : -1;
    const weft_gguf_entry *entry = at < 0 ? NULL : weft_gguf_at(s->from.file, at);
    const weft_encoding *e = entry ? entry->encoding : weft_encoding_of(own);
    if (e && weft_encoding_has_parts(e->kind))
        return "BF16";
    if (e)
        return e->encode ? weft__gguf_type_stored(WEFT_FLOAT32, e)->name : "Q8_0";
    return weft__gguf_type_stored(entry ? entry->dtype : weft_dtype_of(own), NULL)->name;
}

/* A matrix in the requested type; in a wider one if its rows are not whole blocks, and the output
 * matrix in at least 8 bits. `own` is the parameter before changes. */
static weft_array *matrix(const saver *s, const char *path, const char *name, weft_array *a,
                          const weft_array *own)
{
    const weft__gguf_facts *f = &s->facts;
    size_t n = 0;
    const char *rule = weft__rule_find(f->overrides, path, &n);
    const char *type = rule ? known_type(rule, n) : f->type ? f->type : kept_type(s, name, own);
    const bool head =
        !rule && f->type &&
        (strcmp(name, "output.weight") == 0 ||
         (strcmp(name, "token_embd.weight") == 0 && weft_model_info_of(f->model)->tied));
    const int64_t row = weft_dim(a, -1);
    const weft_encoding *e = weft_gguf_encoding(type);
    if (strcmp(type, "F32") == 0 || strstr(name, "ffn_gate_inp.") ||
        strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0 ||
        strncmp(name, "cls.", 4) == 0)
        return weft_astype(a, WEFT_FLOAT32);
    if (strcmp(type, "BF16") == 0)
        return weft_astype(a, WEFT_BFLOAT16);
    if (e && !head && row % e->block == 0)
        return encoded(s, name, a, type);
    return e && row % 32 == 0 ? encoded(s, name, a, "Q8_0") : weft_astype(a, WEFT_FLOAT16);
}

/* The query factor is applied to the queries' norm if there is one, else to their projection. */
bool weft__gguf_makes_queries(const weft__gguf_facts *f, const char *path)
{
    const bool norm =
        weft_nn_find(weft_model_module(f->model), "model.layers.0.self_attn.q_norm.weight") != NULL;
    return f->query_factor != 1 && strstr(path, norm ? ".q_norm." : ".q_proj.") != NULL;
}

/* An array in the form stored in the file, with the file's name. */
static weft_array *stored(const saver *s, const char *path, const char *name, weft_array *a,
                          const weft_array *own)
{
    const weft__gguf_facts *f = &s->facts;
    const int64_t heads = weft__gguf_moved_heads(f->arch, path, f->heads, f->kv_heads);
    if (weft_encoding_of(a))
        a = weft_astype(a, WEFT_FLOAT32); /* avoids rounding to its dtype before the change */
    if (heads > 0)
        a = weft__gguf_pairs(a, heads);
    const bool bias = weft__ends_with(path, ".bias");
    if (weft_ndim(a) == 1 || bias)
        a = weft_astype(a, WEFT_FLOAT32);
    if (f->arch->norm_offset != 0 && weft__ends_with(path, "norm.weight"))
        a = weft_add(a, weft_scalar(f->arch->norm_offset, WEFT_FLOAT32));
    if (weft__gguf_makes_queries(f, path))
        a = weft_scale(a, f->query_factor);
    weft_array *other = f->arch->convert ? f->arch->convert(path, a, f) : a;
    const weft_dims before = weft_shape(a), after = weft_shape(other);
    if (!weft__shape_equal(&before, &after))
        return weft_astype(other, WEFT_FLOAT32);
    return weft_ndim(a) > 1 && !bias ? matrix(s, path, name, other, own) : other;
}

/* The tensor of the source file, or the blocks of a parameter, which are stored unchanged; NULL:
 * neither. `own` is the parameter or a part of it. */
static weft_array *unchanged(const saver *s, const source *from, const char *name, weft_array *own)
{
    size_t n;
    if (!s->from.keep || s->facts.type || weft__rule_find(s->facts.overrides, from->path, &n))
        return NULL;
    const int at = s->from.file ? weft_gguf_find(s->from.file, name) : -1;
    const weft_gguf_entry *e = at < 0 ? NULL : weft_gguf_at(s->from.file, at);
    const weft_dims shape = weft_shape(own);
    if (e && weft__shape_equal(&e->shape, &shape))
        return weft_gguf_get_rows(s->from.file, at, 0, shape, WEFT_FLOAT32);
    const bool blocks =
        weft_encoding_of(own) && !weft_encoding_has_parts(weft_encoding_of(own)->kind);
    const weft__gguf_facts *f = &s->facts;
    return blocks && weft__gguf_moved_heads(f->arch, from->path, f->heads, f->kv_heads) == 0 &&
                   !weft__gguf_makes_queries(&s->facts, from->path) &&
                   (f->arch->convert == NULL || f->arch->convert(from->path, own, f) == own)
               ? own
               : NULL;
}

/* The part of a parameter that is stored as a tensor. */
static weft_array *part_of(const saver *s, const source *from, weft_array *a)
{
    if (from->part == 0)
        return a;
    a = weft_encoding_of(a) ? weft_astype(a, WEFT_FLOAT32) : a;
    return weft__part_of(s->facts.decoder.config, from->path, a, from->part - 1);
}

/* The tensor to store for a parameter. */
static weft_array *tensor_of(const saver *s, const source *from, const char *name)
{
    weft_array *own = *from->slot;
    weft_array *other = s->from.weight ? s->from.weight(s->from.context, from->path) : NULL;
    weft_array *same = other ? NULL : unchanged(s, from, name, part_of(s, from, own));
    return same ? same : stored(s, from->path, name, part_of(s, from, other ? other : own), own);
}

/* Adds the tensor of a parameter, which has the name of the one at `path`. */
static weft_status add_named(saver *s, const char *path, const source *from)
{
    const weft__gguf_facts *f = &s->facts;
    char name[WEFT_NN_PATH];
    if (!weft__gguf_name(f, path, name, sizeof name))
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: GGUF has no name for it in %s models", f->where,
                         path, f->arch->name);
    weft_array *a = tensor_of(s, from, name);
    const weft__gguf_tensor_type *type =
        weft__gguf_type_stored(weft_dtype_of(a), weft_encoding_of(a));
    if (weft_ndim(a) > 1 && type)
        weft__types_add(&s->types, type->name, weft_nbytes(a));
    return add(s, name, from, a);
}

/* A parameter for which the format has no name may be two tensors there. */
static weft_status add_parameter(void *context, const weft_nn_item *item)
{
    saver *s = context;
    source from = {(char *)item->path, item->slot->address, 0};
    char path[WEFT_NN_PATH];
    weft_status status = WEFT_OK;
    if (weft__gguf_is_dropped(&s->facts, item->path))
        return WEFT_OK;
    if (weft__name_to_gguf(s->facts.family, item->path, path, sizeof path) ||
        !weft__part_name(item->path, 0, path, sizeof path))
        return add_named(s, item->path, &from);
    for (from.part = 1; from.part <= 2 && status == WEFT_OK; from.part++) {
        (void)weft__part_name(item->path, from.part - 1, path, sizeof path); /* it has parts */
        status = add_named(s, path, &from);
    }
    return status;
}

/* Adds an output matrix of its own for one that is tied to the embedding. */
static weft_status add_output(saver *s)
{
    static const char path[] = "lm_head.weight";
    weft_array **embedding =
        weft_nn_find(weft_model_module(s->facts.model), "model.embed_tokens.weight");
    return add_named(s, path, &(source){(char *)path, embedding, 0});
}

static weft_status add_of_head(void *context, const char *name, weft_array *a)
{
    return add(context, name, &(source){NULL, NULL, 0}, a);
}

static weft_array *make(void *context, int i)
{
    const saver *s = context;
    const source *from = &s->sources[i];
    return from->slot ? tensor_of(s, from, s->names[i]) : s->arrays[i];
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status check_type(void *context, const char *pattern, const char *value, size_t n)
{
    const weft__gguf_facts *f = context;
    (void)pattern;
    return known_type(value, n)
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED,
                           "%s: type '%s': expected F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K",
                           f->where, weft_printable_n(value, (size_t)n));
}

static weft_status check(weft__gguf_facts *f)
{
    weft_status status = f->type ? check_type(f, NULL, f->type, strlen(f->type)) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft__rules_each(f->overrides, check_type, f);
    if (status == WEFT_OK)
        status = weft__rules_fit(f->overrides, weft_model_module(f->model), false);
    if (status == WEFT_OK && f->type)
        f->type = known_type(f->type, strlen(f->type));
    return status;
}

/* Writes the ids if no tokenizer provides them. */
static void put_ids(weft__gguf_facts *f)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int n;
    const int32_t *eos = weft_model_eos(f->model, &n);
    const int64_t bos = weft_config_int(f->config, "bos_token_id", -1);
    const int64_t pad = weft_config_int(f->config, "pad_token_id", -1);
    weft__gguf_put_text(f, "tokenizer.ggml.model", "no_vocab");
    if (bos >= 0)
        weft__gguf_put_integer(f, "tokenizer.ggml.bos_token_id", bos);
    if (pad >= 0)
        weft__gguf_put_integer(f, "tokenizer.ggml.padding_token_id", pad);
    for (int i = 0; i < n && i < 3; i++)
        weft__gguf_put_integer(f, ends[i], eos[i]);
}

/* Writes the file with the values of the model and those of the tokenizer. */
static weft_status write(saver *s, const weft_gguf_value *more, int n_more)
{
    const weft__gguf_values *own = &s->facts.values;
    s->writing = true;
    const int n = own->n + n_more;
    weft_gguf_value *all = weft_calloc((size_t)n, sizeof *all);
    if (all == NULL)
        return weft__out_of_memory(s->facts.where, "its metadata");
    memcpy(all, own->values, (size_t)own->n * sizeof *all);
    if (n_more > 0)
        memcpy(all + own->n, more, (size_t)n_more * sizeof *all);
    const weft_status status =
        weft__gguf_save(s->facts.where, (const char *const *)s->names, s->arrays, s->n, all, n,
                        &s->facts.progress, make, s);
    weft_free(all);
    return status;
}

static weft_status write_with_text(saver *s, const char *text)
{
    weft__gguf_text *extra = NULL;
    int n_eos, n = 0;
    if (text == NULL) {
        put_ids(&s->facts);
        return write(s, NULL, 0);
    }
    const int32_t *eos = weft_model_eos(s->facts.model, &n_eos);
    weft_status status = weft__gguf_text_from(text, weft_model_info_of(s->facts.model)->vocab_size,
                                              eos, n_eos, &extra);
    if (status == WEFT_OK) {
        const weft_gguf_value *more = weft__gguf_text_values(extra, &n);
        status = write(s, more, n);
    }
    weft__gguf_text_free(extra);
    return status;
}

/* llama.cpp's file type for files with mostly that type. */
static int64_t file_type(const char *type)
{
    static const struct {
        const char *type;
        int64_t number;
    } numbers[] = {{"F32", 0},   {"F16", 1},   {"BF16", 32}, {"Q8_0", 7},  {"Q4_0", 2},
                   {"Q4_1", 3},  {"Q5_0", 8},  {"Q5_1", 9},  {"Q2_K", 10}, {"Q3_K", 12},
                   {"Q4_K", 14}, {"Q5_K", 16}, {"Q6_K", 18}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].type, type) == 0)
            return numbers[i].number;
    }
    return 0;
}

static weft_status save(saver *s, const char *text)
{
    weft__gguf_facts *f = &s->facts;
    weft_status status = check(f);
    if (status != WEFT_OK)
        return status;
    weft__gguf_put_text(f, "general.architecture", f->arch->name);
    weft__gguf_put_integer(f, "general.quantization_version", 2);
    status = weft__gguf_describe(f);
    if (status == WEFT_OK)
        status = weft__gguf_put_sampling(f);
    if (status == WEFT_OK && s->from.settings && !f->head)
        status = weft__gguf_put_pooling(f, s->from.settings);
    for (int i = 0; i < f->n_divisors && status == WEFT_OK; i++)
        status = add(s, f->divisor_names[i], &(source){NULL, NULL, 0}, f->divisors[i]);
    for (int i = 0; i < 2 && f->linears[i] && status == WEFT_OK; i++)
        status = add(s, i == 0 ? "dense_2.weight" : "dense_3.weight", &(source){NULL, NULL, 0},
                     f->linears[i]);
    if (status == WEFT_OK)
        status = weft_nn_visit(weft_model_module(f->model), add_parameter, s);
    if (status == WEFT_OK && f->untied)
        status = add_output(s);
    if (status == WEFT_OK && f->head)
        status = weft__gguf_each_of_head(f, add_of_head, s);
    if (s->from.types)
        *s->from.types = s->types;
    const char *most = f->type ? f->type : s->types.n > 0 ? s->types.at[0].name : "F32";
    weft__gguf_put_integer(f, "general.file_type", file_type(most));
    return status == WEFT_OK ? write_with_text(s, text) : status;
}

weft_status weft_model_check_gguf(weft_model *model)
{
    weft__gguf_facts *f = weft_calloc(1, sizeof *f);
    if (f == NULL)
        return weft__out_of_memory("GGUF", "the facts of a model");
    weft_scope_open_lean();
    weft_status status = weft__gguf_facts_of(model, "GGUF", true, f);
    if (status == WEFT_OK)
        status = weft__gguf_describe(f);
    weft_scope_close(NULL);
    weft__gguf_facts_release(f);
    weft_free(f);
    return status;
}

weft_status weft_model_save_gguf(weft_model *model, const char *path,
                                 const weft_gguf_model_options *options)
{
    return weft__model_save_gguf(model, path, options, &(weft__gguf_source){0});
}

weft_status weft__model_save_gguf(weft_model *model, const char *path,
                                  const weft_gguf_model_options *options,
                                  const weft__gguf_source *from)
{
    static const weft_gguf_model_options defaults = {0};
    const weft_gguf_model_options *o = options ? options : &defaults;
    if (weft_nn_lora_count(weft_model_module(model)) > 0)
        return weft_fail(WEFT_INVALID, "%s: save: the model has adapters; merge and remove them",
                         path);
    saver *s = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft__out_of_memory(path, "saving the model");
    s->from = *from;
    s->from.settings = from->settings ? from->settings : o->text;
    weft_status status = weft__gguf_facts_of(model, path, true, &s->facts);
    s->facts.type = o->type || from->keep ? o->type : "F32";
    s->facts.overrides = o->overrides;
    s->facts.progress = o->progress;
    weft_scope_open_lean();
    if (status == WEFT_OK)
        status = save(s, o->text);
    weft_scope_close(NULL);
    for (int i = 0; i < s->n; i++) {
        weft_free(s->names[i]);
        weft_free(s->sources[i].path);
    }
    weft_free(s->names);
    weft_free(s->sources);
    weft_free(s->arrays);
    weft__gguf_facts_release(&s->facts);
    weft_free(s);
    return status;
}
