/* serve/adapters.c -- adapters that requests choose by name, and the routes that load and unload
 * them, as vLLM has them.
 *
 * A name is that of one adapter at a time. One that is replaced or unloaded leaves the list, and
 * the requests that have chosen it keep it until they end. Only the thread that computes loads and
 * frees, between two steps. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "serve/teach.h"
#include "weft/adapter.h"
#include "weft/memory.h"

enum {
    NAME = 128,   /* bytes of a name */
    LOADED = 256, /* adapters at a time, the replaced ones included */
    DEPTH = 4     /* of folders within an adapter's */
};

/* ---- the list ------------------------------------------------------------------------------- */

/* The lock is held. */
static serve_adapter *find(const serve_server *server, const char *name)
{
    serve_adapter *a = server->adapters;
    while (a != NULL && strcmp(a->name, name) != 0)
        a = a->next;
    return a;
}

serve_adapter *serve_adapter_find(serve_server *server, const char *name)
{
    pthread_mutex_lock(&server->lock);
    serve_adapter *a = find(server, name);
    if (a != NULL)
        a->references++;
    pthread_mutex_unlock(&server->lock);
    return a;
}

/* The lock is held. */
static void release(serve_server *server, serve_adapter *adapter)
{
    if (--adapter->references > 0)
        return;
    adapter->next = server->gone;
    server->gone = adapter;
    serve_turns_press(server);
    pthread_cond_signal(&server->work);
}

void serve_adapter_drop(serve_server *server, serve_adapter *adapter)
{
    if (adapter == NULL)
        return;
    pthread_mutex_lock(&server->lock);
    release(server, adapter);
    pthread_mutex_unlock(&server->lock);
}

/* As serve_adapter_unlist. The lock is held. */
static bool unlist(serve_server *server, const char *name)
{
    serve_adapter **at = &server->adapters;
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    serve_adapter *found = *at;
    if (found == NULL)
        return false;
    *at = found->next;
    release(server, found);
    return true;
}

bool serve_adapter_unlist(serve_server *server, const char *name)
{
    pthread_mutex_lock(&server->lock);
    const bool found = unlist(server, name);
    pthread_mutex_unlock(&server->lock);
    return found;
}

/* Puts it into the list at the end, in which it replaces the one of its name. */
void serve_adapter_list(serve_server *server, serve_adapter *adapter)
{
    pthread_mutex_lock(&server->lock);
    (void)unlist(server, adapter->name);
    serve_adapter **at = &server->adapters;
    while (*at != NULL)
        at = &(*at)->next;
    *at = adapter;
    pthread_mutex_unlock(&server->lock);
}

/* ---- loading and freeing -------------------------------------------------------------------- */

void serve_adapter_free(serve_server *server, serve_adapter *adapter)
{
    if (adapter == NULL)
        return;
    if (server->bank != NULL)
        weft_nn_lora_bank_drop(server->bank, adapter->member);
    weft_chat_free(adapter->chat);
    weft_free(adapter->name);
    weft_free(adapter);
}

void serve_adapters_sweep(serve_server *server)
{
    pthread_mutex_lock(&server->lock);
    serve_adapter *gone = server->gone;
    server->gone = NULL;
    pthread_mutex_unlock(&server->lock);
    for (serve_adapter *next; gone != NULL; gone = next) {
        next = gone->next;
        serve_adapter_free(server, gone);
    }
}

void serve_adapters_close(serve_server *server)
{
    pthread_mutex_lock(&server->lock);
    while (server->adapters != NULL)
        (void)unlist(server, server->adapters->name);
    pthread_mutex_unlock(&server->lock);
    serve_adapters_sweep(server);
    weft_nn_lora_bank_free(server->bank);
    server->bank = NULL;
}

