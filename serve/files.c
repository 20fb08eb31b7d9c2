/* serve/files.c -- the files of OpenAI's API: uploads of training data. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "serve/teach.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { BOUNDARY = 70, NAME = 255 };

char *serve_file_path(const serve_teacher *teacher, const char *id)
{
    return weft_format("%s/%s.jsonl", teacher->files.folder, id);
}

/* ---- multipart/form-data (RFC 7578) --------------------------------------------------------- */

typedef struct span {
    const char *at;
    size_t n;
} span;

/* Where `what` begins in a span, or its end. */
static const char *find(span in, const char *what, size_t n)
{
    for (size_t i = 0; n > 0 && i + n <= in.n; i++) {
        const char *at = memchr(in.at + i, what[0], in.n - i);
        if (at == NULL || (size_t)(in.at + in.n - at) < n)
            break;
        if (memcmp(at, what, n) == 0)
            return at;
        i = (size_t)(at - in.at);
    }
    return in.at + in.n;
}

/* Reads "--" and the boundary that the header names. */
static weft_status read_boundary(const char *type, char out[BOUNDARY + 5])
{
    static const char form[] = "multipart/form-data", key[] = "boundary=";
    const char *at = type;
    if (type == NULL || strncasecmp(type, form, sizeof form - 1) != 0)
        return weft_fail(WEFT_INVALID, "expected a body of multipart/form-data with purpose and "
                                       "file");
    while (*at != '\0' && strncasecmp(at, key, sizeof key - 1) != 0)
        at++;
    at += *at != '\0' ? sizeof key - 1 : 0;
    const bool quoted = *at == '"';
    at += quoted;
    const size_t n = strcspn(at, quoted ? "\"" : "; \t");
    if (n == 0 || n > BOUNDARY)
        return weft_fail(WEFT_INVALID, "Content-Type: expected a boundary of 1 to %d bytes",
                         (int)BOUNDARY);
    memcpy(out, "\r\n--", 4);
    memcpy(out + 4, at, n);
    out[4 + n] = '\0';
    return WEFT_OK;
}

/* The Content-Disposition of a part's headers, after its type; n 0: absent. */
static span disposition(span headers)
{
    static const char key[] = "\r\ncontent-disposition:";
    const size_t n = sizeof key - 1;
    for (size_t i = 0; i + n <= headers.n; i++) {
        if (strncasecmp(headers.at + i, key, n) != 0)
            continue;
        const span rest = {headers.at + i + n, headers.n - i - n};
        const span line = {rest.at, (size_t)(find(rest, "\r\n", 2) - rest.at)};
        const char *from = find(line, ";", 1);
        return (span){from, (size_t)(line.at + line.n - from)};
    }
    return (span){headers.at, 0};
}

/* Adds the value of a parameter, a token or a quoted string in which \" and \\ are one character,
 * to `out` (NULL: skips it), and returns what follows it. */
static const char *read_value(const char *at, const char *end, serve_text *out)
{
    const bool quoted = at < end && *at == '"';
    for (at += quoted; at < end && (quoted ? *at != '"' : strchr("; \t", *at) == NULL); at++) {
        if (quoted && *at == '\\' && at + 1 < end && strchr("\"\\", at[1]) != NULL)
            at++;
        if (out != NULL)
            serve_text_add(out, at, 1);
    }
    return at < end && quoted ? at + 1 : at;
}

/* Reads a parameter of a part, as in name="file" or name=file (RFC 7578, RFC 2183). */
static void read_parameter(span headers, const char *key, serve_text *out)
{
    const span line = disposition(headers);
    const char *at = line.at, *end = at + line.n;
    out->n = 0;
    serve_text_add(out, "", 0);
    while (at < end) {
        while (at < end && strchr("; \t", *at) != NULL)
            at++;
        const char *name = at;
        while (at < end && strchr("=; \t", *at) == NULL)
            at++;
        const bool found = (size_t)(at - name) == strlen(key) &&
                           strncasecmp(name, key, strlen(key)) == 0 && out->n == 0;
        if (at < end && *at == '=')
            at = read_value(at + 1, end, found ? out : NULL);
    }
}

/* The next part of a body, from *at, which is at its boundary and moves on to the next one. False:
 * none. */
static bool next_part(span body, const char *boundary, const char **at, span *headers, span *part)
{
    const size_t n = strlen(boundary);
    const char *end = body.at + body.n;
    if (end - *at < (ptrdiff_t)n + 2 || memcmp(*at + n, "--", 2) == 0)
        return false;
    const span rest = {*at + n, (size_t)(end - *at) - n};
    const char *blank = find(rest, "\r\n\r\n", 4);
    if (blank == end)
        return false;
    const span after = {blank + 2, (size_t)(end - blank) - 2}; /* an empty part has no line */
    *at = find(after, boundary, n);
    const char *from = blank + 4 <= *at ? blank + 4 : *at;
    *headers = (span){rest.at, (size_t)(blank - rest.at)};
    *part = (span){from, (size_t)(*at - from)};
    return true;
}

