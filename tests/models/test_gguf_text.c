/* tests/models/test_gguf_text.c -- tokenizers and chat templates in GGUF files: written from a
 * folder, and used from the file alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_object.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/tokenizer_json.h"
#include "tests/support/unpacked.h"
#include "weft/weft.h"

/* A folder's tokenizer and templates in a GGUF file, with a model that has rows for n tokens. */
static bool write_file(const char *folder, int n, const char *path)
{
    weft_config *config = NULL;
    weft_model *model = NULL;
    char text[512];
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":8,"
             "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"intermediate_size\":8,"
             "\"tie_word_embeddings\":true,\"eos_token_id\":[1,3]}",
             n);
    bool ok = CHECK_OK(weft_config_parse(text, "config", &config)) &&
              CHECK_OK(weft_model_new(config, &model));
    if (ok)
        ok =
            CHECK_OK(weft_model_save_gguf(model, path, &(weft_gguf_model_options){.text = folder}));
    weft_model_free(model);
    weft_config_free(config);
    return ok;
}

static void same_ids(const weft_tokenizer *a, const weft_tokenizer *b, const char *text,
                     unsigned flags)
{
    int32_t *x = NULL, *y = NULL;
    char *back = NULL, *expected = NULL;
    size_t n = 0, m = 0;
    CHECK_OK(weft_tokenizer_encode(a, text, strlen(text), flags, &x, &n));
    CHECK_OK(weft_tokenizer_encode(b, text, strlen(text), flags, &y, &m));
    if (n != m || memcmp(x, y, n * sizeof *x) != 0)
        CHECK_FAIL("ids differ: %s", text);
    CHECK_OK(weft_tokenizer_decode(a, x, n, 0, &expected, NULL));
    CHECK_OK(weft_tokenizer_decode(b, y, m, 0, &back, NULL));
    CHECK_STR(back, expected);
    weft_free(x);
    weft_free(y);
    weft_free(back);
    weft_free(expected);
}

/* The tokenizer.json made from a file has the ids of `source`. */
static void same_in_json(const char *file, const weft_tokenizer *source)
{
    const char *folder = check_temporary("json");
    if (CHECK_OK(weft_folder_make(folder)) && CHECK_OK(weft_tokenizer_copy(file, folder)))
        check_tokenizer_json(folder, source);
}

/* Compares a prompt of each, and the types of tokens. */
static void same_chat(const char *folder, const char *file, const weft_tokenizer *a,
                      const weft_tokenizer *b)
{
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"Hi  there\"},"
                                   "{\"role\":\"assistant\",\"content\":\"Yes?\"},"
                                   "{\"role\":\"user\",\"content\":\"Go\\n\\non\"}]";
    const weft_chat_options options = {.generation_prompt = true, .now = 1700000000};
    weft_chat *x = NULL, *y = NULL;
    char *expected = NULL, *text = NULL;
    const weft_status there = weft_chat_load(folder, &x); /* a base model may have none */
    if (there != WEFT_UNSUPPORTED && CHECK_STATUS(there, WEFT_OK) &&
        CHECK_OK(weft_chat_load(file, &y))) {
        CHECK_STR(weft_chat_source(y, NULL), weft_chat_source(x, NULL));
        CHECK_OK(weft_chat_render(x, messages, &options, &expected, NULL));
        CHECK_OK(weft_chat_render(y, messages, &options, &text, NULL));
        CHECK_STR(text, expected);
    }
    CHECK_EQ_INT(weft_tokenizer_bos(b), weft_tokenizer_bos(a));
    CHECK_EQ_INT(weft_tokenizer_eos(b), weft_tokenizer_eos(a));
    CHECK_EQ_INT(weft_tokenizer_pad(b), weft_tokenizer_pad(a));
    weft_free(expected);
    weft_free(text);
    weft_chat_free(x);
    weft_chat_free(y);
}

/* ---- the storyteller, which is always available ---------------------------------------------- */

