/* hub/http.c -- HTTP requests to a hub, by libcurl. Redirections are followed manually, so that the
 * token is sent only to the endpoint's scheme, host and port. */
#include "hub/hub.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/io/text.h"
#include "weft/memory.h"
#include "weft/version.h"

enum {
    REDIRECTIONS = 10,
    CONNECT_SECONDS = 30,
    SLOWEST_RATE = 1024,     /* bytes per second */
    WORTH_A_RETRY = 1 << 20, /* bytes of progress after which the count of attempts restarts */
    EXPLANATION = 256        /* bytes */
};
static const double first_wait = 0.5, longest_wait = 300; /* seconds */

struct weft__http {
    CURL *curl;
    char *endpoint;
    struct curl_slist *with_token; /* request headers; NULL: no token */
    int retries;
    double seconds;
};

/* A request, and the destination of its body. */
typedef struct answer {
    weft__http *http;
    weft__text *text; /* the body in memory, at most `limit` bytes; NULL: it is written to a file */
    size_t limit;
    int fd; /* the file, which already has `done` of `size` bytes */
    int64_t from, done, size;
    bool started, stopped, wrong_range;
    int error; /* errno of a failed write; 0: none */
    bool too_long;
    long code;          /* HTTP status of the last response; 0: none */
    bool broken;        /* the last request's connection broke */
    bool was_broken;    /* the connection of an earlier attempt broke */
    double retry_after; /* seconds, from the Retry-After header; 0: absent */
    weft__hub_step *step;
    void *context;
} answer;

/* ---- creating -------------------------------------------------------------------------------- */

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

weft_status weft__http_new(const weft__http_options *options, weft__http **out)
{
    const char *endpoint = options->endpoint, *token = options->token;
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    *out = NULL;
    for (const char *c = token; c != NULL && *c != '\0'; c++) {
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
            return weft_fail(WEFT_INVALID, "%s: the token contains an invalid character", endpoint);
    }
    pthread_once(&started, start_curl);
    weft__http *h = weft_calloc(1, sizeof *h);
    if (h == NULL)
        return weft__out_of_memory(endpoint, NULL);
    h->retries = options->retries;
    h->seconds = options->seconds;
    h->curl = curl_easy_init();
    h->endpoint = weft_strdup(endpoint);
    char *header = token != NULL ? weft_format("Authorization: Bearer %s", token) : NULL;
    if (header != NULL)
        h->with_token = curl_slist_append(NULL, header);
    weft_free(header);
    if (h->curl == NULL || h->endpoint == NULL || (token != NULL && h->with_token == NULL)) {
        weft__http_free(h);
        return weft__out_of_memory(endpoint, "a connection");
    }
    *out = h;
    return WEFT_OK;
}

void weft__http_free(weft__http *http)
{
    if (http == NULL)
        return;
    curl_easy_cleanup(http->curl);
    curl_slist_free_all(http->with_token);
    weft_free(http->endpoint);
    weft_free(http);
}

/* The file of the authorities' certificates: a libcurl that was built for another system looks for
 * it elsewhere. NULL: where libcurl does. */
static const char *authorities(void)
{
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Arch */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* older ones */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };
    const char *file = getenv("SSL_CERT_FILE");
    for (size_t i = 0; file == NULL && i < sizeof places / sizeof *places; i++) {
        if (access(places[i], R_OK) == 0)
            file = places[i];
    }
    return file;
}

/* ---- allowed destinations -------------------------------------------------------------------- */

/* "scheme://host:port" of a URL, with the default port added; false: not HTTP. */
static bool origin_of(const char *url, char *out, size_t size)
{
    CURLU *parts = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    bool fine = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (fine)
        fine = snprintf(out, size, "%s://%s:%s", scheme, host, port) < (int)size;
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return fine;
}

static bool same_origin(const char *a, const char *b)
{
    char x[512], y[512];
    return origin_of(a, x, sizeof x) && origin_of(b, y, sizeof y) && strcasecmp(x, y) == 0;
}

/* ---- bodies --------------------------------------------------------------------------------- */

