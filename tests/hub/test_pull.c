/* tests/hub/test_pull.c -- downloading from a hub on the loopback: the cache's layout, resuming,
 * hashes, redirections, tokens, refused input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/hub/server.h"
#include "weft/weft.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define RESOLVE "/org/tiny/resolve/" COMMIT "/"

/* Their hashes are those that sha256sum and git hash-object give. */
static const char config[] = "{\"model_type\": \"llama\"}\n";
#define CONFIG_HASH "9eddb62b076f586b2186445e7872e5a05f0dfe06"
#define WEIGHTS_SIZE 300000
#define WEIGHTS_HASH "84651a6efc7acd687cd804fa2f7ef24f84e8290d6dfc12c181a526af7d144083"
static char weights[WEIGHTS_SIZE];

static const char list[] =
    "{\"sha\": \"" COMMIT "\", \"siblings\": ["
    "{\"rfilename\": \"README.md\", \"size\": 5, \"blobId\": \"" CONFIG_HASH "\"},"
    "{\"rfilename\": \"config.json\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"},"
    "{\"rfilename\": \"model.safetensors\", \"size\": 300000, \"blobId\": \"" CONFIG_HASH "\","
    " \"lfs\": {\"sha256\": \"" WEIGHTS_HASH "\", \"size\": 300000}},"
    "{\"rfilename\": \"onnx/model.onnx\", \"size\": 5, \"blobId\": \"" CONFIG_HASH "\"}]}";

enum { LIST, CONFIG, WEIGHTS, PAGES };

static void pages_of(server_page *pages)
{
    for (size_t i = 0; i < sizeof weights; i++)
        weights[i] = (char)(i * 31 + i / 251);
    pages[LIST] = (server_page){.path = "/api/models/org/tiny/revision/main", .body = list};
    pages[CONFIG] = (server_page){.path = RESOLVE "config.json", .body = config};
    pages[WEIGHTS] = (server_page){
        .path = RESOLVE "model.safetensors", .body = weights, .length = sizeof weights};
}

/* A cache of its own for each case; the path of a file of the repository in it. */
static char cache[600];

static void use_cache(const char *name)
{
    snprintf(cache, sizeof cache, "%s", check_temporary(name));
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("no_proxy", "*", 1);
    setenv("HF_TOKEN_PATH", "/nonexistent", 1);
    unsetenv("HF_TOKEN");
}

static const char *in_cache(const char *name)
{
    static char path[4][1200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[0], "%s/models--org--tiny/%s", cache, name);
    return path[next];
}

static weft_status pull(const server *s, const char *token)
{
    char *folder = NULL;
    weft_status status = weft_hub_pull(
        "org/tiny", &(weft_hub_options){.endpoint = server_url(s), .token = token}, &folder);
    CHECK((status == WEFT_OK) == (folder != NULL));
    if (folder != NULL)
        CHECK_STR(folder, in_cache("snapshots/" COMMIT));
    weft_free(folder);
    return status;
}

static bool same_file(const char *path, const char *data, size_t size)
{
    char *found = NULL;
    size_t n = 0;
    bool same =
        CHECK_OK(weft_file_read(path, 0, &found, &n)) && n == size && memcmp(found, data, n) == 0;
    weft_free(found);
    return same;
}

/* ---- downloads ------------------------------------------------------------------------------ */

static void files_have_the_layout_of_the_hub_cache(void)
{
    server_page pages[PAGES];
    pages_of(pages);
    use_cache("layout");
    server *s = server_start(pages, PAGES, NULL);
    char *found = NULL, target[200] = "";
    CHECK_STATUS(weft_hub_find("org/tiny", NULL, &found), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "weft pull org/tiny");
    if (!CHECK(s != NULL) || !CHECK_OK(pull(s, NULL)))
        return;
    CHECK(same_file(in_cache("refs/main"), COMMIT, 40));
    CHECK(same_file(in_cache("snapshots/" COMMIT "/config.json"), config, strlen(config)));
    CHECK(same_file(in_cache("blobs/" WEIGHTS_HASH), weights, sizeof weights));
    ssize_t n = readlink(in_cache("snapshots/" COMMIT "/model.safetensors"), target, 199);
    CHECK(n > 0);
    CHECK_STR(target, "../../blobs/" WEIGHTS_HASH);
    CHECK(access(in_cache("snapshots/" COMMIT "/README.md"), F_OK) != 0);
    CHECK(access(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), F_OK) != 0);
    if (CHECK_OK(weft_hub_find("org/tiny", NULL, &found)))
        CHECK_STR(found, in_cache("snapshots/" COMMIT));
    weft_free(found);
    if (CHECK_OK(weft_hub_find("org/tiny", COMMIT, &found)))
        weft_free(found);
    if (CHECK_OK(weft_hub_resolve("org/tiny", &found)))
        CHECK_STR(found, in_cache("snapshots/" COMMIT));
    weft_free(found);
    CHECK_STATUS(weft_hub_resolve("org/other", &found), WEFT_IO);
    server_stop(s);
}