/* The part of a name, and the name of the file that it is ("": none). */
static weft_status find_part(span body, const char *boundary, const char *name, span *out,
                             serve_text *file)
{
    const size_t n = strlen(boundary);
    serve_text found = {0};
    span headers;
    bool is = false;
    /* The first boundary may have no line before it. */
    const char *at = body.n >= n - 2 && memcmp(body.at, boundary + 2, n - 2) == 0
                         ? body.at - 2
                         : find(body, boundary, n);
    while (!is && next_part(body, boundary, &at, &headers, out)) {
        if (at == body.at + body.n) {
            serve_text_free(&found);
            return weft_fail(WEFT_INVALID, "body: the last boundary is missing");
        }
        read_parameter(headers, "name", &found);
        is = !found.failed && strcmp(found.at, name) == 0;
    }
    const bool failed = found.failed;
    serve_text_free(&found);
    if (failed)
        return weft_fail(WEFT_MEMORY, "out of memory for the body");
    if (!is)
        return weft_fail(WEFT_INVALID, "%s: expected a part of this name", name);
    read_parameter(headers, "filename", file);
    return file->failed ? weft_fail(WEFT_MEMORY, "out of memory for the body") : WEFT_OK;
}

/* ---- uploads -------------------------------------------------------------------------------- */

/* Reads the last part of a file's name, with its control characters escaped. */
static weft_status read_name(const serve_text *file, serve_text *out)
{
    enum { PIECE = 24 }; /* weft_printable_n shows it whole */
    const char *slash = strrchr(file->at, '/'), *at = slash != NULL ? slash + 1 : file->at;
    for (size_t n = strlen(at), m; n > 0; at += m, n -= m) {
        m = n < PIECE ? n : PIECE;
        while (m > 1 && m < n && (at[m] & 0xC0) == 0x80) /* not within a character */
            m--;
        const char *shown = weft_printable_n(at, m);
        serve_text_add(out, shown, strlen(shown));
    }
    if (out->n > NAME)
        return weft_fail(WEFT_INVALID, "file: expected a filename of at most %d bytes, got %zu",
                         (int)NAME, out->n);
    if (out->n == 0)
        serve_text_add(out, "data.jsonl", strlen("data.jsonl"));
    return out->failed ? weft_fail(WEFT_MEMORY, "out of memory for a filename") : WEFT_OK;
}

/* The lock is held. */
static weft_status check_quota(serve_request *r, const serve_teacher *teacher, size_t n)
{
    const int64_t quota = r->server->options.quota;
    int64_t bytes = (int64_t)n;
    const size_t count = json_object_array_length(teacher->files.list);
    for (size_t i = 0; i < count; i++)
        bytes += serve_record_number(
            json_object_object_get(json_object_array_get_idx(teacher->files.list, i), "object"),
            "bytes");
    if (bytes <= quota && count < SERVE_RECORDS)
        return WEFT_OK;
    const serve_error error =
        serve_error_make(413,
                         "the files would have %lld bytes, and the server keeps %lld bytes in %d "
                         "files; delete one",
                         (long long)bytes, (long long)quota, (int)SERVE_RECORDS);
    return serve_refuse(r, &error);
}

/* Saves the data, then the record. `disk` is held. */
static weft_status save(serve_teacher *teacher, const char *id, span data, const char *name)
{
    serve_text text = {0};
    const int64_t now = (int64_t)time(NULL);
    char *path = serve_file_path(teacher, id);
    weft_status status = path != NULL ? weft_file_write(path, data.at, data.n)
                                      : weft_fail(WEFT_MEMORY, "out of memory for a path");
    serve_put(&text,
              "{'id': %s, 'created_at': %i, 'object': {'id': %s, 'object': 'file', 'bytes': %i, "
              "'created_at': %i, 'filename': %s, 'purpose': 'fine-tune', 'status': 'processed', "
              "'expires_at': null, 'status_details': null}}",
              id, now, id, (int64_t)data.n, now, name);
    if (status == WEFT_OK)
        status = serve_record_add(teacher, &teacher->files, serve_record_make(&text));
    if (status != WEFT_OK && path != NULL)
        (void)unlink(path);
    serve_text_free(&text);
    weft_free(path);
    return status;
}

/* Finds the data of a form, and its name. */
static weft_status read_form(serve_request *r, span *data, serve_text *name)
{
    char boundary[BOUNDARY + 5];
    const span body = {r->body.at != NULL ? r->body.at : "", r->body.n};
    span purpose;
    serve_text file = {0};
    weft_status status = read_boundary(r->content_type, boundary);
    if (status == WEFT_OK)
        status = find_part(body, boundary, "purpose", &purpose, &file);
    if (status == WEFT_OK && (purpose.n != 9 || memcmp(purpose.at, "fine-tune", 9) != 0))
        status = weft_fail(WEFT_INVALID, "purpose: expected fine-tune");
    if (status == WEFT_OK)
        status = find_part(body, boundary, "file", data, &file);
    if (status == WEFT_OK && data->n == 0)
        status = weft_fail(WEFT_INVALID, "file: expected JSON lines, got no bytes");
    if (status == WEFT_OK)
        status = read_name(&file, name);
    serve_text_free(&file);
    return status;
}

