/* cli/svg.c -- pictures as standalone SVG files. */
#include "cli/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "core/io/utf8.h"

/* ---- the style ------------------------------------------------------------------------------ */

/* The colors of a page: its own, of texts, of frames, of the scale, and the first level whose
 * texts have the second color of `on`. */
typedef struct theme {
    const char *page, *strong, *text, *frame, *scale[CLI_SVG_LEVELS], *on[2];
    int turn;
} theme;

static const theme light = {"#ffffff",
                            "#111827",
                            "#4b5563",
                            "#d1d5db",
                            {"#faf6e6", "#f4e9b8", "#e6d78c", "#c9c07d", "#a6a67a", "#828b78",
                             "#5c6d78", "#3b5374", "#16366a"},
                            {"#111827", "#ffffff"},
                            6};

static const theme dark = {"#0f1522",
                           "#f3f4f6",
                           "#9ca3af",
                           "#374151",
                           {"#1b2436", "#22375c", "#354a70", "#4e5b74", "#686d76", "#8f8c7a",
                            "#b4a976", "#d8c86c", "#fce65d"},
                           {"#f9fafb", "#0b1020"},
                           5};

static void write_theme(FILE *file, const theme *t)
{
    fprintf(file, ":root{background:%s}.title,.mono{fill:%s}.note,.label{fill:%s}", t->page,
            t->strong, t->text);
    fprintf(file, ".frame{stroke:%s}\n", t->frame);
    for (int i = 0; i < CLI_SVG_LEVELS; i++)
        fprintf(file, ".v%d{fill:%s}.s%d{stroke:%s}.t%d{fill:%s}", i, t->scale[i], i, t->scale[i],
                i, t->on[i >= t->turn]);
    fputc('\n', file);
}

static void write_style(FILE *file, double width)
{
    fprintf(file,
            "<style>\n"
            ":root{color-scheme:light dark;display:block;width:100%%;max-width:%.0fpx;height:auto;"
            "margin:0 auto}\n"
            "text{font:11px system-ui,sans-serif;white-space:pre}\n"
            ".title{font-size:17px;font-weight:600}.note{font-size:12px}.label{font-size:10px}\n"
            ".mono{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}\n"
            ".frame{fill:none;stroke-width:1}.hit{fill:transparent}\n"
            ".hit:hover,.cell:hover rect{stroke:#e8590c;stroke-width:1.5}\n",
            ceil(width * 1.8));
    write_theme(file, &light);
    fputs("@media (prefers-color-scheme:dark){\n", file);
    write_theme(file, &dark);
    fputs("}\n</style>\n", file);
}

/* ---- files ---------------------------------------------------------------------------------- */

weft_status cli_svg_open(cli_svg *svg)
{
    *svg = (cli_svg){0};
    svg->file = open_memstream(&svg->data, &svg->size);
    return svg->file != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "svg: no memory");
}

static void write_start(FILE *file, const char *title, double width, double height)
{
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" ", file);
    fprintf(file, "viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\">\n",
            ceil(width), ceil(height), ceil(width), ceil(height));
    fputs(CLI_SVG_MARKER "\n<title>", file);
    cli_svg_text(file, title, strlen(title));
    fputs("</title>\n", file);
    write_style(file, width);
}

