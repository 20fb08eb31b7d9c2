/* models/embed_settings.c -- how a checkpoint of sentence-transformers makes embeddings: its
 * modules, its longest text and its prompts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "models/gguf/gguf.h"
#include "weft/batch.h"
#include "weft/layers.h"

enum { MOST_TOKENS = 1 << 30 }; /* larger ones are transformers' way of writing "no limit" */

/* Parses a file of the folder; doc->root stays NULL if there is no such file. */
static weft_status read_file(const char *folder, const char *name, weft__json_doc *doc,
                             weft__json *root)
{
    char *path = weft_format("%s/%s", folder, name);
    weft_status status = path ? WEFT_OK : weft__out_of_memory(folder, NULL);
    *doc = (weft__json_doc){0};
    if (status == WEFT_OK && access(path, F_OK) == 0)
        status = weft__json_read(path, doc);
    if (doc->root)
        *root = weft__json_root(doc);
    weft_free(path);
    return status;
}

/* ---- modules -------------------------------------------------------------------------------- */

static const struct {
    const char *now, *old; /* value of pooling_mode, and the key that was true instead */
    weft_pooling pooling;
} poolings[] = {
    {"cls", "pooling_mode_cls_token", WEFT_POOLING_CLS},
    {"max", "pooling_mode_max_tokens", WEFT_POOLING_MAX},
    {"mean", "pooling_mode_mean_tokens", WEFT_POOLING_MEAN},
    {"lasttoken", "pooling_mode_lasttoken", WEFT_POOLING_LAST},
};
enum { N_POOLINGS = sizeof poolings / sizeof *poolings };

static weft_status named_pooling(const weft__json *at, weft_pooling *out)
{
    const char *name;
    const weft_status status = weft__json_as_string(at, &name, NULL);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < N_POOLINGS; i++) {
        if (strcmp(name, poolings[i].now) == 0) {
            *out = poolings[i].pooling;
            return WEFT_OK;
        }
    }
    return weft__json_fail(at, WEFT_UNSUPPORTED,
                           "'%s' is unsupported (known: cls, max, mean, lasttoken)",
                           weft_printable(name));
}

/* The older form: a key for each kind, of which one is true; none: mean. */
static weft_status flagged_pooling(const weft__json *root, weft_pooling *out)
{
    static const char *const others[] = {"pooling_mode_mean_sqrt_len_tokens",
                                         "pooling_mode_weightedmean_tokens"};
    weft_status status = WEFT_OK;
    int n = 0;
    for (int i = 0; i < N_POOLINGS && status == WEFT_OK; i++) {
        bool flag = false;
        status = weft__json_find_bool(root, poolings[i].old, &flag);
        n += flag;
        *out = flag ? poolings[i].pooling : *out;
    }
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        bool flag = false;
        status = weft__json_find_bool(root, others[i], &flag);
        if (status == WEFT_OK && flag)
            status = weft__json_fail(root, WEFT_UNSUPPORTED, "%s is unsupported", others[i]);
    }
    if (status == WEFT_OK && n > 1)
        status = weft__json_fail(root, WEFT_UNSUPPORTED,
                                 "several kinds of pooling together are unsupported");
    return status;
}

static weft_status read_pooling(const char *folder, const char *path, weft_embed_settings *s)
{
    bool included = true;
    char *name = weft_format("%s/config.json", path);
    weft__json_doc doc = {0};
    weft__json root, mode;
    weft_status status = name ? read_file(folder, name, &doc, &root) : weft__out_of_memory(path, 0);
    if (status == WEFT_OK && doc.root == NULL)
        status = weft_fail(WEFT_INVALID, "%s: %s is missing", folder, name);
    if (status == WEFT_OK)
        status = weft__json_find(&root, "pooling_mode", &mode);
    if (status == WEFT_OK)
        status =
            mode.value ? named_pooling(&mode, &s->pooling) : flagged_pooling(&root, &s->pooling);
    if (status == WEFT_OK)
        status = weft__json_find_bool(&root, "include_prompt", &included);
    s->excludes_prompts = !included;
    weft__json_free(&doc);
    weft_free(name);
    return status;
}