static void existing_files_are_not_changed(void)
{
    server_page pages[PAGES];
    struct stat before, after;
    pages_of(pages);
    use_cache("again");
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL) || !CHECK_OK(pull(s, NULL)))
        return;
    int requests = server_requests(s);
    CHECK(stat(in_cache("blobs/" WEIGHTS_HASH), &before) == 0);
    CHECK_OK(pull(s, NULL));
    CHECK_EQ_INT(server_requests(s), requests + 1); /* the list alone */
    CHECK(stat(in_cache("blobs/" WEIGHTS_HASH), &after) == 0);
    CHECK(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    server_stop(s);
}

/* ---- interrupted downloads ------------------------------------------------------------------ */

static void interrupted_downloads_are_continued(void)
{
    server_page pages[PAGES];
    struct stat part;
    pages_of(pages);
    use_cache("resume");
    pages[WEIGHTS].cut = 100000;
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    char *folder;
    const weft_hub_options once = {.endpoint = server_url(s), .retries = -1};
    CHECK_STATUS(weft_hub_pull("org/tiny", &once, &folder), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "interrupted after 200000 of 300000 bytes");
    CHECK(stat(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), &part) == 0);
    CHECK_EQ_INT(part.st_size, 200000);
    CHECK(access(in_cache("refs/main"), F_OK) != 0);
    pages[WEIGHTS].cut = 0;
    CHECK_OK(pull(s, NULL));
    CHECK_EQ_INT(server_range(s), 200000);
    CHECK(same_file(in_cache("blobs/" WEIGHTS_HASH), weights, sizeof weights));
    server_stop(s);
}

/* Leaves `size` bytes of an earlier attempt. */
static void leave(const char *bytes, size_t size)
{
    CHECK_OK(weft_folder_make(in_cache("blobs")));
    CHECK_OK(weft_file_write(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), bytes, size));
}

static void servers_without_ranges_start_again(void)
{
    server_page pages[PAGES];
    pages_of(pages);
    use_cache("ranges");
    pages[WEIGHTS].no_ranges = true;
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    leave("from another life", 17);
    CHECK_OK(pull(s, NULL));
    CHECK(same_file(in_cache("blobs/" WEIGHTS_HASH), weights, sizeof weights));
    server_stop(s);
    use_cache("bad-ranges");
    pages_of(pages);
    pages[WEIGHTS].bad_ranges = true;
    s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    leave(weights, 100);
    CHECK_OK(pull(s, NULL));
    CHECK_EQ_INT(server_range(s), 100);
    CHECK_EQ_INT(server_requests(s), 4); /* the list, config.json, with a range, without */
    CHECK(same_file(in_cache("blobs/" WEIGHTS_HASH), weights, sizeof weights));
    CHECK(access(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), F_OK) != 0);
    server_stop(s);
}

static void a_fifo_at_the_path_of_a_file_is_refused(void)
{
    server_page pages[PAGES];
    pages_of(pages);
    use_cache("fifo");
    server *s = server_start(pages, PAGES, NULL);
    CHECK_OK(weft_folder_make(in_cache("blobs")));
    if (!CHECK(s != NULL && mkfifo(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), 0600) == 0))
        return;
    CHECK_STATUS(pull(s, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), ".incomplete: not a regular file");
    server_stop(s);
}

