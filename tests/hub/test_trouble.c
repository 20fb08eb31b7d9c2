/* tests/hub/test_trouble.c -- misbehaving hubs: servers that fail for a while, are slow, or answer
 * for another commit, and caches with files whose contents do not match their names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/hub/server.h"
#include "weft/weft.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define OTHER "76543210fedcba9876543210fedcba9876543210"

/* The hash is the one that git hash-object gives. */
static const char config[] = "{\"model_type\": \"llama\"}\n";
#define CONFIG_HASH "9eddb62b076f586b2186445e7872e5a05f0dfe06"

static const char list[] =
    "{\"sha\": \"" COMMIT "\", \"siblings\": ["
    "{\"rfilename\": \"config.json\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"}]}";

enum { LIST, CONFIG, PAGES };

static server_page pages[PAGES];
static char cache[600];

static server *start(const char *name)
{
    pages[LIST] = (server_page){.path = "/api/models/org/tiny/revision/main", .body = list};
    pages[CONFIG] =
        (server_page){.path = "/org/tiny/resolve/" COMMIT "/config.json", .body = config};
    snprintf(cache, sizeof cache, "%s", check_temporary(name));
    setenv("HF_HUB_CACHE", cache, 1);
    setenv("no_proxy", "*", 1);
    setenv("HF_TOKEN_PATH", "/nonexistent", 1);
    unsetenv("HF_TOKEN");
    server *s = server_start(pages, PAGES, NULL);
    CHECK(s != NULL);
    return s;
}

static const char *in_cache(const char *name)
{
    static char path[4][1200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[0], "%s/models--org--tiny/%s", cache, name);
    return path[next];
}

