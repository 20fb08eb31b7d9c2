/* cli/discover.c -- weft discover: lists the models below a folder. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/shared.h"

typedef struct discover_values {
    const char *folder;
    int64_t depth;
    bool json;
} discover_values;

#define AT(field) .offset = offsetof(discover_values, field)

static const cli_argument arguments[] = {{"DIR", offsetof(discover_values, folder), false}};

static const cli_option options[] = {
    {.name = "depth",
     .kind = CLI_INT,
     .value = "N",
     .fallback = "8",
     .low = 1,
     .high = 64,
     AT(depth),
     .help = "go at most N folders down"},
    CLI_JSON_OPTION(discover_values, "print one JSON array"),
};

static void print_json(const weft_discovered *list, int n)
{
    fputs("[", stdout);
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? ",\n {\"path\": " : "{\"path\": ", stdout);
        cli_json_text(stdout, list[i].path, strlen(list[i].path));
        fputs(", \"model_type\": ", stdout);
        cli_json_text(stdout, list[i].model_type, strlen(list[i].model_type));
        printf(", \"bits\": %lld, \"files\": %lld, \"bytes\": %lld}", (long long)list[i].bits,
               (long long)list[i].files, (long long)list[i].bytes);
    }
    puts("]");
}

static void print_text(const weft_discovered *list, int n)
{
    int type_width = 4, size_width = 4;
    for (int i = 0; i < n; i++) {
        const int type = (int)strlen(weft_printable(list[i].model_type));
        const int size = (int)strlen(cli_bytes(list[i].bytes));
        type_width = type > type_width ? type : type_width;
        size_width = size > size_width ? size : size_width;
    }
    if (n == 0)
        fputs("weft: discover: there are no models\n", stderr);
    else
        printf("%-*s  bits  files  %*s  path\n", type_width, "type", size_width, "size");
    for (int i = 0; i < n; i++) {
        const weft_discovered *m = &list[i];
        const char *type = *m->model_type != '\0' ? m->model_type : "?";
        printf("%-*s  %4s  %5lld  %*s  ", type_width, weft_printable(type),
               m->bits > 0 ? cli_count(m->bits) : "-", (long long)m->files, size_width,
               cli_bytes(m->bytes));
        cli_write_text(m->path, strlen(m->path));
        putchar('\n');
    }
}

static int run(void *context)
{
    const discover_values *v = context;
    weft_discovered *list;
    int n;
    const weft_status status = weft_discover(v->folder, (int)v->depth, &list, &n);
    if (status == WEFT_OK && v->json)
        print_json(list, n);
    else if (status == WEFT_OK)
        print_text(list, n);
    weft_discovered_free(list, n);
    return cli_status(status);
}

const cli_command cli_discover = {
    .name = "discover",
    .summary = "list the models below a folder",
    .description = "Lists the models in a folder and below it: folders with config.json and "
                   "*.safetensors, and folders with one *.gguf. Bits are those of quantized "
                   "weights.",
    .example = "weft discover ~/models\n"
               "weft discover ~/.cache/huggingface/hub --json",
    CLI_TABLE(discover_values, arguments, options),
    .run = run,
};
