/* nn/checkpoint.c -- loads and saves the parameters of a tree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "core/list.h"
#include "core/shape.h"
#include "nn/encoded.h"
#include "nn/module.h"
#include "weft/nn_tools.h"

enum { LIST_LENGTH = 900 }; /* most characters of each list in a message */

/* ---- loading -------------------------------------------------------------------------------- */

/* A tensor of the file, by its path in the tree. */
typedef struct tensor {
    char *path;
    int index;
    bool used;
} tensor;

/* A parameter and its tensor, or the two or three tensors of an encoded one. */
typedef struct match {
    weft_slot *slot;
    weft_module *module;
    bool encoded;
    weft_quantize_options format; /* format if the parameter is encoded */
    int parts[3];                 /* tensor indices; -1: none */
    bool quantized;               /* it will be encoded */
} match;

/* A list in a report: "2 missing: a, b". */
typedef struct problems {
    weft__text names;
    int n, left_out;
} problems;

typedef struct loader {
    const weft_safetensors *file; /* NULL: arrays */
    const weft_named_arrays *arrays;
    const weft_nn_load_options *options;
    const weft_encoding *quantize; /* from options->quantize */
    tensor *tensors;               /* sorted by path */
    int n_tensors;
    match *matches;
    int n_matches;
    problems missing, unexpected, mismatched;
} loader;

/* ---- loading: the source of tensors ---------------------------------------------------------- */

static int count_of(const loader *l)
{
    return l->file ? weft_safetensors_count(l->file) : l->arrays->n;
}

static weft_safetensors_entry entry_of(const loader *l, int i)
{
    if (l->file)
        return *weft_safetensors_at(l->file, i);
    weft_array *a = l->arrays->arrays[i];
    return (weft_safetensors_entry){.name = l->arrays->names[i],
                                    .path = "arrays",
                                    .dtype = weft_dtype_of(a),
                                    .shape = weft_shape(a)};
}

static weft_array *tensor_of(const loader *l, int i)
{
    return l->file ? weft_safetensors_get_at(l->file, i) : l->arrays->arrays[i];
}

/* ---- loading: matching ---------------------------------------------------------------------- */

static void loader_free(loader *l)
{
    for (int i = 0; i < l->n_tensors; i++)
        weft_free(l->tensors[i].path);
    weft_free(l->tensors);
    weft_free(l->matches);
    weft_free(l->missing.names.at);
    weft_free(l->unexpected.names.at);
    weft_free(l->mismatched.names.at);
}

static void add_problem(problems *p, const char *text)
{
    p->n++;
    if (p->names.n > LIST_LENGTH)
        p->left_out++;
    else
        weft__text_format(&p->names, "%s%s", p->names.n ? ", " : "", text);
}

static int compare_tensors(const void *a, const void *b)
{
    return strcmp(((const tensor *)a)->path, ((const tensor *)b)->path);
}

static weft_status list_tensors(loader *l)
{
    const int n = count_of(l);
    l->tensors = weft_calloc(n > 0 ? (size_t)n : 1, sizeof *l->tensors);
    if (l->tensors == NULL)
        return weft__out_of_memory("parameters", "loading them");
    for (int i = 0; i < n; i++) {
        char path[WEFT_NN_PATH];
        const char *name = entry_of(l, i).name;
        if (l->options->rename && !l->options->rename(l->options->context, name, path, sizeof path))
            continue;
        tensor *t = &l->tensors[l->n_tensors];
        *t = (tensor){weft_strdup(l->options->rename ? path : name), i, false};
        if (t->path == NULL)
            return weft__out_of_memory("parameters", "loading them");
        l->n_tensors++;
    }
    if (l->n_tensors > 0)
        qsort(l->tensors, (size_t)l->n_tensors, sizeof *l->tensors, compare_tensors);
    for (int i = 1; i < l->n_tensors; i++) {
        const tensor *a = &l->tensors[i - 1], *b = &l->tensors[i];
        if (strcmp(a->path, b->path) == 0)
            return weft_fail(WEFT_INVALID, "tensors '%s' and '%s' are both %s",
                             weft_printable(entry_of(l, a->index).name),
                             weft_printable(entry_of(l, b->index).name), a->path);
    }
    return WEFT_OK;
}

static bool fits(const weft_safetensors_entry *entry, weft_array *parameter)
{
    const weft_dims shape = weft_shape(parameter);
    return weft__shape_equal(&shape, &entry->shape) &&
           weft_dtype_is_float(entry->dtype) == weft_dtype_is_float(weft_dtype_of(parameter));
}