weft_status serve_run_upload(serve_request *r)
{
    span data = {0};
    serve_text name = {0};
    serve_teacher *teacher = r->server->teacher;
    char id[40];
    weft_status status = serve_teacher_check(r);
    if (status == WEFT_OK)
        status = read_form(r, &data, &name);
    if (status == WEFT_OK) {
        serve_make_id("file-", id, sizeof "file-" + 24);
        pthread_mutex_lock(&teacher->disk);
        pthread_mutex_lock(&teacher->lock);
        status = check_quota(r, teacher, data.n);
        pthread_mutex_unlock(&teacher->lock);
        if (status == WEFT_OK)
            status = save(teacher, id, data, name.at);
        pthread_mutex_unlock(&teacher->disk);
    }
    serve_text_free(&name);
    return status == WEFT_OK ? serve_reply_record(r, &teacher->files, "file", id) : status;
}

/* ---- reading and deleting ------------------------------------------------------------------- */

weft_status serve_run_list_files(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->lock);
    status = serve_reply_page(r, serve_record_objects(&teacher->files));
    pthread_mutex_unlock(&teacher->lock);
    return status;
}

/* Answers with a file's data, unless it is a link. */
static weft_status reply_data(serve_request *r, const char *id)
{
    char *path = serve_file_path(r->server->teacher, id), *text = NULL;
    struct stat what;
    size_t n = 0;
    weft_status status = path != NULL && lstat(path, &what) == 0 && S_ISREG(what.st_mode)
                             ? serve_hold(r, (size_t)what.st_size)
                             : weft_fail(WEFT_IO, "the file's data is not there");
    if (status == WEFT_OK)
        status = weft_file_read(path, (size_t)what.st_size + 1, &text, &n);
    weft_free(path);
    if (status != WEFT_OK)
        return status;
    serve_text out = {.at = text, .n = n, .room = n};
    serve_reply(r, 200, "application/octet-stream", &out);
    return WEFT_OK;
}

/* A file's object, or with /content its data. */
weft_status serve_run_file(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    char id[64];
    const size_t n = strcspn(r->path, "/");
    const bool content = strcmp(r->path + n, "/content") == 0;
    const weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    snprintf(id, sizeof id, "%.*s", (int)(n < sizeof id ? n : sizeof id - 1), r->path);
    if (!content)
        return serve_reply_record(r, &teacher->files, "file", r->path);
    pthread_mutex_lock(&teacher->lock);
    const bool found = serve_record_find(&teacher->files, id) != NULL;
    pthread_mutex_unlock(&teacher->lock);
    return found ? reply_data(r, id) : serve_refuse_unknown(r, "file", r->path);
}

/* The job that has not ended and reads the file; NULL: none. */
static json_object *user_of(const serve_teacher *teacher, const char *id)
{
    for (size_t i = 0; i < json_object_array_length(teacher->jobs.list); i++) {
        json_object *job = json_object_array_get_idx(teacher->jobs.list, i);
        const char *trained = serve_record_text(job, "training_file"),
                   *validated = serve_record_text(job, "validation_file");
        if (!serve_job_has_ended(job) && ((trained != NULL && strcmp(trained, id) == 0) ||
                                          (validated != NULL && strcmp(validated, id) == 0)))
            return job;
    }
    return NULL;
}

/* Whether a file may be deleted. The lock is held. */
static weft_status check_unused(serve_request *r, const serve_teacher *teacher)
{
    if (serve_record_find(&teacher->files, r->path) == NULL)
        return serve_refuse_unknown(r, "file", r->path);
    json_object *user = user_of(teacher, r->path);
    return user == NULL
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "the file is used by job %s", serve_record_id(user));
}

weft_status serve_run_delete_file(serve_request *r)
{
    serve_teacher *teacher = r->server->teacher;
    weft_status status = serve_teacher_check(r);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->disk);
    pthread_mutex_lock(&teacher->lock);
    status = check_unused(r, teacher);
    pthread_mutex_unlock(&teacher->lock);
    if (status == WEFT_OK) {
        char *path = serve_file_path(teacher, r->path);
        status = serve_record_remove(teacher, &teacher->files, r->path);
        if (path != NULL && status == WEFT_OK)
            (void)unlink(path);
        weft_free(path);
    }
    if (status == WEFT_OK)
        serve_reply_deleted(r, r->path, "file");
    pthread_mutex_unlock(&teacher->disk);
    return status;
}