static const char *const texts[] = {
    "Once upon a time, there was a little girl.", "  two  spaces\n\n\tand a tab ",       "",
    "<|im_start|>user\n12345<|im_end|>",          "e\xCC\x81t\xC3\xA9 \xF0\x9F\x98\x80",
};

static void storyteller(void)
{
    char folder[512], file[512];
    snprintf(folder, sizeof folder, "%s", check_source("examples/storyteller"));
    snprintf(file, sizeof file, "%s", check_temporary("storyteller.gguf"));
    weft_tokenizer *a = NULL, *b = NULL;
    if (!write_file(folder, 4100, file) || !CHECK_OK(weft_tokenizer_load(folder, &a)))
        return;
    if (CHECK_OK(weft_tokenizer_load(file, &b))) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            same_ids(a, b, texts[i], 0);
            same_ids(a, b, texts[i], WEFT_TOKENIZER_ADD_SPECIAL);
        }
        same_chat(folder, file, a, b);
        same_in_json(file, a);
        /* Rows without a token stay without one. */
        CHECK_EQ_INT(weft_tokenizer_vocab_size(b), 4096);
    }
    weft_tokenizer_free(a);
    weft_tokenizer_free(b);
}

/* The ends of the tokenizer and of the model; a second file from the first. */
static void ends_and_copies(void)
{
    char file[512], copy[512];
    weft_model *model = NULL;
    int n = 0;
    snprintf(file, sizeof file, "%s", check_temporary("one.gguf"));
    snprintf(copy, sizeof copy, "%s", check_temporary("two.gguf"));
    if (!write_file(check_source("examples/storyteller"), 4096, file) ||
        !CHECK_OK(weft_model_load(file, NULL, &model)))
        return;
    const int32_t *eos = weft_model_eos(model, &n);
    if (CHECK_EQ_INT(n, 3)) {
        CHECK_EQ_INT(eos[0], 4093);
        CHECK_EQ_INT(eos[1], 1);
        CHECK_EQ_INT(eos[2], 3);
    }
    weft_gguf *x = NULL, *y = NULL;
    const weft_gguf_model_options options = {.type = "F16", .text = file};
    if (CHECK_OK(weft_model_save_gguf(model, copy, &options)) &&
        CHECK_OK(weft_gguf_open(file, &x)) && CHECK_OK(weft_gguf_open(copy, &y))) {
        CHECK_EQ_INT(weft_gguf_value_count(y), weft_gguf_value_count(x));
        const weft_gguf_value *v = weft_gguf_value_find(x, "tokenizer.ggml.tokens");
        const weft_gguf_value *w = weft_gguf_value_find(y, "tokenizer.ggml.tokens");
        CHECK(v && w && v->count == 4096 && w->count == 4096 &&
              w->strings[77].n == v->strings[77].n);
    }
    weft_gguf_close(x);
    weft_gguf_close(y);
    weft_model_free(model);
}

/* ---- tokenizers that GGUF cannot express ----------------------------------------------------- */

#define TOKENIZER(model, rest)                                                                     \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]" model \
    "}" rest "}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

static const struct {
    const char *json;
    weft_status status;
    const char *message;
} odd[] = {
    {TOKENIZER("", ",\"pre_tokenizer\":" BYTE_LEVEL), WEFT_OK, ""},
    {TOKENIZER("", ""), WEFT_UNSUPPORTED, "its normalizer: a GGUF file cannot say this"},
    {TOKENIZER("", ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                   "\"content\":\"\xE2\x96\x81\"}"),
     WEFT_UNSUPPORTED, "a vocabulary without a token for each byte"},
    {TOKENIZER("", ",\"pre_tokenizer\":" BYTE_LEVEL ",\"normalizer\":{\"type\":\"Lowercase\"}"),
     WEFT_UNSUPPORTED, "its normalizer"},
    {TOKENIZER(",\"ignore_merges\":true", ",\"pre_tokenizer\":" BYTE_LEVEL), WEFT_UNSUPPORTED,
     "its normalizer or ignore_merges with its pre-tokenizer"},
    {TOKENIZER("", ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Digits\"}," BYTE_LEVEL "]}"),
     WEFT_UNSUPPORTED, "its pre-tokenizer"},
    {TOKENIZER("", ",\"pre_tokenizer\":" BYTE_LEVEL ",\"added_tokens\":[{\"id\":3,\"content\":"
                   "\"<x>\",\"lstrip\":true}]"),
     WEFT_UNSUPPORTED, "an added token with single_word, lstrip or rstrip"},
    {TOKENIZER("", ",\"pre_tokenizer\":" BYTE_LEVEL ",\"added_tokens\":[{\"id\":9,\"content\":"
                   "\"<x>\"}]"),
     WEFT_INVALID, "it has 10 tokens, the model rows for 8"},
};