/* The tensor of that path, marked as used; NULL: none. */
static tensor *take_tensor(const loader *l, const char *path)
{
    const tensor key = {.path = (char *)path};
    if (l->n_tensors == 0)
        return NULL;
    tensor *found =
        bsearch(&key, l->tensors, (size_t)l->n_tensors, sizeof *l->tensors, compare_tensors);
    if (found)
        found->used = true;
    return found;
}

/* Describes the tensors after the codes of an encoded parameter: ", scales (32, 2) float16, no
 * biases". */
static void describe_parts(const loader *l, const weft_nn_item *item, char *out, size_t size)
{
    static const char *const names[] = {"", "scales", "biases"};
    size_t used = 0;
    for (int i = 1; i < 3; i++) {
        char path[WEFT_NN_PATH], shape[WEFT_SHAPE_TEXT];
        const tensor *found =
            weft__nn_part_path(item->path, i, path, sizeof path) ? take_tensor(l, path) : NULL;
        int n;
        if (found) {
            const weft_safetensors_entry e = entry_of(l, found->index);
            n = snprintf(out + used, size - used, ", %s %s %s", names[i],
                         weft__shape_text(&e.shape, shape), weft_dtype_name(e.dtype));
        } else {
            n = snprintf(out + used, size - used, ", no %s", names[i]);
        }
        used += (size_t)n < size - used ? (size_t)n : 0;
    }
}

