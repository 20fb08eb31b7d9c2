/* cli/chat.c -- weft chat: a conversation with a model. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_input.h"
#include "cli/chat_server.h"
#include "cli/commands.h"
#include "cli/edit.h"
#include "cli/profile.h"
#include "cli/program.h"
#include "cli/shared.h"

#define AT(field) .offset = offsetof(chat_values, field)

static const cli_argument arguments[] = {{"MODEL", offsetof(chat_values, model), true}};

static const cli_option options[] = {
    CLI_PROMPT_OPTION(chat_values, NULL,
                      "send this message, print the answer and exit; - reads "
                      "standard input"),
    {.name = "system", .kind = CLI_TEXT, .value = "TEXT", AT(system), .help = "the system text"},
    {.name = "load",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(load),
     .help = "start with the messages of a file that /save has written"},
    {.name = "think",
     .kind = CLI_CHOICE,
     .value = "on|off",
     AT(think),
     .help = "whether the model thinks before it answers; default: as its template has it"},
    CLI_SCHEMA_OPTION(chat_values,
                      "answer with JSON that this JSON Schema allows, and nothing else"),
    CLI_SCHEMA_OPEN_OPTION(chat_values),
    {.name = "prompted",
     .kind = CLI_FLAG,
     AT(prompted),
     .help = "with --json-schema: ask for such JSON and retry, instead of "
             "constraining the generation"},
    {.name = "retries",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "2",
     .low = 0,
     .high = 16,
     AT(retries),
     .help = "with --prompted: attempts after the first"},
    {.name = "tools",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(tools),
     .help = "tools that the model may call, a JSON array; you are asked for what a call gives, or "
             "with --json answer it by a message with the role tool"},
    {.name = "tool-pattern",
     .kind = CLI_TEXT,
     .value = "OPEN...CLOSE",
     AT(tool_pattern),
     .help = "with --tools: the model writes a call as JSON with name and arguments between OPEN "
             "and CLOSE; default: as its template has it"},
    {.name = "format",
     .kind = CLI_TEXT,
     .value = "NAME",
     AT(format),
     .help = "use a built-in format instead of the model's template: "
             "chatml, gemma3, llama:3.0, ..."},
    {.name = "template",
     .kind = CLI_TEXT,
     .value = "FILE",
     AT(template_file),
     .help = "use this Jinja template instead of the model's"},
    {.name = "history",
     .kind = CLI_CHOICE,
     .value = "on|off",
     .fallback = "on",
     .environment = "WEFT_CHAT_HISTORY",
     AT(history),
     .help = "keep the lines typed on a terminal for later runs, in "
             "~/.local/state/weft/chat_history"},
    {.name = "server",
     .kind = CLI_TEXT,
     .value = "URL",
     AT(server),
     .help =
         "chat with a model of this server, as in http://127.0.0.1:8080, by OpenAI's API; MODEL "
         "is its name there, by default the first one that the server lists"},
    {.name = "api-key-file",
     .kind = CLI_TEXT,
     .value = "FILE",
     .environment = "WEFT_API_KEY_FILE",
     AT(key_file),
     .help = "with --server: send the key in the first line of this file; a key can also be given "
             "in the environment variable WEFT_API_KEY"},
    CLI_ADAPTER_OPTION(chat_values),
    CLI_BACKEND_OPTION(chat_values),
    CLI_SAMPLING_OPTIONS(chat_values),
    CLI_CACHING_OPTIONS(chat_values),
    CLI_TIMEOUT_OPTION(chat_values),
    CLI_TOKENS_PER_EVAL_OPTION(chat_values),
    CLI_SHIFT_OPTION(chat_values),
    CLI_STATS_OPTION(chat_values),
    CLI_JSON_OPTION(chat_values,
                    "read messages as lines of JSON, texts or objects with role and content; "
                    "write what happens as lines of JSON"),
    CLI_PLACE_OPTIONS(chat_values),
    CLI_ACTIVATIONS_OPTION(chat_values),
};

/* ---- Ctrl-C --------------------------------------------------------------------------------- */

static weft_cancel *interrupt;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    weft_cancel_set(interrupt);
}

/* On a terminal Ctrl-C stops the current answer. Otherwise SIGINT keeps its default action and ends
 * the program. */