/* What config.json of a Dense module says. */
typedef struct dense {
    int64_t in_features, out_features;
    bool bias, use_residual;
    const char *activation_function;
} dense;

static weft_status read_dense(const char *folder, const char *path, dense *d, weft__json_doc *doc)
{
    char *name = weft_format("%s/config.json", path);
    weft__json root;
    weft_status status = name ? read_file(folder, name, doc, &root) : weft__out_of_memory(path, 0);
    *d = (dense){.bias = true, .activation_function = "torch.nn.modules.activation.Tanh"};
    if (status == WEFT_OK && doc->root == NULL)
        status = weft_fail(WEFT_INVALID, "%s: %s is missing", folder, name);
    weft_free(name);
    if (status == WEFT_OK)
        status = weft__json_get_int(&root, "in_features", &d->in_features);
    if (status == WEFT_OK)
        status = weft__json_get_int(&root, "out_features", &d->out_features);
    if (status == WEFT_OK)
        status = weft__json_find_bool(&root, "bias", &d->bias);
    if (status == WEFT_OK)
        status = weft__json_find_bool(&root, "use_residual", &d->use_residual);
    if (status == WEFT_OK)
        status = weft__json_find_string(&root, "activation_function", &d->activation_function);
    if (status == WEFT_OK && d->use_residual)
        status = weft__json_fail(&root, WEFT_UNSUPPORTED, "use_residual: true is unsupported");
    if (status == WEFT_OK && (d->in_features < 1 || d->in_features > INT32_MAX ||
                              d->out_features < 1 || d->out_features > INT32_MAX))
        status = weft__json_fail(&root, WEFT_INVALID,
                                 "in_features, out_features: expected positive sizes");
    return status;
}

/* The file's tensors are those of a module "linear". */
static bool strip_linear(void *context, const char *name, char *out, size_t size)
{
    static const char prefix[] = "linear.";
    (void)context;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    snprintf(out, size, "%s", name + sizeof prefix - 1);
    return true;
}

static weft_status load_linear(const char *folder, const char *path, weft_module *linear)
{
    char *name = weft_format("%s/%s/model.safetensors", folder, path);
    weft_safetensors *file = NULL;
    weft_status status = name ? weft_safetensors_open(name, &file) : weft__out_of_memory(path, 0);
    if (status == WEFT_OK)
        status = weft_nn_load(
            linear, file,
            &(weft_nn_load_options){.dtype = WEFT_FLOAT32, .where = name, .rename = strip_linear});
    weft_safetensors_close(file);
    weft_free(name);
    return status;
}

static weft_status add_dense(const char *folder, const char *path, weft_embed_settings *s)
{
    enum { MOST = 32 }; /* layers, activations among them */
    weft__json_doc doc = {0};
    dense d;
    weft_status status = read_dense(folder, path, &d, &doc);
    const char *dot = status == WEFT_OK ? strrchr(d.activation_function, '.') : NULL;
    const bool tanh = dot && strcmp(dot, ".Tanh") == 0;
    if (status == WEFT_OK && !tanh && !(dot && strcmp(dot, ".Identity") == 0))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s/%s/config.json: activation_function: '%s' is unsupported (known: "
                           "Identity, Tanh)",
                           folder, path, weft_printable(d.activation_function));
    if (status == WEFT_OK && s->dense == NULL && !(s->dense = weft_nn_sequential_new(MOST)))
        status = weft_error_status();
    weft_module *linear =
        status == WEFT_OK ? weft_nn_linear_new(d.in_features, d.out_features, d.bias) : NULL;
    if (status == WEFT_OK)
        status = linear ? load_linear(folder, path, linear) : weft_error_status();
    if (status == WEFT_OK) {
        weft_nn_sequential_append(s->dense, linear);
        if (tanh)
            weft_nn_sequential_append(s->dense, weft_nn_activation_of("tanh", weft_tanh));
        status = s->dense->failed ? weft_error_status() : WEFT_OK;
    } else {
        weft_nn_free(linear);
    }
    weft__json_free(&doc);
    return status;
}

