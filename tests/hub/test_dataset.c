/* tests/hub/test_dataset.c -- datasets: downloaded into the cache, and the files of their splits as
 * Python's datasets finds them (tests/golden/train/hub_datasets.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/hub/server.h"
#include "weft/hub.h"
#include "weft/io.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static char cache[600], logged[1024];

static void use_cache(const char *name)
{
    snprintf(cache, sizeof cache, "%s", check_temporary(name));
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("no_proxy", "*", 1);
    setenv("HF_TOKEN_PATH", "/nonexistent", 1);
    unsetenv("HF_TOKEN");
}

static void keep_log(void *context, weft_log_level level, const char *message)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", message);
}

/* Writes a file of the repository org/NAME to the cache. */
static void put(const char *name, const char *path, const char *text)
{
    char full[1200];
    snprintf(full, sizeof full, "%s/datasets--org--%s/snapshots/" COMMIT "/%s", cache, name, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    CHECK_OK(weft_folder_make(full));
    *slash = '/';
    CHECK_OK(weft_file_write(full, text, strlen(text)));
    snprintf(full, sizeof full, "%s/datasets--org--%s/refs", cache, name);
    CHECK_OK(weft_folder_make(full));
    snprintf(full, sizeof full, "%s/datasets--org--%s/refs/main", cache, name);
    CHECK_OK(weft_file_write(full, COMMIT, 40));
}

/* The paths in the snapshot of the files found, separated by spaces; or the message. */
static const char *found(const char *name)
{
    static char text[2000];
    char **files;
    int n;
    text[0] = '\0';
    if (weft_hub_dataset(name, &files, &n) != WEFT_OK)
        return weft_error_message();
    for (int i = 0; i < n; i++) {
        const char *at = strstr(files[i], COMMIT "/");
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "",
                 at ? at + 41 : files[i]);
    }
    weft_hub_dataset_free(files, n);
    return text;
}

/* ---- against datasets ----------------------------------------------------------------------- */

static void put_repository(const weft__json *repository)
{
    weft__json files;
    const char *name = "", *card = NULL;
    size_t n = 0;
    CHECK_OK(weft__json_get_string(repository, "name", &name));
    CHECK_OK(weft__json_find_string(repository, "card", &card));
    CHECK_OK(weft__json_get(repository, "files", &files));
    CHECK_OK(weft__json_length(&files, &n));
    if (card)
        put(name, "README.md", card);
    for (size_t i = 0; i < n; i++)
        put(name, json_object_get_string(json_object_array_get_idx(files.value, i)), "{}");
}

static weft_status check_split(const weft__json *split, void *context)
{
    char expected[2000] = "";
    const char *name = "";
    weft__json files;
    size_t n = 0;
    (void)context;
    CHECK_OK(weft__json_get_string(split, "name", &name));
    CHECK_OK(weft__json_get(split, "files", &files));
    CHECK_OK(weft__json_length(&files, &n));
    for (size_t i = 0; i < n; i++) {
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? " " : "",
                 json_object_get_string(json_object_array_get_idx(files.value, i)));
    }
    const char *files_found = found(name);
    if (strcmp(files_found, expected) != 0 && strstr(files_found, "has no libyaml") == NULL)
        CHECK_FAIL("%s: got %s, expected %s", name, files_found, expected);
    else
        CHECK(n > 0);
    return WEFT_OK;
}

static void splits_have_the_files_that_datasets_finds(void)
{
    weft__json_doc doc;
    size_t n = 0;
    use_cache("golden");
    if (!CHECK_OK(weft__json_read(check_source("tests/golden/train/hub_datasets.json"), &doc)))
        return;
    const weft__json root = weft__json_root(&doc);
    CHECK_OK(weft__json_length(&root, &n));
    for (size_t i = 0; i < n; i++) {
        weft__json repository;
        CHECK_OK(weft__json_at(&root, i, &repository));
        put_repository(&repository);
        CHECK_OK(weft__json_each(&repository, "splits", check_split, NULL));
    }
    CHECK(n >= 10);
    weft__json_free(&doc);
}