/* Called before the first byte of a file: whether the server resumes at the end of the file. */
static bool start_file(answer *a)
{
    long code = 0;
    curl_easy_getinfo(a->http->curl, CURLINFO_RESPONSE_CODE, &code);
    a->started = true;
    if (code == 206 && (a->from > 0 || a->wrong_range))
        return !a->wrong_range;
    a->wrong_range = false;
    a->done = 0;
    a->error = ftruncate(a->fd, 0) == 0 ? 0 : errno;
    return a->error == 0;
}

static bool write_file(answer *a, const char *bytes, size_t n)
{
    if (!a->started && !start_file(a))
        return false;
    a->too_long = (int64_t)n > a->size - a->done;
    while (n > 0 && !a->too_long) {
        const ssize_t written = pwrite(a->fd, bytes, n, a->done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            a->error = errno;
            return false;
        }
        bytes += written;
        n -= (size_t)written;
        a->done += written;
    }
    return !a->too_long;
}

static size_t take(char *bytes, size_t one, size_t n, void *context)
{
    answer *a = context;
    long code = 0;
    curl_easy_getinfo(a->http->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && code != 206)
        return one * n; /* the body of an error page is ignored */
    if (a->text == NULL)
        return write_file(a, bytes, one * n) ? one * n : 0;
    a->too_long = one * n > a->limit - a->text->n;
    if (!a->too_long)
        weft__text_append(a->text, bytes, one * n);
    return a->too_long || a->text->failed ? 0 : one * n;
}

/* "Content-Range: bytes FROM-TO/SIZE" must begin at the end of the file. */
static size_t take_header(char *bytes, size_t one, size_t n, void *context)
{
    answer *a = context;
    char line[128];
    long long from;
    snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), bytes);
    if (a->text == NULL && strncasecmp(line, "content-range:", 14) == 0)
        a->wrong_range = sscanf(line + 14, " bytes %lld-", &from) != 1 || from != a->from;
    return one * n;
}

static int tell(void *context, curl_off_t total, curl_off_t now, curl_off_t x, curl_off_t y)
{
    answer *a = context;
    (void)total, (void)now, (void)x, (void)y;
    if (a->step != NULL && a->text == NULL && !a->stopped)
        a->stopped = !a->step(a->context, a->done, NULL);
    return a->stopped;
}

/* ---- requests ------------------------------------------------------------------------------- */

static void set_up(answer *a, const char *url)
{
    weft__http *h = a->http;
    CURL *c = h->curl;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "weft/" WEFT_VERSION);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    if (authorities() != NULL)
        curl_easy_setopt(c, CURLOPT_CAINFO, authorities());
    if (a->text != NULL) {
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(h->seconds * 1000));
    } else {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST_RATE);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)(h->seconds + 0.999));
    }
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, tell);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (same_origin(url, h->endpoint))
        curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->with_token);
    if (a->text == NULL && a->from > 0) {
        char range[32];
        snprintf(range, sizeof range, "%lld-", (long long)a->from);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
}

/* Whether the server's certificate could not be verified because there are no authorities. */
static bool lacks_authorities(CURLcode result)
{
    return result == CURLE_SSL_CACERT_BADFILE ||
           (result == CURLE_PEER_FAILED_VERIFICATION && authorities() == NULL);
}

/* The reason why a transfer ended: curl's message, except for our own limits and certificates. */
static void explain(const answer *a, CURLcode result, char out[EXPLANATION])
{
    const char *file = authorities();
    if (lacks_authorities(result))
        snprintf(out, EXPLANATION,
                 "no certificates of authorities in %.100s: install them (Debian: "
                 "ca-certificates), or name their file in SSL_CERT_FILE",
                 file != NULL ? file : "the system's usual places");
    else if (result != CURLE_OPERATION_TIMEDOUT)
        snprintf(out, EXPLANATION, "%s", curl_easy_strerror(result));
    else if (a->text != NULL)
        snprintf(out, EXPLANATION, "no complete answer within %g seconds", a->http->seconds);
    else
        snprintf(out, EXPLANATION, "no connection, or less than %d bytes a second for %g seconds",
                 SLOWEST_RATE, a->http->seconds);
}

