/* text/tokenizer/parts_pieces.c -- GGUF tokenizers without merges: "bert" (WordPiece) and "t5"
 * (Unigram). The parts around the model are read from the JSON that a tokenizer.json would have. */
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

#define MARK "\xE2\x96\x81"
enum { LONGEST_WORD = 100 };

/* Reads normalizer, pre-tokenizer and decoder from the text, and frees it. */
static weft_status use_json(const text_parts *p, weft__text *json, weft_tokenizer *t)
{
    weft__json_doc doc = {0};
    weft_status status = json->failed ? weft__out_of_memory(p->name, "its tokenizer")
                                      : weft__json_parse(json->at, json->n, p->name, &doc);
    const weft__json root = {.value = doc.root, .name = p->name};
    if (!status)
        status = weft__normalizer_load(&root, &t->normalizer);
    if (!status)
        status = weft__splitter_load(&root, &t->splitter);
    if (!status)
        status = weft__decoder_load(&root, &t->decoder);
    weft__json_free(&doc);
    weft_free(json->at);
    return status;
}

/* ---- bert ----------------------------------------------------------------------------------- */

/* Converters write a token that begins a word with a mark, "##x" as "x", and control tokens, which
 * are "[X]" in files without types, unchanged. */
static bool is_bracketed(const text_string *token)
{
    return token->length > 1 && token->text[0] == '[' && token->text[token->length - 1] == ']';
}

weft_status weft__parts_respell(const text_parts *p, text_buffer *texts, text_string **out)
{
    text_string *list = *out = weft_calloc(p->token_count ? p->token_count : 1, sizeof *list);
    weft_status status = list ? WEFT_OK : weft__out_of_memory(p->name, "its tokenizer");
    /* The buffer moves as it grows: only lengths now, pointers at the end. */
    for (size_t i = 0; i < p->token_count && !status; i++) {
        const text_string *token = &p->tokens[i];
        const bool first = token->length >= 3 && memcmp(token->text, MARK, 3) == 0;
        const size_t before = texts->length;
        const bool control = p->types && p->types[i] == TEXT_CONTROL;
        if (!first && !control && !is_bracketed(token))
            status = weft__bytes_append(texts, "##", 2);
        if (!status)
            status = weft__bytes_append(texts, token->text + (first ? 3 : 0),
                                        token->length - (first ? 3 : 0));
        list[i].length = texts->length - before;
    }
    const char *at = texts->data;
    for (size_t i = 0; i < p->token_count && !status; i++) {
        list[i].text = at;
        at += list[i].length;
    }
    return status;
}

/* Most files do not record whether text is lowercased. If it is, the vocabulary has no upper-case
 * letter. */
static bool is_cased(const text_parts *p)
{
    if (p->lowercase != TEXT_DEFAULT)
        return p->lowercase == TEXT_NO;
    for (size_t i = 0; i < p->token_count; i++) {
        const text_string *token = &p->tokens[i];
        const bool normal = !p->types || p->types[i] == TEXT_NORMAL;
        for (size_t k = 0; normal && !is_bracketed(token) && k < token->length; k++) {
            if (token->text[k] >= 'A' && token->text[k] <= 'Z')
                return true;
        }
    }
    return false;
}

weft_status weft__parts_use_word_pieces(const text_parts *p, weft_tokenizer *t)
{
    weft__text json = {0};
    const int32_t first = p->cls >= 0 ? p->cls : p->bos, last = p->sep >= 0 ? p->sep : p->eos;
    if (p->unknown < 0)
        return weft_fail(WEFT_INVALID, "%s: tokenizer.ggml.unknown_token_id: is missing", p->name);
    t->model.kind = MODEL_WORD_PIECE;
    t->model.longest_word = LONGEST_WORD;
    t->model.subword_prefix = weft_strdup("##");
    t->model.subword_prefix_length = 2;
    if (t->model.subword_prefix == NULL)
        return weft__out_of_memory(p->name, "its tokenizer");
    weft__text_format(&json,
                      "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":%s,"
                      "\"strip_accents\":%s},"
                      "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                      "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}}",
                      is_cased(p) ? "false" : "true",
                      p->strip_accents == TEXT_DEFAULT ? "null"
                      : p->strip_accents == TEXT_YES   ? "true"
                                                       : "false");
    weft_status status = use_json(p, &json, t);
    if (!status && first >= 0 && p->add_bos != TEXT_NO)
        status = weft__ids_append(&t->prefix, first);
    if (!status && last >= 0 && p->add_eos != TEXT_NO)
        status = weft__ids_append(&t->suffix, last);
    return status;
}

/* ---- t5 ------------------------------------------------------------------------------------- */

static void put_base64(weft__text *out, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const unsigned b = i + 1 < n ? bytes[i + 1] : 0, c = i + 2 < n ? bytes[i + 2] : 0;
        const unsigned three = (unsigned)bytes[i] << 16 | b << 8 | c;
        const char four[] = {digits[three >> 18], digits[three >> 12 & 63],
                             i + 1 < n ? digits[three >> 6 & 63] : '=',
                             i + 2 < n ? digits[three & 63] : '='};
        weft__text_append(out, four, 4);
    }
}

/* Only the model's own tokens count; converters invent scores for the others. */
static weft_status enter_scores(const text_parts *p, bpe_model *model)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < p->token_count && !status; i++) {
        const int32_t type = p->types ? p->types[i] : TEXT_NORMAL;
        const bool own = type == TEXT_NORMAL || type == TEXT_BYTE;
        model->byte_fallback = model->byte_fallback || type == TEXT_BYTE;
        status = weft__unigram_add_score(&model->unigram, own ? (double)p->scores[i] : 0);
    }
    return status ? status : weft__unigram_index(&model->unigram, &model->vocab);
}

weft_status weft__parts_use_unigram(const text_parts *p, weft_tokenizer *t)
{
    static const char metaspace[] = "{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                                    "\",\"prepend_scheme\":\"%s\",\"split\":true}";
    const char *scheme = p->add_space_prefix == TEXT_NO ? "never" : "always";
    weft__text json = {0};
    weft__text_format(&json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (p->charsmap_size > 0) {
        weft__text_format(&json, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        put_base64(&json, p->charsmap, p->charsmap_size);
        weft__text_format(&json, "\"}");
    }
    if (p->remove_spaces == TEXT_YES)
        weft__text_format(&json,
                          "%s{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true},"
                          "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
                          "\"content\":\" \"}",
                          p->charsmap_size > 0 ? "," : "");
    weft__text_format(&json, "]},\"pre_tokenizer\":");
    weft__text_format(&json, metaspace, scheme);
    weft__text_format(&json, ",\"decoder\":null}");
    t->model.kind = MODEL_UNIGRAM;
    weft_status status = use_json(p, &json, t);
    if (!status)
        status = weft__decoder_from_marks(&t->decoder, p->add_space_prefix != TEXT_NO, p->name);
    if (!status)
        status = enter_scores(p, &t->model);
    if (!status && p->bos >= 0 && p->add_bos == TEXT_YES)
        status = weft__ids_append(&t->prefix, p->bos);
    if (!status && p->eos >= 0 && p->add_eos != TEXT_NO)
        status = weft__ids_append(&t->suffix, p->eos);
    return status;
}
