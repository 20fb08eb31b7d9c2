/* models/families/bert.c -- BERT (Google 2018), and MiniLM, E5, BGE and other embedders of
 * its form. */
#include "models/encoder.h"
#include "models/family.h"

static const weft_config_field fields[] = {
    WEFT__ENCODER_FIELDS(30522, 768, 3072, 12, 12, 512, 2, 0),
};

static weft_module *build(const weft_model_family *family, const weft_config *config, bool has_head,
                          weft_model_info *info)
{
    static const weft__encoder_kind kind = {WEFT__FIELDS(fields)};
    (void)family;
    (void)has_head;
    return weft__encoder_build(&kind, config, info);
}

WEFT__ENCODER(bert, "bert", BertModel);
