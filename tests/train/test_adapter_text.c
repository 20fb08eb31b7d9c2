/* tests/train/test_adapter_text.c -- the tokenizer and the chat template in an adapter's folder,
 * against transformers and PEFT. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/tokenizer_json.h"
#include "weft/engine.h"
#include "weft/train.h"

enum { END_OF_TURN = 321 }; /* </turn>, the eos_token of the adapter's tokenizer */

static json_object *expected(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/expected.json", check_fixture("lora/lora-llama-chat"));
    json_object *root = json_object_from_file(path);
    CHECK(root != NULL);
    return root;
}

static const char *messages_of(json_object *root)
{
    return json_object_to_json_string(json_object_object_get(root, "messages"));
}

/* The ids of the list without its last `without`. */
static void expect_ids(const int32_t *ids, size_t n, json_object *list, size_t without)
{
    if (!CHECK_EQ_INT(n + without, json_object_array_length(list)))
        return;
    for (size_t i = 0; i < n; i++)
        CHECK_EQ_INT(ids[i], json_object_get_int(json_object_array_get_idx(list, i)));
}

/* The prompt of the adapters' template, or NULL. The caller frees it. */
static char *prompt_of(const char *model, const char *adapters, json_object *root)
{
    static const weft_chat_options options = {.generation_prompt = true};
    weft_chat *chat = NULL;
    char *text = NULL;
    if (CHECK_OK(weft_adapter_chat(model, adapters, &chat)))
        CHECK_OK(weft_chat_render(chat, messages_of(root), &options, &text, NULL));
    weft_chat_free(chat);
    return text;
}

static void prompts_are_those_of_transformers(void)
{
    static const weft_chat_options options = {.generation_prompt = true};
    char model[512], adapter[512];
    json_object *root = expected();
    weft_chat *chat = NULL;
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    snprintf(model, sizeof model, "%s", check_fixture("models/llama"));
    snprintf(adapter, sizeof adapter, "%s", check_fixture("lora/lora-llama-chat"));
    char *text = prompt_of(model, adapter, root);
    if (CHECK(text != NULL))
        CHECK_STR(text, json_object_get_string(json_object_object_get(root, "prompt")));
    weft_free(text);
    if (CHECK_OK(weft_adapter_chat(model, adapter, &chat)) &&
        CHECK_OK(weft_adapter_tokenizer(model, adapter, &tokenizer)) &&
        CHECK_OK(weft_chat_encode(chat, tokenizer, messages_of(root), &options, &ids, &n)))
        expect_ids(ids, n, json_object_object_get(root, "prompt_ids"), 0);
    weft_free(ids);
    weft_tokenizer_free(tokenizer);
    weft_chat_free(chat);
    json_object_put(root);
}

/* The token that ends the answer is not delivered. */
static void expect_answer(const char *model, const char *adapter)
{
    json_object *root = expected();
    weft_engine *engine = NULL;
    generated got = {.n = 0};
    const weft_engine_options o = {.adapter = adapter};
    if (CHECK_OK(weft_engine_load(model, &o, &engine))) {
        const weft_generate_options greedy = {.max_tokens = 60};
        CHECK_OK(
            weft_engine_chat(engine, messages_of(root), NULL, &greedy, generated_collect, &got));
        expect_ids(got.ids, got.n, json_object_object_get(root, "answer_ids"), 1);
    }
    weft_engine_free(engine);
    json_object_put(root);
}

/* The base's configuration ends sequences with id 2 only. */
static void answers_end_with_the_eos_token_of_the_adapter(void)
{
    char model[512];
    snprintf(model, sizeof model, "%s", check_fixture("models/llama"));
    expect_answer(model, check_fixture("lora/lora-llama-chat"));
}

static void eos_is_added_once(void)
{
    weft_model *model = NULL;
    int before, n = 0;
    if (!CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &model)))
        return;
    weft_model_eos(model, &before);
    CHECK_OK(weft_adapter_load(model, check_fixture("lora/lora-llama-chat"), NULL));
    const int32_t *eos = weft_model_eos(model, &n);
    if (CHECK_EQ_INT(n, before + 1))
        CHECK_EQ_INT(eos[before], END_OF_TURN);
    weft_nn_lora_remove(weft_model_module(model));
    CHECK_OK(weft_adapter_load(model, check_fixture("lora/lora-llama-chat"), NULL));
    weft_model_eos(model, &n);
    CHECK_EQ_INT(n, before + 1);
    weft_model_free(model);
}

/* Writes files into a folder of the suite, as an adapter might have them. */
static const char *folder_with(const char *name, const char *file, const char *text)
{
    char path[600];
    const char *folder = check_temporary(name);
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/%s", folder, file);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    return folder;
}