static weft_status pull(const server *s, weft_hub_options o)
{
    char *folder = NULL;
    o.endpoint = server_url(s);
    o.include = "config.json";
    const weft_status status = weft_hub_pull("org/tiny", &o, &folder);
    weft_free(folder);
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool config_is_there(void)
{
    char *text = NULL;
    const bool same =
        weft_file_read(in_cache("snapshots/" COMMIT "/config.json"), 0, &text, NULL) == WEFT_OK &&
        strcmp(text, config) == 0;
    weft_free(text);
    return same;
}

/* ---- trying again --------------------------------------------------------------------------- */

typedef struct told {
    char list[200], file[200]; /* the last message of each */
    bool stop;
} told;

static bool remember(void *context, const weft_hub_progress *p)
{
    told *t = context;
    if (p->message != NULL)
        snprintf(p->file[0] == '\0' ? t->list : t->file, sizeof t->list, "%s", p->message);
    return !(t->stop && p->message != NULL);
}

static void requests_to_failing_servers_are_repeated(void)
{
    told heard = {0};
    server *s = start("again");
    if (s == NULL)
        return;
    pages[LIST].fails = 1;
    pages[LIST].fail_code = 429;
    pages[CONFIG].fails = 1;
    const double before = now();
    CHECK_OK(pull(s, (weft_hub_options){.progress = remember, .context = &heard}));
    CHECK(now() - before >= 1); /* half a second each */
    CHECK_EQ_INT(server_requests(s), 4);
    CHECK_STR(heard.list, "HTTP 429, trying again in 0.5 s (1 of 5)");
    CHECK_STR(heard.file, "HTTP 503, trying again in 0.5 s (1 of 5)");
    CHECK(config_is_there());
    server_stop(s);
}

static void retry_after_is_obeyed(void)
{
    told heard = {0};
    server *s = start("after");
    if (s == NULL)
        return;
    pages[LIST].fails = 1;
    pages[LIST].retry_after = "2";
    const double before = now();
    CHECK_OK(pull(s, (weft_hub_options){.progress = remember, .context = &heard}));
    CHECK(now() - before >= 2);
    CHECK_STR(heard.list, "HTTP 503, trying again in 2 s (1 of 5)");
    pages[LIST].retry_after = "10000"; /* libcurl reports 21600 for longer times */
    server_pages(s, pages, PAGES);
    CHECK_STATUS(pull(s, (weft_hub_options){0}), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "HTTP 503: the server asks to try again in 10000 seconds");
    server_stop(s);
}

static void attempts_are_limited(void)
{
    server *s = start("ends");
    if (s == NULL)
        return;
    pages[CONFIG].fails = 100;
    pages[CONFIG].fail_code = 500;
    CHECK_STATUS(pull(s, (weft_hub_options){.retries = 1}), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "config.json: HTTP 500, at each of 2 attempts");
    CHECK_EQ_INT(server_requests(s), 3);
    CHECK_STATUS(pull(s, (weft_hub_options){.retries = -1}), WEFT_IO);
    CHECK_EQ_INT(server_requests(s), 5);
    pages[CONFIG].fail_code = 501; /* will not change */
    CHECK_STATUS(pull(s, (weft_hub_options){0}), WEFT_IO);
    CHECK_EQ_INT(server_requests(s), 7);
    server_stop(s);
}

static void a_wait_can_be_stopped(void)
{
    told heard = {.stop = true};
    server *s = start("stop");
    if (s == NULL)
        return;
    pages[LIST].fails = 1;
    pages[LIST].retry_after = "60";
    const double before = now();
    CHECK_STATUS(pull(s, (weft_hub_options){.progress = remember, .context = &heard}),
                 WEFT_CANCELLED);
    CHECK(now() - before < 55);
    server_stop(s);
}

/* ---- broken connections --------------------------------------------------------------------- */

/* A file of zeros under two names; the hash is the one that sha256sum gives. */
enum { LARGE = 18 << 20 };
#define LARGE_HASH "0f6412c73e8eb08468224093bb7c01793f5ce5b8011be10f62a534d7b2fb1aa7"

static const char two_names[] =
    "{\"sha\": \"" COMMIT "\", \"siblings\": ["
    "{\"rfilename\": \"a.bin\", \"size\": 18874368, \"blobId\": \"" CONFIG_HASH "\","
    " \"lfs\": {\"sha256\": \"" LARGE_HASH "\", \"size\": 18874368}},"
    "{\"rfilename\": \"b.bin\", \"size\": 18874368, \"blobId\": \"" CONFIG_HASH "\","
    " \"lfs\": {\"sha256\": \"" LARGE_HASH "\", \"size\": 18874368}}]}";

static server *start_large(const char *name)
{
    static char zeros[LARGE];
    server *s = start(name);
    pages[LIST].body = two_names;
    pages[CONFIG] =
        (server_page){.path = "/org/tiny/resolve/" COMMIT "/a.bin", .body = zeros, .length = LARGE};
    return s;
}

typedef struct hashing {
    int times[2]; /* of each file: how often hashing it began */
    char message[100];
} hashing;

static bool watch(void *context, const weft_hub_progress *p)
{
    hashing *h = context;
    if (p->message == NULL)
        return true;
    h->times[p->index] += strcmp(p->message, "verifying its hash") == 0;
    if (strncmp(p->message, "connection", 10) == 0)
        snprintf(h->message, sizeof h->message, "%s", p->message);
    return true;
}

static weft_status pull_large(const server *s, int retries, hashing *h)
{
    char *folder = NULL;
    *h = (hashing){0};
    const weft_status status = weft_hub_pull("org/tiny",
                                             &(weft_hub_options){.endpoint = server_url(s),
                                                                 .include = "*.bin",
                                                                 .retries = retries,
                                                                 .progress = watch,
                                                                 .context = h},
                                             &folder);
    weft_free(folder);
    return status;
}

static void broken_downloads_are_continued(void)
{
    hashing h;
    server *s = start_large("broken");
    if (s == NULL)
        return;
    pages[LIST].breaks = 1; /* the list, too, has another attempt */
    pages[LIST].piece = 50;
    pages[CONFIG].breaks = 3;
    pages[CONFIG].piece = 1000;
    const double before = now();
    CHECK_OK(pull_large(s, 3, &h));
    CHECK(now() - before >= 0.5 + 0.5 + 1 + 2);
    CHECK_EQ_INT(server_requests(s), 2 + 4);
    CHECK_EQ_INT(server_range(s), 3000);
    CHECK_STR(h.message, "connection broken, trying again in 2 s (3 of 3)");
    server_stop(s);
    /* Every MiB begins a new count: more breaks than retries. */
    s = start_large("breaks");
    if (s == NULL)
        return;
    pages[CONFIG].breaks = 4;
    pages[CONFIG].piece = 4 << 20;
    CHECK_OK(pull_large(s, 1, &h));
    CHECK_EQ_INT(server_requests(s), 1 + 5);
    CHECK_EQ_INT(server_range(s), 16 << 20);
    CHECK_STR(h.message, "connection broken, trying again in 0.5 s (1 of 1)");
    server_stop(s);
}

static void broken_downloads_are_given_up(void)
{
    hashing h;
    struct stat part;
    server *s = start_large("given-up");
    if (s == NULL)
        return;
    pages[CONFIG].breaks = 100;
    pages[CONFIG].piece = 1000;
    CHECK_STATUS(pull_large(s, 2, &h), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "a.bin: interrupted after 3000 of 18874368 bytes");
    CHECK_CONTAINS(weft_error_message(), "(attempt 3)");
    CHECK_EQ_INT(server_requests(s), 1 + 3);
    CHECK(stat(in_cache("blobs/" LARGE_HASH ".incomplete"), &part) == 0);
    CHECK_EQ_INT(part.st_size, 3000);
    /* A server without ranges begins anew each time, which is no progress. */
    pages[CONFIG].no_ranges = true;
    pages[CONFIG].piece = 2 << 20;
    server_pages(s, pages, PAGES);
    CHECK_STATUS(pull_large(s, 1, &h), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "interrupted after 2097152 of 18874368 bytes");
    CHECK_EQ_INT(server_requests(s), 4 + 1 + 2);
    /* A server that does not exist is not waited for. */
    server_stop(s);
    double least = 60; /* the best of several times, since the machine may be busy */
    for (int i = 0; i < 5 && least > 0.5; i++) {
        const double before = now();
        CHECK_STATUS(weft_hub_pull("org/tiny",
                                   &(weft_hub_options){.endpoint = "http://127.0.0.1:1"},
                                   &(char *){0}),
                     WEFT_IO);
        least = fmin(least, now() - before);
    }
    CHECK(least <= 0.5);
}

/* Two names of one blob, which is fetched, and on the next call verified, once. */
static void equal_files_are_hashed_once(void)
{
    hashing h;
    server *s = start_large("equal");
    if (s == NULL)
        return;
    CHECK_OK(pull_large(s, 0, &h));
    CHECK_EQ_INT(server_requests(s), 2);
    CHECK_EQ_INT(h.times[0], 1);
    CHECK_EQ_INT(h.times[1], 0);
    CHECK(unlink(in_cache(".weft-verified")) == 0);
    CHECK_OK(pull_large(s, 0, &h));
    CHECK_EQ_INT(server_requests(s), 3);
    CHECK_EQ_INT(h.times[0], 1);
    CHECK_EQ_INT(h.times[1], 0);
    CHECK(access(in_cache("snapshots/" COMMIT "/b.bin"), R_OK) == 0);
    server_stop(s);
}

/* ---- slow servers --------------------------------------------------------------------------- */

static void slow_servers_are_given_up(void)
{
    server *s = start("slow");
    if (s == NULL)
        return;
    pages[LIST].drip_ms = 200; /* 5 bytes a second, without a pause that would be noticed */
    CHECK_STATUS(pull(s, (weft_hub_options){.seconds = 1}), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "no complete answer within 1 seconds");
    pages[LIST].drip_ms = 0;
    pages[LIST].delay_ms = 1500;
    CHECK_STATUS(pull(s, (weft_hub_options){.seconds = 1}), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "no complete answer within 1 seconds");
    CHECK_OK(pull(s, (weft_hub_options){.seconds = 300}));
    CHECK(unlink(in_cache("blobs/" CONFIG_HASH)) == 0);
    pages[LIST].delay_ms = 0;
    pages[CONFIG].drip_ms = 500;
    for (int i = 0; i < 5; i++) { /* once more if the list came too late */
        CHECK_STATUS(pull(s, (weft_hub_options){.seconds = 2}), WEFT_IO);
        if (strstr(weft_error_message(), "no complete answer") == NULL)
            break;
    }
    CHECK_CONTAINS(weft_error_message(), "less than 1024 bytes a second for 2 seconds");
    server_stop(s);
}

/* ---- another commit ------------------------------------------------------------------------- */

/* Libcurl itself does not read the variable. The server speaks no TLS, so that the message shows
 * whether its answer or the file with the certificates came first. */
static void certificates_are_those_of_the_environment(void)
{
    char url[64];
    server *s = start("certificates");
    if (s == NULL)
        return;
    snprintf(url, sizeof url, "https://127.0.0.1:%d", server_port(s));
    const weft_hub_options o = {.endpoint = url, .include = "config.json", .retries = -1};
    char *before = getenv("SSL_CERT_FILE") ? weft_strdup(getenv("SSL_CERT_FILE")) : NULL;
    char *folder = NULL;
    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    CHECK_STATUS(weft_hub_pull("org/tiny", &o, &folder), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "no certificates of authorities in /nonexistent: ");
    CHECK_CONTAINS(weft_error_message(), "(Debian: ca-certificates)");
    unsetenv("SSL_CERT_FILE");
    CHECK_STATUS(weft_hub_pull("org/tiny", &o, &folder), WEFT_IO);
    CHECK(strstr(weft_error_message(), "certificates") == NULL);
    if (before != NULL)
        setenv("SSL_CERT_FILE", before, 1);
    weft_free(before);
    weft_free(folder);
    server_stop(s);
}

static void another_commit_is_refused(void)
{
    server *s = start("commit");
    if (s == NULL)
        return;
    pages[LIST].path = "/api/models/org/tiny/revision/" OTHER;
    CHECK_STATUS(pull(s, (weft_hub_options){.revision = OTHER}), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "asked for commit " OTHER ", got " COMMIT);
    CHECK(access(in_cache("snapshots/" COMMIT), F_OK) != 0);
    pages[LIST].path = "/api/models/org/tiny/revision/" COMMIT;
    CHECK_OK(pull(s, (weft_hub_options){.revision = COMMIT}));
    CHECK(config_is_there());
    server_stop(s);
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* A blob of the right size, as a broken disk or another program may leave it. */
static void blobs_are_verified_once(void)
{
    static const char wrong[] = "{\"model_type\": \"LLAMA\"}\n";
    told heard = {0};
    struct stat before, after;
    char *text;
    server *s = start("blobs");
    if (s == NULL)
        return;
    CHECK_OK(weft_folder_make(in_cache("blobs")));
    CHECK_OK(weft_file_write(in_cache("blobs/" CONFIG_HASH), wrong, strlen(wrong)));
    CHECK_OK(pull(s, (weft_hub_options){.progress = remember, .context = &heard}));
    CHECK_STR(heard.file, "the cached file has another hash: fetching it");
    CHECK(config_is_there());
    if (CHECK_OK(weft_file_read(in_cache(".weft-verified"), 0, &text, NULL))) {
        CHECK_CONTAINS(text, CONFIG_HASH " 24 ");
        weft_free(text);
    }
    int requests = server_requests(s);
    CHECK(stat(in_cache(".weft-verified"), &before) == 0);
    CHECK_OK(pull(s, (weft_hub_options){0}));
    CHECK_EQ_INT(server_requests(s), ++requests); /* the list alone */
    CHECK(stat(in_cache(".weft-verified"), &after) == 0);
    CHECK_EQ_INT(after.st_ino, before.st_ino);
    /* Right content that was not verified yet is not fetched again; changed content is. */
    CHECK_OK(weft_file_write(in_cache("blobs/" CONFIG_HASH), config, strlen(config)));
    CHECK_OK(pull(s, (weft_hub_options){0}));
    CHECK_EQ_INT(server_requests(s), ++requests);
    CHECK_OK(weft_file_write(in_cache("blobs/" CONFIG_HASH), wrong, strlen(wrong)));
    CHECK_OK(pull(s, (weft_hub_options){0}));
    CHECK_EQ_INT(server_requests(s), requests + 2);
    CHECK(config_is_there());
    /* A malformed record is ignored. */
    CHECK_OK(weft_file_write(in_cache(".weft-verified"), "what?\n\n" CONFIG_HASH " 1", 49));
    CHECK_OK(pull(s, (weft_hub_options){0}));
    server_stop(s);
}

static void links_to_something_else_are_replaced(void)
{
    server *s = start("links");
    if (s == NULL)
        return;
    CHECK_OK(weft_folder_make(in_cache("snapshots/" COMMIT)));
    CHECK_OK(weft_file_write(in_cache("snapshots/" COMMIT "/config.json"), "{}", 2));
    CHECK_OK(pull(s, (weft_hub_options){0}));
    CHECK(config_is_there());
    CHECK_OK(weft_file_write(in_cache("blobs/other"), "{}", 2));
    CHECK(unlink(in_cache("snapshots/" COMMIT "/config.json")) == 0);
    CHECK(symlink("../../blobs/other", in_cache("snapshots/" COMMIT "/config.json")) == 0);
    CHECK_OK(pull(s, (weft_hub_options){0}));
    CHECK(config_is_there());
    server_stop(s);
}

/* ---- many files ----------------------------------------------------------------------------- */

/* Time that grows with the square of the number of files would be minutes here. */
static void many_files_take_time_in_proportion(void)
{
    enum { FILES = 20000, LINE = 120 };
    server *s = start("many");
    char *text = malloc((size_t)FILES * LINE + 200);
    if (s == NULL || !CHECK(text != NULL))
        return;
    size_t n = (size_t)sprintf(text, "{\"sha\": \"" COMMIT "\", \"siblings\": [");
    for (int i = 0; i < FILES - 1; i++)
        n += (size_t)sprintf(text + n,
                             "{\"rfilename\": \"image-%05d.png\", \"size\": 9, "
                             "\"blobId\": \"" CONFIG_HASH "\"},\n",
                             i);
    sprintf(text + n,
            "{\"rfilename\": \"config.json\", \"size\": 24, \"blobId\": \"" CONFIG_HASH "\"}]}");
    pages[LIST].body = text;
    const clock_t before = clock();
    char *folder = NULL;
    CHECK_STATUS(weft_hub_pull("org/tiny", &(weft_hub_options){.endpoint = server_url(s)}, &folder),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "it has no *.safetensors and no *.gguf");
    CHECK((clock() - before) / CLOCKS_PER_SEC < 20);
    free(text);
    server_stop(s);
}

static bool is_built_in(void)
{
    char *folder;
    return weft_hub_pull("a/b", &(weft_hub_options){.endpoint = "http://127.0.0.1:1"}, &folder) !=
           WEFT_UNSUPPORTED;
}

static void skipped_without_libcurl(void)
{
    check_skip("built without libcurl");
}

int main(int argc, char **argv)
{
    static const check_case with[] = {
        CHECK_CASE(requests_to_failing_servers_are_repeated),
        CHECK_CASE(retry_after_is_obeyed),
        CHECK_CASE(attempts_are_limited),
        CHECK_CASE(a_wait_can_be_stopped),
        CHECK_CASE(broken_downloads_are_continued),
        CHECK_CASE(broken_downloads_are_given_up),
        CHECK_CASE(equal_files_are_hashed_once),
        CHECK_CASE(slow_servers_are_given_up),
        CHECK_CASE(certificates_are_those_of_the_environment),
        CHECK_CASE(another_commit_is_refused),
        CHECK_CASE(blobs_are_verified_once),
        CHECK_CASE(links_to_something_else_are_replaced),
        CHECK_CASE(many_files_take_time_in_proportion),
    };
    static const check_case without[] = {CHECK_CASE(skipped_without_libcurl)};
    return is_built_in() ? check_main(argc, argv, "trouble", with, sizeof with / sizeof *with)
                         : check_main(argc, argv, "trouble", without, 1);
}