/* The types are Python classes, whose modules depend on the version. */
static weft_status read_module(const weft__json *item, const char *folder, size_t i,
                               weft_embed_settings *s)
{
    static const char *const known[] = {"Transformer", "Pooling", "Dense or Normalize"};
    const char *type = NULL, *path = NULL;
    weft_status status = weft__json_get_string(item, "type", &type);
    if (status == WEFT_OK)
        status = weft__json_get_string(item, "path", &path);
    if (status != WEFT_OK)
        return status;
    const char *kind = strrchr(type, '.');
    kind = kind ? kind + 1 : type;
    const bool normalizes = i >= 2 && strcmp(kind, "Normalize") == 0;
    const bool fits = i < 2 ? strcmp(kind, known[i]) == 0
                            : !s->normalize && (normalizes || strcmp(kind, "Dense") == 0);
    if (!fits)
        return weft__json_fail(item, WEFT_UNSUPPORTED, "module '%s' is unsupported here%s%s",
                               weft_printable(type), s->normalize ? "" : ": expected ",
                               s->normalize ? "" : known[i < 2 ? i : 2]);
    if (i == 0 && *path != '\0')
        return weft__json_fail(item, WEFT_UNSUPPORTED, "path: expected \"\", got \"%s\"",
                               weft_printable(path));
    if (i == 1)
        status = read_pooling(folder, path, s);
    if (i >= 2 && !normalizes)
        status = add_dense(folder, path, s);
    s->normalize = s->normalize || normalizes;
    return status;
}

static weft_status read_modules(const char *folder, weft_embed_settings *s)
{
    weft__json_doc doc;
    weft__json root, item;
    size_t n = 0;
    weft_status status = read_file(folder, "modules.json", &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_length(&root, &n);
    s->found = doc.root != NULL;
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        status = weft__json_at(&root, i, &item);
        if (status == WEFT_OK)
            status = read_module(&item, folder, i, s);
    }
    if (status == WEFT_OK && s->found && n < 2)
        status = weft__json_fail(&root, WEFT_UNSUPPORTED,
                                 "expected the modules Transformer and Pooling, got %zu", n);
    weft__json_free(&doc);
    return status;
}

/* ---- the longest text ----------------------------------------------------------------------- */