static weft_status catch_interrupts(chat_run *run)
{
    run->cancel = interrupt = weft_cancel_new();
    if (run->cancel == NULL)
        return weft_fail(WEFT_MEMORY, "chat: no memory");
    struct sigaction action = {
        .sa_handler = on_interrupt}; /* no SA_RESTART: Ctrl-C also interrupts reading */
    if (run->person)
        sigaction(SIGINT, &action, NULL);
    return WEFT_OK;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static weft_status no_template(const char *path)
{
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: the model has no chat template: use weft generate; "
                     "--format chatml or --template FILE chats with it anyway",
                     path);
}

static weft_status open_chat(chat_run *run, const char *path)
{
    const chat_values *v = run->values;
    char name[64];
    if (v->template_file != NULL)
        return cli_read_template(v->template_file, run->tokenizer, &run->chat);
    if (v->format != NULL) {
        snprintf(name, sizeof name, "%s", v->format);
        char *version = strchr(name, ':');
        if (version != NULL)
            *version++ = '\0';
        return weft_chat_builtin(name, version, run->tokenizer, &run->chat);
    }
    const weft_status status = weft_adapter_chat(path, v->adapter, &run->chat);
    return status == WEFT_UNSUPPORTED ? no_template(path) : status;
}

/* A turn marker that the template writes but the vocabulary lacks; NULL: none. */
static const char *missing_marker(const chat_run *run)
{
    static const char *const marks[] = {"<|im_start|>", "<|start_header_id|>", "<start_of_turn>",
                                        "<|turn>"};
    const char *source = weft_chat_source(run->chat, NULL);
    for (size_t i = 0; source != NULL && i < sizeof marks / sizeof *marks; i++)
        if (strstr(source, marks[i]) != NULL &&
            weft_tokenizer_token_to_id(run->tokenizer, marks[i]) < 0)
            return marks[i];
    return NULL;
}

/* A model whose vocabulary lacks the turn markers was probably not trained for chat. With its
 * family's built-in format that is an error, with the model's own template a warning. */
static weft_status check_marks(const chat_run *run, const char *path)
{
    const char *type = weft_config_string(weft_model_config(run->model), "model_type", "");
    const char *mark = missing_marker(run), *source = weft_chat_source(run->chat, NULL);
    weft_chat *builtin = NULL;
    if (mark == NULL || run->values->format != NULL || run->values->template_file != NULL)
        return WEFT_OK;
    const bool same = weft_chat_builtin(type, NULL, run->tokenizer, &builtin) == WEFT_OK &&
                      strcmp(weft_chat_source(builtin, NULL), source) == 0;
    weft_chat_free(builtin);
    if (same)
        return no_template(path);
    fprintf(stderr,
            "weft: warning: the model's chat template begins turns with %s, which its vocabulary "
            "lacks: it was probably not trained for chat; weft generate continues texts\n",
            mark);
    return WEFT_OK;
}

/* Generates the answers of a session with another program (--backend). */
static weft_status from_engine(void *context, const weft_session_request *request,
                               weft_generate_fn *callback, void *callback_context,
                               weft_generate_stats *stats)
{
    const weft_engine_request r = {.prompt = request->prompt,
                                   .length = request->length,
                                   .no_special = true,
                                   .ids = request->ids,
                                   .n_ids = request->n_ids,
                                   .options = request->options};
    return cli_engine_generate(context, &r, callback, callback_context, stats);
}

/* The maximum number of prompt tokens, which leaves room for an answer. 0: unknown. */
static int64_t prompt_room(const chat_run *run, int64_t max_tokens)
{
    const int64_t positions = run->engine != NULL ? weft_engine_info_of(run->engine).context_length
                                                  : weft_model_info_of(run->model)->max_positions;
    return max_tokens < positions / 2 ? positions - max_tokens : positions - positions / 2;
}

/* Splits --tool-pattern OPEN...CLOSE into copies of its two parts. */
static weft_status read_pattern(chat_run *run)
{
    const char *pattern = run->values->tool_pattern, *dots = strstr(pattern, "...");
    run->tool_open = strndup(pattern, (size_t)(dots - pattern));
    run->tool_close = strdup(dots + 3);
    return run->tool_open != NULL && run->tool_close != NULL
               ? WEFT_OK
               : weft_fail(WEFT_MEMORY, "chat: no memory");
}

