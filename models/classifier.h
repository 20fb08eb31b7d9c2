/* models/classifier.h -- adds a classification head to a model. */
#ifndef WEFT_MODELS_CLASSIFIER_H
#define WEFT_MODELS_CLASSIFIER_H

#include "weft/model.h"

/* Replaces the output head by a head "score" with n rows. WEFT_UNSUPPORTED, without any change, for
 * a family with a special head. */
weft_status weft__classifier_put(weft_module *module, const weft_config *config,
                                 const weft_model_family *family, weft_model_info *info, int n);

#endif