static void add_mismatch(loader *l, const weft_nn_item *item, const weft_safetensors_entry *entry)
{
    char text[WEFT_NN_PATH + 5 * WEFT_SHAPE_TEXT], expected[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    char parts[3 * WEFT_SHAPE_TEXT] = "";
    weft_array *parameter = *item->slot->address;
    const weft_dims shape = weft_shape(parameter);
    if (entry->dtype == WEFT_UINT32 && weft__nn_takes_encoded(item))
        describe_parts(l, item, parts, sizeof parts);
    snprintf(text, sizeof text, "%s: expected %s %s, found %s %s%s", item->path,
             weft__shape_text(&shape, expected), weft_dtype_name(weft_dtype_of(parameter)),
             weft__shape_text(&entry->shape, got),
             entry->float8 ? entry->float8 : weft_dtype_name(entry->dtype), parts);
    add_problem(&l->mismatched, text);
}

/* Whether tensor `codes` and its neighbors form the parameter in an encoding. */
static bool match_parts(const loader *l, const weft_nn_item *item, int codes, match *out)
{
    weft_safetensors_entry entries[3];
    const weft_safetensors_entry *parts[3] = {&entries[0]};
    entries[0] = entry_of(l, codes);
    if (entries[0].dtype != WEFT_UINT32 || !weft__nn_takes_encoded(item))
        return false;
    for (int i = 1; i < 3; i++) {
        char path[WEFT_NN_PATH];
        const tensor *found =
            weft__nn_part_path(item->path, i, path, sizeof path) ? take_tensor(l, path) : NULL;
        out->parts[i] = found ? found->index : -1;
        if (found) {
            entries[i] = entry_of(l, found->index);
            parts[i] = &entries[i];
        }
    }
    const weft_dims shape = weft_shape(*item->slot->address);
    out->encoded = weft__nn_format_of(parts, &shape, &out->format);
    return out->encoded;
}

static weft_status add_match(loader *l, const match *m)
{
    if (!weft__list_more(l->matches, l->n_matches))
        return weft__out_of_memory("parameters", "loading them");
    l->matches[l->n_matches++] = *m;
    return WEFT_OK;
}

/* Whether the options encode a parameter. */
static bool is_quantized(const loader *l, const weft_nn_item *item)
{
    if (l->quantize == NULL || !weft__nn_takes_encoded(item))
        return false;
    char path[WEFT_NN_PATH];
    const size_t name = strlen(item->slot->name), n = strlen(item->path) - name;
    snprintf(path, sizeof path, "%.*s", n > 0 ? (int)n - 1 : 0, item->path);
    return weft__nn_is_quantized(l->options->quantize, l->quantize, path, item->module);
}

static weft_status match_parameter(void *context, const weft_nn_item *item)
{
    loader *l = context;
    if (l->options->trainable_only && item->slot->frozen)
        return WEFT_OK;
    const tensor *found = take_tensor(l, item->path);
    if (found == NULL) {
        if (!l->options->allow_missing)
            add_problem(&l->missing, item->path);
        return WEFT_OK;
    }
    match m = {.slot = item->slot,
               .module = item->module,
               .parts = {found->index, -1, -1},
               .quantized = is_quantized(l, item)};
    const weft_safetensors_entry entry = entry_of(l, found->index);
    if (match_parts(l, item, found->index, &m) || fits(&entry, *item->slot->address))
        return add_match(l, &m);
    add_mismatch(l, item, &entry);
    return WEFT_OK;
}

static void add_list(weft__text *t, const problems *p, const char *what)
{
    if (p->n == 0)
        return;
    weft__text_format(t, "%s%d %s: %s", t->n ? "; " : "", p->n, what,
                      p->names.at ? p->names.at : "");
    if (p->left_out)
        weft__text_format(t, " and %d more", p->left_out);
}

static weft_status report(const loader *l)
{
    if (l->missing.n + l->unexpected.n + l->mismatched.n == 0)
        return WEFT_OK;
    weft__text t = {0};
    add_list(&t, &l->missing, "missing");
    add_list(&t, &l->unexpected, "unexpected");
    add_list(&t, &l->mismatched, "of another shape or dtype");
    const bool named = l->file && count_of(l) > 0;
    const weft_status status =
        t.failed ? weft__out_of_memory("parameters", "loading them")
                 : weft_fail(WEFT_INVALID, "%s: the tensors are not the module's: %s",
                             l->options->where ? l->options->where
                             : named           ? entry_of(l, 0).path
                                               : "load",
                             t.at);
    weft_free(t.at);
    return status;
}

/* ---- loading: setting ----------------------------------------------------------------------- */

/* Joins the parts of an encoded parameter. Its values have the dtype of the scales, if that is a
 * float. */
static weft_array *joined(const loader *l, const match *m)
{
    weft_array *parts[3] = {NULL};
    for (int i = 0; i < 3 && m->parts[i] >= 0; i++)
        parts[i] = tensor_of(l, m->parts[i]);
    const weft_dtype scales = weft_dtype_of(parts[1]),
                     dtype = weft_dtype_is_float(scales) ? scales : WEFT_BFLOAT16;
    return weft_join_encoded(parts[0], parts[1], parts[2],
                             l->options->dtype ? l->options->dtype : dtype, &m->format);
}

static weft_array *converted(const loader *l, const match *m, weft_array *source)
{
    weft_array *value = source ? source : joined(l, m);
    if (m->quantized && !weft_encoding_of(value))
        value = weft__nn_quantized(value, l->quantize);
    else if (l->options->dtype && weft_dtype_is_float(weft_dtype_of(value)) &&
             !weft__nn_stays_wide(m->slot, l->options->dtype))
        value = weft__nn_recast(value, l->options->dtype);
    weft_device *device = weft_device_of(*m->slot->address);
    return weft_to(value, l->options->device ? l->options->device : device);
}

/* The new value of a parameter, which the caller drops. Conversions of mapped tensors are evaluated
 * here, one by one, so that the pages of at most one tensor are resident; other values are
 * evaluated together. */
static weft_status make_value(const loader *l, const match *m, weft_array **out)
{
    weft_status status = WEFT_OK;
    weft_scope_open_lean();
    weft_array *source = m->encoded ? NULL : tensor_of(l, m->parts[0]);
    *out = weft_keep(converted(l, m, source));
    if (source && *out != source && weft__mapping_is_viewed(source)) {
        status = weft_eval(*out);
        weft__mapping_evict(source);
    }
    weft_scope_close(NULL);
    return status;
}

/* Sets all parameters at once. On failure none has changed. */
static weft_status set_matches(const loader *l)
{
    const size_t n = l->n_matches > 0 ? (size_t)l->n_matches : 1;
    weft_array ***slots = weft_calloc(n, sizeof *slots);
    weft_array **values = weft_calloc(n, sizeof *values);
    weft_status status = WEFT_OK;
    if (slots == NULL || values == NULL) {
        status = weft__out_of_memory("parameters", "loading them");
    } else {
        for (int i = 0; i < l->n_matches && status == WEFT_OK; i++) {
            slots[i] = l->matches[i].slot->address;
            status = make_value(l, &l->matches[i], &values[i]);
        }
        if (status == WEFT_OK)
            status = weft_update(slots, values, l->n_matches);
        for (int i = 0; i < l->n_matches; i++)
            weft_drop(values[i]);
    }
    for (int i = 0; i < l->n_matches && status == WEFT_OK; i++) {
        if (l->matches[i].encoded || weft_encoding_of(*l->matches[i].slot->address))
            weft_nn_freeze(l->matches[i].module); /* as weft_nn_quantize does */
    }
    weft_free(slots);
    weft_free(values);
    return status;
}

static weft_status load(weft_module *m, loader l, const weft_nn_load_options *options)
{
    static const weft_nn_load_options defaults = {0};
    l.options = options ? options : &defaults;
    if (l.options->quantize)
        l.quantize = weft_quantize_encoding(&l.options->quantize->format, WEFT_BFLOAT16);
    if (l.options->quantize && l.quantize == NULL)
        return weft_error_status();
    weft_status status = list_tensors(&l);
    if (status == WEFT_OK)
        status = weft_nn_visit(m, match_parameter, &l);
    for (int i = 0; i < l.n_tensors && !l.options->allow_unexpected; i++) {
        if (!l.tensors[i].used)
            add_problem(&l.unexpected, entry_of(&l, l.tensors[i].index).name);
    }
    if (status == WEFT_OK)
        status = report(&l);
    if (status == WEFT_OK)
        status = set_matches(&l);
    loader_free(&l);
    return status;
}

weft_status weft_nn_load(weft_module *m, const weft_safetensors *file,
                         const weft_nn_load_options *options)
{
    return load(m, (loader){.file = file}, options);
}

weft_status weft_nn_load_arrays(weft_module *m, const weft_named_arrays *arrays,
                                const weft_nn_load_options *options)
{
    for (int i = 0; i < arrays->n; i++) {
        if (!weft_ok(arrays->arrays[i]))
            return weft_fail(WEFT_INVALID, "%s: %s", arrays->names[i],
                             weft_error(arrays->arrays[i]));
    }
    return load(m, (loader){.arrays = arrays}, options);
}

weft_status weft_nn_load_npz(weft_module *m, const char *path, const weft_nn_load_options *options)
{
    weft_named_arrays arrays;
    weft_scope_open_lean();
    weft_status status = weft_npz_load(path, &arrays);
    if (status == WEFT_OK) {
        status = weft_nn_load_arrays(m, &arrays, options);
        weft_named_arrays_free(&arrays);
    }
    weft_scope_close(NULL);
    return status;
}

/* ---- saving --------------------------------------------------------------------------------- */

/* Adds a tensor by its name in the file, unless the renaming drops it. */
static weft_status add_tensor(const weft_nn_save_options *o, const char *path, weft_array *a,
                              weft_named_arrays *out)
{
    char name[WEFT_NN_PATH];
    snprintf(name, sizeof name, "%s", path);
    if (o->rename && !o->rename(o->context, path, name, sizeof name))
        return WEFT_OK;
    return weft__named_arrays_add(out, name, a)
               ? WEFT_OK
               : weft_fail(WEFT_MEMORY, "out of memory to save parameters");
}

static weft_status add_parameter(const weft_nn_save_options *o, const char *path, weft_array *a,
                                 weft_named_arrays *out)
{
    weft_array *parts[3];
    if (o->dense || !weft__nn_parts(a, parts))
        return add_tensor(o, path, weft_decode(a), out);
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && parts[i] && status == WEFT_OK; i++) {
        char name[WEFT_NN_PATH];
        status = weft__nn_part_path(path, i, name, sizeof name)
                     ? add_tensor(o, name, parts[i], out)
                     : weft_fail(WEFT_INVALID, "%s: its path is too long", path);
    }
    return status;
}

