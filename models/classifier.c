/* models/classifier.c -- sequence classification: a head with a row for each label on the last
 * token's hidden state. */
#include <string.h>

#include "core/failure.h"
#include "models/classifier.h"
#include "models/decoder.h"
#include "nn/module.h"
#include "weft/memory.h"
#include "weft/nn_tools.h"
#include "weft/random.h"

void weft_labels_free(weft_labels *labels)
{
    for (int i = 0; i < labels->n; i++)
        weft_free(labels->at[i]);
    weft_free(labels->at);
    *labels = (weft_labels){.open = false};
}

int weft_labels_index(const weft_labels *labels, const char *label)
{
    for (int i = 0; i < labels->n; i++) {
        if (strcmp(labels->at[i], label) == 0)
            return i;
    }
    return -1;
}

weft_status weft_labels_add(weft_labels *labels, const char *label)
{
    char **more = weft_realloc(labels->at, ((size_t)labels->n + 1) * sizeof *more);
    if (more != NULL)
        labels->at = more;
    char *copy = more ? weft_strdup(label) : NULL;
    if (copy == NULL)
        return weft__out_of_memory("labels", label);
    labels->at[labels->n++] = copy;
    return WEFT_OK;
}

weft_status weft__classifier_put(weft_module *module, const weft_config *config,
                                 const weft_model_family *family, weft_model_info *info, int n)
{
    if (family->head != weft__decoder_head || info->encoder)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s models cannot become classifiers",
                         weft_config_where(config), family->model_type);
    weft_array *const *old = weft_nn_find(module, "lm_head.weight");
    weft_device *before = weft_default_device();
    if (old)
        weft_set_default_device(weft_device_of(*old));
    const double deviation = weft_config_double(config, "initializer_range", 0.02);
    weft_scope_open();
    weft_module *score = weft_nn_linear_new(info->hidden_size, n, false);
    weft_status status = score ? WEFT_OK : weft_error_status();
    if (status == WEFT_OK)
        status = weft_set(
            weft_nn_find(score, "weight"),
            weft_random_normal(NULL, WEFT_DIMS(n, info->hidden_size), 0, deviation, WEFT_FLOAT32));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    if (status != WEFT_OK) {
        weft_nn_free(score);
        return status;
    }
    weft__decoder_set_head(module, "score", score);
    info->tied = false;
    info->softcap = 0;
    info->n_labels = n;
    return WEFT_OK;
}
