/* tests/cli/test_cli_memory.c -- the memory in README.md, which weft train --dry-run measures on a
 * device that computes nothing (tests/support/null_device.c), for models of published shapes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/cli/command.h"
#include "weft/weft.h"

enum { BATCH = 4, LENGTH = 1024 };

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"vocab_size\": 128256, \"num_attention_heads\": 32, "             \
    "\"num_key_value_heads\": 8, \"max_position_embeddings\": 8192, "
#define QWEN                                                                                       \
    "\"model_type\": \"qwen3\", \"vocab_size\": 151936, \"num_key_value_heads\": 8, "              \
    "\"head_dim\": 128, \"max_position_embeddings\": 40960, \"tie_word_embeddings\": true, "

static const struct {
    const char *name, *members; /* of config.json */
} models[] = {
    {"Qwen3-0.6B", QWEN "\"hidden_size\": 1024, \"intermediate_size\": 3072, "
                        "\"num_hidden_layers\": 28, \"num_attention_heads\": 16"},
    {"Llama-3.2-1B", LLAMA "\"hidden_size\": 2048, \"intermediate_size\": 8192, "
                           "\"num_hidden_layers\": 16, \"head_dim\": 64, "
                           "\"tie_word_embeddings\": true"},
    {"Qwen3-4B", QWEN "\"hidden_size\": 2560, \"intermediate_size\": 9728, "
                      "\"num_hidden_layers\": 36, \"num_attention_heads\": 32"},
    {"Llama-3-8B", LLAMA "\"hidden_size\": 4096, \"intermediate_size\": 14336, "
                         "\"num_hidden_layers\": 32, \"head_dim\": 128, "
                         "\"tie_word_embeddings\": false"},
};

/* The header of a safetensors file of zeros, in bfloat16 or, with `quantized`, with matrices in 4
 * bits in groups of 64 as MLX stores them. */
typedef struct header {
    FILE *file;
    int64_t bytes;
    bool quantized;
} header;

/* Adds `name`, up to its last dot, with another ending. */
static void add(header *h, const char *name, const char *end, const char *dtype, weft_dims shape,
                int64_t bytes)
{
    fprintf(h->file, "%s\"%.*s%s\":{\"dtype\":\"%s\",\"shape\":[", h->bytes > 0 ? "," : "{",
            (int)(strrchr(name, '.') - name + 1), name, end, dtype);
    for (int i = 0; i < shape.n; i++) {
        fprintf(h->file, "%s%lld", i > 0 ? "," : "", (long long)shape.at[i]);
        bytes *= shape.at[i];
    }
    fprintf(h->file, "],\"data_offsets\":[%lld,%lld]}", (long long)h->bytes,
            (long long)(h->bytes + bytes));
    h->bytes += bytes;
}

static weft_status add_tensor(void *context, const weft_nn_item *item)
{
    header *h = context;
    weft_dims shape = weft_shape(*item->slot->address);
    if (!h->quantized || shape.n < 2) {
        add(h, item->path, "weight", "BF16", shape, 2);
        return WEFT_OK;
    }
    const int64_t columns = shape.at[1];
    shape.at[1] = columns / 8;
    add(h, item->path, "weight", "U32", shape, 4);
    shape.at[1] = columns / 64;
    add(h, item->path, "scales", "BF16", shape, 2);
    add(h, item->path, "biases", "BF16", shape, 2);
    return WEFT_OK;
}

/* Writes the model; the file has no blocks on the disk. */
static bool write_model(const char *folder, const char *members, bool quantized)
{
    char text[600];
    char path[700], *head = NULL;
    size_t size = 0;
    weft_config *config = NULL;
    weft_model *model = NULL;
    header h = {.file = open_memstream(&head, &size), .quantized = quantized};
    snprintf(text, sizeof text, "{%s%s}", members,
             quantized ? ", \"quantization\": {\"group_size\": 64, \"bits\": 4}" : "");
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (!CHECK(h.file != NULL) || !CHECK_OK(weft_folder_make(folder)) ||
        !CHECK_OK(weft_file_write(path, text, strlen(text))) ||
        !CHECK_OK(weft_config_parse(text, folder, &config)) ||
        !CHECK_OK(weft_model_new(config, &model)) || /* lazy: nothing is drawn */
        !CHECK_OK(weft_nn_visit(weft_model_module(model), add_tensor, &h)))
        return false;
    fputs("}", h.file);
    fclose(h.file);
    const uint64_t length = size;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const bool ok = CHECK(file >= 0) && CHECK(write(file, &length, 8) == 8) &&
                    CHECK(write(file, head, size) == (ssize_t)size) &&
                    CHECK(ftruncate(file, (off_t)(8 + size) + h.bytes) == 0);
    if (file >= 0)
        close(file);
    free(head);
    weft_model_free(model);
    weft_config_free(config);
    return ok;
}

static const char *write_batches(void)
{
    const char *path = check_temporary("batches.safetensors");
    weft_scope_open();
    static const char *const names[] = {"batches", "prompt_lengths"};
    weft_array *const arrays[] = {weft_zeros(WEFT_DIMS(1, BATCH, LENGTH), WEFT_INT32),
                                  weft_zeros(WEFT_DIMS(1, BATCH), WEFT_INT32)};
    CHECK_OK(weft_safetensors_save(path, names, arrays, 2, NULL, 0));
    weft_scope_close(NULL);
    return path;
}

/* Gigabytes that the run needs; 0: it failed. */
static double needed(const char *folder, const char *batches, const char *options)
{
    const output o = shell_command(NULL,
                                   "%s train %s --device null --dtype bfloat16 --rank 16 --batches "
                                   "%s --dry-run --json %s",
                                   check_built("tests/weft_null"), folder, batches, options);
    const char *at = strstr(o.out, "\"total\": ");
    if (!CHECK(o.code == 0 && at != NULL)) {
        CHECK_FAIL("%s", o.err);
        return 0;
    }
    return 1e-9 * strtod(at + 9, NULL);
}

static void the_memory_of_the_readme(void)
{
    static const char *const options[] = {"", "--checkpoint --micro-batch 1"};
    /* Packing the larger ones in 4 bits takes minutes. */
    const size_t n_models = check_exhaustive() ? sizeof models / sizeof *models : 2;
    char folder[600], batches[600], row[256], *readme = NULL;
#ifdef __SANITIZE_ADDRESS__
    check_skip("models of 8B are loaded, with shadow memory for each");
    return;
#endif
    snprintf(batches, sizeof batches, "%s", write_batches());
    if (!CHECK_OK(weft_file_read(check_source("README.md"), 0, &readme, NULL)))
        return;
    for (size_t m = 0; m < n_models; m++) {
        snprintf(row, sizeof row, "| %s |", models[m].name);
        const char *at = strstr(readme, row);
        double stated[4] = {0};
        if (!CHECK(at != NULL && sscanf(at + strlen(row), " %lf GB | %lf GB | %lf GB | %lf GB",
                                        &stated[0], &stated[1], &stated[2], &stated[3]) == 4))
            CHECK_FAIL("README.md has no row with four sizes that begins with: %s", row);
        for (int i = 0; i < 4; i++) {
            snprintf(folder, sizeof folder, "%s", check_temporary(models[m].name));
            if (i % 2 == 0 && !write_model(folder, models[m].members, i == 2))
                return;
            /* Rounded to a digit; kernels for other instruction sets have other workspaces. */
            CHECK_CLOSE(needed(folder, batches, options[i % 2]), stated[i], 0.1);
        }
    }
    weft_free(readme);
}

CHECK_MAIN("cli_memory", CHECK_CASE(the_memory_of_the_readme))