static void expect_prompt(const char *model, const char *adapters, const char *text)
{
    json_object *root = json_tokener_parse("{\"messages\": [{\"role\": \"user\", "
                                           "\"content\": \"Hi\"}]}");
    char *got = prompt_of(model, adapters, root);
    if (CHECK(got != NULL))
        CHECK_STR(got, text);
    weft_free(got);
    json_object_put(root);
}

static void templates_are_found_folder_by_folder(void)
{
    static const char text[] = "{{ bos_token }}[{{ messages[0].content }}]{{ eos_token }}";
    static const char config[] = "{\"chat_template\": \"({{ messages[0].content }})"
                                 "{{ bos_token }}\", \"bos_token\": \"<b>\"}";
    char model[512], bare[512], jinja[512], own[512], both[1600];
    snprintf(model, sizeof model, "%s",
             folder_with("model", "tokenizer_config.json",
                         "{\"chat_template\": \"model {{ bos_token }}\", \"bos_token\": \"<s>\", "
                         "\"eos_token\": {\"content\": \"</s>\"}}"));
    snprintf(bare, sizeof bare, "%s",
             folder_with("bare", "tokenizer_config.json", "{\"bos_token\": \"<x>\"}"));
    snprintf(jinja, sizeof jinja, "%s", folder_with("jinja", "chat_template.jinja", text));
    snprintf(own, sizeof own, "%s", folder_with("own", "tokenizer_config.json", config));
    expect_prompt(model, NULL, "model <s>");
    expect_prompt(model, bare, "model <s>");    /* no template there */
    expect_prompt(model, jinja, "<s>[Hi]</s>"); /* with the model's special tokens */
    expect_prompt(model, own, "(Hi)<b>");
    snprintf(both, sizeof both, "%s:0.5,%s,%s:2", bare, own, jinja);
    expect_prompt(model, both, "(Hi)<b>");
    expect_prompt(model, "/nowhere", "model <s>"); /* loading the adapter reports that */
    weft_chat *chat = NULL;
    if (CHECK_OK(
            weft_adapter_chat(model, folder_with("bad", "chat_template.jinja", "{% if %}"), &chat)))
        CHECK_STATUS(weft_chat_check(chat, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "bad/chat_template.jinja");
    weft_chat_free(chat);
}

/* ---- merged models -------------------------------------------------------------------------- */

/* The base has neither tokenizer, template nor generation_config.json. */
static void merged_models_answer_as_base_and_adapter(void)
{
    char model[512], adapter[512], out[512];
    snprintf(model, sizeof model, "%s", check_fixture("models/llama"));
    snprintf(adapter, sizeof adapter, "%s", check_fixture("lora/lora-llama-chat"));
    snprintf(out, sizeof out, "%s", check_temporary("merged"));
    if (CHECK_OK(weft_adapter_fuse(model, adapter, out, NULL, NULL)))
        expect_answer(out, NULL);
    snprintf(out, sizeof out, "%s", check_temporary("merged.gguf"));
    if (CHECK_OK(weft_adapter_fuse(model, adapter, out, NULL, NULL)))
        expect_answer(out, NULL);
}

/* An adapter of the storyteller in a new folder, optionally with the storyteller's tokenizer. The
 * path lives until the next call. */
static const char *storyteller_adapter(const char *name, bool tokenizer)
{
    static char folder[512];
    weft_model *model = NULL;
    snprintf(folder, sizeof folder, "%s", check_temporary(name));
    if (CHECK_OK(weft_model_load(check_source("examples/storyteller"), NULL, &model)) &&
        CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL)))
        CHECK_OK(weft_adapter_save(model, folder, NULL));
    weft_model_free(model);
    if (tokenizer) {
        char to[600], *text = NULL;
        size_t n = 0;
        snprintf(to, sizeof to, "%s/tokenizer.json", folder);
        if (CHECK_OK(
                weft_file_read(check_source("examples/storyteller/tokenizer.json"), 0, &text, &n)))
            CHECK_OK(weft_file_write(to, text, n));
        weft_free(text);
    }
    return folder;
}

