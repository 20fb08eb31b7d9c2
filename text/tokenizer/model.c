/* text/tokenizer/model.c -- reads "added_tokens" and the options of "model" of a tokenizer.json. */
#include <inttypes.h>
#include <string.h>

#include "core/failure.h"
#include "text/tokenizer/tokenizer.h"
#include "weft/memory.h"

/* ---- added tokens --------------------------------------------------------------------------- */

static weft_status load_added(const weft__json *item, text_vocab *out)
{
    weft__json content;
    const char *text = NULL;
    size_t length = 0;
    int64_t id = 0;
    bool special = false;
    weft_status status = weft__json_get(item, "content", &content);
    if (!status)
        status = weft__json_as_string(&content, &text, &length);
    if (!status)
        status = weft__json_get_int(item, "id", &id);
    if (!status)
        status = weft__json_find_bool(item, "special", &special);
    if (status || length == 0)
        return status;
    if (id < 0 || id > VOCAB_MAX_ID)
        return weft__json_fail(item, WEFT_INVALID, "id %" PRId64 " is not within 0 and %d", id,
                               VOCAB_MAX_ID);
    const int32_t known = weft__vocab_find(out, text, length);
    const vocab_token *other = weft__vocab_token(out, (int32_t)id);
    if (known >= 0 && known != id)
        return weft__json_fail(item, WEFT_INVALID, "\"%s\" has id %" PRId64 " here and %d before",
                               weft_printable(text), id, known);
    if (known < 0 && other)
        return weft__json_fail(item, WEFT_INVALID, "id %" PRId64 " is already that of \"%s\"", id,
                               weft_printable(weft__vocab_text(out, other)));
    if (known < 0)
        status = weft__vocab_add(out, (int32_t)id, text, length, 0);
    if (!status)
        out->tokens[id].flags |= (uint8_t)(TOKEN_ADDED | (special ? TOKEN_SPECIAL : 0));
    return status;
}

/* Adds the added tokens to the vocabulary, which already has the model's own. */
static weft_status load_tokens(const weft__json *root, text_vocab *out)
{
    weft__json added, item;
    size_t count = 0;
    weft_status status = weft__json_find(root, "added_tokens", &added);
    if (!status && added.value)
        status = weft__json_length(&added, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&added, i, &item);
        if (!status)
            status = load_added(&item, out);
    }
    return status;
}

/* Rejects lists that weft__lists_read left, since it reads only those of the model's kind. */
static weft_status check_lists(const weft__json *at, model_kind kind)
{
    weft__json list;
    size_t count;
    weft_status status = weft__json_get(at, "vocab", &list);
    if (!status)
        status =
            kind == MODEL_UNIGRAM ? weft__json_length(&list, &count) : weft__json_as_object(&list);
    if (status || kind != MODEL_BPE)
        return status;
    status = weft__json_get(at, "merges", &list);
    return status ? status : weft__json_length(&list, &count);
}

/* ---- options -------------------------------------------------------------------------------- */

/* By "type" or, in old files without it, by the other members. */
static weft_status load_kind(const weft__json *at, model_kind *kind)
{
    static const char *const names[] = {[MODEL_BPE] = "BPE",
                                        [MODEL_UNIGRAM] = "Unigram",
                                        [MODEL_WORD_PIECE] = "WordPiece",
                                        [MODEL_WORD_LEVEL] = "WordLevel"};
    const char *type = NULL;
    weft__json vocab = {0}, longest = {0};
    weft_status status = weft__json_find_string(at, "type", &type);
    if (!status)
        status = weft__json_find(at, "vocab", &vocab);
    if (!status)
        status = weft__json_find(at, "max_input_chars_per_word", &longest);
    *kind = longest.value ? MODEL_WORD_PIECE : MODEL_BPE;
    if (!status && !type && json_object_is_type(vocab.value, json_type_array))
        *kind = MODEL_UNIGRAM;
    if (status || !type)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i]) == 0) {
            *kind = (model_kind)i;
            return WEFT_OK;
        }
    }
    return weft__json_fail(at, WEFT_UNSUPPORTED, "model type \"%s\" is unsupported",
                           weft_printable(type));
}

static weft_status refuse(const weft__json *at)
{
    const char *prefix = "";
    double dropout = 0;
    weft_status status = weft__json_find_number(at, "dropout", &dropout);
    if (!status && dropout != 0)
        status = weft__json_fail(at, WEFT_UNSUPPORTED, "dropout is unsupported");
    if (!status)
        status = weft__json_find_string(at, "continuing_subword_prefix", &prefix);
    if (!status && *prefix)
        status = weft__json_fail(at, WEFT_UNSUPPORTED, "continuing_subword_prefix is unsupported");
    return status;
}

/* Sets the id of unk_token or, if it is absent, of `usual` (NULL: none). Without a usual one, a
 * token that is not in the vocabulary is an error. */