weft_status weft__nn_saved(weft_module *m, const weft_nn_save_options *options,
                           weft_named_arrays *out)
{
    weft_nn_slots slots;
    *out = (weft_named_arrays){0};
    weft_status status =
        options->trainable_only ? weft_nn_trainable(m, &slots) : weft_nn_parameters(m, &slots);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < slots.n && status == WEFT_OK; i++)
        status = add_parameter(options, slots.paths[i], *slots.slots[i], out);
    weft_nn_slots_free(&slots);
    return status;
}

weft_status weft__nn_write(const char *path, const weft_named_arrays *list,
                           const weft_nn_save_options *o)
{
    const char *const *names = (const char *const *)list->names;
    if (o->shard_bytes > 0)
        return weft_safetensors_save_folder(
            path, names, list->arrays, list->n,
            &(weft_save_folder_options){.shard_bytes = o->shard_bytes,
                                        .metadata = o->metadata,
                                        .n_metadata = o->n_metadata,
                                        .progress = o->progress},
            o->files);
    return weft_safetensors_save(path, names, list->arrays, list->n, o->metadata, o->n_metadata);
}

static weft_status save(weft_module *m, const char *path, const weft_nn_save_options *options,
                        bool npz)
{
    static const weft_nn_save_options defaults = {0};
    weft_named_arrays list;
    options = options ? options : &defaults;
    weft_scope_open_lean();
    weft_status status = weft__nn_saved(m, options, &list);
    if (status == WEFT_OK)
        status =
            npz ? weft_npz_save(path, (const char *const *)list.names, list.arrays, list.n, false)
                : weft__nn_write(path, &list, options);
    weft_scope_close(NULL);
    weft_named_arrays_free(&list);
    return status;
}

weft_status weft_nn_save(weft_module *m, const char *path, const weft_nn_save_options *options)
{
    return save(m, path, options, false);
}

weft_status weft_nn_save_npz(weft_module *m, const char *path, const weft_nn_save_options *options)
{
    return save(m, path, options, true);
}