/* The prompt that the merged model makes is that of base and adapter. No folder is left over. */
static void expect_merged_prompt(const char *adapter, const char *name)
{
    char model[512], out[512], left[600];
    json_object *root = expected();
    snprintf(model, sizeof model, "%s", check_source("examples/storyteller"));
    snprintf(out, sizeof out, "%s", check_temporary(name));
    char *with = prompt_of(model, adapter, root), *merged = NULL;
    if (CHECK_OK(weft_adapter_fuse(model, adapter, out, NULL, NULL)))
        merged = prompt_of(out, NULL, root);
    if (strstr(out, ".gguf") == NULL)
        check_tokenizer_json(out, NULL);
    if (CHECK(with && merged))
        CHECK_STR(merged, with);
    snprintf(left, sizeof left, "%s.text.part-%ld", out, (long)getpid());
    CHECK(access(left, F_OK) != 0);
    weft_free(with);
    weft_free(merged);
    json_object_put(root);
}

/* A template alone, for a base without tokenizer and template. */
static void a_template_may_be_alone(void)
{
    static const char text[] = "{{ messages[0].content }}";
    char base[512], path[600], out[512], *got = NULL;
    weft_model *model = NULL;
    snprintf(base, sizeof base, "%s", check_fixture("models/llama"));
    const char *adapter = check_temporary("alone");
    if (!CHECK_OK(weft_model_load(base, NULL, &model)) ||
        !CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL)) ||
        !CHECK_OK(weft_adapter_save(model, adapter, NULL)))
        return;
    weft_model_free(model);
    snprintf(path, sizeof path, "%s/chat_template.jinja", adapter);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    snprintf(out, sizeof out, "%s", check_temporary("alone-merged"));
    CHECK_OK(weft_adapter_fuse(base, adapter, out, NULL, NULL));
    snprintf(path, sizeof path, "%s/chat_template.jinja", out);
    if (CHECK_OK(weft_file_read(path, 0, &got, NULL)))
        CHECK_STR(got, text);
    weft_free(got);
}

static void merged_models_have_the_template_of_the_adapter(void)
{
    static const char text[] = "[{{ messages[0].content }}]{{ eos_token }}";
    char path[600];
    const char *adapter = storyteller_adapter("lone", false);
    snprintf(path, sizeof path, "%s/chat_template.jinja", adapter);
    CHECK_OK(weft_file_write(path, text, strlen(text)));
    expect_merged_prompt(adapter, "lone-merged");
    expect_merged_prompt(adapter, "lone-merged.gguf");
    /* a tokenizer without template and special tokens: those of the base */
    adapter = storyteller_adapter("bare-tokenizer", true);
    expect_merged_prompt(adapter, "tokenizer-merged");
    expect_merged_prompt(adapter, "tokenizer-merged.gguf");
}

/* The pooling with which an embedder was trained is that of the merged model. */
static void merged_embedders_pool_as_the_adapter(void)
{
    static const char modules[] = "[{\"type\":\"a.Transformer\",\"path\":\"\"},"
                                  "{\"type\":\"a.Pooling\",\"path\":\"1_Pooling\"}]",
                      pooling[] = "{\"pooling_mode\":\"lasttoken\"}";
    static const char *const outs[] = {"pooled", "pooled.gguf"};
    char base[512], adapter[512], path[600];
    snprintf(base, sizeof base, "%s", check_source("examples/storyteller"));
    snprintf(adapter, sizeof adapter, "%s", storyteller_adapter("embedder", true));
    snprintf(path, sizeof path, "%s/modules.json", adapter);
    CHECK_OK(weft_file_write(path, modules, strlen(modules)));
    snprintf(path, sizeof path, "%s/1_Pooling", adapter);
    CHECK_OK(weft_folder_make(path));
    snprintf(path, sizeof path, "%s/1_Pooling/config.json", adapter);
    CHECK_OK(weft_file_write(path, pooling, strlen(pooling)));
    for (int i = 0; i < 2; i++) {
        weft_embed_settings settings = {0};
        snprintf(path, sizeof path, "%s", check_temporary(outs[i]));
        if (CHECK_OK(weft_adapter_fuse(base, adapter, path, NULL, NULL)) &&
            CHECK_OK(weft_embed_settings_load(path, NULL, &settings)) && CHECK(settings.found))
            CHECK_EQ_INT(settings.pooling, WEFT_POOLING_LAST);
        weft_embed_settings_free(&settings);
    }
}

CHECK_MAIN("adapter_text", CHECK_CASE(prompts_are_those_of_transformers),
           CHECK_CASE(answers_end_with_the_eos_token_of_the_adapter), CHECK_CASE(eos_is_added_once),
           CHECK_CASE(templates_are_found_folder_by_folder),
           CHECK_CASE(merged_models_answer_as_base_and_adapter),
           CHECK_CASE(a_template_may_be_alone),
           CHECK_CASE(merged_models_have_the_template_of_the_adapter),
           CHECK_CASE(merged_embedders_pool_as_the_adapter))
