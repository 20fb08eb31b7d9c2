/* cli/serve.c -- weft serve: a model for other programs, over HTTP. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/caching.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/profile.h"
#include "cli/serve.h"
#include "cli/shared.h"
#include "weft/tool/run.h"

#define AT(field) .offset = offsetof(serve_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(serve_values, model), true}};

static const cli_option options[] = {
    {.name = "adapter",
     .letter = 'a',
     .kind = CLI_TEXTS,
     .value = "[NAME=]DIR",
     AT(adapters),
     .help = "an adapter of PEFT, mlx-lm or llama.cpp that requests choose by NAME as their model; "
             "may be repeated. Without NAME the model has it for all requests, as DIR[:W] of other "
             "commands"},
    {.name = "adapter-dir",
     .kind = CLI_TEXT,
     .value = "FOLDER",
     AT(adapter_dir),
     .help = "let clients load the adapters in this folder, and unload any: POST "
             "/v1/load_lora_adapter and /v1/unload_lora_adapter"},
    {.name = "state",
     .kind = CLI_TEXT,
     .value = "DIR",
     AT(state),
     .help =
         "let clients upload data to this folder and train adapters with it while the model is "
         "served: POST /v1/files and /v1/fine_tuning/jobs. Jobs continue there after a restart"},
    {.name = "max-files",
     .kind = CLI_INT,
     .value = "BYTES",
     .fallback = "1073741824",
     .low = 1,
     .high = CLI_ANY,
     AT(quota),
     .help = "the most bytes of uploaded files in --state"},
    {.name = "teach-latency",
     .kind = CLI_REAL,
     .value = "MS",
     .fallback = "200",
     .low = 1,
     .high = 1e6,
     AT(teach_latency),
     .help = "while a job trains: the time in milliseconds from token to token of the answers, of "
             "which the job gets what they leave"},
    {.name = "max-memory",
     .kind = CLI_REAL,
     .value = "GB",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(max_memory),
     .help = "the most memory for arrays, of answers and of jobs, which are refused if they need "
             "more; default: jobs may use what the device has"},
    {.name = "host",
     .kind = CLI_TEXT,
     .value = "ADDRESS",
     .fallback = "127.0.0.1",
     AT(host),
     .help = "the address to listen on; 0.0.0.0: every address of this machine, for which an API "
             "key should be set"},
    {.name = "port",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "8080",
     .low = 0,
     .high = 65535,
     AT(port),
     .help = "the port to listen on; 0: any free one, which is printed"},
    {.name = "name",
     .kind = CLI_TEXT,
     .value = "NAME",
     AT(name),
     .help = "the model's name in answers; default: as it is given"},
    {.name = "api-key-file",
     .kind = CLI_TEXT,
     .value = "FILE",
     .environment = "WEFT_API_KEY_FILE",
     AT(key_file),
     .help = "require one of the keys in this file, one a line, for everything but /health; a key "
             "can also be given in the environment variable WEFT_API_KEY"},
    {.name = "allow-host",
     .kind = CLI_TEXTS,
     .value = "NAME",
     AT(hosts),
     .help = "accept requests whose Host header has this name, besides localhost and addresses, as "
             "behind a reverse proxy; may be repeated"},
    {.name = "allow-origin",
     .kind = CLI_TEXTS,
     .value = "ORIGIN",
     AT(origins),
     .help = "let web pages of this origin, as in https://example.org, use the server; may be "
             "repeated"},
    {.name = "template",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(template_file),
     .help = "use this Jinja template instead of the model's"},
    {.name = "parallel",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "16",
     .low = 1,
     .high = 1024,
     AT(parallel),
     .help = "sequences computed at a time; further ones wait"},
    {.name = "cache-tokens",
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(cache_tokens),
     .help = "the most tokens whose keys and values these hold together; prompts wait until there "
             "is room, and when it runs out the youngest sequence is read again later; default: "
             "as many as fit in memory"},
    {.name = "max-requests",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "256",
     .low = 1,
     .high = 65536,
     AT(max_requests),
     .help = "requests that are computed or wait; further ones are refused with status 503"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = CLI_INT,
     .value = "N",
     .low = 1,
     .high = CLI_ANY,
     AT(max_tokens),
     .help = "the most tokens of an answer, also for requests that ask for more; default: as many "
             "as the model has positions"},
    {.name = "max-body",
     .kind = CLI_INT,
     .value = "BYTES",
     .fallback = "16777216",
     .low = 1024,
     .high = 1 << 30,
     AT(max_body),
     .help = "the largest body of a request"},
    {.name = "timeout",
     .kind = CLI_REAL,
     .value = "SECONDS",
     .fallback = "3600",
     .low = CLI_ABOVE_ZERO,
     .high = CLI_ANY,
     AT(timeout),
     .help = "end an answer after this time, with what there is of it"},
    {.name = "stop-timeout",
     .kind = CLI_REAL,
     .value = "SECONDS",
     .fallback = "10",
     .low = 0,
     .high = CLI_ANY,
     AT(stop_seconds),
     .help = "when the server is stopped (SIGTERM, Ctrl-C), wait so long for answers before they "
             "are cancelled"},
    {.name = "prompt-cache",
     .kind = CLI_INT,
     .value = "BYTES",
     .low = 0,
     .high = CLI_ANY,
     AT(cache),
     .help =
         "keep keys and values of earlier prompts, which later prompts may begin with; 0: none; "
         "default: an eighth of the memory"},
    CLI_CACHING_OPTIONS(serve_values),
    CLI_PLACE_OPTIONS(serve_values),
    CLI_ACTIVATIONS_OPTION(serve_values),
};

/* ---- keys ----------------------------------------------------------------------------------- */

