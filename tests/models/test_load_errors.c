/* tests/models/test_load_errors.c -- messages for checkpoints that cannot be loaded: a table of
 * valid checkpoints, changes that break them, and the text that each message must contain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/weft.h"

/* ---- valid checkpoints ---------------------------------------------------------------------- */

static const char tiny[] =
    "{\"model_type\":\"llama\",\"vocab_size\":20,\"hidden_size\":32,\"intermediate_size\":64,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"tie_word_embeddings\":true,\"eos_token_id\":3}";

static const char words[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
    "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
    "\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
    "\"merges\":[\"a b\"]}}";

typedef enum base {
    FOLDER,    /* tiny: config.json, model.safetensors */
    SHARDS,    /* the same in one.safetensors, two.safetensors and an index */
    QUANTIZED, /* in MLX's formats */
    GGUF,      /* model.gguf */
    ADAPTER,   /* tiny, and an adapter in the folder "adapter" */
    TOKENIZER  /* tokenizer.json */
} base;

/* A file of the case's folder. The text is the suite's, until the next 16. */
static const char *in(const char *folder, const char *file)
{
    static char paths[16][1200];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, file);
    return path;
}

static void write_text(const char *path, const char *text)
{
    CHECK_OK(weft_file_write(path, text, strlen(text)));
}

static void copy(const char *from, const char *to)
{
    char *data;
    size_t size;
    if (CHECK_OK(weft_file_read(from, 0, &data, &size)))
        CHECK_OK(weft_file_write(to, data, size));
    weft_free(data);
}

static weft_model *make(void)
{
    weft_config *config;
    weft_model *model = NULL;
    if (CHECK_OK(weft_config_parse(tiny, "config.json", &config)))
        CHECK_OK(weft_model_new(config, &model));
    weft_config_free(config);
    return model;
}

/* Writes model.safetensors as two files and their index. */
static void split(const char *folder)
{
    weft_safetensors *file;
    const char *names[2][64];
    weft_array *arrays[2][64];
    int n[2] = {0};
    char index[8192] = "{\"metadata\":{},\"weight_map\":{";
    if (!CHECK_OK(weft_safetensors_open(in(folder, "model.safetensors"), &file)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        int s = i % 2;
        const char *name = weft_safetensors_name(file, i);
        names[s][n[s]] = name;
        arrays[s][n[s]++] = weft_safetensors_get_at(file, i);
        size_t used = strlen(index);
        snprintf(index + used, sizeof index - used, "%s\"%s\":\"%s.safetensors\"", i ? "," : "",
                 name, s ? "two" : "one");
    }
    strcat(index, "}}");
    CHECK_OK(
        weft_safetensors_save(in(folder, "one.safetensors"), names[0], arrays[0], n[0], NULL, 0));
    CHECK_OK(
        weft_safetensors_save(in(folder, "two.safetensors"), names[1], arrays[1], n[1], NULL, 0));
    write_text(in(folder, "model.safetensors.index.json"), index);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    CHECK(remove(in(folder, "model.safetensors")) == 0);
}

static void make_adapter(weft_model *model, const char *folder)
{
    const weft_nn_lora_options o = {.rank = 4};
    if (CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o)))
        CHECK_OK(weft_adapter_save(model, folder, "tiny"));
}

static void make_base(base b, const char *folder)
{
    CHECK_OK(weft_folder_make(folder));
    if (b == TOKENIZER) {
        write_text(in(folder, "tokenizer.json"), words);
        return;
    }
    if (b == QUANTIZED) {
        copy(check_fixture("models/mlx-qwen3/config.json"), in(folder, "config.json"));
        copy(check_fixture("models/mlx-qwen3/model.safetensors"), in(folder, "model.safetensors"));
        return;
    }
    weft_model *model = make();
    if (model == NULL)
        return;
    if (b == GGUF)
        CHECK_OK(weft_model_save_gguf(model, in(folder, "model.gguf"),
                                      &(weft_gguf_model_options){.type = "Q8_0"}));
    else
        CHECK_OK(weft_model_save(model, folder));
    if (b == SHARDS)
        split(folder);
    if (b == ADAPTER)
        make_adapter(model, in(folder, "adapter"));
    weft_model_free(model);
}

/* ---- changes -------------------------------------------------------------------------------- */

typedef enum act {
    NOTHING,
    WRITE,   /* `file` becomes `text` */
    REMOVE,  /* `file` */
    CUT,     /* the last n bytes of `file` */
    KEEP,    /* only the first n bytes of `file` */
    REPLACE, /* the first `text` of `file` by `by`, of any length */
    POKE,    /* the byte at n of `file` becomes by[0] */
    BEHIND,  /* the same for the byte n behind the first `text` */
    LINK,    /* `file` becomes a link to itself, which even root cannot open */
    COPY,    /* `file` also as `text` */
    DROP,    /* the tensor `text` of `file` */
    RESHAPE  /* that tensor becomes zeros (3, 5) */
} act;

typedef struct step {
    act act;
    const char *file, *text, *by;
    size_t n;
} step;