static void files_with_wrong_hashes_are_deleted(void)
{
    server_page pages[PAGES];
    pages_of(pages);
    use_cache("hash");
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    leave("from another life", 17);
    CHECK_STATUS(pull(s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "model.safetensors: SHA-256: expected " WEIGHTS_HASH);
    CHECK(access(in_cache("blobs/" WEIGHTS_HASH ".incomplete"), F_OK) != 0);
    CHECK(access(in_cache("blobs/" WEIGHTS_HASH), F_OK) != 0);
    CHECK_OK(pull(s, NULL)); /* the next attempt starts from the beginning */
    use_cache("hash-small");
    pages[CONFIG].body = "{\"model_type\": \"LLAMA\"}\n";
    CHECK_STATUS(pull(s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "config.json: git's SHA-1: expected " CONFIG_HASH);
    pages[CONFIG].body = "{\"model_type\": \"much longer than was said\"}\n";
    CHECK_STATUS(pull(s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "longer than the 24 bytes");
    server_stop(s);
}

/* ---- tokens and redirections ---------------------------------------------------------------- */

static void the_token_goes_to_the_endpoint_only(void)
{
    server_page pages[PAGES], other[1] = {{.path = "/cdn", .body = weights}};
    char location[100];
    pages_of(pages);
    use_cache("token");
    other[0].length = sizeof weights;
    server *cdn = server_start(other, 1, NULL), *s = server_start(pages, PAGES, "hf_secret");
    if (!CHECK(cdn != NULL && s != NULL))
        return;
    snprintf(location, sizeof location, "%s/cdn", server_url(cdn));
    pages[WEIGHTS] =
        (server_page){.path = pages[WEIGHTS].path, .code = 302, .location = location, .body = "go"};
    CHECK_STATUS(pull(s, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "HTTP 401: it needs a token: set HF_TOKEN");
    CHECK_STATUS(pull(s, "hf_wrong"), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "HTTP 401: this token may not read it");
    CHECK_STATUS(pull(s, "hf\r\nX: y"), WEFT_INVALID);
    setenv("HF_TOKEN", "hf_secret", 1);
    CHECK_OK(pull(s, NULL));
    unsetenv("HF_TOKEN");
    CHECK(server_saw_token(s));
    CHECK_EQ_INT(server_requests(cdn), 1);
    CHECK(!server_saw_token(cdn));
    CHECK(same_file(in_cache("blobs/" WEIGHTS_HASH), weights, sizeof weights));
    server_stop(s);
    server_stop(cdn);
}

static void redirections_are_limited(void)
{
    server_page pages[PAGES];
    pages_of(pages);
    use_cache("round");
    pages[LIST] = (server_page){.path = pages[LIST].path,
                                .code = 307,
                                .location = "/api/models/org/tiny/revision/main",
                                .body = "go"};
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    CHECK_STATUS(pull(s, NULL), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "more than 10 redirections");
    pages[LIST].location = "file:///etc/passwd";
    CHECK_STATUS(pull(s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "not followed");
    server_stop(s);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void refused(server *s, server_page *pages, const char *text, weft_status status,
                    const char *part)
{
    pages[LIST].body = text;
    CHECK_STATUS(pull(s, NULL), status);
    CHECK_CONTAINS(weft_error_message(), part);
}

#define ONE(name, size, rest)                                                                      \
    "{\"sha\": \"" COMMIT "\", \"siblings\": [{\"rfilename\": \"" name "\", \"size\": " size       \
    ", " rest "}]}"

static void malformed_answers_are_refused(void)
{
    server_page pages[PAGES];
    char *folder;
    pages_of(pages);
    use_cache("nonsense");
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    refused(s, pages, "<html>", WEFT_INVALID, "revision/main?blobs=true: column 1");
    refused(s, pages, "{\"siblings\": []}", WEFT_INVALID, "sha");
    refused(s, pages, ONE("../../x", "1", "\"blobId\": \"" CONFIG_HASH "\""), WEFT_INVALID,
            "'../../x' is no place for a file");
    refused(s, pages, ONE("/etc/x", "1", "\"blobId\": \"" CONFIG_HASH "\""), WEFT_INVALID,
            "is no place for a file");
    refused(s, pages, ONE("a.gguf", "1", "\"blobId\": \"../../x\""), WEFT_INVALID,
            "expected a hash of 40 digits");
    refused(s, pages, ONE("a.gguf", "-1", "\"blobId\": \"" CONFIG_HASH "\""), WEFT_INVALID,
            "size: expected 0 to");
    refused(s, pages, ONE("a.gguf", "9223372036854775807", "\"blobId\": \"" CONFIG_HASH "\""),
            WEFT_INVALID, "size: expected 0 to");
    refused(s, pages, ONE("x.bin", "1", "\"blobId\": \"" CONFIG_HASH "\""), WEFT_INVALID,
            "org/tiny: it has no *.safetensors and no *.gguf");
    CHECK_STATUS(weft_hub_pull("org/none", &(weft_hub_options){.endpoint = server_url(s)}, &folder),
                 WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "HTTP 404: there is no such repository");
    static const char *const names[] = {"../x", "a/b/c", "", "a/", "/a", "a b/c", "a..b/c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_STATUS(weft_hub_pull(names[i], NULL, &folder), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "expected ORG/NAME");
    }
    server_stop(s);
    CHECK_STATUS(
        weft_hub_pull("org/tiny", &(weft_hub_options){.endpoint = "http://127.0.0.1:1"}, &folder),
        WEFT_IO);
}

static void patterns_select_files(void)
{
    static const char two[] =
        "{\"sha\": \"" COMMIT "\", \"siblings\": ["
        "{\"rfilename\": \"config.json\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"},"
        "{\"rfilename\": \"a-q4.gguf\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"},"
        "{\"rfilename\": \"deep/er/b-q8.gguf\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"}]}";
    server_page pages[PAGES];
    char *folder, target[200] = "";
    pages_of(pages);
    use_cache("wanted");
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    pages[CONFIG].path = RESOLVE "deep/er/b-q8.gguf";
    refused(s, pages, two, WEFT_INVALID, "2 GGUF files: a-q4.gguf, deep/er/b-q8.gguf; choose");
    char many[8000];
    int n = snprintf(many, sizeof many, "{\"sha\": \"" COMMIT "\", \"siblings\": [");
    for (int i = 0; i < 20; i++)
        n += snprintf(many + n, sizeof many - (size_t)n,
                      "%s{\"rfilename\": \"%02d.gguf\", \"size\": 1, \"blobId\": \"" CONFIG_HASH
                      "\"}",
                      i > 0 ? "," : "", i);
    snprintf(many + n, sizeof many - (size_t)n, "]}");
    refused(s, pages, many, WEFT_INVALID,
            "20 GGUF files: 00.gguf, 01.gguf, 02.gguf, 03.gguf, 04.gguf, 05.gguf, 06.gguf, "
            "07.gguf and 12 more; choose");
    pages[LIST].body = two;
    weft_hub_options o = {.endpoint = server_url(s), .include = "*.bin,*q8*"};
    if (CHECK_OK(weft_hub_pull("org/tiny", &o, &folder)))
        weft_free(folder);
    CHECK(readlink(in_cache("snapshots/" COMMIT "/deep/er/b-q8.gguf"), target, 199) > 0);
    CHECK_STR(target, "../../../../blobs/" CONFIG_HASH);
    CHECK(access(in_cache("snapshots/" COMMIT "/config.json"), F_OK) != 0);
    o.include = "nothing";
    CHECK_STATUS(weft_hub_pull("org/tiny", &o, &folder), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no file fits 'nothing'");
    server_stop(s);
}

typedef struct seen {
    int calls;
    int64_t most;
    bool stop;
} seen;

static bool look(void *context, const weft_hub_progress *p)
{
    seen *s = context;
    s->calls++;
    CHECK(p->done >= 0 && p->done <= p->size && p->all_size == 300024 && p->count == 2);
    s->most = p->all_done;
    return !s->stop;
}

static void progress_is_reported_and_can_stop(void)
{
    server_page pages[PAGES];
    char *folder;
    pages_of(pages);
    use_cache("progress");
    server *s = server_start(pages, PAGES, NULL);
    if (!CHECK(s != NULL))
        return;
    seen what = {.stop = true};
    weft_hub_options o = {.endpoint = server_url(s), .progress = look, .context = &what};
    CHECK_STATUS(weft_hub_pull("org/tiny", &o, &folder), WEFT_CANCELLED);
    what.stop = false;
    if (CHECK_OK(weft_hub_pull("org/tiny", &o, &folder)))
        weft_free(folder);
    CHECK(what.calls > 1);
    if (CHECK_OK(weft_hub_pull("org/tiny", &o, &folder)))
        weft_free(folder);
    CHECK_EQ_INT(what.most, 300024); /* existing files count */
    server_stop(s);
}

static bool is_built_in(void)
{
    char *folder;
    return weft_hub_pull("a/b", &(weft_hub_options){.endpoint = "http://127.0.0.1:1"}, &folder) !=
           WEFT_UNSUPPORTED;
}

static void builds_without_libcurl_report_it(void)
{
    use_cache("none");
    if (is_built_in())
        check_skip("built with libcurl");
    else
        CHECK_CONTAINS(weft_error_message(), "without libcurl");
}

int main(int argc, char **argv)
{
    static const check_case with[] = {
        CHECK_CASE(files_have_the_layout_of_the_hub_cache),
        CHECK_CASE(existing_files_are_not_changed),
        CHECK_CASE(interrupted_downloads_are_continued),
        CHECK_CASE(servers_without_ranges_start_again),
        CHECK_CASE(a_fifo_at_the_path_of_a_file_is_refused),
        CHECK_CASE(files_with_wrong_hashes_are_deleted),
        CHECK_CASE(the_token_goes_to_the_endpoint_only),
        CHECK_CASE(redirections_are_limited),
        CHECK_CASE(malformed_answers_are_refused),
        CHECK_CASE(patterns_select_files),
        CHECK_CASE(progress_is_reported_and_can_stop),
    };
    static const check_case without[] = {CHECK_CASE(builds_without_libcurl_report_it)};
    return is_built_in() ? check_main(argc, argv, "pull", with, sizeof with / sizeof *with)
                         : check_main(argc, argv, "pull", without, 1);
}