static void messages_name_what_is_missing(void)
{
    static const char *const names[] = {"org",       "org/",        "org/a/",      "/a",
                                        "org/a:",    "org/a/b/c:d", "org/a:b:c",   "org/..",
                                        "org/a:b/c", "a b/c",       "org/a/b/c/d", ""};
    use_cache("messages");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_CONTAINS(found(names[i]), "expected ORG/NAME");
    CHECK_CONTAINS(found("org/none:test"), "org/none: not in the local cache");
    CHECK_CONTAINS(found("org/none"), "weft pull --dataset org/none fetches it");
    put("plain", "train.jsonl", "{}");
    CHECK_CONTAINS(found("org/plain:test"), "no data file of the split 'test'");
    put("card", "README.md",
        "---\nconfigs:\n- config_name: a\n  data_files:\n  - {split: train, path: a.csv}\n"
        "  - {split: test, path: b.csv}\n- config_name: b\n  data_files: [{split: x, path: c}]\n"
        "---\n");
    put("card", "a.csv", "text\nA fox.\n");
    if (strstr(found("org/card"), "has no libyaml"))
        return;
    CHECK_CONTAINS(found("org/card"),
                   "its configurations are a, b: choose one as org/card/CONFIG:SPLIT");
    CHECK_CONTAINS(found("org/card/c"), "its configurations are a, b");
    CHECK_CONTAINS(found("org/card/a:dev"),
                   "it has no split 'dev', but train, test: choose one as org/card/a:SPLIT");
    CHECK_STR(found("org/card/a"), "a.csv");
    CHECK_CONTAINS(found("org/card/a:test"), "no data file of the split 'test'");
    put("bad", "README.md", "---\na: 1\nconfigs: [\n---\n");
    CHECK_CONTAINS(found("org/bad"), "README.md:");
    put("bad", "README.md",
        "---\na: 1\nconfigs:\n- data_files:\n  - path: []\n    split: {}\n  - {}\n  - []\n---\n");
    CHECK_CONTAINS(found("org/bad"), "README.md:8: expected a path or pattern of data files");
    put("bad", "README.md", "---\na: 1\nconfigs:\n- x\n---\n");
    CHECK_CONTAINS(found("org/bad"), "README.md:4: expected a configuration");
}

static void missing_shards_are_reported(void)
{
    use_cache("shards");
    put("big", "data/train-00001-of-00003.parquet", "PAR1");
    weft_set_log(keep_log, NULL);
    CHECK_STR(found("org/big"), "data/train-00001-of-00003.parquet");
    weft_set_log(NULL, NULL);
    CHECK_CONTAINS(logged, "org/big: 1 of 3 files are in the cache: weft pull --dataset org/big");
}

/* ---- downloading ---------------------------------------------------------------------------- */

#define RESOLVE "/datasets/org/tales/resolve/" COMMIT "/"

/* Their hashes are those of git hash-object. */
static const char list[] =
    "{\"sha\": \"" COMMIT "\", \"siblings\": ["
    "{\"rfilename\": \".gitattributes\", \"size\": 5, \"blobId\": \"" COMMIT "\"},"
    "{\"rfilename\": \"README.md\", \"size\": 8,"
    " \"blobId\": \"3769eac41276b9dc99419f6e60d7fc03df5bc700\"},"
    "{\"rfilename\": \"data/train.jsonl\", \"size\": 19,"
    " \"blobId\": \"d70a944fa495c4d5aca2d7185a7e02c4ce885a91\"},"
    "{\"rfilename\": \"images/a.png\", \"size\": 5, \"blobId\": \"" COMMIT "\"},"
    "{\"rfilename\": \"tales.py\", \"size\": 5, \"blobId\": \"" COMMIT "\"}]}";

static void data_files_and_the_card_are_downloaded(void)
{
    const server_page pages[] = {
        {.path = "/api/datasets/org/tales/revision/main", .body = list},
        {.path = RESOLVE "README.md", .body = "# Tales\n"},
        {.path = RESOLVE "data/train.jsonl", .body = "{\"text\": \"A fox.\"}\n"}};
    char *folder = NULL, path[1200];
    use_cache("pull");
    server *s = server_start(pages, 3, NULL);
    if (!CHECK(s != NULL))
        return;
    const weft_hub_options o = {.endpoint = server_url(s), .dataset = true};
    const weft_status status = weft_hub_pull("org/tales", &o, &folder);
    if (status != WEFT_UNSUPPORTED && CHECK_OK(status)) { /* a build without libcurl */
        snprintf(path, sizeof path, "%s/datasets--org--tales/snapshots/" COMMIT, cache);
        CHECK_STR(folder, path);
        CHECK_EQ_INT(server_requests(s), 3);
        CHECK_STR(found("org/tales"), "data/train.jsonl");
        snprintf(path, sizeof path, "%s/README.md", folder);
        CHECK(access(path, R_OK) == 0);
    }
    weft_free(folder);
    server_stop(s);
}

CHECK_MAIN("hub_dataset", CHECK_CASE(splits_have_the_files_that_datasets_finds),
           CHECK_CASE(messages_name_what_is_missing), CHECK_CASE(missing_shards_are_reported),
           CHECK_CASE(data_files_and_the_card_are_downloaded))
