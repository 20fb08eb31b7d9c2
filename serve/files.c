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

/* The value of a parameter of a header, as in name="file"; n 0: absent. */
static span parameter(span header, const char *key)
{
    const size_t n = strlen(key);
    for (size_t i = 1; i + n + 2 < header.n; i++) {
        const char *at = header.at + i;
        if (strncasecmp(at, key, n) != 0 || memcmp(at + n, "=\"", 2) != 0 ||
            strchr("; \t", at[-1]) == NULL)
            continue;
        at += n + 2;
        const char *end = memchr(at, '"', (size_t)(header.at + header.n - at));
        return end != NULL ? (span){at, (size_t)(end - at)} : (span){at, 0};
    }
    return (span){header.at, 0};
}

/* The part of a name. *file: the name of the file that it is, or n 0. */
static weft_status find_part(span body, const char *boundary, const char *name, span *out,
                             span *file)
{
    const size_t n = strlen(boundary);
    const char *end = body.at + body.n;
    /* The first boundary may have no line before it. */
    const char *at = body.n >= n - 2 && memcmp(body.at, boundary + 2, n - 2) == 0
                         ? body.at - 2
                         : find(body, boundary, n);
    while (end - at >= (ptrdiff_t)n + 2 && memcmp(at + n, "--", 2) != 0) {
        const span rest = {at + n, (size_t)(end - at) - n};
        const char *blank = find(rest, "\r\n\r\n", 4);
        if (blank == end)
            break;
        const span header = {rest.at, (size_t)(blank - rest.at)}, found = parameter(header, "name");
        const span after = {blank + 2, (size_t)(end - blank) - 2}; /* an empty part has no line */
        at = find(after, boundary, n);
        if (at == end)
            return weft_fail(WEFT_INVALID, "body: the last boundary is missing");
        if (found.n != strlen(name) || memcmp(found.at, name, found.n) != 0)
            continue;
        const char *from = blank + 4 <= at ? blank + 4 : at;
        *out = (span){from, (size_t)(at - from)};
        *file = parameter(header, "filename");
        return WEFT_OK;
    }
    return weft_fail(WEFT_INVALID, "%s: expected a part of this name", name);
}

/* ---- uploads -------------------------------------------------------------------------------- */

/* A name that messages can show: its last part, without control characters. */
static void put_name(span file, char out[NAME + 1])
{
    const char *text = weft_printable_n(file.at, file.n), *slash = strrchr(text, '/');
    text = slash != NULL ? slash + 1 : text;
    size_t n = strlen(text);
    n = n > NAME ? NAME : n;
    while (n > 0 && n == NAME && (text[n] & 0xC0) == 0x80) /* not within a character */
        n--;
    memcpy(out, text, n);
    out[n] = '\0';
    if (n == 0)
        memcpy(out, "data.jsonl", sizeof "data.jsonl");
}

static weft_status check_quota(serve_request *r, const serve_teacher *teacher, size_t n)
{
    const int64_t quota = r->server->options.quota;
    int64_t bytes = (int64_t)n;
    const size_t count = json_object_array_length(teacher->files.list);
    for (size_t i = 0; i < count; i++)
        bytes += json_object_get_int64(json_object_object_get(
            json_object_object_get(json_object_array_get_idx(teacher->files.list, i), "object"),
            "bytes"));
    if (bytes <= quota && count < SERVE_RECORDS)
        return WEFT_OK;
    const serve_error error =
        serve_error_make(413,
                         "the files would have %lld bytes, and the server keeps %lld bytes in %d "
                         "files; delete one",
                         (long long)bytes, (long long)quota, (int)SERVE_RECORDS);
    return serve_refuse(r, &error);
}

/* Saves the data, then the record. The lock is held. */
static weft_status save(serve_teacher *teacher, span data, const char *name, json_object **out)
{
    char id[40];
    serve_text text = {0};
    const int64_t now = (int64_t)time(NULL);
    serve_make_id("file-", id, sizeof "file-" + 24);
    char *path = serve_file_path(teacher, id);
    weft_status status = path != NULL ? weft_file_write(path, data.at, data.n)
                                      : weft_fail(WEFT_MEMORY, "out of memory for a path");
    serve_put(&text,
              "{'id': %s, 'created_at': %i, 'object': {'id': %s, 'object': 'file', 'bytes': %i, "
              "'created_at': %i, 'filename': %s, 'purpose': 'fine-tune', 'status': 'processed', "
              "'expires_at': null, 'status_details': null}}",
              id, now, id, (int64_t)data.n, now, name);
    if (status == WEFT_OK)
        status = serve_record_add(&teacher->files, &text, out);
    if (status != WEFT_OK && path != NULL)
        (void)unlink(path);
    serve_text_free(&text);
    weft_free(path);
    return status;
}