/* Sets *out to a number of the file if it is smaller; *out is 0 at first. */
static weft_status limit(const char *folder, const char *file, const char *key, int64_t *out)
{
    weft__json_doc doc;
    weft__json root;
    double number = 0;
    weft_status status = read_file(folder, file, &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_find_number(&root, key, &number);
    if (status == WEFT_OK && number != 0 && !(number >= 1))
        status =
            weft__json_fail(&root, WEFT_INVALID, "%s: expected at least 1, got %g", key, number);
    if (status == WEFT_OK && number >= 1 && number <= MOST_TOKENS &&
        (*out == 0 || (int64_t)number < *out))
        *out = (int64_t)number;
    weft__json_free(&doc);
    return status;
}

static weft_status read_lengths(const char *folder, weft_embed_settings *s)
{
    static const char file[] = "sentence_bert_config.json";
    weft__json_doc doc;
    weft__json root;
    bool lower = false;
    weft_status status = read_file(folder, file, &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_find_bool(&root, "do_lower_case", &lower);
    if (status == WEFT_OK && lower)
        status = weft__json_fail(&root, WEFT_UNSUPPORTED, "do_lower_case: true is unsupported");
    weft__json_free(&doc);
    if (status == WEFT_OK)
        status = limit(folder, file, "max_seq_length", &s->max_tokens);
    if (status == WEFT_OK && s->max_tokens == 0)
        status = limit(folder, "tokenizer_config.json", "model_max_length", &s->max_tokens);
    return status;
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* The names of the prompts are in the message. */
static weft_status no_prompt(const char *folder, const char *name, json_object *prompts)
{
    weft__text known = {0};
    if (json_object_is_type(prompts, json_type_object)) {
        json_object_object_foreach(prompts, key, value)
        {
            (void)value;
            weft__text_format(&known, "%s%s", known.n ? ", " : "", weft_printable(key));
        }
    }
    const weft_status status = weft_fail(
        WEFT_INVALID, "%s/config_sentence_transformers.json: prompts: '%s' is missing (known: %s)",
        folder, weft_printable(name), known.n && !known.failed ? known.at : "none");
    weft_free(known.at);
    return status;
}

static weft_status read_prompt(const char *folder, const char *name, weft_embed_settings *s)
{
    weft__json_doc doc;
    weft__json root, prompts = {0};
    const char *text = NULL;
    const bool asked = name != NULL;
    weft_status status = read_file(folder, "config_sentence_transformers.json", &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_find(&root, "prompts", &prompts);
    if (status == WEFT_OK && doc.root && !asked)
        status = weft__json_find_string(&root, "default_prompt_name", &name);
    if (status == WEFT_OK && prompts.value && name)
        status = weft__json_find_string(&prompts, name, &text);
    if (status == WEFT_OK && name && text == NULL)
        status = no_prompt(folder, name, prompts.value);
    if (status == WEFT_OK && text && *text && (s->prompt = weft_strdup(text)) == NULL)
        status = weft__out_of_memory(folder, "its prompt");
    weft__json_free(&doc);
    return status;
}

/* The checkpoint's first prompt with one of the names, without a message if it has none. */
static weft_status find_prompt(const char *folder, const char *const *names, char **out)
{
    weft__json_doc doc;
    weft__json root, prompts = {0};
    const char *text = NULL;
    weft_status status = read_file(folder, "config_sentence_transformers.json", &doc, &root);
    if (status == WEFT_OK && doc.root)
        status = weft__json_find(&root, "prompts", &prompts);
    for (; status == WEFT_OK && prompts.value && text == NULL && *names; names++)
        status = weft__json_find_string(&prompts, *names, &text);
    if (status == WEFT_OK && text && *text && (*out = weft_strdup(text)) == NULL)
        status = weft__out_of_memory(folder, "its prompts");
    weft__json_free(&doc);
    return status;
}

weft_status weft_embed_settings_load(const char *folder, const char *prompt,
                                     weft_embed_settings *out)
{
    static const char *const queries[] = {"query", NULL}, *const passages[] = {"document",
                                                                               "passage", "corpus",
                                                                               NULL};
    *out = (weft_embed_settings){.folder = weft_strdup(folder)};
    if (out->folder == NULL)
        return weft__out_of_memory(folder, NULL);
    char *gguf = NULL;
    weft_status status = weft__gguf_find(folder, &gguf);
    if (status == WEFT_OK)
        status = gguf ? weft__gguf_embed_settings(gguf, out) : read_modules(folder, out);
    weft_free(gguf);
    if (status == WEFT_OK && out->found)
        status = read_lengths(folder, out);
    if (status == WEFT_OK && (out->found || prompt))
        status = read_prompt(folder, prompt, out);
    if (status == WEFT_OK && out->found)
        status = find_prompt(folder, queries, &out->query_prompt);
    if (status == WEFT_OK && out->found)
        status = find_prompt(folder, passages, &out->passage_prompt);
    if (status == WEFT_OK && out->prompt && out->excludes_prompts)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: include_prompt: false with a prompt is unsupported", folder);
    if (status != WEFT_OK)
        weft_embed_settings_free(out);
    return status;
}

void weft_embed_settings_free(weft_embed_settings *settings)
{
    weft_free(settings->prompt);
    weft_free(settings->query_prompt);
    weft_free(settings->passage_prompt);
    weft_free(settings->folder);
    weft_nn_free(settings->dense);
    *settings = (weft_embed_settings){0};
}
