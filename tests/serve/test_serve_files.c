/* tests/serve/test_serve_files.c -- uploaded files: forms, names, quotas, the state folder. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/serve/jobs.h"
#include "weft/io.h"
#include "weft/memory.h"

/* serve_options.teach */
static weft_status teach(void *context, const serve_task *task, weft_train_result *result)
{
    (void)context;
    (void)task;
    (void)result;
    return weft_fail(WEFT_UNSUPPORTED, "there are no jobs here");
}

static void names_of_uploads_are_read(int port)
{
    static const struct {
        const char *name, *expected;
    } cases[] = {
        {"name=file; filename=plain.jsonl", "plain.jsonl"},
        {"filename=\"first.jsonl\"; name=file", "first.jsonl"},
        {"name=\"file\";filename=\"a \\\"b\\\\.jsonl\"", "a \"b\\.jsonl"},
        {"name=\"file\"; filename=\"../dir/c.jsonl\"", "c.jsonl"},
        {"name=\"file\"; filename=\"a; name=purpose\"", "a; name=purpose"},
        {"name=\"file\"", "data.jsonl"},
    };
    char name[301] = "", *body;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        body =
            weft_format("--B\r\nContent-Disposition: form-data; name=purpose\r\n\r\nfine-tune\r\n"
                        "--B\r\ncontent-disposition: form-data; %s\r\n\r\n{}\r\n--B--\r\n",
                        cases[i].name);
        json_object *root = jobs_post_form(port, body, 200);
        CHECK_STR(client_text(root, "filename"), cases[i].expected);
        char *path = weft_format("/v1/files/%s", client_text(root, "id"));
        client_expect(port, "DELETE", path, NULL, 200, "true");
        json_object_put(root);
        weft_free(path);
        weft_free(body);
    }
    for (int n = 255; n <= 256; n++) {
        memset(name, 'n', (size_t)n);
        body = jobs_form(name, "fine-tune", "{}");
        json_object *root = jobs_post_form(port, body, n == 255 ? 200 : 400);
        if (n == 255)
            CHECK_STR(client_text(root, "filename"), name);
        else
            CHECK_CONTAINS(client_text(root, "error.message"), "at most 255 bytes");
        char *path = weft_format("/v1/files/%s", n == 255 ? client_text(root, "id") : "none");
        client_expect(port, "DELETE", path, NULL, n == 255 ? 200 : 404, "file");
        json_object_put(root);
        weft_free(path);
        weft_free(body);
    }
}

static void uploads_are_checked(void)
{
    const char *state = check_temporary("uploads");
    serve_server *server =
        client_server((serve_options){.rows = 2, .state = state, .quota = 100, .teach = teach});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    static const struct {
        const char *body, *part;
        int status;
    } cases[] = {
        {"", "purpose", 400},
        {"--B--\r\n", "purpose", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune", "boundary",
         400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B--\r\n",
         "expected fine-tune", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--B--\r\n",
         "file: expected", 400},
        {"--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--B\r\n"
         "Content-Disposition: form-data; name=\"file\"\r\n\r\n\r\n--B--\r\n",
         "got no bytes", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_object *root = jobs_post_form(port, cases[i].body, cases[i].status);
        CHECK_CONTAINS(client_text(root, "error.message"), cases[i].part);
        json_object_put(root);
    }
    client_expect(port, "POST", "/v1/files", "{}", 400, "multipart/form-data");
    char *id = jobs_upload(port, "a.jsonl", "{\"text\": \"a\"}\n"), *path, *long_one;
    path = weft_format("/v1/files/%s/content", id);
    client_expect(port, "GET", path, NULL, 200, "{\"text\": \"a\"}\n");
    names_of_uploads_are_read(port);
    long_one = jobs_rows(3);
    char *body = jobs_form("long.jsonl", "fine-tune", long_one);
    json_object *root = jobs_post_form(port, body, 413);
    json_object_put(root);
    weft_free(path);
    weft_free(body);
    path = weft_format("/v1/files/%s", id);
    client_expect(port, "GET", "/v1/files", NULL, 200, id);
    client_expect(port, "GET", path, NULL, 200, "\"purpose\":\"fine-tune\"");
    client_expect(port, "DELETE", path, NULL, 200, "\"deleted\": true");
    client_expect(port, "DELETE", path, NULL, 404, "no file");
    client_expect(port, "GET", path, NULL, 404, "no file");
    client_expect(port, "GET", "/v1/files/../jobs", NULL, 404, "no file");
    weft_free(path);
    weft_free(long_one);
    weft_free(id);
    serve_stop(server, 0);
}

/* Files that the server did not create are kept. */
static void only_uploads_that_were_cut_off_are_removed(void)
{
    static const char *const names[] = {"mine.jsonl", "file-mine.jsonl",
                                        "file-0123456789abcdefghijklmn.jsonl"};
    char state[512], path[640];
    snprintf(state, sizeof state, "%s", check_temporary("kept"));
    snprintf(path, sizeof path, "%s/files", state);
    CHECK_OK(weft_folder_make(state));
    CHECK_OK(weft_folder_make(path));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/files/%s", state, names[i]);
        CHECK_OK(weft_file_write(path, "{}\n", 3));
    }
    serve_stop(client_server((serve_options){.rows = 2, .state = state, .teach = teach}), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/files/%s", state, names[i]);
        CHECK((access(path, F_OK) == 0) == (i < 2));
    }
}

static void a_state_folder_is_needed(void)
{
    serve_server *server = client_server((serve_options){.rows = 2});
    if (server == NULL)
        return;
    const int port = serve_port(server);
    client_expect(port, "GET", "/v1/files", NULL, 501, "--state");
    client_expect(port, "POST", "/v1/files", "", 501, "--state");
    client_expect(port, "POST", JOBS, "{\"model\": \"storyteller\"}", 501, "--state");
    client_expect(port, "GET", JOBS "/ftjob-a/events", NULL, 501, "--state");
    serve_stop(server, 0);
    const char *link = check_temporary("link");
    serve_server *none = NULL;
    CHECK(symlink("/tmp", link) == 0);
    CHECK_STATUS(serve_start(&(serve_options){.name = "a", .state = link, .teach = teach}, &none),
                 WEFT_INVALID);
    serve_stop(none, 0);
}

CHECK_MAIN("serve_files", CHECK_CASE(uploads_are_checked),
           CHECK_CASE(only_uploads_that_were_cut_off_are_removed),
           CHECK_CASE(a_state_folder_is_needed))
