/* tests/hub/test_discover.c -- hub/discover.c: models found below a folder. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/weft.h"

static void put(const char *path, const char *text)
{
    char folder[1000];
    const char *whole = check_temporary(path);
    snprintf(folder, sizeof folder, "%s", whole);
    *strrchr(folder, '/') = '\0';
    CHECK_OK(weft_folder_make(folder));
    CHECK_OK(weft_file_write(whole, text, strlen(text)));
}

static void put_gguf(const char *path)
{
    static const char config[] =
        "{\"model_type\":\"llama\",\"vocab_size\":20,\"hidden_size\":32,\"intermediate_size\":64,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1}";
    weft_config *c;
    weft_model *model = NULL;
    put(path, "");
    if (CHECK_OK(weft_config_parse(config, "config.json", &c)) &&
        CHECK_OK(weft_model_new(c, &model)))
        CHECK_OK(weft_model_save_gguf(model, check_temporary(path),
                                      &(weft_gguf_model_options){.type = "Q4_0"}));
    weft_model_free(model);
    weft_config_free(c);
}

static void models_are_found_and_sorted(void)
{
    weft_discovered *list;
    int n;
    put("all/z/config.json", "{\"model_type\": \"llama\"}");
    put("all/z/model-1.safetensors", "1234567");
    put("all/z/model-2.safetensors", "123");
    put("all/a/b/config.json", "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": "
                               "\"gemma3_text\"}, \"quantization\": {\"bits\": 4}}");
    put("all/a/b/model.safetensors", "x");
    put_gguf("all/q/model.gguf");
    put("all/many/one.gguf", "x");
    put("all/many/two.gguf", "x");
    put("all/only-config/config.json", "{}");
    put("all/broken/config.json", "{");
    put("all/broken/x.safetensors", "x");
    put("all/.hidden/config.json", "{}");
    put("all/.hidden/x.safetensors", "x");
    CHECK(symlink("..", check_temporary("all/a/loop")) == 0);
    CHECK(symlink("loop", check_temporary("all/z/loop")) == 0); /* to nowhere */
    CHECK(symlink("../z", check_temporary("all/a/z")) == 0);
    char slashed[1000];
    snprintf(slashed, sizeof slashed, "%s//", check_temporary("all"));
    if (!CHECK_OK(weft_discover(slashed, 0, &list, &n)) || !CHECK_EQ_INT(n, 5))
        return;
    CHECK_STR(list[0].path, check_temporary("all/a/b"));
    CHECK_STR(list[0].model_type, "gemma3");
    CHECK_EQ_INT(list[0].bits, 4);
    CHECK_STR(list[1].path, check_temporary("all/a/z")); /* a link to another folder is followed */
    CHECK_STR(list[2].path, check_temporary("all/broken"));
    CHECK_STR(list[2].model_type, "");
    CHECK_STR(list[3].path, check_temporary("all/q/model.gguf"));
    CHECK_STR(list[3].model_type, "llama");
    CHECK_EQ_INT(list[3].bits, 4);
    CHECK(list[3].bytes > 1000);
    CHECK_STR(list[4].path, check_temporary("all/z"));
    CHECK_EQ_INT(list[4].files, 2);
    CHECK_EQ_INT(list[4].bytes, 10);
    CHECK_EQ_INT(list[4].bits, 0);
    weft_discovered_free(list, n);
}

static void depth_is_bounded(void)
{
    weft_discovered *list;
    int n;
    put("deep/1/2/3/config.json", "{}");
    put("deep/1/2/3/x.safetensors", "x");
    if (CHECK_OK(weft_discover(check_temporary("deep"), 2, &list, &n)))
        CHECK_EQ_INT(n, 0);
    weft_discovered_free(list, n);
    if (CHECK_OK(weft_discover(check_temporary("deep/1/2"), -1, &list, &n)))
        CHECK_EQ_INT(n, 0);
    weft_discovered_free(list, n);
    if (CHECK_OK(weft_discover(check_temporary("deep/1/2/3"), -1, &list, &n)))
        CHECK_EQ_INT(n, 1);
    weft_discovered_free(list, n);
    if (CHECK_OK(weft_discover(check_temporary("deep"), 3, &list, &n)))
        CHECK_EQ_INT(n, 1);
    weft_discovered_free(list, n);
    CHECK_STATUS(weft_discover(check_temporary("deep"), 1000, &list, &n), WEFT_INVALID);
    CHECK_STATUS(weft_discover(check_temporary("nowhere"), 0, &list, &n), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "nowhere: No such file");
}

CHECK_MAIN("discover", CHECK_CASE(models_are_found_and_sorted), CHECK_CASE(depth_is_bounded))
