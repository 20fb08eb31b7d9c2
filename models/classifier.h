/* models/classifier.h -- adds a classification head to a model, and reads and writes its labels. */
#ifndef WEFT_MODELS_CLASSIFIER_H
#define WEFT_MODELS_CLASSIFIER_H

#include "models/config.h"
#include "weft/model.h"

/* Reads labels 0 to n - 1 of a configuration's id2label; LABEL_0 and so on if it has no value.
 * `what` has the n rows, for messages. */
weft_status weft__classifier_names(const weft__json *id2label, int64_t n, const char *what,
                                   weft_labels *out);
/* The labels of a config.json whose class is ...ForSequenceClassification; none for other classes,
 * for a single row (regression) and for texts with several labels each. Free them. */
weft_status weft__classifier_labels(const weft_config *config, weft_labels *out);
/* Whether the class is ...ForSequenceClassification. */
bool weft__classifier_is_class(const weft_config *config);
/* The modules whose weights have a row for each label, by the class of the model; NULL at the end.
 */
extern const char *const weft__label_rows[];
/* Exchanges the names of all labels of a classifier. */
void weft__model_swap_labels(weft_model *model, char **labels);
/* Whether the checkpoint that the configuration is built for has a head for labels. True for a new
 * model. */
bool weft__classifier_is_stored(const weft_config *config);
/* Writes class and labels of a classifier. */
void weft__classifier_config(const weft_model *model, json_object *root);

/* Replaces the output head by a head "score" with n rows, or gives an encoder its head.
 * WEFT_UNSUPPORTED, without any change, for a family with a special head. */
weft_status weft__classifier_put(weft_module *module, const weft_config *config,
                                 const weft_model_family *family, weft_model_info *info, int n);

#endif