static weft_status failure(const answer *a, const char *url, CURLcode result)
{
    char why[EXPLANATION];
    explain(a, result, why);
    if (a->stopped)
        return weft_fail(WEFT_CANCELLED, "%s: stopped", url);
    if (a->error != 0)
        return weft_fail(WEFT_IO, "%s: writing the file: %s", url, strerror(a->error));
    if (a->too_long)
        return weft_fail(WEFT_INVALID, "%s: longer than the %lld bytes that were expected", url,
                         a->text != NULL ? (long long)a->limit : (long long)a->size);
    if (a->started && a->wrong_range)
        return weft_fail(WEFT_INVALID, "%s: asked for bytes from %lld on, got others", url,
                         (long long)a->from);
    if (result == CURLE_OUT_OF_MEMORY || (a->text != NULL && a->text->failed))
        return weft__out_of_memory(url, NULL);
    if (a->text == NULL && a->started && a->done < a->size)
        return weft_fail(WEFT_IO,
                         "%s: interrupted after %lld of %lld bytes (%s); run again to resume", url,
                         (long long)a->done, (long long)a->size, why);
    return weft_fail(WEFT_IO, "%s: %s", url, why);
}

static weft_status refusal(const answer *a, const char *url, long code)
{
    const bool sent = a->http->with_token != NULL;
    if (code == 401 || code == 403)
        return weft_fail(WEFT_IO, "%s: HTTP %ld: %s", url, code,
                         sent ? "this token may not read it (is the model's license accepted?)"
                              : "it needs a token: set HF_TOKEN");
    if (code == 404)
        return weft_fail(WEFT_IO, "%s: HTTP 404: there is no such repository, revision or file%s",
                         url, sent ? "" : ", or it needs a token (HF_TOKEN)");
    return weft_fail(WEFT_IO, "%s: HTTP %ld", url, code);
}

/* Whether the connection broke, so that another attempt may get the rest. A transfer that is too
 * slow is not retried. */
static bool is_break(const answer *a, CURLcode result)
{
    switch (result) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
        return a->was_broken;
    default:
        return false;
    }
}

/* Starts over by requesting the same URL without a range. */
static weft_status start_again(answer *a, const char *url, char **next)
{
    a->from = a->done = 0;
    *next = weft_strdup(url);
    return *next != NULL ? WEFT_OK : weft__out_of_memory(url, NULL);
}

/* One request; *next is the URL of a redirection (weft_free), or NULL. */
static weft_status once(answer *a, const char *url, char **next)
{
    CURL *c = a->http->curl;
    curl_off_t retry_after = 0;
    char *target = NULL, origin[512];
    *next = NULL;
    a->code = 0;
    a->started = false;
    a->wrong_range = a->from > 0; /* until a header confirms the range */
    set_up(a, url);
    const CURLcode result = curl_easy_perform(c);
    if (result != CURLE_OK && a->started && a->wrong_range && a->from > 0)
        return start_again(a, url, next);
    a->broken = is_break(a, result);
    if (result != CURLE_OK)
        return failure(a, url, result);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->code);
    curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &target);
    curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &retry_after);
    a->retry_after = (double)retry_after;
    if (a->code == 200 || (a->code == 206 && a->text == NULL))
        return WEFT_OK;
    if (a->code == 416 && a->from > 0)
        return start_again(a, url, next);
    if (a->code / 100 != 3 || target == NULL)
        return refusal(a, url, a->code);
    const bool weaker = strncasecmp(url, "https:", 6) == 0 && strncasecmp(target, "https:", 6) != 0;
    if (!origin_of(target, origin, sizeof origin) || weaker)
        return weft_fail(WEFT_INVALID, "%s: redirected to %.200s, which is not followed", url,
                         target);
    *next = weft_strdup(target);
    return *next != NULL ? WEFT_OK : weft__out_of_memory(url, NULL);
}

static weft_status follow(answer *a, const char *url)
{
    char *at = weft_strdup(url), *next = NULL;
    weft_status status = at != NULL ? WEFT_OK : weft__out_of_memory(url, NULL);
    for (int i = 0; status == WEFT_OK; i++) {
        if (i > REDIRECTIONS) {
            status = weft_fail(WEFT_IO, "%s: more than %d redirections", url, REDIRECTIONS);
            break;
        }
        status = once(a, at, &next);
        if (status != WEFT_OK || next == NULL)
            break;
        weft_free(at);
        at = next;
    }
    weft_free(at);
    return status;
}