/* The options of a session that do not depend on what computes. */
static void choose_common(chat_run *run)
{
    const chat_values *v = run->values;
    static const weft_thinking thinking[] = {WEFT_THINKING_ON, WEFT_THINKING_OFF};
    weft_session_options *o = &run->options;
    *o = (weft_session_options){.system = v->system,
                                .tools = run->tools,
                                .n_tools = run->n_tools,
                                .thinking =
                                    v->think >= 0 ? thinking[v->think] : WEFT_THINKING_DEFAULT,
                                .tool_open = run->tool_open,
                                .tool_close = run->tool_close};
}

static weft_status choose_options(chat_run *run)
{
    const chat_values *v = run->values;
    weft_session_options *o = &run->options;
    choose_common(run);
    o->generate.max_tokens = 1024;
    o->generate.tokens_per_eval = v->tokens_per_eval;
    o->generate.shift = v->shift;
    o->generate.timeout = isnan(v->timeout) ? 0 : v->timeout;
    o->generate.cancel = run->cancel;
    if (run->engine != NULL) {
        o->source = from_engine;
        o->source_context = run->engine;
    }
    cli_sampling_apply(&v->sampling, run->model, &o->generate);
    o->max_prompt = prompt_room(run, o->generate.max_tokens);
    weft_status status = cli_caching_apply("chat", &v->caching, run->model, &o->generate.cache);
    if (status == WEFT_OK && run->model != NULL)
        status = cli_sampling_protect(run->tokenizer, run->model, &run->keep, &o->generate);
    return status;
}

/* Fills a session that has been opened with what --load and --system give. */
static weft_status load_messages(chat_run *run, weft_status status)
{
    const chat_values *v = run->values;
    if (status == WEFT_OK && v->load != NULL)
        status = weft_session_load(run->session, v->load);
    if (status == WEFT_OK && v->load != NULL && v->system != NULL)
        status = weft_session_set_system(run->session, v->system);
    return status;
}

static weft_status open_session(chat_run *run)
{
    weft_status status = choose_options(run);
    if (status == WEFT_OK)
        status =
            weft_session_new(run->model, run->tokenizer, run->chat, &run->options, &run->session);
    return load_messages(run, status);
}

#define DEFAULT_MODEL "Qwen/Qwen3-0.6B"

/* Finds the model. Without MODEL it is the one in $WEFT_MODEL, otherwise DEFAULT_MODEL from the
 * local cache. */
static weft_status find_model(chat_run *run, char *path, size_t size)
{
    const cli_place *place = &run->values->place;
    const char *own = getenv("WEFT_MODEL");
    char *folder = NULL;
    run->name = run->values->model;
    if (run->name == NULL && own != NULL && *own != '\0')
        run->name = own;
    if (run->name == NULL && !place->pull && weft_hub_find(DEFAULT_MODEL, NULL, &folder) != WEFT_OK)
        return weft_fail(WEFT_IO,
                         "chat: no MODEL is given, and the default, " DEFAULT_MODEL
                         ", is not in the local cache: name one, set WEFT_MODEL, or run "
                         "%s pull " DEFAULT_MODEL,
                         cli_program());
    weft_free(folder);
    run->name = run->name != NULL ? run->name : DEFAULT_MODEL;
    return cli_find_model(place, run->name, path, size);
}

static weft_status open_server(chat_run *run)
{
    const weft_status status = catch_interrupts(run);
    choose_common(run);
    return status == WEFT_OK ? load_messages(run, chat_server_open(run)) : status;
}

static weft_status open_all(chat_run *run)
{
    const chat_values *v = run->values;
    char path[4096];
    size_t n = 0;
    if (v->server != NULL)
        return open_server(run);
    weft_status status = find_model(run, path, sizeof path);
    if (status == WEFT_OK)
        status = catch_interrupts(run);
    if (status == WEFT_OK && v->tool_pattern != NULL)
        status = read_pattern(run);
    if (status == WEFT_OK && v->json_schema != NULL)
        status = weft_file_read(v->json_schema, 0, &run->schema, &n);
    if (status == WEFT_OK && v->tools != NULL)
        status = chat_read_tools(run, v->tools);
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer(path, v->adapter, &run->tokenizer);
    if (status == WEFT_OK)
        status = open_chat(run, path);
    if (status == WEFT_OK && cli_is_other_backend(v->backend))
        status = cli_load_engine(path, &v->place, v->adapter, v->backend, 0, &run->engine);
    else if (status == WEFT_OK)
        status = cli_load_model(path, &v->place, v->adapter, &run->model);
    if (status == WEFT_OK && run->model != NULL)
        status = check_marks(run, path);
    return status == WEFT_OK ? open_session(run) : status;
}

