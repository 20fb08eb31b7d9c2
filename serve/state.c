/* serve/state.c -- records in the state folder, and answers made of them. */
#include "serve/teach.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weft/io.h"
#include "weft/memory.h"

enum { RECORD_BYTES = 16 << 20, PAGE = 20 };

/* A flag of records that differ from their files. */
static const char unsaved[] = "unsaved";

/* ---- folders -------------------------------------------------------------------------------- */

weft_status serve_make_folder(const char *path)
{
    struct stat what;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return weft_fail(WEFT_IO, "%s: cannot be created: %s", weft_printable(path),
                         strerror(errno));
    if (lstat(path, &what) != 0 || !S_ISDIR(what.st_mode))
        return weft_fail(WEFT_INVALID, "%s: expected a folder, not a link or a file",
                         weft_printable(path));
    return WEFT_OK;
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *at)
{
    (void)what;
    (void)kind;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void serve_remove_folder(const char *path)
{
    enum { OPEN = 16 };
    if (nftw(path, remove_one, OPEN, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        weft_log_message(WEFT_LOG_WARNING, "serve: %s: cannot be removed: %s", weft_printable(path),
                         strerror(errno));
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_file(const char *path)
{
    struct stat what;
    return lstat(path, &what) == 0 && S_ISREG(what.st_mode);
}

/* Reads a record, if the file has one of its name. */
static json_object *read_record(const char *path, const char *name)
{
    char *text = NULL;
    json_object *record = NULL;
    if (is_file(path) && weft_file_read(path, RECORD_BYTES, &text, NULL) == WEFT_OK)
        record = serve_parse(text);
    const char *id = serve_record_id(record);
    weft_free(text);
    if (id != NULL && strncmp(name, id, strlen(id)) == 0 && strcmp(name + strlen(id), ".json") == 0)
        return record;
    weft_log_message(WEFT_LOG_WARNING, "serve: %s: expected a record: it is ignored",
                     weft_printable(path));
    json_object_put(record);
    return NULL;
}

/* By their numbers, since clocks are set back; older records without one by their time, first. */
static int by_age(const void *a, const void *b)
{
    json_object *const *x = a, *const *y = b;
    int64_t s = serve_record_number(*x, "number"), t = serve_record_number(*y, "number");
    if (s == t) {
        s = serve_record_number(*x, "created_at");
        t = serve_record_number(*y, "created_at");
    }
    return s < t ? -1 : s > t;
}

/* Removes the data of an upload that was cut off: of an id that serve_make_id has made, without a
 * record, not even one that cannot be read. */
static void remove_data(serve_records *records, const char *name)
{
    static const char kind[] = "file-";
    const int n = (int)(strlen(name) - strlen(".jsonl"));
    if (strncmp(name, kind, strlen(kind)) != 0 || n != (int)strlen(kind) + 24)
        return;
    char *path = weft_format("%s/%s", records->folder, name);
    char *record = weft_format("%s/%.*s.json", records->folder, n, name);
    if (path != NULL && record != NULL && access(record, F_OK) != 0)
        (void)unlink(path);
    weft_free(record);
    weft_free(path);
}

/* Calls a function for the names in the folder with this ending. */
static void each_name(serve_records *records, const char *end,
                      void (*call)(serve_records *records, const char *name))
{
    DIR *folder = opendir(records->folder);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        if (e->d_name[0] != '.' && ends_with(e->d_name, end))
            call(records, e->d_name);
    }
    if (folder != NULL)
        closedir(folder);
}

static void add_name(serve_records *records, const char *name)
{
    char *path = weft_format("%s/%s", records->folder, name);
    json_object *record = path != NULL ? read_record(path, name) : NULL;
    if (record != NULL)
        json_object_array_add(records->list, record);
    weft_free(path);
}

weft_status serve_records_open(const char *root, const char *name, serve_records *out)
{
    out->folder = weft_format("%s/%s", root, name);
    out->list = json_object_new_array();
    if (out->folder == NULL || out->list == NULL)
        return weft_fail(WEFT_MEMORY, "serve: out of memory");
    const weft_status status = serve_make_folder(out->folder);
    if (status != WEFT_OK)
        return status;
    each_name(out, ".json", add_name);
    json_object_array_sort(out->list, by_age);
    each_name(out, ".jsonl", remove_data);
    return WEFT_OK;
}

void serve_records_close(serve_records *records)
{
    json_object_put(records->list);
    weft_free(records->folder);
    *records = (serve_records){0};
}

/* ---- records -------------------------------------------------------------------------------- */

const char *serve_record_id(json_object *record)
{
    return serve_plain(json_object_object_get(record, "id"));
}

const char *serve_record_text(json_object *record, const char *key)
{
    return serve_plain(json_object_object_get(json_object_object_get(record, "object"), key));
}

json_object *serve_record_find(const serve_records *records, const char *id)
{
    for (size_t i = 0; id != NULL && i < json_object_array_length(records->list); i++) {
        json_object *record = json_object_array_get_idx(records->list, i);
        if (strcmp(serve_record_id(record), id) == 0)
            return record;
    }
    return NULL;
}

int64_t serve_record_number(json_object *record, const char *key)
{
    return json_object_get_int64(json_object_object_get(record, key));
}

void serve_record_set(json_object *record, const char *key, int64_t value)
{
    json_object_object_add(record, key, json_object_new_int64(value));
}

static weft_status write_record(const serve_records *records, const char *id, const char *text)
{
    if (text != NULL && strlen(text) > RECORD_BYTES)
        return weft_fail(WEFT_INVALID, "the record would have %zu bytes: expected at most %d",
                         strlen(text), (int)RECORD_BYTES);
    char *path = weft_format("%s/%s.json", records->folder, id);
    const weft_status status = path != NULL && text != NULL
                                   ? weft_file_write(path, text, strlen(text))
                                   : weft_fail(WEFT_MEMORY, "out of memory for a record");
    weft_free(path);
    return status;
}

static const char *write_text(json_object *record)
{
    return json_object_to_json_string_ext(record, JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* As serve_record_store. `disk` is held. */
static weft_status store(serve_teacher *teacher, const serve_records *records, const char *id)
{
    pthread_mutex_lock(&teacher->lock);
    json_object *record = serve_record_find(records, id);
    if (record != NULL) /* else a client has removed it meanwhile */
        json_object_object_del(record, unsaved);
    char *text = record != NULL ? weft_strdup(write_text(record)) : NULL;
    pthread_mutex_unlock(&teacher->lock);
    const weft_status status = record != NULL ? write_record(records, id, text) : WEFT_OK;
    weft_free(text);
    pthread_mutex_lock(&teacher->lock);
    record = status != WEFT_OK ? serve_record_find(records, id) : NULL;
    if (record != NULL)
        serve_record_set(record, unsaved, true);
    pthread_mutex_unlock(&teacher->lock);
    return status;
}

static bool find_unsaved(serve_teacher *teacher, const serve_records *records, char id[SERVE_ID])
{
    bool found = false;
    pthread_mutex_lock(&teacher->lock);
    for (size_t i = 0; i < json_object_array_length(records->list) && !found; i++) {
        json_object *record = json_object_array_get_idx(records->list, i);
        found = serve_record_number(record, unsaved) != 0;
        if (found)
            snprintf(id, SERVE_ID, "%s", serve_record_id(record));
    }
    pthread_mutex_unlock(&teacher->lock);
    return found;
}

/* Saves what could not be saved before. `disk` is held. */
static void store_unsaved(serve_teacher *teacher, const serve_records *records)
{
    char id[SERVE_ID];
    while (find_unsaved(teacher, records, id) && store(teacher, records, id) == WEFT_OK)
        continue;
}

void serve_records_flush(serve_teacher *teacher, const serve_records *records)
{
    pthread_mutex_lock(&teacher->disk);
    store_unsaved(teacher, records);
    pthread_mutex_unlock(&teacher->disk);
}

weft_status serve_record_store(serve_teacher *teacher, const serve_records *records, const char *id)
{
    pthread_mutex_lock(&teacher->disk);
    const weft_status status = store(teacher, records, id);
    if (status == WEFT_OK)
        store_unsaved(teacher, records);
    pthread_mutex_unlock(&teacher->disk);
    return status;
}

weft_status serve_record_mark(serve_teacher *teacher, const serve_records *records, const char *id,
                              const char *key, bool value)
{
    weft_status status = WEFT_OK;
    bool same = false;
    for (int i = 0; i < 2; i++) { /* the second time back again, after a failure */
        pthread_mutex_lock(&teacher->lock);
        json_object *record = serve_record_find(records, id);
        same = i == 0 && record != NULL && (serve_record_number(record, key) != 0) == value;
        if (record != NULL)
            serve_record_set(record, key, i == 0 ? value : !value);
        pthread_mutex_unlock(&teacher->lock);
        if (same || i > 0 || (status = store(teacher, records, id)) == WEFT_OK)
            break;
    }
    return status;
}

json_object *serve_record_make(serve_text *text)
{
    json_object *record = text->failed ? NULL : serve_parse(text->at);
    serve_text_free(text);
    return record;
}

static weft_status unlink_record(const serve_records *records, const char *id)
{
    char *path = weft_format("%s/%s.json", records->folder, id);
    weft_status status =
        path != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for a path");
    if (path != NULL && unlink(path) != 0 && errno != ENOENT)
        status = weft_fail(WEFT_IO, "%s: cannot be removed: %s", id, strerror(errno));
    weft_free(path);
    return status;
}

/* Gives a record the number after that of the last one. */
static void number(serve_teacher *teacher, const serve_records *records, json_object *record)
{
    pthread_mutex_lock(&teacher->lock);
    const size_t n = json_object_array_length(records->list);
    json_object *last = n > 0 ? json_object_array_get_idx(records->list, n - 1) : NULL;
    serve_record_set(record, "number", serve_record_number(last, "number") + 1);
    pthread_mutex_unlock(&teacher->lock);
}

weft_status serve_record_add(serve_teacher *teacher, serve_records *records, json_object *record)
{
    if (record != NULL)
        number(teacher, records, record);
    weft_status status = record != NULL
                             ? write_record(records, serve_record_id(record), write_text(record))
                             : weft_fail(WEFT_MEMORY, "out of memory for a record");
    pthread_mutex_lock(&teacher->lock);
    if (status == WEFT_OK && json_object_array_add(records->list, record) != 0)
        status = weft_fail(WEFT_MEMORY, "out of memory for a record");
    pthread_mutex_unlock(&teacher->lock);
    if (status == WEFT_OK) {
        store_unsaved(teacher, records);
    } else if (record != NULL) { /* which may be there, if only its folder could not be synced */
        (void)unlink_record(records, serve_record_id(record));
        json_object_put(record);
    }
    return status;
}

weft_status serve_record_remove(serve_teacher *teacher, serve_records *records, const char *id)
{
    const weft_status status = unlink_record(records, id);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&teacher->lock);
    json_object *record = serve_record_find(records, id);
    for (size_t i = 0; record != NULL && i < json_object_array_length(records->list); i++) {
        if (json_object_array_get_idx(records->list, i) == record) {
            json_object_array_del_idx(records->list, i, 1);
            break;
        }
    }
    pthread_mutex_unlock(&teacher->lock);
    return WEFT_OK;
}

json_object *serve_record_objects(const serve_records *records)
{
    json_object *values = json_object_new_array();
    for (size_t i = 0; values != NULL && i < json_object_array_length(records->list); i++)
        json_object_array_add(values, json_object_get(json_object_object_get(
                                          json_object_array_get_idx(records->list, i), "object")));
    return values;
}

/* ---- answers -------------------------------------------------------------------------------- */

weft_status serve_teacher_check(const serve_request *request)
{
    return request->server->teacher != NULL
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED,
                           "files and fine-tuning jobs need a server with --state DIR");
}

weft_status serve_reply_record(serve_request *request, const serve_records *records,
                               const char *what, const char *id)
{
    serve_teacher *teacher = request->server->teacher;
    serve_text out = {0};
    pthread_mutex_lock(&teacher->lock);
    json_object *record = serve_record_find(records, id);
    if (record != NULL)
        serve_put(&out, "%o", json_object_object_get(record, "object"));
    pthread_mutex_unlock(&teacher->lock);
    if (record == NULL)
        return serve_refuse_unknown(request, what, id);
    serve_reply(request, 200, "application/json", &out);
    return WEFT_OK;
}

void serve_reply_deleted(serve_request *request, const char *id, const char *kind)
{
    serve_text out = {0};
    serve_put(&out, "{'id': %s, 'object': %s, 'deleted': true}", id, kind);
    serve_reply(request, 200, "application/json", &out);
}

weft_status serve_refuse_unknown(serve_request *request, const char *what, const char *id)
{
    const serve_error error =
        serve_error_make(404, "there is no %s \"%s\"", what, weft_printable(id));
    return serve_refuse(request, &error);
}

weft_status serve_read_limit(const serve_request *r, size_t *out)
{
    const char *text = serve_query(r, "limit");
    char *end = NULL;
    const long n = text != NULL ? strtol(text, &end, 10) : PAGE;
    if (text != NULL && (end == text || *end != '\0' || n < 1 || n > SERVE_PAGE))
        return weft_fail(WEFT_INVALID, "limit: expected a number from 1 to %d", (int)SERVE_PAGE);
    *out = (size_t)n;
    return WEFT_OK;
}

static const char *id_at(json_object *values, size_t i)
{
    return serve_plain(json_object_object_get(json_object_array_get_idx(values, i), "id"));
}

weft_status serve_reply_page(serve_request *request, json_object *values)
{
    serve_text out = {0}, data = {0};
    size_t most = 0, at = json_object_array_length(values), n = 0; /* from the newest, at - 1 */
    const char *after = serve_query(request, "after"), *first = NULL, *last = NULL;
    weft_status status = serve_read_limit(request, &most);
    const size_t all = at;
    for (size_t i = 0; after != NULL && i < all; i++) {
        const char *id = id_at(values, i);
        at = id != NULL && strcmp(id, after) == 0 ? i : at;
    }
    if (status == WEFT_OK && after != NULL && at == all)
        status = weft_fail(WEFT_INVALID, "after: there is no \"%s\"", weft_printable(after));
    for (; at > 0 && n < most; at--, n++) {
        serve_put(&data, "%r%o", n > 0 ? ", " : "", json_object_array_get_idx(values, at - 1));
        last = id_at(values, at - 1);
        first = n == 0 ? last : first;
    }
    serve_put(&out, "{'object': 'list', 'data': [%r], 'first_id': %s, 'last_id': %s, ",
              data.at != NULL ? data.at : "", first, last);
    serve_put(&out, "'has_more': %b}", at > 0);
    out.failed = out.failed || data.failed || values == NULL;
    if (status == WEFT_OK)
        serve_reply(request, 200, "application/json", &out);
    serve_text_free(&out);
    serve_text_free(&data);
    json_object_put(values);
    return status;
}
