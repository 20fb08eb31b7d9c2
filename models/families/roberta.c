/* models/families/roberta.c -- RoBERTa (Facebook 2019) and XLM-RoBERTa (2020): BERT whose positions
 * begin after the padding token's. */
#include "models/encoder.h"
#include "models/family.h"

static const weft_config_field fields[] = {
    WEFT__ENCODER_FIELDS(50265, 768, 3072, 12, 12, 512, 2, 1),
};

static weft_module *build(const weft_model_family *family, const weft_config *config, bool has_head,
                          weft_model_info *info)
{
    static const weft__encoder_kind kind = {WEFT__FIELDS(fields), .after_padding = true};
    (void)family;
    (void)has_head;
    return weft__encoder_build(&kind, config, info);
}

WEFT__ENCODER(roberta, "roberta", RobertaModel);
WEFT__ENCODER(xlm_roberta, "xlm-roberta", XLMRobertaModel);