enum { KEYS = 256 };

typedef struct key_list {
    char *text;
    const char *at[KEYS];
    size_t n;
} key_list;

static weft_status add_key(key_list *keys, const char *key, const char *where)
{
    if (*key == '\0')
        return WEFT_OK;
    if (keys->n == KEYS)
        return weft_fail(WEFT_INVALID, "%s: expected at most %d keys", where, (int)KEYS);
    keys->at[keys->n++] = key;
    return WEFT_OK;
}

static weft_status read_keys(const char *file, key_list *keys)
{
    const char *given = getenv("WEFT_API_KEY");
    size_t n = 0;
    weft_status status = given != NULL ? add_key(keys, given, "WEFT_API_KEY") : WEFT_OK;
    if (file == NULL || status != WEFT_OK)
        return status;
    status = weft_file_read(file, 1 << 20, &keys->text, &n);
    for (char *line = keys->text, *next; status == WEFT_OK && line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        size_t n_line = strlen(line);
        while (n_line > 0 && strchr(" \t\r", line[n_line - 1]) != NULL)
            line[--n_line] = '\0';
        status = add_key(keys, line + strspn(line, " \t"), file);
    }
    if (status == WEFT_OK && keys->n == 0)
        status = weft_fail(WEFT_INVALID, "%s: expected a key in a line", weft_printable(file));
    return status;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* The adapter of all requests; NULL: none. */
static const char *own_of(const serve_run *run)
{
    return run->own[0] != '\0' ? run->own : NULL;
}

/* Splits NAME=DIR. An argument that is the path of a file or folder has no name. */
static weft_status read_adapter(serve_run *run, const char *text)
{
    const size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-");
    const size_t used = strlen(run->own);
    if (n > 0 && n < sizeof run->names[0] && text[n] == '=' && access(text, F_OK) != 0) {
        char *name = run->names[run->n_named];
        memcpy(name, text, n);
        name[n] = '\0';
        run->named[run->n_named++] = (serve_adapter_path){name, text + n + 1};
        return WEFT_OK;
    }
    if (used + strlen(text) + 2 > sizeof run->own)
        return weft_fail(WEFT_INVALID, "--adapter: expected at most %zu bytes", sizeof run->own);
    snprintf(run->own + used, sizeof run->own - used, "%s%s", used > 0 ? "," : "", text);
    return WEFT_OK;
}

static weft_status read_adapters(serve_run *run)
{
    const serve_values *v = run->values;
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < v->adapters.n; i++)
        status = read_adapter(run, v->adapters.at[i]);
    if (status == WEFT_OK && own_of(run) != NULL &&
        (run->n_named > 0 || v->adapter_dir != NULL || v->state != NULL))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "serve: --adapter DIR, for all requests, excludes --adapter NAME=DIR, "
                           "--adapter-dir and --state: merge it into the model with weft fuse");
    return status;
}

/* serve_options.load_chat: with --template all have that. */
static weft_status load_chat(void *context, const char *adapter, weft_chat **out)
{
    const serve_run *run = context;
    *out = NULL;
    if (run->values->template_file != NULL)
        return WEFT_OK;
    const weft_status status = weft_adapter_chat(run->path, adapter, out);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

/* serve_options.load */
static weft_status load(void *context, serve_model *out)
{
    const serve_run *run = context;
    const serve_values *v = run->values;
    const char *own = own_of(run);
    weft_status status = cli_load_model(run->path, &v->place, own, &out->model);
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer(run->path, own, &out->tokenizer);
    if (status != WEFT_OK)
        return status;
    status = v->template_file != NULL
                 ? cli_read_template(v->template_file, out->tokenizer, &out->chat)
                 : weft_adapter_chat(run->path, own, &out->chat);
    if (status == WEFT_UNSUPPORTED && v->template_file == NULL) {
        weft_log_message(WEFT_LOG_WARNING,
                         "%s: the model has no chat template: routes for chats "
                         "answer with an error",
                         weft_printable(run->path));
        status = WEFT_OK;
    }
    if (status == WEFT_OK)
        status = weft_embed_settings_load(run->path, NULL, &out->embed);
    out->generate.sampler.temperature = 0.7;
    weft_model_generation_defaults(out->model, &out->generate);
    if (status == WEFT_OK)
        status = cli_caching_apply("serve", &v->caching, out->model, &out->generate.cache);
    return status == WEFT_OK ? cli_profile_start(&v->place) : status;
}

/* The name for answers: not a path of this machine. */
static const char *name_of(const serve_values *v)
{
    static char name[4096];
    const char *given = v->name != NULL ? v->name : v->model != NULL ? v->model : "storyteller";
    size_t n = strnlen(given, sizeof name - 1);
    while (v->name == NULL && n > 1 && given[n - 1] == '/')
        n--;
    memcpy(name, given, n);
    name[n] = '\0';
    const char *slash = strrchr(name, '/');
    const bool path = v->name == NULL && (name[0] == '/' || name[0] == '.');
    return path && slash != NULL && slash[1] != '\0' ? slash + 1 : name;
}

/* ---- running -------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* Until a signal. A second Ctrl-C ends the process at once. */
static weft_status await_signal(serve_server *server, const char *host)
{
    const struct sigaction once = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    const struct sigaction always = {.sa_handler = on_signal};
    bool ready = false, told = false;
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &always, NULL);
    weft_status status = serve_state(server, &ready);
    while (status == WEFT_OK && !stopped) {
        const struct timespec pause = {.tv_nsec = 50 * 1000000L};
        const bool v6 = strchr(host, ':') != NULL;
        if (ready && !told)
            fprintf(stderr, "weft: serving on http://%s%s%s:%d\n", v6 ? "[" : "", host,
                    v6 ? "]" : "", serve_port(server));
        told = ready;
        nanosleep(&pause, NULL);
        status = serve_state(server, &ready);
    }
    return status;
}

