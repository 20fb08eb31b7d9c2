/* cli/common.c -- functions shared by the commands: opening models, reporting failures, writing
 * JSON. */
#include "cli/common.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/program.h"
#include "cli/text.h"

/* ---- Failures ------------------------------------------------------------------------------- */

/* Sets the library's error message, which escapes control characters, so that it can be printed. */
static void record(const char *format, va_list arguments)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, arguments);
    weft_fail(WEFT_INVALID, "%s", text);
}

static bool quiet;

void cli_be_quiet(void)
{
    quiet = true;
}

int cli_fail(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(format, arguments);
    va_end(arguments);
    if (!quiet)
        fprintf(stderr, "weft: %s: %s\n", command, weft_error_message());
    return CLI_FAILURE;
}

void cli_usage_va(const char *command, const char *format, va_list arguments)
{
    record(format, arguments);
    if (quiet)
        return;
    fprintf(stderr, "weft: %s: %s (%s %s --help tells more)\n", command, weft_error_message(),
            cli_program(), command);
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_usage_va(command, format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

void cli_schema_notes(const char *path, const char *notes)
{
    for (const char *line = notes; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        fprintf(stderr, "weft: %s: %s\n", weft_printable(path), weft_printable_n(line, n));
        line += n + (line[n] == '\n');
    }
}

int cli_status(weft_status status)
{
    if (status == WEFT_OK)
        return CLI_OK;
    fflush(stdout); /* keeps the order of output and error message */
    if (!quiet)
        fprintf(stderr, "weft: %s\n", weft_error_message());
    return CLI_FAILURE;
}

/* ---- Ctrl-C --------------------------------------------------------------------------------- */

static weft_cancel *interrupted;

static void interrupt(int number)
{
    (void)number;
    weft_cancel_set(interrupted);
}

weft_status cli_catch_interrupt(const weft_cancel **cancel)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    *cancel = interrupted = weft_cancel_new();
    if (interrupted == NULL)
        return weft_error_status();
    sigaction(SIGINT, &action, NULL);
    return WEFT_OK;
}

/* ---- Models --------------------------------------------------------------------------------- */

bool cli_is_folder(const char *path)
{
    struct stat what;
    return stat(path, &what) == 0 && S_ISDIR(what.st_mode);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat what;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           stat(path, &what) == 0;
}

static bool has_gguf(const char *folder)
{
    DIR *open = opendir(folder);
    bool found = false;
    for (const struct dirent *e; open != NULL && !found && (e = readdir(open)) != NULL;)
        found = cli_ends_with(e->d_name, ".gguf");
    if (open != NULL)
        closedir(open);
    return found;
}

/* Whether a folder contains an adapter but no model. */
static bool is_adapter(const char *folder)
{
    return has_file(folder, "adapter_config.json") && !has_file(folder, "model.safetensors") &&
           !has_file(folder, "model.safetensors.index.json") && !has_gguf(folder);
}

static bool starts_with_gguf(const char *path)
{
    char magic[4] = {0};
    FILE *file = fopen(path, "rb");
    const bool gguf =
        file != NULL && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (file != NULL)
        fclose(file);
    return gguf;
}

/* Rejects a path that is not a model, with a clearer error than a failed read later. `tokenizer`: a
 * tokenizer is enough. */
static weft_status check_model(const char *path, bool tokenizer)
{
    struct stat what;
    if (stat(path, &what) != 0)
        return weft_fail(WEFT_IO,
                         "%s: there is no such model: expected a folder, a .gguf file, ORG/NAME in "
                         "the local cache, or storyteller",
                         path);
    if (S_ISDIR(what.st_mode)) {
        if (is_adapter(path) && !(tokenizer && has_file(path, "tokenizer.json")))
            return weft_fail(WEFT_INVALID,
                             "%s: an adapter, not a model: give its base model, and the adapter "
                             "with --adapter (weft convert: --adapter-format)",
                             path);
        if (has_file(path, "run.json") && has_file(path, "config.json"))
            return weft_fail(WEFT_INVALID,
                             "%s: the folder of a run, not a model: its adapters are %s/last and, "
                             "with validation data, %s/best",
                             path, path, path);
        if (has_file(path, "config.json") || has_gguf(path) ||
            (tokenizer && has_file(path, "tokenizer.json")))
            return WEFT_OK;
        return weft_fail(WEFT_INVALID,
                         "%s: not a model: expected config.json%s or a .gguf file in the folder",
                         path, tokenizer ? ", tokenizer.json" : "");
    }
    const bool fits = cli_ends_with(path, ".gguf") || (tokenizer && cli_ends_with(path, ".json")) ||
                      (S_ISREG(what.st_mode) && starts_with_gguf(path));
    return fits ? WEFT_OK
                : weft_fail(WEFT_INVALID,
                            "%s: not a model: expected a folder with config.json, or a GGUF file",
                            path);
}

static weft_status find_model(const char *name, bool tokenizer, char *out, size_t size)
{
    if (name != NULL && (strcmp(name, "storyteller") != 0 || cli_is_folder(name))) {
        char *path;
        weft_status status = weft_hub_resolve(name, &path);
        if (status == WEFT_OK)
            status = check_model(path, tokenizer);
        if (status == WEFT_OK)
            snprintf(out, size, "%s", path);
        weft_free(path);
        return status;
    }
    /* Installed beside bin/, or in the source tree that build/cli/weft was built in. */
    static const char *const places[] = {"../share/weft/storyteller", "../../examples/storyteller"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *end = strrchr(self, '/');
    for (size_t i = 0; end != NULL && i < sizeof places / sizeof *places; i++) {
        char beside[PATH_MAX + 32];
        snprintf(beside, sizeof beside, "%.*s/%s", (int)(end - self), self, places[i]);
        char *real = realpath(beside, NULL);
        bool found = real != NULL && cli_is_folder(real) && strlen(real) < size;
        if (found)
            snprintf(out, size, "%s", real);
        free(real);
        if (found)
            return WEFT_OK;
    }
    return weft_fail(WEFT_IO, "storyteller: the model that comes with Weft is not installed; name "
                              "a folder with a model");
}

weft_status cli_model_path(const char *name, char *out, size_t size)
{
    return find_model(name, false, out, size);
}

weft_status cli_find_model(const cli_place *place, const char *name, char *out, size_t size)
{
    const weft_status status = place->pull ? cli_fetch_missing(name) : WEFT_OK;
    return status == WEFT_OK ? cli_model_path(name, out, size) : status;
}

weft_status cli_tokenizer_path(const char *name, char *out, size_t size)
{
    return find_model(name, true, out, size);
}

/* In weft_model_options, gpu_layers 0 means all layers and a negative number means none. */
static int64_t gpu_layers(const cli_place *place)
{
    if (place->gpu_layers == CLI_ABSENT)
        return 0;
    return place->gpu_layers > 0 ? place->gpu_layers : -1;
}

weft_status cli_load_engine(const char *path, const cli_place *place, const char *adapter,
                            const char *backend, int64_t context, weft_engine **out)
{
    *out = NULL;
    weft_status status = WEFT_OK;
    if (!cli_is_other_backend(backend))
        status = cli_place_settle(path, place, PLACE_RUN, NULL);
    if (status == WEFT_OK)
        status = cli_set_place(place);
    if (status != WEFT_OK)
        return status;
    const weft_engine_options options = {
        .backend = backend,
        .adapter = adapter,
        .device = cli_device(place),
        .dtype = cli_weft_dtype(place),
        .gpu_layers = gpu_layers(place),
        .stream = place->stream,
        .quantize = place->quantize != CLI_ABSENT ? place->quantize : 0,
        .int8_activations = place->activations != 0,
        .context = context,
    };
    return weft_engine_load(path, &options, out);
}

bool cli_is_other_backend(const char *name)
{
    return name != NULL && strcmp(name, "native") != 0;
}

weft_status cli_engine_generate(weft_engine *engine, const weft_engine_request *request,
                                weft_generate_fn *callback, void *context,
                                weft_generate_stats *stats)
{
    const weft_status status = weft_engine_generate(engine, request, callback, context);
    const weft_engine_metrics m = weft_engine_metrics_of(engine);
    const weft_generate_stats took = {
        .reason = m.reason,
        .detail = m.detail,
        .prompt_tokens = m.prompt_tokens,
        .tokens = m.generated_tokens,
        .first_token_seconds = m.first_token_seconds,
        .decode_seconds = m.decode_seconds,
        .prompt_per_second = m.prefill_per_second,
        .decode_per_second = m.decode_per_second,
        .peak_memory = m.peak_memory,
    };
    if (stats != NULL)
        *stats = took;
    return status;
}

weft_status cli_load_template(const char *path, const char *adapter, weft_chat **out)
{
    const weft_status status = weft_adapter_chat(path, adapter, out);
    if (status != WEFT_OK)
        *out = NULL;
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

weft_status cli_read_template(const char *file, const weft_tokenizer *tokenizer, weft_chat **out)
{
    char *source = NULL;
    size_t n = 0;
    *out = NULL;
    weft_status status = weft_file_read(file, 0, &source, &n);
    if (status == WEFT_OK)
        status = weft_chat_parse(source, n, file, tokenizer, out);
    weft_free(source);
    return status;
}

weft_status cli_load_model(const char *path, const cli_place *place, const char *adapter,
                           weft_model **out)
{
    *out = NULL;
    weft_status status = cli_place_settle(path, place, PLACE_RUN, NULL);
    if (status == WEFT_OK)
        status = cli_set_place(place);
    weft_device *devices[WEFT_MODEL_DEVICES];
    const int n_devices = status == WEFT_OK ? cli_devices(place, devices) : 0;
    if (n_devices == 0)
        return status == WEFT_OK ? WEFT_DEVICE : status;
    weft_model_options options = {.dtype = cli_weft_dtype(place),
                                  .device = devices[0],
                                  .devices = devices,
                                  .n_devices = n_devices,
                                  .gpu_layers = gpu_layers(place),
                                  .stream = place->stream,
                                  .int8_activations = place->activations != 0};
    if (place->quantize != CLI_ABSENT)
        options.quantize = place->quantize;
    status = weft_model_load(path, &options, out);
    const bool may_stream = n_devices == 1 && devices[0] != weft_device_get("cpu");
    if (status == WEFT_MEMORY && may_stream && !place->stream) {
        char *why = weft_strdup(weft_error_message());
        weft_fail(WEFT_MEMORY,
                  "%s; without --full, --stream keeps the weights in the host's memory",
                  why ? why : path);
        weft_free(why);
    }
    if (status == WEFT_OK && weft_model_skipped(*out) != NULL)
        fprintf(stderr, "weft: %s: left out %s: only the text model is used\n",
                weft_printable(path), weft_printable(weft_model_skipped(*out)));
    if (status == WEFT_OK && adapter != NULL)
        status = weft_adapter_load_list(*out, adapter, NULL);
    if (status != WEFT_OK) {
        weft_model_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---- Input ---------------------------------------------------------------------------------- */

char *cli_read_all(FILE *stream, size_t *length)
{
    size_t room = 4096, n = 0;
    char *text = malloc(room);
    while (text != NULL) {
        n += fread(text + n, 1, room - 1 - n, stream);
        if (n < room - 1)
            break;
        char *more = realloc(text, room *= 2);
        if (more == NULL)
            free(text);
        text = more;
    }
    if (text != NULL)
        text[n] = '\0';
    *length = n;
    return text;
}

const char *cli_text_complaint(const char *prompt, const char *file)
{
    if (prompt != NULL && file != NULL)
        return "takes --prompt TEXT or --file FILE, not both";
    if (prompt == NULL && file == NULL && isatty(STDIN_FILENO))
        return "needs --prompt TEXT, --file FILE or a text on standard input";
    return NULL;
}

weft_status cli_read_text(const char *prompt, const char *file, char **text, size_t *length)
{
    *text = NULL;
    if (file != NULL && strcmp(file, "-") != 0)
        return weft_file_read(file, 0, text, length);
    const bool from_stdin = file != NULL || prompt == NULL || strcmp(prompt, "-") == 0;
    char *all = from_stdin ? cli_read_all(stdin, length) : NULL;
    const char *from = from_stdin ? all : prompt;
    if (!from_stdin)
        *length = strlen(prompt);
    *text = from != NULL ? weft_malloc(*length + 1) : NULL;
    if (*text != NULL)
        memcpy(*text, from, *length + 1);
    free(all);
    return *text != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "no memory for the text");
}

/* ---- Output --------------------------------------------------------------------------------- */

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The size in bytes of the first character, as its first byte has it. */
static size_t size_of(const char *text)
{
    const unsigned char c = (unsigned char)text[0];
    return c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* That size if the character must not reach a terminal, as weft_printable decides; otherwise, and
 * for an incomplete last character, 0. */
static size_t unsafe_size(const char *text, size_t length)
{
    const unsigned char c = (unsigned char)text[0];
    const size_t size = size_of(text);
    if (c < 0x80)
        return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (size > length)
        return 0;
    const char *shown = weft_printable_n(text, size);
    return strlen(shown) == size && memcmp(shown, text, size) == 0 ? 0 : size;
}

void cli_write_text(const char *text, size_t length)
{
    if (!isatty(STDOUT_FILENO)) {
        fwrite(text, 1, length, stdout);
        return;
    }
    for (size_t i = 0; i < length;) {
        size_t n = 0, plain = i;
        while (plain < length && (n = unsafe_size(text + plain, length - plain)) == 0)
            plain += size_of(text + plain);
        plain = plain < length ? plain : length;
        fwrite(text + i, 1, plain - i, stdout);
        if (plain < length)
            fputs(weft_printable_n(text + plain, n), stdout);
        i = plain + n;
    }
}

void cli_json_text(FILE *file, const char *text, size_t length)
{
    fputc('"', file);
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        const size_t n = c >= 0x80 ? unsafe_size(text + i, length - i) : 0;
        const char *shown = n > 1 ? weft_printable_n(text + i, n) : "";
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c == '\t')
            fputs("\\t", file);
        else if (c == '\r')
            fputs("\\r", file);
        else if (c < 0x20 || c == 0x7f)
            fprintf(file, "\\u%04x", c);
        else if (shown[0] == '\\' && shown[1] == 'u') {
            fputs(shown, file);
            i += n - 1;
        } else
            fputc(c, file);
    }
    fputc('"', file);
}

void cli_json_number(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.17g", value);
    else
        fputs("null", file);
}

void cli_json_member(const char *key, double value)
{
    printf(", \"%s\": ", key);
    cli_json_number(stdout, value);
}

enum { TEXTS = 16, TEXT_SIZE = 40 };

/* Returns the next of several static buffers, so that one printf can use several results. */
static char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static int next;
    next = (next + 1) % TEXTS;
    return texts[next];
}

const char *cli_count(int64_t value)
{
    char digits[24], *out = next_text();
    int n = snprintf(digits, sizeof digits, "%" PRId64, value), at = 0;
    for (int i = 0; i < n; i++) {
        out[at++] = digits[i];
        if ((n - 1 - i) % 3 == 0 && i < n - 1 && digits[i] != '-')
            out[at++] = ',';
    }
    out[at] = '\0';
    return out;
}

const char *cli_bytes(int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    char *out = next_text();
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 4) {
        value /= 1000;
        unit++;
    }
    snprintf(out, TEXT_SIZE, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}

const char *cli_time(double seconds)
{
    char *out = next_text();
    long long s =
        isfinite(seconds) && seconds > 0 && seconds < 1e9 ? (long long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(out, TEXT_SIZE, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, TEXT_SIZE, "%lld:%02lld", s / 60, s % 60);
    return out;
}

weft_status cli_end_of_turn(const weft_chat *chat, char **end)
{
    static const char content[] = "Hello.";
    const weft_chat_message turns[] = {{.role = "user", .content = content},
                                       {.role = "assistant", .content = content}};
    char *json = NULL, *text = NULL;
    *end = NULL;
    weft_status status = weft_chat_messages(turns, 2, &json);
    if (status == WEFT_OK)
        status = weft_chat_render(chat, json, NULL, &text, NULL);
    char *at = NULL;
    for (char *next = text; next && (next = strstr(next, content)) != NULL; at = next)
        next += sizeof content - 1;
    for (size_t n = at ? strlen(at) : 0; n > 0 && strchr(" \n", at[n - 1]); n--)
        at[n - 1] = '\0';
    if (status == WEFT_OK && at && *at && (*end = weft_strdup(at)) == NULL)
        status = weft_fail(WEFT_MEMORY, "chat template: out of memory for the end of a turn");
    weft_free(json);
    weft_free(text);
    return status;
}

/* ---- conversions ----------------------------------------------------------------------------- */

double cli_bits_per_parameter(const weft_convert_report *r)
{
    return r->parameters > 0 ? 8 * (double)r->bytes / (double)r->parameters : 0;
}

void cli_print_conversion(const char *out, const weft_convert_report *r)
{
    printf("%s: %s, %.3g bits a parameter, %s\n", out, cli_bytes(r->bytes),
           cli_bits_per_parameter(r), r->types);
    if (r->mlx)
        puts("Its matrices are in MLX's format, which mlx-lm and Weft load, but not transformers "
             "and "
             "vLLM: --type bf16 writes dense matrices.");
}

/* ---- ranks ----------------------------------------------------------------------------------- */

void *cli_gather(weft_group *group, const void *own, size_t n, weft_status *status)
{
    const size_t size = (size_t)weft_group_info_of(group).size;
    void *all = weft_calloc(size, n);
    *status = all ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for %zu ranks", size);
    *status = weft_group_agree(group, *status, NULL);
    if (*status == WEFT_OK)
        *status = weft_group_gather(group, own, n, all);
    if (*status != WEFT_OK) {
        weft_free(all);
        all = NULL;
    }
    return all;
}