static void replace(const char *path, const char *from, const char *to)
{
    char *data;
    size_t size, n = strlen(from), m = strlen(to);
    if (!CHECK_OK(weft_file_read(path, 0, &data, &size)))
        return;
    char *at = memmem(data, size, from, n);
    char *whole = at != NULL ? weft_malloc(size + m + 1) : NULL;
    if (CHECK(whole != NULL)) {
        size_t front = (size_t)(at - data);
        memcpy(whole, data, front);
        memcpy(whole + front, to, m);
        memcpy(whole + front + m, at + n, size - front - n);
        CHECK_OK(weft_file_write(path, whole, size - n + m));
    }
    weft_free(whole);
    weft_free(data);
}

static void shorten(const char *path, size_t cut, size_t keep)
{
    char *data;
    size_t size;
    if (!CHECK_OK(weft_file_read(path, 0, &data, &size)))
        return;
    if (CHECK(cut <= size && keep <= size))
        CHECK_OK(weft_file_write(path, data, cut != 0 ? size - cut : keep));
    weft_free(data);
}

/* After the first `text`, or from the start of the file. */
static void poke(const char *path, const char *text, size_t at, char byte)
{
    char *data;
    size_t size;
    if (!CHECK_OK(weft_file_read(path, 0, &data, &size)))
        return;
    char *from = text != NULL ? memmem(data, size, text, strlen(text)) : data;
    if (CHECK(from != NULL) && text != NULL)
        from += strlen(text);
    if (from != NULL && CHECK((size_t)(from - data) + at < size)) {
        from[at] = byte;
        CHECK_OK(weft_file_write(path, data, size));
    }
    weft_free(data);
}

/* Writes the file again without the tensor, or with zeros in its place. */
static void edit_tensor(const char *path, const char *name, bool drop)
{
    weft_safetensors *file;
    const char *names[128];
    weft_array *arrays[128];
    int n = 0;
    bool seen = false;
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        bool is = strcmp(weft_safetensors_name(file, i), name) == 0;
        seen |= is;
        if (is && drop)
            continue;
        names[n] = weft_safetensors_name(file, i);
        arrays[n++] = is ? weft_zeros(WEFT_DIMS(3, 5), WEFT_FLOAT32)
                         : weft_copy(weft_safetensors_get_at(file, i));
    }
    CHECK(seen);
    CHECK_OK(weft_safetensors_save(path, names, arrays, n, NULL, 0));
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

static void do_step(const char *folder, const step *s)
{
    const char *path = s->file != NULL ? in(folder, s->file) : NULL;
    if (s->act == WRITE)
        write_text(path, s->text);
    else if (s->act == REMOVE)
        CHECK(remove(path) == 0);
    else if (s->act == CUT || s->act == KEEP)
        shorten(path, s->act == CUT ? s->n : 0, s->act == KEEP ? s->n : 0);
    else if (s->act == REPLACE)
        replace(path, s->text, s->by);
    else if (s->act == POKE || s->act == BEHIND)
        poke(path, s->act == BEHIND ? s->text : NULL, s->n, s->by[0]);
    else if (s->act == LINK)
        CHECK((remove(path) == 0 || true) && symlink(strrchr(path, '/') + 1, path) == 0);
    else if (s->act == COPY)
        copy(path, in(folder, s->text));
    else if (s->act == DROP || s->act == RESHAPE)
        edit_tensor(path, s->text, s->act == DROP);
}

/* ---- the table ------------------------------------------------------------------------------ */

typedef struct trouble {
    base base;
    step steps[2];
    weft_status status;
    const char *parts[4]; /* of the message */
} trouble;

/* Members that a step does not use are omitted. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include "tests/models/load_errors.h"

static weft_status open_it(base b, const char *folder)
{
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_status status;
    if (b == TOKENIZER) {
        status = weft_tokenizer_load(folder, &tokenizer);
        CHECK((status == WEFT_OK) == (tokenizer != NULL));
    } else {
        status = weft_model_load(folder, NULL, &model);
        CHECK((status == WEFT_OK) == (model != NULL));
    }
    if (b == ADAPTER && status == WEFT_OK)
        status = weft_adapter_load(model, in(folder, "adapter"), NULL);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    return status;
}

static void valid_files_load(void)
{
    for (base b = FOLDER; b <= TOKENIZER; b++) {
        char name[64];
        snprintf(name, sizeof name, "sound-%d", (int)b);
        const char *folder = check_temporary(name);
        make_base(b, folder);
        CHECK_OK(open_it(b, folder));
    }
}

static void messages_name_file_field_expected_and_found(void)
{
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
        const trouble *t = &troubles[i];
        char name[64];
        snprintf(name, sizeof name, "broken-%d", (int)i);
        const char *folder = check_temporary(name);
        make_base(t->base, folder);
        do_step(folder, &t->steps[0]);
        do_step(folder, &t->steps[1]);
        weft_status status = open_it(t->base, folder);
        if (!CHECK_EQ_INT(status, t->status))
            CHECK_FAIL("row %d: %s", (int)i, status == WEFT_OK ? "loaded" : weft_error_message());
        CHECK(strchr(weft_error_message(), '\n') == NULL);
        for (int k = 0; k < 4 && t->parts[k] != NULL; k++)
            CHECK_CONTAINS(weft_error_message(), t->parts[k]);
        if (getenv("WEFT_TEST_VERBOSE") != NULL)
            printf("%2d %-11s %s\n", (int)i, weft_status_name(status),
                   status != WEFT_OK ? weft_error_message() : "");
    }
}

CHECK_MAIN("load_errors", CHECK_CASE(valid_files_load),
           CHECK_CASE(messages_name_file_field_expected_and_found))