weft_status serve_run_upload(serve_request *r)
{
    char boundary[BOUNDARY + 5], name[NAME + 1];
    const span body = {r->body.at != NULL ? r->body.at : "", r->body.n};
    span purpose, data = {0}, file = {0};
    serve_teacher *teacher;
    json_object *record;
    weft_status status = serve_teacher_lock(r, &teacher);
    if (status != WEFT_OK)
        return status;
    status = read_boundary(r->content_type, boundary);
    if (status == WEFT_OK)
        status = find_part(body, boundary, "purpose", &purpose, &file);
    if (status == WEFT_OK && (purpose.n != 9 || memcmp(purpose.at, "fine-tune", 9) != 0))
        status = weft_fail(WEFT_INVALID, "purpose: expected fine-tune");
    if (status == WEFT_OK)
        status = find_part(body, boundary, "file", &data, &file);
    if (status == WEFT_OK && data.n == 0)
        status = weft_fail(WEFT_INVALID, "file: expected JSON lines, got no bytes");
    if (status == WEFT_OK)
        status = check_quota(r, teacher, data.n);
    if (status == WEFT_OK) {
        put_name(file, name);
        status = save(teacher, data, name, &record);
    }
    if (status == WEFT_OK)
        status = serve_reply_record(r, record);
    pthread_mutex_unlock(&teacher->lock);
    return status;
}

/* ---- reading and deleting ------------------------------------------------------------------- */

weft_status serve_run_list_files(serve_request *r)
{
    serve_teacher *teacher;
    weft_status status = serve_teacher_lock(r, &teacher);
    if (status != WEFT_OK)
        return status;
    status = serve_reply_page(r, serve_record_objects(&teacher->files));
    pthread_mutex_unlock(&teacher->lock);
    return status;
}

/* Reads a file that is no link. */
static weft_status read_data(const serve_teacher *teacher, const char *id, serve_text *out)
{
    char *path = serve_file_path(teacher, id), *text = NULL;
    struct stat what;
    size_t n = 0;
    weft_status status = path != NULL && lstat(path, &what) == 0 && S_ISREG(what.st_mode)
                             ? weft_file_read(path, 0, &text, &n)
                             : weft_fail(WEFT_IO, "the file's data is not there");
    if (status == WEFT_OK)
        serve_text_add(out, text, n);
    weft_free(text);
    weft_free(path);
    return status;
}

/* A file's object, or with /content its data. */
weft_status serve_run_file(serve_request *r)
{
    serve_teacher *teacher;
    serve_text out = {0};
    char id[64];
    const size_t n = strcspn(r->path, "/");
    const bool content = strcmp(r->path + n, "/content") == 0;
    weft_status status = serve_teacher_lock(r, &teacher);
    if (status != WEFT_OK)
        return status;
    snprintf(id, sizeof id, "%.*s", (int)(n < sizeof id ? n : sizeof id - 1), r->path);
    json_object *record =
        content || r->path[n] == '\0' ? serve_record_find(&teacher->files, id) : NULL;
    if (record == NULL)
        status = serve_refuse_unknown(r, "file", r->path);
    else if (!content)
        status = serve_reply_record(r, record);
    else
        status = read_data(teacher, id, &out);
    if (status == WEFT_OK && content && record != NULL)
        serve_reply(r, 200, "application/octet-stream", &out);
    pthread_mutex_unlock(&teacher->lock);
    serve_text_free(&out);
    return status;
}

/* The job that has not ended and reads the file; NULL: none. */
static json_object *user_of(const serve_teacher *teacher, const char *id)
{
    for (size_t i = 0; i < json_object_array_length(teacher->jobs.list); i++) {
        json_object *job = json_object_array_get_idx(teacher->jobs.list, i);
        const char *trained = serve_record_text(job, "training_file"),
                   *validated = serve_record_text(job, "validation_file");
        if ((serve_job_is(job, "queued") || serve_job_is(job, "running")) &&
            ((trained != NULL && strcmp(trained, id) == 0) ||
             (validated != NULL && strcmp(validated, id) == 0)))
            return job;
    }
    return NULL;
}

weft_status serve_run_delete_file(serve_request *r)
{
    serve_teacher *teacher;
    serve_text out = {0};
    weft_status status = serve_teacher_lock(r, &teacher);
    if (status != WEFT_OK)
        return status;
    json_object *record = serve_record_find(&teacher->files, r->path);
    json_object *user = record != NULL ? user_of(teacher, r->path) : NULL;
    if (record == NULL) {
        status = serve_refuse_unknown(r, "file", r->path);
    } else if (user != NULL) {
        status = weft_fail(WEFT_INVALID, "the file is used by job %s", serve_record_id(user));
    } else {
        char *path = serve_file_path(teacher, r->path);
        serve_record_remove(&teacher->files, record);
        if (path != NULL)
            (void)unlink(path);
        weft_free(path);
        serve_put(&out, "{'id': %s, 'object': 'file', 'deleted': true}", r->path);
        serve_reply(r, 200, "application/json", &out);
    }
    pthread_mutex_unlock(&teacher->lock);
    return status;
}
