/* models/classifier.h -- between a model and its classification head. */
#ifndef WEFT_MODELS_CLASSIFIER_H
#define WEFT_MODELS_CLASSIFIER_H

#include "weft/model.h"

/* Puts a head with n rows, "score", in the place of the output head. WEFT_UNSUPPORTED for a family
 * with a head of its own; then nothing has changed. */
weft_status weft__classifier_put(weft_module *module, const weft_config *config,
                                 const weft_model_family *family, weft_model_info *info, int n);

#endif
