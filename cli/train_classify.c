/* cli/train_classify.c -- weft train --task classify: finds the labels and adds the head that
 * predicts them. */
#include <string.h>

#include "cli/common.h"
#include "cli/train.h"

/* Parses the names of --labels. */
static weft_status read_list(const char *list, weft_labels *out)
{
    weft_status status = WEFT_OK;
    char *text = weft_strdup(list), *rest = NULL;
    if (text == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the labels");
    for (char *word = strtok_r(text, ",", &rest); word && status == WEFT_OK;
         word = strtok_r(NULL, ",", &rest)) {
        word += strspn(word, " ");
        if (weft_labels_index(out, word) >= 0)
            status = weft_fail(WEFT_INVALID, "--labels: '%s' is given twice", weft_printable(word));
        else if (*word != '\0')
            status = weft_labels_add(out, word);
    }
    weft_free(text);
    if (status == WEFT_OK && out->n < 2)
        status = weft_fail(WEFT_INVALID, "--labels: expected at least two, got %d", out->n);
    return status;
}

static weft_status labels_of_adapter(const char *folder, weft_labels *out)
{
    const weft_status status = weft_adapter_labels(folder, out);
    return status == WEFT_OK && out->n == 0
               ? weft_fail(WEFT_INVALID, "--init-adapter: %s: it is not of a classifier",
                           weft_printable(folder))
               : status;
}

/* Reads --labels for a model that has labels: the same ones, whose order is the model's. */
static weft_status check_list(const char *list, const weft_labels *own)
{
    weft_labels given = {.open = false};
    weft_status status = read_list(list, &given);
    for (int i = 0; status == WEFT_OK && i < own->n; i++) {
        if (given.n != own->n || weft_labels_index(&given, own->at[i]) < 0)
            status = weft_fail(WEFT_INVALID,
                               "--labels: the model is a classifier: expected its %d labels, with "
                               "'%s', got '%s'",
                               own->n, weft_printable(own->at[i]), weft_printable(list));
    }
    weft_labels_free(&given);
    return status;
}

weft_status classify_find_labels(const cli_data_source *source, const char *path, const char *list,
                                 const weft_tokenizer *tokenizer, const weft_dataset_options *o,
                                 weft_labels *out)
{
    weft_data_source sources[CLI_MOST];
    weft_dataset_options options = *o;
    weft_status status = weft_model_labels(path, out);
    if (status != WEFT_OK || out->n > 0)
        return status == WEFT_OK && list ? check_list(list, out) : status;
    if (list)
        return read_list(list, out);
    cli_data_options(source, &options);
    status = cli_data_open(source, sources);
    if (status == WEFT_OK)
        status = weft_labels_find(sources, source->paths.n, tokenizer, &options, out);
    cli_data_release(sources, source->paths.n);
    return status;
}

weft_status train_find_labels(const train_values *v, train_run *r, weft_dataset_options *o)
{
    if (v->task != TRAIN_CLASSIFY)
        return WEFT_OK;
    const weft_status status =
        v->init_adapter
            ? labels_of_adapter(v->init_adapter, &r->labels)
            : classify_find_labels(&v->source, r->path, v->labels, r->tokenizer, o, &r->labels);
    o->labels = &r->labels;
    return status;
}

weft_status train_add_head(const train_values *v, const train_run *r)
{
    const int64_t n = weft_model_info_of(r->model)->n_labels;
    if (n > 0 && v->task != TRAIN_CLASSIFY)
        return weft_fail(WEFT_UNSUPPORTED,
                         "train: %s is a classifier with %lld labels: expected --task classify",
                         weft_printable(r->path), (long long)n);
    if (n > 0 || v->task != TRAIN_CLASSIFY || v->init_adapter)
        return WEFT_OK;
    weft_random_seed(v->trainer.seed);
    return weft_model_classify(r->model, (const char *const *)r->labels.at, r->labels.n);
}

void train_print_labels(const train_run *r)
{
    for (int i = 0; i < r->labels.n && i < 10; i++)
        fprintf(stderr, "%s%s", i == 0 ? "labels  " : ", ", weft_printable(r->labels.at[i]));
    if (r->labels.n > 10)
        fprintf(stderr, ", ... (%d)", r->labels.n);
    if (r->labels.n > 0)
        fputc('\n', stderr);
}