static void close_all(chat_run *run)
{
    weft_session_free(run->session);
    chat_server_free(run->server);
    weft_engine_free(run->engine);
    weft_model_free(run->model);
    weft_chat_free(run->chat);
    weft_tokenizer_free(run->tokenizer);
    chat_free_tools(run);
    free(run->tool_open);
    free(run->tool_close);
    weft_free(run->schema);
    signal(SIGINT, SIG_DFL); /* a handler may still run in another thread: its request stays */
}

/* ---- Answers -------------------------------------------------------------------------------- */

void chat_answer(chat_run *run, const char *text, bool continue_final)
{
    chat_answer_of(run, run->session, text, continue_final);
}

void chat_answer_of(chat_run *run, weft_session *session, const char *text, bool continue_final)
{
    const chat_values *v = run->values;
    const weft_session_turn turn = {
        .structured = run->schema == NULL ? WEFT_STRUCTURED_NONE
                      : v->prompted       ? WEFT_STRUCTURED_PROMPTED
                                          : WEFT_STRUCTURED_CONSTRAINED,
        .schema = run->schema,
        .open_schema = v->schema_open,
        .retries = v->retries > 0 ? v->retries : -1,
        .continue_final = continue_final,
    };
    weft_cancel_clear(run->cancel);
    if (run->server != NULL)
        chat_server_use(run->server, session);
    chat_show_start(run);
    const weft_status status =
        text != NULL ? weft_session_send(session, text, &turn, chat_show_event, run, &run->stats)
                     : weft_session_answer(session, &turn, chat_show_event, run, &run->stats);
    chat_show_end(run);
    run->pending = status == WEFT_OK ? run->stats.pending_calls : 0;
    if (status != WEFT_OK)
        chat_show_failure(run);
    weft_cancel_clear(run->cancel);
}

/* ---- Running -------------------------------------------------------------------------------- */

static void take_line(chat_run *run, const char *line)
{
    if (run->values->json)
        chat_read_message(run, line);
    else if (line[0] == '/' && line[1] != '/')
        chat_command(run, line);
    else if (line[strspn(line, " \t")] != '\0')
        chat_answer(run, line[0] == '/' ? line + 1 : line, false);
}

static void show_names(const chat_run *run)
{
    const char *adapter = run->values->adapter;
    printf("(%s%s%s; /help lists the commands)\n", weft_printable(run->name),
           adapter != NULL ? " with the adapter " : "",
           adapter != NULL ? weft_printable(adapter) : "");
}

static weft_status talk(chat_run *run)
{
    bool interrupted = false;
    cli_edit_configure(run->person ? chat_command_name : NULL,
                       run->person && run->values->history == 0);
    if (run->person)
        show_names(run);
    while (!run->quit) {
        char *line = NULL;
        const cli_edit_result result = cli_edit_read("> ", &line);
        if (result == CLI_EDIT_FAILED)
            return weft_fail(WEFT_MEMORY, "chat: no memory for the line");
        /* A second Ctrl-C in a row ends the chat. */
        if (result == CLI_EDIT_END || (result == CLI_EDIT_INTERRUPTED && interrupted))
            break;
        interrupted = result == CLI_EDIT_INTERRUPTED;
        if (interrupted)
            puts("(Ctrl-C again ends the chat)");
        else
            take_line(run, line);
        free(line);
    }
    return WEFT_OK;
}

static weft_status talk_once(chat_run *run)
{
    const char *prompt = run->values->prompt;
    char *all = NULL;
    size_t n = 0;
    if (strcmp(prompt, "-") == 0 && (all = cli_read_all(stdin, &n)) == NULL)
        return weft_fail(WEFT_MEMORY, "chat: no memory for the message");
    if (all != NULL && n > 0 && all[n - 1] == '\n')
        all[n - 1] = '\0';
    chat_answer(run, all != NULL ? all : prompt, false);
    free(all);
    return WEFT_OK;
}