weft_status serve_adapter_read(serve_server *server, const char *name, const char *path,
                               serve_adapter **out)
{
    const serve_options *o = &server->options;
    serve_adapter *a = *out = weft_calloc(1, sizeof *a);
    if (a == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for an adapter");
    a->references = 1;
    a->created = (int64_t)time(NULL);
    a->name = weft_strdup(name);
    weft_status status =
        a->name != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for an adapter");
    if (status == WEFT_OK)
        status = weft_adapter_load_member(server->loaded.model, path, NULL, server->bank,
                                          &a->member, &a->eos);
    if (status == WEFT_OK && o->load_chat != NULL)
        status = o->load_chat(o->context, path, &a->chat);
    if (status != WEFT_OK) {
        serve_adapter_free(server, a);
        *out = NULL;
    }
    return status;
}

/* Reads and lists an adapter. */
static weft_status load(serve_server *server, const char *name, const char *path)
{
    serve_adapter *a;
    const weft_status status = serve_adapter_read(server, name, path, &a);
    if (status == WEFT_OK)
        serve_adapter_list(server, a);
    return status;
}

bool serve_is_name(const char *text)
{
    const size_t n = strlen(text);
    return n > 0 && n <= NAME && text[strspn(text, ".")] != '\0' &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static weft_status check_name(const serve_server *server, const char *key, const char *name)
{
    if (!serve_is_name(name))
        return weft_fail(WEFT_INVALID,
                         "%s: expected up to %d letters, digits, '.', '_' and '-', got \"%s\"", key,
                         (int)NAME, weft_printable(name));
    if (strcmp(name, server->options.name) == 0)
        return weft_fail(WEFT_INVALID, "%s: \"%s\" is the name of the model itself", key,
                         weft_printable(name));
    return WEFT_OK;
}

weft_status serve_adapters_open(serve_server *server)
{
    const serve_options *o = &server->options;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < o->n_adapters; i++) {
        const serve_adapter_path *a = &o->adapters[i];
        status = check_name(server, "adapter", a->name);
        if (status == WEFT_OK && find(server, a->name) != NULL)
            status = weft_fail(WEFT_INVALID, "adapter: there are two of the name \"%s\"", a->name);
        if (status == WEFT_OK)
            status = load(server, a->name, a->path);
    }
    return status;
}

/* ---- choosing ------------------------------------------------------------------------------- */

weft_status serve_choose_model(serve_request *request)
{
    serve_server *server = request->server;
    json_object *value = json_object_object_get(request->json, "model");
    const char *name = serve_plain(value);
    if (name == NULL || strcmp(name, server->options.name) == 0)
        return WEFT_OK;
    request->adapter = serve_adapter_find(server, name);
    pthread_mutex_lock(&server->lock);
    const bool any = server->adapters != NULL || server->options.adapter_folder != NULL ||
                     server->teacher != NULL;
    pthread_mutex_unlock(&server->lock);
    if (request->adapter != NULL || !any)
        return WEFT_OK;
    const serve_error error = serve_error_make(
        404, "there is no model \"%s\": GET /v1/models lists the names", weft_printable(name));
    return serve_refuse(request, &error);
}

const char *serve_model_name(const serve_request *request)
{
    return request->adapter != NULL ? request->adapter->name : request->server->options.name;
}

const weft_chat *serve_chat_of(const serve_request *request)
{
    const serve_adapter *a = request->adapter;
    return a != NULL && a->chat != NULL ? a->chat : request->server->loaded.chat;
}

const weft_nn_lora_member *serve_member_of(const serve_request *request)
{
    return request->adapter != NULL ? request->adapter->member : NULL;
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Refuses links, and what is neither a file nor a folder. */
static weft_status check_entry(const char *path, int depth)
{
    struct stat s;
    if (lstat(path, &s) != 0)
        return weft_fail(WEFT_INVALID, "lora_path: there is no such adapter");
    if (S_ISREG(s.st_mode))
        return WEFT_OK;
    if (!S_ISDIR(s.st_mode) || depth == DEPTH)
        return weft_fail(WEFT_INVALID, "lora_path: expected files and folders without links");
    DIR *folder = opendir(path);
    weft_status status =
        folder != NULL ? WEFT_OK : weft_fail(WEFT_INVALID, "lora_path: the folder cannot be read");
    for (struct dirent *e; status == WEFT_OK && (e = readdir(folder)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *inner = weft_format("%s/%s", path, e->d_name);
        status = inner != NULL ? check_entry(inner, depth + 1)
                               : weft_fail(WEFT_MEMORY, "out of memory for a path");
        weft_free(inner);
    }
    if (folder != NULL)
        closedir(folder);
    return status;
}

/* What a request to load asks for. */
typedef struct loading {
    serve_server *server;
    const char *name, *path;
    bool replaces;
    char job[SERVE_ID]; /* that has trained the adapter; "": none */
} loading;

static weft_status check_room(serve_server *server, const loading *l)
{
    size_t n = 0;
    pthread_mutex_lock(&server->lock);
    const bool known = find(server, l->name) != NULL;
    for (const serve_adapter *a = server->adapters; a != NULL; a = a->next)
        n++;
    pthread_mutex_unlock(&server->lock);
    if (known && !l->replaces)
        return weft_fail(WEFT_INVALID,
                         "lora_name: \"%s\" is loaded already; \"load_inplace\": true replaces it",
                         l->name);
    if (n >= LOADED && !known)
        return weft_fail(WEFT_INVALID, "lora_name: %d adapters are loaded; unload one",
                         (int)LOADED);
    return WEFT_OK;
}

/* serve_compute's function. */
static weft_status load_entry(void *context)
{
    const loading *l = context;
    weft_status status = check_room(l->server, l);
    char *path = NULL;
    if (status == WEFT_OK && l->path == NULL)
        status = serve_job_adapter(l->server->teacher, l->job, &path);
    else if (status == WEFT_OK)
        path = weft_format("%s/%s", l->server->options.adapter_folder, l->path);
    if (status == WEFT_OK && path == NULL)
        status = weft_fail(WEFT_MEMORY, "out of memory for a path");
    if (status == WEFT_OK && l->path != NULL)
        status = check_entry(path, 0);
    if (status == WEFT_OK)
        status = load(l->server, l->name, path);
    weft_free(path);
    return status == WEFT_IO ? weft_fail(WEFT_INVALID, "%s", weft_error_message()) : status;
}

/* ---- routes --------------------------------------------------------------------------------- */

/* Keeps records of jobs as they are; a server without a state folder has none. */
static void hold_records(serve_server *server, bool hold)
{
    if (server->teacher != NULL && hold)
        pthread_mutex_lock(&server->teacher->disk);
    else if (server->teacher != NULL)
        pthread_mutex_unlock(&server->teacher->disk);
}

static weft_status read_names(serve_request *r, loading *out)
{
    *out = (loading){.server = r->server};
    weft_status status = serve_read_text(r->json, "lora_name", &out->name);
    if (status == WEFT_OK)
        status = serve_read_text(r->json, "lora_path", &out->path);
    if (status == WEFT_OK)
        status = serve_read_flag(r->json, "load_inplace", &out->replaces);
    if (status == WEFT_OK && out->name == NULL)
        status = weft_fail(WEFT_INVALID, "lora_name: expected a string");
    if (status == WEFT_OK)
        (void)serve_job_of_model(r->server->teacher, out->name, out->job);
    return status == WEFT_OK ? check_name(r->server, "lora_name", out->name) : status;
}

static weft_status check_path(const loading *l)
{
    if (l->job[0] != '\0' && l->path != NULL)
        return weft_fail(WEFT_INVALID,
                         "lora_path: \"%s\" is the model of a job, which is loaded without a path",
                         l->name);
    if (l->job[0] == '\0' && (l->path == NULL || !serve_is_name(l->path)))
        return weft_fail(WEFT_INVALID, "lora_path: expected the name of an entry of the folder "
                                       "of adapters, without slashes");
    return WEFT_OK;
}

/* Records that a job's model has been loaded again, unless it was deleted meanwhile; what cannot be
 * recorded is not served. */
static weft_status keep_loaded(serve_request *r, loading *l)
{
    serve_server *server = r->server;
    weft_status status;
    hold_records(server, true);
    if (serve_job_of_model(server->teacher, l->name, l->job)) {
        status =
            serve_record_mark(server->teacher, &server->teacher->jobs, l->job, "unloaded", false);
    } else {
        status = serve_refuse_unknown(r, "model", l->name);
    }
    if (status != WEFT_OK)
        (void)serve_adapter_unlist(server, l->name);
    hold_records(server, false);
    return status;
}

/* serve_compute_fn */
static weft_status load_adapter(serve_choice *c)
{
    loading l;
    weft_status status = read_names(c->request, &l);
    if (status == WEFT_OK)
        status = check_path(&l);
    if (status == WEFT_OK)
        status = serve_compute(c->request, load_entry, &l);
    return status == WEFT_OK && l.job[0] != '\0' ? keep_loaded(c->request, &l) : status;
}

static void answer(serve_request *r, serve_text *out)
{
    serve_put(out, "adapter %r is loaded\n",
              serve_plain(json_object_object_get(r->json, "lora_name")));
}

static const serve_api load_api = {
    .answer = answer, .error = serve_put_error, .type = "text/plain"};

static weft_status begin(serve_request *r, loading *l)
{
    weft_status status = serve_parse_body(r);
    if (status != WEFT_OK)
        return status;
    status = read_names(r, l);
    if (l->job[0] == '\0' && r->server->options.adapter_folder == NULL)
        return weft_fail(WEFT_UNSUPPORTED,
                         "adapters are loaded and unloaded by clients only with --adapter-dir");
    return status;
}

weft_status serve_run_load_adapter(serve_request *r)
{
    loading l;
    weft_status status = begin(r, &l);
    if (status == WEFT_OK)
        status = check_path(&l);
    if (status == WEFT_OK)
        status = serve_make_choices(r, 1);
    if (status != WEFT_OK)
        return status;
    r->api = &load_api;
    return serve_start_choices(r, 1, load_adapter);
}

/* Takes an adapter out of the list. That of a job stays unloaded after a restart. Records are held.
 */
static weft_status unload(serve_request *r, loading *l)
{
    serve_server *server = r->server;
    serve_adapter *adapter = serve_adapter_find(server, l->name);
    weft_status status = WEFT_OK;
    if (adapter == NULL) {
        const serve_error error = serve_error_make(404, "there is no adapter \"%s\"", l->name);
        return serve_refuse(r, &error);
    }
    if (serve_job_of_model(server->teacher, l->name, l->job))
        status =
            serve_record_mark(server->teacher, &server->teacher->jobs, l->job, "unloaded", true);
    if (status == WEFT_OK)
        (void)serve_adapter_unlist(server, l->name);
    serve_adapter_drop(server, adapter);
    return status;
}

weft_status serve_run_unload_adapter(serve_request *r)
{
    loading l;
    serve_text out = {0};
    weft_status status = begin(r, &l);
    if (status == WEFT_OK) {
        hold_records(r->server, true);
        status = unload(r, &l);
        hold_records(r->server, false);
    }
    if (status != WEFT_OK)
        return status;
    serve_put(&out, "adapter %r is unloaded\n", l.name);
    serve_reply(r, 200, "text/plain", &out);
    return WEFT_OK;
}
