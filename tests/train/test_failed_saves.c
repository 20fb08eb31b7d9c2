/* tests/train/test_failed_saves.c -- saves of folders and files that fail: at each size that files
 * may have, and at each allocation. Nothing that the save created remains. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/train/recipes.h"
#include "weft/weft.h"

/* What is saved, made once. */
static struct {
    weft_model *adapted, *plain;
    weft_tokenizer *tokenizer;
    char base[512], adapter[512];
} from;

static weft_status save_peft(const char *out)
{
    return weft_adapter_save(from.adapted, out, "base");
}

static weft_status save_mlx(const char *out)
{
    return weft_adapter_save_as(from.adapted, out, "base", WEFT_ADAPTER_MLX);
}

static weft_status save_gguf(const char *out)
{
    return weft_adapter_save_as(from.adapted, out, "base", WEFT_ADAPTER_GGUF);
}

static weft_status save_module(const char *out)
{
    return weft_adapter_save_module(weft_model_module(from.adapted), out, "base");
}

static weft_status save_model(const char *out)
{
    return weft_model_save(from.plain, out);
}

static weft_status save_tokenizer(const char *out)
{
    return weft_tokenizer_save(from.tokenizer, out);
}

static weft_status save_shards(const char *out)
{
    static const char *const names[] = {"a", "b", "c"};
    weft_scope_open();
    weft_array *arrays[] = {weft_zeros(WEFT_DIMS(8), WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(400), WEFT_FLOAT32),
                            weft_zeros(WEFT_DIMS(5000), WEFT_FLOAT32)};
    const weft_save_folder_options o = {.shard_bytes = 1};
    const weft_status status = weft_safetensors_save_folder(out, names, arrays, 3, &o, NULL);
    weft_scope_close(NULL);
    return status;
}

static weft_status convert(const char *out)
{
    return weft_convert(from.base, out, &(weft_convert_options){.replace = true}, NULL);
}

static weft_status quantize(const char *out)
{
    const weft_convert_options o = {.quantize = true, .format = {.bits = 4, .group_size = 32}};
    return weft_convert(from.base, out, &o, NULL);
}

static weft_status fuse(const char *out)
{
    return weft_adapter_fuse(from.base, from.adapter, out, NULL, NULL);
}

static const struct {
    const char *name;
    weft_status (*run)(const char *out);
} saves[] = {{"adapter", save_peft},  {"adapter.mlx", save_mlx}, {"adapter.gguf", save_gguf},
             {"module", save_module}, {"model", save_model},     {"tokenizer", save_tokenizer},
             {"shards", save_shards}, {"converted", convert},    {"converted.gguf", convert},
             {"quantized", quantize}, {"fused", fuse},           {"fused.gguf", fuse}};

enum { SAVES = sizeof saves / sizeof *saves };

static bool load(void)
{
    static const char *const token[] = {"<added>"};
    const recipe *r = recipe_named("lora-llama");
    snprintf(from.base, sizeof from.base, "%s", check_fixture("models/llama"));
    snprintf(from.adapter, sizeof from.adapter, "%s", recipe_path(r, "final"));
    from.adapted = recipe_model(r, "final");
    from.plain = recipe_model(r, NULL);
    return from.adapted && from.plain &&
           CHECK_OK(weft_tokenizer_extend(check_source("examples/storyteller"), token, 1,
                                          &from.tokenizer));
}

static void unload(void)
{
    weft_tokenizer_free(from.tokenizer);
    weft_model_free(from.adapted);
    weft_model_free(from.plain);
}

/* The file or folder to save to: in folders that do not exist, except for single files, whose
 * folder must exist. */
static void name_out(int i, uint64_t attempt, char out[600], char parent[600])
{
    char name[64];
    snprintf(name, sizeof name, "%d-%llu", i, (unsigned long long)attempt);
    snprintf(parent, 600, "%s", check_temporary(name));
    if (strstr(saves[i].name, ".gguf"))
        CHECK_OK(weft_folder_make(parent));
    snprintf(out, 600, "%.500s/%s%s", parent, strstr(saves[i].name, ".gguf") ? "" : "deep/",
             saves[i].name);
}

/* The number of waits for the disk that have begun, and of those that have not ended; nested waits
 * are not reported. */
static int disks, open_disks;

static void count_disks(void *context, weft_pause_point point)
{
    (void)context;
    if (point == WEFT_PAUSE_DISK) {
        disks++;
        CHECK_EQ_INT(open_disks++, 0);
    } else if (point == WEFT_PAUSE_DISK_DONE) {
        CHECK_EQ_INT(--open_disks, 0);
    }
}

/* Whether a failed save left files. */
static bool is_clean(int i, const char *parent)
{
    return strstr(saves[i].name, ".gguf")
               ? rmdir(parent) == 0 && weft_folder_make(parent) == WEFT_OK
               : access(parent, F_OK) != 0;
}

static void a_full_disk_leaves_nothing(void)
{
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    if (!load() || !CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0))
        return;
    for (int i = 0; i < SAVES; i++) {
        char out[600], parent[600];
        weft_status status = WEFT_IO;
        int failed = 0;
        name_out(i, 0, out, parent);
        for (rlim_t room = 16; status == WEFT_IO && room < (rlim_t)1 << 30; room *= 2) {
            small = before;
            small.rlim_cur = room;
            setrlimit(RLIMIT_FSIZE, &small);
            weft_set_pause(count_disks, NULL);
            disks = 0;
            status = saves[i].run(out);
            weft_set_pause(NULL, NULL);
            setrlimit(RLIMIT_FSIZE, &before);
            CHECK(open_disks == 0 && disks > 0); /* another thread may use the model meanwhile */
            failed += status == WEFT_IO;
            if (status == WEFT_IO && !CHECK(is_clean(i, parent)))
                CHECK_FAIL("%s, files of %llu bytes", saves[i].name, (unsigned long long)room);
        }
        if (!CHECK_OK(status) || !CHECK(failed > 3))
            CHECK_FAIL("%s", saves[i].name);
        CHECK(access(out, F_OK) == 0);
    }
    unload();
}

static void an_allocation_that_fails_leaves_nothing(void)
{
    if (!load())
        return;
    for (int i = 0; i < SAVES; i++) {
        char out[600], parent[600];
        uint64_t nth = 1, made = 1;
        CHECK_OK(saves[i].run(
            check_temporary(saves[i].name))); /* the first run allocates caches that stay */
        for (; made >= nth && nth < 100000; nth += nth < 64 ? 1 : nth / 16) {
            name_out(i, nth, out, parent);
            weft_scope_open();
            weft_set_pause(count_disks, NULL);
            weft_memory_fail_at(nth);
            const weft_status status = saves[i].run(out);
            made = weft_memory_fail_at(0);
            weft_set_pause(NULL, NULL);
            CHECK_EQ_INT(open_disks, 0);
            weft_scope_close(NULL);
            if (status != WEFT_OK && !CHECK(is_clean(i, parent)))
                CHECK_FAIL("%s, allocation %llu", saves[i].name, (unsigned long long)nth);
            CHECK(status != WEFT_OK || access(out, F_OK) == 0);
        }
    }
    unload();
}

/* If no folder can be made, the message has the given name, not that of a partial folder. */
static void messages_name_what_was_given(void)
{
    CHECK_STATUS(weft_convert(check_fixture("models/llama"), "/proc/none", NULL, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "/proc/none: make folder: ");
}

CHECK_MAIN("failed_saves", CHECK_CASE(a_full_disk_leaves_nothing),
           CHECK_CASE(an_allocation_that_fails_leaves_nothing),
           CHECK_CASE(messages_name_what_was_given))