static weft_status load_unknown(const weft__json *at, const char *usual, bpe_model *model)
{
    weft__json value;
    const char *text = usual;
    size_t n = usual ? strlen(usual) : 0;
    model->unknown = -1;
    weft_status status = weft__json_find(at, "unk_token", &value);
    if (!status && value.value)
        status = weft__json_as_string(&value, &text, &n);
    if (status || !text)
        return status;
    model->unknown = weft__vocab_find_in_model(&model->vocab, text, n);
    if (model->unknown < 0 && !usual)
        return weft__json_fail(at, WEFT_INVALID, "unk_token \"%s\" is not in the vocabulary",
                               weft_printable_n(text, n));
    return WEFT_OK;
}

static weft_status load_word_suffix(const weft__json *at, bpe_model *model)
{
    const char *suffix = "";
    const weft_status status = weft__json_find_string(at, "end_of_word_suffix", &suffix);
    if (status || !*suffix)
        return status;
    if (model->byte_fallback)
        return weft__json_fail(at, WEFT_UNSUPPORTED,
                               "end_of_word_suffix with byte_fallback is unsupported");
    model->word_suffix = weft_strdup(suffix);
    return model->word_suffix ? WEFT_OK : weft__out_of_memory(at->name, NULL);
}

static weft_status load_bpe(const weft__json *at, bpe_model *model)
{
    weft_status status = refuse(at);
    if (!status)
        status = load_unknown(at, NULL, model);
    if (!status)
        status = weft__json_find_bool(at, "fuse_unk", &model->fuse_unknown);
    if (!status)
        status = weft__json_find_bool(at, "byte_fallback", &model->byte_fallback);
    if (!status)
        status = weft__json_find_bool(at, "ignore_merges", &model->ignore_merges);
    return status ? status : load_word_suffix(at, model);
}

static weft_status load_unigram(const weft__json *at, bpe_model *model)
{
    weft__json unknown;
    int64_t id = -1;
    weft_status status = weft__json_find(at, "unk_id", &unknown);
    if (!status && unknown.value) {
        status = weft__json_as_int(&unknown, &id);
        if (!status && (id < 0 || (size_t)id >= model->unigram.score_count))
            status = weft__json_fail(&unknown, WEFT_INVALID,
                                     "id %" PRId64 " is outside the vocabulary of %zu", id,
                                     model->unigram.score_count);
    }
    if (!status)
        status = weft__json_find_bool(at, "byte_fallback", &model->byte_fallback);
    model->unknown = (int32_t)id;
    return status ? status : weft__unigram_index(&model->unigram, &model->vocab);
}

static weft_status load_word_piece(const weft__json *at, bpe_model *model)
{
    const char *prefix = "##";
    model->longest_word = 100;
    weft_status status = load_unknown(at, NULL, model);
    if (!status && model->unknown < 0)
        status = weft__json_fail(at, WEFT_INVALID, "unk_token: is missing");
    if (!status)
        status = weft__json_find_string(at, "continuing_subword_prefix", &prefix);
    if (!status)
        status = weft__json_find_int(at, "max_input_chars_per_word", &model->longest_word);
    if (status)
        return status;
    model->subword_prefix = weft_strdup(prefix);
    model->subword_prefix_length = strlen(prefix);
    return model->subword_prefix ? WEFT_OK : weft__out_of_memory(at->name, NULL);
}

/* Without unk_token in the vocabulary, unknown words are errors. */
static weft_status load_word_level(const weft__json *at, bpe_model *model)
{
    return load_unknown(at, "<unk>", model);
}

weft_status weft__model_load(const weft__json *root, bool byte_level, bpe_model *model)
{
    static weft_status (*const load[])(const weft__json *at,
                                       bpe_model *model) = {[MODEL_BPE] = load_bpe,
                                                            [MODEL_UNIGRAM] = load_unigram,
                                                            [MODEL_WORD_PIECE] = load_word_piece,
                                                            [MODEL_WORD_LEVEL] = load_word_level};
    model->byte_level = byte_level;
    model->unknown = -1;
    weft__json at;
    weft_status status = weft__json_get(root, "model", &at);
    if (!status)
        status = load_kind(&at, &model->kind);
    if (!status && byte_level && model->kind != MODEL_BPE)
        status = weft__json_fail(&at, WEFT_UNSUPPORTED,
                                 "a model of this type behind ByteLevel is unsupported");
    if (!status)
        status = check_lists(&at, model->kind);
    if (!status)
        status = load_tokens(root, &model->vocab);
    if (!status)
        status = load[model->kind](&at, model);
    if (!status)
        weft__bpe_prepare(model);
    return status;
}

void weft__model_release(bpe_model *model)
{
    weft__vocab_release(&model->vocab);
    weft__merges_release(&model->merges);
    weft_free(model->ranks);
    weft_free(model->cuts);
    weft_free(model->subword_prefix);
    weft_free(model->word_suffix);
    weft__unigram_release(&model->unigram);
    model->ranks = NULL;
    model->cuts = NULL;
    model->subword_prefix = NULL;
}
