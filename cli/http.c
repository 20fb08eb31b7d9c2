/* cli/http.c -- requests to a server of OpenAI's API, by libcurl. */
#include "cli/http.h"

#include <string.h>

#include <curl/curl.h>

#include "cli/common.h"
#include "cli/lines.h"
#include "weft/memory.h"

enum { CONNECT_SECONDS = 30, WAIT_MS = 50, EXPLANATION = 4096 };

struct cli_http {
    char *base; /* with /v1 */
    CURL *curl;
    CURLM *loop;
    struct curl_slist *headers;
    bool has_key;
};

/* An answer that comes. */
typedef struct reply {
    cli_http *http;
    cli_http_fn *take;
    void *context;
    weft_status status;          /* of `take` */
    char error[EXPLANATION + 1]; /* the beginning of the body of an error */
    size_t n;
} reply;

static void strip(char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    if (n >= m && strcmp(text + n - m, end) == 0)
        text[n - m] = '\0';
}

static bool is_http(const char *url)
{
    return (strncmp(url, "http://", 7) == 0 && url[7] != '\0') ||
           (strncmp(url, "https://", 8) == 0 && url[8] != '\0');
}

static weft_status read_key(cli_http *h, const char *key)
{
    for (const char *c = key; *c != '\0'; c++) {
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
            return weft_fail(WEFT_INVALID, "the API key has an invalid character");
    }
    char *header = weft_format("Authorization: Bearer %s", key);
    struct curl_slist *more = header != NULL ? curl_slist_append(h->headers, header) : NULL;
    weft_free(header);
    if (more == NULL)
        return weft_fail(WEFT_MEMORY, "no memory for a request");
    h->headers = more;
    h->has_key = true;
    return WEFT_OK;
}

weft_status cli_http_new(const char *url, const char *key, cli_http **out)
{
    *out = NULL;
    if (!is_http(url))
        return weft_fail(WEFT_INVALID, "--server: expected http://HOST:PORT or https://..., got %s",
                         weft_printable(url));
    cli_http *h = weft_calloc(1, sizeof *h);
    if (h == NULL)
        return weft_fail(WEFT_MEMORY, "no memory for a request");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    char *bare = weft_strdup(url);
    if (bare != NULL) {
        strip(bare, "/");
        strip(bare, "/v1");
    }
    h->base = bare != NULL ? weft_format("%s/v1", bare) : NULL;
    weft_free(bare);
    h->curl = curl_easy_init();
    h->loop = curl_multi_init();
    h->headers = curl_slist_append(NULL, "Content-Type: application/json");
    weft_status status = h->base != NULL && h->curl != NULL && h->loop != NULL && h->headers != NULL
                             ? WEFT_OK
                             : weft_fail(WEFT_MEMORY, "no memory for a request");
    if (status == WEFT_OK && key != NULL && *key != '\0')
        status = read_key(h, key);
    if (status == WEFT_OK)
        *out = h;
    else
        cli_http_free(h);
    return status;
}

void cli_http_free(cli_http *h)
{
    if (h == NULL)
        return;
    curl_easy_cleanup(h->curl);
    curl_multi_cleanup(h->loop);
    curl_slist_free_all(h->headers);
    weft_free(h->base);
    weft_free(h);
}

/* ---- answers -------------------------------------------------------------------------------- */

static long code_of(const cli_http *h)
{
    long code = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
    reply *r = context;
    const size_t n = size * count;
    if (code_of(r->http) == 200) {
        r->status = r->take(r->context, bytes, n);
        return r->status == WEFT_OK ? n : n + 1; /* another number ends the request */
    }
    const size_t room = EXPLANATION - r->n, m = n < room ? n : room;
    memcpy(r->error + r->n, bytes, m);
    r->n += m;
    r->error[r->n] = '\0';
    return n;
}

/* The message in an error's body: that of OpenAI's API, or the text itself. */
static weft_status fail_code(const reply *r, const char *url)
{
    const long code = code_of(r->http);
    json_object *root = cli_parse_json(r->error, r->n);
    json_object *error = json_object_object_get(root, "error");
    json_object *inner = json_object_is_type(error, json_type_object)
                             ? json_object_object_get(error, "message")
                         : error != NULL ? error
                                         : json_object_object_get(root, "message");
    const char *text = cli_plain_text(inner), *said = text != NULL ? text : r->error;
    const weft_status status = weft_fail(
        WEFT_INVALID, "%s: status %ld%s%.600s%s", url, code, *said != '\0' ? ": " : "", said,
        code == 401 && !r->http->has_key ? ": give a key by --api-key-file FILE or WEFT_API_KEY"
                                         : "");
    json_object_put(root);
    return status;
}

static weft_status fail_curl(CURLcode code, const char *url)
{
    const char *hint = code == CURLE_COULDNT_CONNECT ? ": is the server running?" : "";
    return weft_fail(WEFT_IO, "%s: %s%s", url, curl_easy_strerror(code), hint);
}

/* Runs the transfer to its end. WEFT_CANCELLED: it was cut off. */
static weft_status run(cli_http *h, const weft_cancel *cancel, double seconds, CURLcode *code)
{
    const double begun = cli_seconds();
    weft_status status = WEFT_OK;
    int running = 1, left;
    while (status == WEFT_OK && running > 0) {
        if (curl_multi_perform(h->loop, &running) != CURLM_OK)
            status = weft_fail(WEFT_IO, "%s: the connection cannot be used", h->base);
        else if (running > 0)
            (void)curl_multi_poll(h->loop, NULL, 0, WAIT_MS, NULL);
        if (running > 0 && ((cancel != NULL && weft_cancel_is_set(cancel)) ||
                            (seconds > 0 && cli_seconds() - begun > seconds)))
            status = WEFT_CANCELLED;
    }
    *code = CURLE_OK;
    for (CURLMsg *m; (m = curl_multi_info_read(h->loop, &left)) != NULL;)
        *code = m->msg == CURLMSG_DONE ? m->data.result : *code;
    return status;
}

static void prepare(cli_http *h, const char *url, const char *json, reply *r)
{
    curl_easy_reset(h->curl);
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    curl_easy_setopt(h->curl, CURLOPT_USERAGENT, "weft");
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, r);
    if (json != NULL)
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, json); /* borrowed */
}

weft_status cli_http_send(cli_http *h, const char *path, const char *json,
                          const weft_cancel *cancel, double seconds, cli_http_fn *take,
                          void *context)
{
    reply r = {.http = h, .take = take, .context = context};
    CURLcode code = CURLE_OK;
    char *url = weft_format("%s%s", h->base, path);
    if (url == NULL)
        return weft_fail(WEFT_MEMORY, "no memory for a request");
    prepare(h, url, json, &r);
    curl_multi_add_handle(h->loop, h->curl);
    weft_status status = run(h, cancel, seconds, &code);
    if (status == WEFT_OK && r.status != WEFT_OK)
        status = r.status;
    else if (status == WEFT_OK && code != CURLE_OK)
        status = fail_curl(code, url);
    else if (status == WEFT_OK && code_of(h) != 200)
        status = fail_code(&r, url);
    curl_multi_remove_handle(h->loop, h->curl);
    weft_free(url);
    return status;
}
