/* cli/train_adapter.c -- creates the adapter that weft train trains. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/shared.h"
#include "cli/train.h"

enum { MOST = 64, ROOM = 2048 };

/* Splits "a,b,c" into `names`, which point into `room`. Returns their number, or -1 if they do not
 * fit. */
static int split(const char *list, char room[ROOM], const char *names[MOST])
{
    int n = 0;
    if (snprintf(room, ROOM, "%s", list) >= ROOM)
        return -1;
    for (char *word = strtok(room, ", "); word != NULL; word = strtok(NULL, ", ")) {
        if (n == MOST)
            return -1;
        names[n++] = word;
    }
    return n;
}

static weft_status too_many(const char *option)
{
    return weft_fail(WEFT_INVALID, "--%s: expected at most %d names in %d characters", option, MOST,
                     ROOM - 1);
}

/* Parses "NAME=NUMBER,..." into `patterns`. */
static weft_status read_patterns(const char *option, const char *list, bool ranks, char room[ROOM],
                                 weft_nn_lora_pattern patterns[MOST], int *n)
{
    const char *words[MOST];
    *n = list ? split(list, room, words) : 0;
    if (*n < 0)
        return too_many(option);
    for (int i = 0; i < *n; i++) {
        char *equals = strchr(words[i], '='), *end = NULL;
        const double number = equals ? strtod(equals + 1, &end) : 0;
        const bool fits = end && end > equals + 1 && *end == '\0' && equals > words[i] &&
                          number > 0 && number <= 65536 && (!ranks || number == floor(number));
        if (!fits)
            return weft_fail(WEFT_INVALID,
                             "--%s: '%s': expected NAME=%s with a number above 0, at most 65536",
                             option, weft_printable(words[i]), ranks ? "R" : "X");
        *equals = '\0';
        patterns[i] = (weft_nn_lora_pattern){
            .path = words[i], .rank = ranks ? (int64_t)number : 0, .alpha = ranks ? 0 : number};
    }
    return WEFT_OK;
}

/* Lists the indices of the last `n` layers of the model; the caller frees *out. */
static weft_status last_layers(const weft_model *model, int64_t n, int **out)
{
    const int64_t all = weft_model_info_of(model)->n_layers;
    if (n > all)
        return weft_fail(WEFT_INVALID, "--layers: the model has %lld, got %lld", (long long)all,
                         (long long)n);
    *out = calloc((size_t)n, sizeof **out);
    if (*out == NULL)
        return weft_fail(WEFT_MEMORY, "--layers: out of memory");
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = (int)(all - n + i);
    return WEFT_OK;
}

static double alpha_of(const train_values *v)
{
    return v->lora.alpha == 0 ? 2 * (double)v->lora.rank : v->lora.alpha;
}

static weft_status inject(const train_values *v, weft_model *model)
{
    char names[ROOM], ranks[ROOM], alphas[ROOM], wholes[ROOM];
    const char *targets[MOST], *whole[MOST];
    weft_nn_lora_pattern patterns[2 * MOST];
    int n_ranks = 0, n_alphas = 0, *layers = NULL;
    const int n = split(v->targets, names, targets);
    const int n_whole = v->whole ? split(v->whole, wholes, whole) : 0;
    weft_status status = n < 0         ? too_many("targets")
                         : n_whole < 0 ? too_many("modules-to-save")
                                       : WEFT_OK;
    if (status == WEFT_OK)
        status = read_patterns("rank-pattern", v->rank_pattern, true, ranks, patterns, &n_ranks);
    if (status == WEFT_OK)
        status = read_patterns("alpha-pattern", v->alpha_pattern, false, alphas, patterns + n_ranks,
                               &n_alphas);
    if (status == WEFT_OK && v->layers != CLI_ABSENT)
        status = last_layers(model, v->layers, &layers);
    if (status != WEFT_OK)
        return status;
    weft_nn_lora_options o = v->lora;
    o.alpha = alpha_of(v);
    o.dtype = v->adapter_dtype == 1 ? WEFT_BFLOAT16 : WEFT_FLOAT32;
    o.targets = targets;
    o.n_targets = n;
    o.whole = whole;
    o.n_whole = n_whole;
    o.layers = layers;
    o.n_layers = layers ? (int)v->layers : 0;
    o.patterns = patterns;
    o.n_patterns = n_ranks + n_alphas;
    weft_random_seed(v->trainer.seed);
    status = weft_nn_lora_inject(weft_model_module(model), &o);
    free(layers);
    return status;
}

static weft_status check_dense(void *context, const weft_nn_item *item)
{
    (void)context;
    return weft_encoding_of(*item->slot->address) == NULL
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED, "--full: %s is quantized, so it cannot be trained",
                           item->path);
}

/* Makes every parameter trainable. */
static weft_status train_all(weft_module *tree)
{
    const weft_status status = weft_nn_visit(tree, check_dense, NULL);
    if (status == WEFT_OK)
        weft_nn_unfreeze(tree);
    return status;
}

weft_status train_add_adapter(const train_values *v, train_run *r)
{
    if (v->full)
        return train_all(weft_model_module(r->model));
    const weft_adapter_options o = {.dtype = v->adapter_dtype == 1 ? WEFT_BFLOAT16 : WEFT_FLOAT32};
    weft_status status =
        v->init_adapter ? weft_adapter_load(r->model, v->init_adapter, &o) : inject(v, r->model);
    return status == WEFT_OK ? train_add_tokens(v, r) : status;
}

void train_print_adapter(const train_values *v, const train_run *r)
{
    weft_module *module = weft_model_module(r->model);
    const int token_layers =
        v->train_tokens || v->add_tokens ? 2 : 0; /* the embedding and the head */
    if (v->full) {
        fprintf(stderr, "train   all %s parameters\n", cli_count(weft_nn_count(module, true)));
        return;
    }
    fprintf(stderr, "train   %s on %d linears%s, %s parameters", v->lora.dora ? "DoRA" : "LoRA",
            weft_nn_lora_count(module) - token_layers,
            token_layers ? " and rows of the embedding" : "",
            cli_count(weft_nn_count(module, true)));
    if (v->init_adapter != NULL)
        fprintf(stderr, ", from %s\n", weft_printable(v->init_adapter));
    else
        fprintf(stderr, ": rank %lld, alpha %g%s%s\n", (long long)v->lora.rank, alpha_of(v),
                v->lora.rslora ? ", rsLoRA" : "", v->lora.pissa ? ", PiSSA" : "");
    train_print_tokens(r);
    train_print_labels(r);
}