static bool is_pattern(const char *pattern)
{
    const char *dots = strstr(pattern, "...");
    return dots != NULL && dots > pattern && dots[3] != '\0';
}

/* Options that the server decides, or that it does not take. */
static const char *server_complaint(const chat_values *v)
{
    const struct {
        bool given;
        const char *what;
    } cases[] = {
        {v->adapter != NULL, "--server and --adapter: choose an adapter of the server by its name"},
        {cli_is_other_backend(v->backend), "--server and --backend: choose one"},
        {v->format != NULL || v->template_file != NULL,
         "--server: the server applies the template: --format and --template are for MODEL"},
        {v->tools != NULL || v->json_schema != NULL,
         "--server: tools and JSON Schemas are not supported there"},
        {v->sampling.suppress.n > 0 || v->sampling.stop_tokens.n > 0 || v->sampling.order >= 0,
         "--server: --suppress, --stop-tokens and --sampler-order are not supported there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].given)
            return cases[i].what;
    }
    return NULL;
}

static const char *complaint(const chat_values *v)
{
    if (v->server != NULL && server_complaint(v) != NULL)
        return server_complaint(v);
    if (v->format != NULL && v->template_file != NULL)
        return "--format and --template: choose one";
    if (v->tools != NULL && !v->json && !cli_edit_is_terminal())
        return "--tools needs a terminal, where you are asked for what calls give, or --json";
    if (v->tool_pattern != NULL && v->tools == NULL)
        return "--tool-pattern needs --tools FILE";
    if (v->tool_pattern != NULL && !is_pattern(v->tool_pattern))
        return "--tool-pattern: expected OPEN...CLOSE, three dots between two texts";
    if (v->prompted && v->json_schema == NULL)
        return "--prompted needs --json-schema FILE";
    if (v->schema_open && v->json_schema == NULL)
        return "--schema-open needs --json-schema FILE";
    return cli_place_complaint(&v->place);
}

static int run(void *context)
{
    const chat_values *v = context;
    if (complaint(v) != NULL)
        return cli_usage("chat", "%s", complaint(v));
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    chat_run r = {.values = v,
                  .person = cli_edit_is_terminal() && v->prompt == NULL && !v->json,
                  .color = isatty(STDOUT_FILENO) && term != NULL && strcmp(term, "dumb") != 0 &&
                           (no_color == NULL || !*no_color)};
    weft_status status = open_all(&r);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = v->prompt != NULL ? talk_once(&r) : talk(&r);
    if (status == WEFT_OK)
        cli_profile_print();
    const int code = cli_status(status);
    close_all(&r);
    return code == CLI_OK && r.failures > 0 ? CLI_FAILURE : code;
}

const cli_command cli_chat = {
    .name = "chat",
    .summary = "talk with a model",
    .description =
        "Chats with a model through its chat template. Each line is a message; lines that "
        "begin with a slash are commands (/help). Reasoning is shown dim on a terminal, and "
        "not at all otherwise. From a pipe, too, each line is a message. A text of several lines "
        "that is pasted on a terminal is one message. Tab completes commands, and the arrow keys "
        "bring back lines of this and earlier runs, which ~/.local/state/weft/chat_history keeps "
        "(below $XDG_STATE_HOME if that is set; --history off).\n\n"
        "Without MODEL it uses the one in the environment variable WEFT_MODEL, or " DEFAULT_MODEL
        " "
        "if that is in the local cache (weft pull). When a conversation exceeds the model's "
        "positions, its oldest turns are dropped from the prompt, with a note; the system "
        "message and the last message always stay.\n\n"
        "With --server a server computes the answers (weft serve, llama-server and others): /model "
        "lists its models and chooses one, and /compare shows the answers of the model's base and "
        "of itself.\n\n"
        "For a model without a chat template use weft generate.",
    .example = "weft chat MODEL --system \"You are terse.\"\n"
               "weft chat MODEL -p \"Name three rivers.\" --temperature 0\n"
               "weft chat MODEL --adapter DIR\n"
               "weft chat --server http://127.0.0.1:8080\n"
               "weft chat MODEL --json-schema person.json -p \"Invent a person.\"\n"
               "weft chat MODEL --tools tools.json\n"
               "echo '\"Hello\"' | weft chat MODEL --json",
    CLI_TABLE(chat_values, arguments, options),
    .run = run,
};
