/* models/gguf/head.c -- heads of classifiers in GGUF files: llama.cpp computes them when it ranks
 * texts, and its embedding of a text is then a number for each label. */
#include <string.h>

#include "core/failure.h"
#include "models/classifier.h"
#include "models/gguf/arch.h"
#include "models/names.h"
#include "models/save.h"
#include "weft/ops.h"

/* pooling_type in files. */
enum { RANKED = 4 };

static const char labels_key[] = "classifier.output_labels";

/* ---- writing -------------------------------------------------------------------------------- */

/* The matrix with a row for each label that the checkpoint has and the tree does not; or NULL. */
static weft_array *unused_rows(const weft__gguf_facts *f)
{
    const weft__weights *stored = weft__model_stored(f->model);
    if (!weft__classifier_is_class(f->config))
        return NULL;
    for (int i = 0; weft__label_rows[i]; i++) {
        for (int k = 0; k < stored->n; k++) {
            const weft__weight *w = &stored->at[k];
            const size_t n = strlen(weft__label_rows[i]);
            if (w->unused && w->array && weft_ndim(w->array) == 2 &&
                strncmp(w->path, weft__label_rows[i], n) == 0 &&
                strcmp(w->path + n, ".weight") == 0)
                return w->array;
        }
    }
    return NULL;
}

weft_status weft__gguf_find_head(weft__gguf_facts *f, bool whole)
{
    const weft_model_info *info = weft_model_info_of(f->model);
    const weft_array *rows = info->n_labels > 0 || !whole ? NULL : unused_rows(f);
    f->head = info->n_labels > 0 || rows;
    if (f->head && !f->arch->classifies)
        return weft__gguf_refuse(f, "a classifier");
    if (rows && weft_dim(rows, 0) > 1)
        return weft__gguf_refuse(f, "a classifier that gives a text several labels");
    if (rows && !info->encoder) /* readers apply a softmax */
        return weft__gguf_refuse(f, "a head with one row");
    return WEFT_OK;
}

bool weft__gguf_is_dropped(const weft__gguf_facts *f, const char *path)
{
    const char *starts[] = {f->arch->dropped, f->head ? NULL : f->arch->of_head};
    for (int i = 0; i < 2; i++) {
        if (starts[i] && strncmp(path, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

weft_status weft__gguf_put_head(weft__gguf_facts *f)
{
    const int64_t n = weft_model_info_of(f->model)->n_labels;
    weft__gguf_put_integer(f, "pooling_type", RANKED);
    weft_gguf_string *labels = n > 0 ? weft__gguf_put_texts(f, labels_key, n) : NULL;
    for (int64_t i = 0; labels && i < n; i++) {
        const char *label = weft_model_label(f->model, i);
        labels[i] = (weft_gguf_string){label, strlen(label)};
    }
    return labels || n == 0 ? WEFT_OK : weft_error_status();
}

weft_status weft__gguf_each_of_head(const weft__gguf_facts *f, weft__gguf_add *add, void *context)
{
    const weft__weights *stored = weft__model_stored(f->model);
    const bool labeled = weft_model_info_of(f->model)->n_labels > 0; /* then it is a parameter */
    weft_status status = WEFT_OK;
    for (const weft__tensor_name *t = f->family->names; t && t->path && status == WEFT_OK; t++) {
        for (int k = 0; weft__is_label_head(t->path) && k < stored->n; k++) {
            const weft__weight *w = &stored->at[k];
            if (w->unused && w->array && !labeled && strcmp(w->path, t->path) == 0)
                status = add(context, t->gguf, weft_astype(w->array, WEFT_FLOAT32));
        }
    }
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* "Bert" of "BertModel" or "Qwen3ForCausalLM". */
static int stem_of(const char *architecture)
{
    const char *end = strstr(architecture, "For");
    end = end ? end : strstr(architecture, "Model");
    return (int)(end ? (size_t)(end - architecture) : strlen(architecture));
}

/* A reranker's, or of a regression. */
static bool has_one_row(const weft__gguf_reader *r)
{
    const int at = weft_gguf_find(r->file, "cls.output.weight");
    const weft_dims shape = weft_gguf_at(r->file, at)->shape;
    return shape.n == 1 || shape.at[0] == 1;
}

weft_status weft__gguf_read_head(weft__gguf_reader *r)
{
    const char *architecture = r->family->architecture;
    const weft_gguf_value *labels = weft__gguf_value(r, labels_key);
    const bool has = r->arch->classifies && weft__gguf_has(r, "cls.output.weight");
    const int64_t n = labels && labels->is_array ? labels->count : 0;
    const bool one_row = has && has_one_row(r);
    if (has && n < 2 && !one_row)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: tensor 'cls.output.weight': expected at least two labels "
                         "(%s.%s), got %lld",
                         weft_gguf_path(r->file), r->name, labels_key, (long long)n);
    weft__text_format(&r->out, ",\"architectures\":[\"%.*s%s\"]",
                      has ? stem_of(architecture) : (int)strlen(architecture), architecture,
                      has ? "ForSequenceClassification" : "");
    if (one_row) /* as in a folder: it is left out, and stored again */
        weft__text_format(&r->out, ",\"num_labels\":1");
    for (int64_t i = 0; has && !one_row && i < n; i++) {
        weft_gguf_string label = {"", 0};
        if (!weft_gguf_value_string(labels, i, &label))
            return weft_fail(WEFT_INVALID, "%s: %s.%s: expected texts", weft_gguf_path(r->file),
                             r->name, labels_key);
        weft__text_format(&r->out, "%s\"%lld\":", i == 0 ? ",\"id2label\":{" : ",", (long long)i);
        weft__text_quote_bytes(&r->out, label.at, label.n);
    }
    weft__text_format(&r->out, "%s", has && !one_row ? "}" : "");
    return WEFT_OK;
}
