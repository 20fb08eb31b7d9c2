/* models/families/bert.c -- BERT (Google 2018), and MiniLM, E5, BGE and other embedders of
 * its form. */
#include "models/families/bert.h"

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

/* ---- GGUF files ------------------------------------------------------------------------------ */

const weft__tensor_name weft__bert_names[] = {
    {"token_embd.weight", "model.embeddings.word_embeddings.weight", NULL},
    {"position_embd.weight", "model.embeddings.position_embeddings.weight", NULL},
    {"token_types.weight", "model.embeddings.token_type_embeddings.weight", NULL},
    {"token_embd_norm.weight", "model.embeddings.LayerNorm.weight", NULL},
    {"token_embd_norm.bias", "model.embeddings.LayerNorm.bias", NULL},
    {"attn_q", "attention.self.query", NULL},
    {"attn_k", "attention.self.key", NULL},
    {"attn_v", "attention.self.value", NULL},
    {"attn_output", "attention.output.dense", NULL},
    {"attn_output_norm", "attention.output.LayerNorm", NULL},
    {"ffn_up", "intermediate.dense", NULL},
    {"ffn_down", "output.dense", NULL},
    {"layer_output_norm", "output.LayerNorm", NULL},
    {"cls.weight", "model.pooler.dense.weight", NULL}, /* files are read as BERT's */
    {"cls.bias", "model.pooler.dense.bias", NULL},
    {"cls.output.weight", "classifier.weight", NULL},
    {"cls.output.bias", "classifier.bias", NULL},
    {"cls.weight", "classifier.dense.weight", NULL}, /* RoBERTa's */
    {"cls.bias", "classifier.dense.bias", NULL},
    {"cls.output.weight", "classifier.out_proj.weight", NULL},
    {"cls.output.bias", "classifier.out_proj.bias", NULL},
    {NULL, NULL, NULL},
};
const char weft__bert_layers[] = "model.encoder.layer.", weft__bert_pooler[] = "model.pooler.";

static weft_status config_of(weft__gguf_facts *f, weft__encoder_config *out)
{
    return weft_config_read(f->config, f->family->fields, f->family->n_fields, out);
}

weft_status weft__bert_describe(weft__gguf_facts *f)
{
    weft__encoder_config c;
    if (config_of(f, &c) != WEFT_OK)
        return weft_error_status();
    return weft__gguf_encoder_sizes(
        f, &(weft__decoder_config){.hidden_size = c.hidden_size,
                                   .intermediate_size = c.intermediate_size,
                                   .num_hidden_layers = c.num_hidden_layers,
                                   .num_attention_heads = c.num_attention_heads,
                                   .layer_norm_eps = c.layer_norm_eps});
}

weft_status weft__bert_write(weft__gguf_facts *f)
{
    weft__encoder_config c;
    if (config_of(f, &c) != WEFT_OK)
        return weft_error_status();
    weft__gguf_put_encoder(f);
    weft__gguf_put_integer(f, "tokenizer.ggml.token_type_count", c.type_vocab_size);
    return weft__gguf_put_activation(f, c.hidden_act);
}

static weft_status write(weft__gguf_facts *f)
{
    if (f->head && weft_nn_find(weft_model_module(f->model), "model.pooler.dense.weight") == NULL)
        return weft__gguf_refuse(f, "a classifier without a pooler");
    return weft__bert_write(f);
}

static void read(weft__gguf_reader *r)
{
    const int types = weft_gguf_find(r->file, "token_types.weight");
    if (types >= 0)
        weft__gguf_add_integer(r, "type_vocab_size", weft_gguf_at(r->file, types)->shape.at[0]);
    weft__gguf_read_activation(r, "hidden_act");
}

static const weft__family own =
    WEFT__BERT_RECORD(fields, .of_head = weft__bert_pooler, .read = read, .write = write);

WEFT__ENCODER(bert, "bert", BertModel, &own);
