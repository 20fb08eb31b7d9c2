/* models/families/roberta.c -- RoBERTa (Facebook 2019) and XLM-RoBERTa (2020): BERT whose positions
 * begin after the padding token's. */
#include <string.h>

#include "models/families/bert.h"
#include "weft/ops.h"

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

/* ---- GGUF files ------------------------------------------------------------------------------ */

/* Files, which are read as BERT's, begin with the position of the first token. */
static weft_array *convert(const char *path, weft_array *a, const weft__gguf_facts *to_file)
{
    static const char positions[] = "model.embeddings.position_embeddings.weight";
    if (to_file == NULL || strcmp(path, positions) != 0)
        return a;
    const int64_t n = weft_model_info_of(to_file->model)->max_positions;
    return weft_slice_axis(a, 0, weft_dim(a, 0) - n, weft_dim(a, 0));
}

static const weft__family own =
    WEFT__BERT_RECORD(fields, .claims = weft__gguf_unclaimed, .dropped = weft__bert_pooler,
                      .convert = convert, .write = weft__bert_write);

WEFT__ENCODER(roberta, "roberta", RobertaModel, &own);
WEFT__ENCODER(xlm_roberta, "xlm-roberta", XLMRobertaModel, &own);