static void what_is_refused(void)
{
    char folder[512], json[600], file[512];
    weft_config *config = NULL;
    weft_model *model = NULL;
    const char *text = "{\"model_type\":\"llama\",\"vocab_size\":8,\"hidden_size\":8,"
                       "\"num_hidden_layers\":1,\"num_attention_heads\":1,"
                       "\"intermediate_size\":8}";
    snprintf(folder, sizeof folder, "%s", check_temporary("odd"));
    snprintf(json, sizeof json, "%s/tokenizer.json", folder);
    snprintf(file, sizeof file, "%s", check_temporary("odd.gguf"));
    CHECK_OK(weft_folder_make(folder));
    if (!CHECK_OK(weft_config_parse(text, "config", &config)) ||
        !CHECK_OK(weft_model_new(config, &model)))
        return;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK_OK(weft_file_write(json, odd[i].json, strlen(odd[i].json)));
        CHECK_STATUS(weft_model_save_gguf(model, file, &(weft_gguf_model_options){.text = folder}),
                     odd[i].status);
        if (odd[i].status != WEFT_OK)
            CHECK_CONTAINS(weft_error_message(), odd[i].message);
    }
    weft_model_free(model);
    weft_config_free(config);
}

/* ---- real tokenizers ------------------------------------------------------------------------- */

static void compare_real(const char *name, int rows)
{
    char path[128], file[512];
    snprintf(path, sizeof path, "fixtures/tokenizers/%s.json", name);
    const char *fixture = check_shared(path), *folder = fixture ? unpacked_tokenizer(name) : NULL;
    if (!folder) {
        check_skip("../shared has no tokenizer %s", name);
        return;
    }
    snprintf(file, sizeof file, "%s.gguf", folder);
    weft_tokenizer *a = NULL, *b = NULL;
    weft__json_doc cases = {0};
    if (write_file(folder, rows, file) && CHECK_OK(weft_tokenizer_load(folder, &a)) &&
        CHECK_OK(weft_tokenizer_load(file, &b)) && CHECK_OK(weft__json_read(fixture, &cases))) {
        for (size_t i = 0; i < json_object_array_length(cases.root); i++) {
            json_object *item = json_object_array_get_idx(cases.root, i);
            const char *text = json_object_get_string(json_object_object_get(item, "text"));
            same_ids(a, b, text, 0);
            same_ids(a, b, text, WEFT_TOKENIZER_ADD_SPECIAL);
        }
        same_chat(folder, file, a, b);
        same_in_json(file, a);
    }
    weft__json_free(&cases);
    weft_tokenizer_free(a);
    weft_tokenizer_free(b);
}

static void llama3_2(void)
{
    compare_real("llama3_2", 128256);
}

static void qwen2_5(void)
{
    compare_real("qwen2_5", 151936);
}

static void qwen3(void)
{
    compare_real("qwen3", 151936);
}

static void gemma2(void)
{
    compare_real("gemma2", 256000);
}

static void gemma3(void)
{
    compare_real("gemma3", 262208);
}

CHECK_MAIN("gguf_text", CHECK_CASE(storyteller), CHECK_CASE(ends_and_copies),
           CHECK_CASE(what_is_refused), CHECK_CASE(llama3_2), CHECK_CASE(qwen2_5),
           CHECK_CASE(qwen3), CHECK_CASE(gemma2), CHECK_CASE(gemma3))