/* ---- retries --------------------------------------------------------------------------------- */

/* Whether the server is overloaded or temporarily unavailable. */
static bool is_transient(long code)
{
    return code == 429 || (code >= 500 && code != 501 && code != 505);
}

/* Waits, reporting the message meanwhile; false when cancelled. */
static bool wait_for(const answer *a, double seconds, const char *message)
{
    const double end = weft__seconds() + seconds;
    for (double left = seconds; left > 0; left = end - weft__seconds()) {
        if (a->step != NULL && !a->step(a->context, a->done, message))
            return false;
        const double nap = left < 0.1 ? left : 0.1;
        nanosleep(&(struct timespec){.tv_nsec = (long)(nap * 1e9)}, NULL);
    }
    return true;
}

/* The file keeps what the last attempt received, and the next one requests the rest. */
static void prepare_next(answer *a)
{
    a->was_broken = a->was_broken || a->broken;
    a->from = a->done;
    if (a->text != NULL)
        a->text->n = 0;
}

/* Reports the failure of the last attempt. */
static weft_status give_up(const answer *a, const char *url, weft_status status, int attempts)
{
    if (a->broken)
        return weft_fail(status, "%s (attempt %d)", weft_error_message(), attempts);
    return weft_fail(WEFT_IO, "%s: HTTP %ld, at each of %d attempts", url, a->code, attempts);
}

static weft_status request(answer *a, const char *url)
{
    const int retries = a->http->retries;
    double backoff = first_wait;
    int64_t most = a->done;
    for (int i = 0;; i++, backoff *= 2) {
        char message[100];
        const weft_status status = follow(a, url);
        if (a->broken && a->text == NULL && a->done == a->size)
            return WEFT_OK; /* the file is complete; the hash decides */
        if (status == WEFT_OK || !(a->broken || is_transient(a->code)))
            return status;
        if (a->done - most >= WORTH_A_RETRY) {
            most = a->done;
            i = 0;
            backoff = first_wait;
        }
        if (i >= retries)
            return give_up(a, url, status, i + 1);
        const double wait = !a->broken && a->retry_after > backoff ? a->retry_after : backoff;
        if (wait > longest_wait)
            return weft_fail(WEFT_IO, "%s: HTTP %ld: the server asks to try again in %g seconds",
                             url, a->code, wait);
        if (a->broken)
            snprintf(message, sizeof message, "connection broken, trying again in %g s (%d of %d)",
                     wait, i + 1, retries);
        else
            snprintf(message, sizeof message, "HTTP %ld, trying again in %g s (%d of %d)", a->code,
                     wait, i + 1, retries);
        if (!wait_for(a, wait, message))
            return weft_fail(WEFT_CANCELLED, "%s: stopped", url);
        prepare_next(a);
    }
}

weft_status weft__http_text(weft__http *http, const char *url, size_t limit, weft__hub_step *step,
                            void *context, char **text, size_t *length)
{
    weft__text body = {0};
    answer a = {.http = http, .text = &body, .limit = limit, .step = step, .context = context};
    weft_status status = request(&a, url);
    if (status == WEFT_OK && body.at == NULL)
        status = weft_fail(WEFT_INVALID, "%s: an empty answer", url);
    *text = status == WEFT_OK ? body.at : NULL;
    *length = body.n;
    if (status != WEFT_OK)
        weft_free(body.at);
    return status;
}

weft_status weft__http_file(weft__http *http, const char *url, int fd, int64_t from, int64_t size,
                            weft__hub_step *step, void *context)
{
    answer a = {.http = http,
                .fd = fd,
                .from = from,
                .done = from,
                .size = size,
                .step = step,
                .context = context};
    const weft_status status = request(&a, url);
    if (status == WEFT_OK && a.done < size)
        return weft_fail(WEFT_IO, "%s: interrupted after %lld of %lld bytes; run again to resume",
                         url, (long long)a.done, (long long)size);
    return status;
}