/* The body in svg->data with its start, written to `path`. */
static weft_status write_file(const cli_svg *svg, const char *path, const char *title, double width,
                              double height)
{
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    if (file == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory", weft_printable(path));
    write_start(file, title, width, height);
    fwrite(svg->data, 1, svg->size, file);
    fputs("</svg>\n", file);
    const bool failed = ferror(file) != 0;
    weft_status status = fclose(file) == 0 && !failed
                             ? weft_file_write(path, data, size)
                             : weft_fail(WEFT_MEMORY, "%s: no memory", weft_printable(path));
    free(data);
    return status;
}

weft_status cli_svg_close(cli_svg *svg, const char *path, const char *title, double width,
                          double height)
{
    if (svg->file == NULL)
        return WEFT_OK;
    const bool failed = ferror(svg->file) != 0;
    weft_status status = WEFT_OK;
    if (fclose(svg->file) != 0 || failed)
        status = weft_fail(WEFT_MEMORY, "svg: no memory");
    else if (path != NULL)
        status = write_file(svg, path, title, width, height);
    free(svg->data);
    *svg = (cli_svg){0};
    return status;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Two characters that XML does not allow. */
static bool is_excluded(uint32_t code)
{
    return code == 0xFFFE || code == 0xFFFF;
}

/* The size of the character at `text`, and in *code the character; *code is 0 for one that is
 * written as an escape. */
static size_t next(const char *text, size_t length, uint32_t *code)
{
    const int step = weft__utf8_step(text, length);
    *code = step > 0 ? weft__utf8_decode(text, step) : 0;
    if (weft__utf8_is_hidden(*code) || is_excluded(*code))
        *code = 0;
    return step > 0 ? (size_t)step : 1;
}

static const char *escape(const char *text, size_t size)
{
    const uint32_t code = size == 3 ? weft__utf8_decode(text, 3) : 0;
    return code == 0xFFFE ? "\\ufffe" : code == 0xFFFF ? "\\uffff" : weft_printable_n(text, size);
}

void cli_svg_text(FILE *file, const char *text, size_t length)
{
    size_t size;
    for (size_t i = 0; i < length; i += size) {
        uint32_t code;
        size = next(text + i, length - i, &code);
        if (code == 0)
            fputs(escape(text + i, size), file);
        else if (code == '<' || code == '>' || code == '&' || code == '"')
            fprintf(file, "&#%u;", (unsigned)code);
        else
            fwrite(text + i, 1, size, file);
    }
}

static int width_of(uint32_t code)
{
    static const struct {
        uint32_t from, to;
        int width;
    } ranges[] = {{0x0300, 0x036F, 0},   {0x1100, 0x115F, 2},  {0x2E80, 0xA4CF, 2},
                  {0xAC00, 0xD7A3, 2},   {0xF900, 0xFAFF, 2},  {0xFE00, 0xFE0F, 0},
                  {0xFE30, 0xFE6F, 2},   {0xFF00, 0xFF60, 2},  {0xFFE0, 0xFFE6, 2},
                  {0x1F300, 0x1FAFF, 2}, {0x20000, 0x3FFFD, 2}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i].from && code <= ranges[i].to)
            return ranges[i].width;
    }
    return 1;
}

int cli_svg_columns(const char *text, size_t length)
{
    int columns = 0;
    size_t size;
    for (size_t i = 0; i < length; i += size) {
        uint32_t code;
        size = next(text + i, length - i, &code);
        columns += code == 0 ? (int)strlen(escape(text + i, size)) : width_of(code);
    }
    return columns;
}

/* The length of the first line of `text`, at least one character. */
static size_t line_length(const char *text, int columns)
{
    size_t at = 0, size, space = 0;
    int used = 0;
    for (; text[at] != '\0'; at += size) {
        uint32_t code;
        size = next(text + at, strlen(text + at), &code);
        used += cli_svg_columns(text + at, size);
        if (used > columns && at > 0)
            return space > 0 ? space : at;
        if (code == ' ')
            space = at + 1;
    }
    return at;
}

void cli_svg_note(FILE *file, double x, double *y, const char *class, int columns, const char *text)
{
    while (*text != '\0') {
        const size_t n = line_length(text, columns);
        *y += strcmp(class, "title") == 0 ? 21 : 16;
        fprintf(file, "<text class=\"%s\" x=\"%.4g\" y=\"%.6g\">", class, x, *y);
        cli_svg_text(file, text, n);
        fputs("</text>\n", file);
        text += n;
    }
}

void cli_svg_legend(FILE *file, double *y, const char *what, const char *const *labels)
{
    const double w = (CLI_SVG_WIDTH - 2.0 * CLI_SVG_MARGIN) / CLI_SVG_LEVELS;
    cli_svg_note(file, CLI_SVG_MARGIN, y, "note", 74, what);
    *y += 7;
    for (int i = 0; i < CLI_SVG_LEVELS; i++)
        fprintf(file,
                "<rect class=\"v%d\" x=\"%.5g\" y=\"%.6g\" width=\"%.5g\" height=\"18\"/>"
                "<text class=\"t%d\" x=\"%.5g\" y=\"%.6g\" text-anchor=\"middle\">%s</text>\n",
                i, CLI_SVG_MARGIN + i * w, *y, w, i, CLI_SVG_MARGIN + (i + 0.5) * w, *y + 13,
                labels[i]);
    *y += 18;
}