static weft_status serve(const serve_values *v, const char *path, const key_list *keys)
{
    static serve_run run;
    static char identity[17];
    serve_server *server = NULL;
    run = (serve_run){.values = v, .path = path};
    weft_status status = read_adapters(&run);
    if (status != WEFT_OK)
        return status;
    if (!isnan(v->max_memory))
        weft_memory_set_limit((int64_t)(v->max_memory * 1e9));
    weft_run_base_hash(path, identity);
    const serve_options o = {.load = load,
                             .load_chat = load_chat,
                             .context = &run,
                             .name = name_of(v),
                             .adapters = run.named,
                             .n_adapters = run.n_named,
                             .adapter_folder = v->adapter_dir,
                             .state = v->state,
                             .quota = v->quota,
                             .identity = identity[0] != '\0' ? identity : NULL,
                             .teach = serve_teach,
                             .teach_latency = v->teach_latency * 1e-3,
                             .host = v->host,
                             .port = (int)v->port,
                             .keys = keys->at,
                             .n_keys = keys->n,
                             .hosts = (const char *const *)v->hosts.at,
                             .n_hosts = (size_t)v->hosts.n,
                             .origins = (const char *const *)v->origins.at,
                             .n_origins = (size_t)v->origins.n,
                             .rows = v->parallel,
                             .cache_tokens = v->cache_tokens == CLI_ABSENT ? 0 : v->cache_tokens,
                             .requests = v->max_requests,
                             .max_tokens = v->max_tokens == CLI_ABSENT ? 0 : v->max_tokens,
                             .body = v->max_body,
                             .timeout = v->timeout,
                             .cache = v->cache == CLI_ABSENT ? 0
                                      : v->cache == 0        ? -1
                                                             : v->cache};
    status = serve_start(&o, &server);
    if (status == WEFT_OK && keys->n == 0 && strncmp(v->host, "127.", 4) != 0 &&
        strcmp(v->host, "localhost") != 0 && strcmp(v->host, "::1") != 0)
        weft_log_message(WEFT_LOG_WARNING,
                         "%s can be reached from other machines, and no API key "
                         "is set",
                         weft_printable(v->host));
    if (status == WEFT_OK)
        status = await_signal(server, v->host);
    serve_stop(server, status == WEFT_OK ? v->stop_seconds : 0);
    if (status == WEFT_OK)
        cli_profile_print();
    return status;
}

static int run(void *context)
{
    const serve_values *v = context;
    char path[4096];
    static key_list keys;
    if (cli_place_complaint(&v->place) != NULL)
        return cli_usage("serve", "%s", cli_place_complaint(&v->place));
    weft_status status = read_keys(v->key_file, &keys);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = serve(v, path, &keys);
    weft_free(keys.text);
    return cli_status(status);
}

const cli_command cli_serve = {
    .name = "serve",
    .summary = "serve a model to other programs over HTTP",
    .description =
        "Serves a model, and adapters that requests choose by their names, to programs that speak "
        "the APIs of OpenAI or Anthropic. Requests of many clients are computed together, also "
        "those with different adapters. Routes: "
        "/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/messages, "
        "/v1/models, /tokenize, /detokenize, /apply-template, /health and /metrics.\n\n"
        "Needs a build with libmicrohttpd. It speaks plain HTTP and listens on this machine alone; "
        "for other machines set an API key, and put a reverse proxy with TLS before it.",
    .example = "weft serve MODEL\n"
               "weft serve MODEL --adapter pirate=runs/pirate --adapter formal=runs/formal\n"
               "curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": "
               "\"user\", \"content\": \"Hi\"}]}'",
    CLI_TABLE(serve_values, arguments, options),
    .run = run,
};
