/* cli/inspect_attention.c -- weft inspect --show attention: what each head attends to. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/profile.h"

/* The most weights in a picture, counting the tokens that each query sees: a browser draws them in
 * a second. */
enum { MOST_CELLS = 1000000 };

/* The most memory for all weights. */
#define MOST_BYTES ((int64_t)4 << 30)

/* The lower bounds of the levels, in shares. */
static const double bounds[CLI_SVG_LEVELS] = {0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9};

/* A model's weights, of the layers [from, to]. */
typedef struct attention {
    const inspect_tokens *tokens;
    const weft_inspection *found;
    int64_t from, to, most_heads;
} attention;

/* Means over the queries from the third token on, for which the three tokens differ. */
typedef struct head_summary {
    double first, previous, self; /* shares */
    double entropy;               /* of the shares, in nats */
} head_summary;

static const float *weights_of(const attention *a, int64_t layer, int64_t head)
{
    const int64_t L = a->found->length;
    return (const float *)weft_data(a->found->layers[layer].weights) + head * L * L;
}

static head_summary summarize(const attention *a, int64_t layer, int64_t head)
{
    const int64_t L = a->found->length, start = L > 2 ? 2 : L - 1, n = L - start;
    const float *w = weights_of(a, layer, head);
    head_summary s = {0};
    for (int64_t i = start; i < L; i++) {
        const float *row = w + i * L;
        s.first += (double)row[0] / (double)n;
        s.previous += i > 0 ? (double)row[i - 1] / (double)n : 0;
        s.self += (double)row[i] / (double)n;
        for (int64_t j = 0; j < L; j++)
            s.entropy -= row[j] > 0 ? (double)row[j] * log((double)row[j]) / (double)n : 0;
    }
    return s;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Reads "N" or "FROM-TO". */
static weft_status read_layers(const char *text, int64_t n, attention *a)
{
    char *end = NULL;
    a->from = 0;
    a->to = n - 1;
    if (text == NULL)
        return WEFT_OK;
    errno = 0;
    a->from = a->to = strtoll(text, &end, 10);
    if (end != text && *end == '-') {
        const char *second = end + 1;
        a->to = strtoll(second, &end, 10);
        if (!isdigit((unsigned char)*second))
            end = (char *)text;
    }
    if (errno != 0 || !isdigit((unsigned char)*text) || *end != '\0' || a->from > a->to ||
        a->to >= n)
        return weft_fail(WEFT_INVALID,
                         "inspect: --layers: expected N or FROM-TO of layers 0 to %lld, got '%s'",
                         (long long)n - 1, weft_printable(text));
    return WEFT_OK;
}

/* Refuses weights that would fill the memory, or a picture with too many, before they are computed.
 * `shapes` are those of the layers. */
static weft_status check_size(const inspect_values *v, const weft_inspection *shapes, attention *a)
{
    const int64_t L = (int64_t)a->tokens->n;
    int64_t maps = 0;
    for (int64_t i = a->from; i <= a->to; i++) {
        const int64_t n = shapes->layers[i].n_heads;
        maps += n;
        a->most_heads = n > a->most_heads ? n : a->most_heads;
    }
    if (maps == 0)
        return weft_fail(WEFT_INVALID, "inspect: --layers: these layers have no attention");
    if (4 * (double)maps * (double)L * (double)L > (double)MOST_BYTES)
        return weft_fail(WEFT_INVALID,
                         "inspect: the attention weights of %lld tokens need more than %s: shorten "
                         "the text to %d tokens, or choose fewer --layers",
                         (long long)L, cli_bytes(MOST_BYTES),
                         (int)sqrt((double)MOST_BYTES / 4 / (double)maps));
    if (v->svg == NULL || maps * (L * (L + 1) / 2) <= MOST_CELLS)
        return WEFT_OK;
    return weft_fail(
        WEFT_INVALID,
        "inspect: a picture has at most %d weights, %lld layers with %lld heads of %lld "
        "tokens have %lld: shorten the text to %d tokens, or choose --layers",
        MOST_CELLS, (long long)(a->to - a->from + 1), (long long)maps, (long long)L,
        (long long)(maps * (L * (L + 1) / 2)),
        (int)((sqrt(1 + 8.0 * MOST_CELLS / (double)maps) - 1) / 2));
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_rows(const float *w, int64_t L)
{
    for (int64_t i = 0; i < L; i++) {
        fputs(i > 0 ? ", [" : "[", stdout);
        for (int64_t j = 0; j < L; j++)
            printf("%s%.7g", j > 0 ? ", " : "", (double)w[i * L + j]);
        putchar(']');
    }
}

static void print_json(const attention *a)
{
    fputs("{\"architecture\": ", stdout);
    cli_json_text(stdout, a->found->architecture, strlen(a->found->architecture));
    fputs(", \"tokens\": [", stdout);
    for (size_t i = 0; i < a->tokens->n; i++) {
        printf("%s{\"id\": %d, \"text\": ", i > 0 ? ", " : "", (int)a->tokens->ids[i]);
        cli_json_text(stdout, a->tokens->texts[i], strlen(a->tokens->texts[i]));
        putchar('}');
    }
    fputs("], \"layers\": [", stdout);
    bool any = false;
    for (int64_t i = a->from; i <= a->to; i++) {
        if (a->found->layers[i].n_heads == 0)
            continue;
        printf("%s{\"layer\": %lld, \"heads\": [", any ? ", " : "", (long long)i);
        any = true;
        for (int64_t h = 0; h < a->found->layers[i].n_heads; h++) {
            const head_summary s = summarize(a, i, h);
            printf("%s{\"first\": %.6g, \"previous\": %.6g, \"self\": %.6g, \"entropy\": %.6g, "
                   "\"weights\": [",
                   h > 0 ? ", " : "", s.first, s.previous, s.self, s.entropy);
            print_rows(weights_of(a, i, h), a->found->length);
            fputs("]}", stdout);
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

static void print_plain(const attention *a)
{
    printf("%s, %s tokens. Mean shares of the first token, the previous one and the token itself; "
           "entropy in nats\n",
           weft_printable(a->found->architecture), cli_count(a->found->length));
    for (int64_t i = a->from; i <= a->to; i++) {
        for (int64_t h = 0; h < a->found->layers[i].n_heads; h++) {
            const head_summary s = summarize(a, i, h);
            printf("layer %lld head %lld: first %.3f, previous %.3f, self %.3f, entropy %.3f\n",
                   (long long)i, (long long)h, s.first, s.previous, s.self, s.entropy);
        }
    }
}

/* ---- drawing -------------------------------------------------------------------------------- */

enum { LABELS = 26, SPACE = 3, LARGE_COLUMNS = 3, MOST_SIDE = 110 };

static int level_of(double share)
{
    int level = 0;
    while (level + 1 < CLI_SVG_LEVELS && share >= bounds[level + 1])
        level++;
    return level;
}

/* One path for the cells of each level but the lowest, in runs along the rows. */
static void draw_cells(FILE *file, const float *w, int64_t L)
{
    for (int level = 1; level < CLI_SVG_LEVELS; level++) {
        bool started = false;
        for (int64_t i = 0; i < L; i++) {
            for (int64_t j = 0, n; j < L; j += n) {
                n = 1;
                const int here = level_of((double)w[i * L + j]);
                while (j + n < L && level_of((double)w[i * L + j + n]) == here)
                    n++;
                if (here != level)
                    continue;
                if (!started)
                    fprintf(file, "<path class=\"s%d\" d=\"", level);
                started = true;
                fprintf(file, "M%lld %lldh%lld", (long long)j, (long long)i, (long long)n);
            }
        }
        fputs(started ? "\"/>" : "", file);
    }
}

static void write_token(FILE *file, const attention *a, int64_t i)
{
    char *shown = inspect_token_shown(a->tokens->texts[i], 24);
    fputs("\u201C", file);
    if (shown != NULL)
        cli_svg_text(file, shown, strlen(shown));
    fputs("\u201D", file);
    free(shown);
}

/* An invisible row of a large map, whose hover names the three tokens that it reads most. */
static void draw_row_hover(FILE *file, const attention *a, const float *row, int64_t i)
{
    const int64_t L = a->found->length;
    fprintf(
        file,
        "<rect class=\"hit\" style=\"stroke:none\" y=\"%lld\" width=\"%lld\" height=\"1\"><title>",
        (long long)i, (long long)L);
    fprintf(file, "token %lld ", (long long)i);
    write_token(file, a, i);
    fputs(" reads", file);
    int64_t before = -1;
    for (int k = 0; k < 3; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < L; j++) {
            const bool later =
                before < 0 || row[j] < row[before] || (row[j] == row[before] && j > before);
            if (row[j] > 0 && later && (best < 0 || row[j] > row[best]))
                best = j;
        }
        if (best < 0)
            break;
        fprintf(file, "\n%.1f%% %lld ", 100 * (double)row[best], (long long)best);
        write_token(file, a, best);
        before = best;
    }
    fputs("</title></rect>", file);
}

static void draw_map(FILE *file, const attention *a, int64_t layer, int64_t head, double x,
                     double y, double side, bool large)
{
    const int64_t L = a->found->length;
    const float *w = weights_of(a, layer, head);
    const head_summary s = summarize(a, layer, head);
    fprintf(file,
            "<g transform=\"translate(%.6g %.6g) scale(%.6g)\"><rect class=\"v0\" width=\"%lld\" "
            "height=\"%lld\"/><g transform=\"translate(0 .5)\">",
            x, y, side / (double)L, (long long)L, (long long)L);
    draw_cells(file, w, L);
    fputs("</g>", file);
    for (int64_t i = 0; large && i < L; i++)
        draw_row_hover(file, a, w + i * L, i);
    fputs("</g>\n", file);
    if (large)
        return;
    fprintf(file,
            "<rect class=\"hit\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\"><title>layer "
            "%lld, head %lld\nfirst token %.1f%%\nprevious token %.1f%%\nthe token itself "
            "%.1f%%\nentropy %.2f nats</title></rect>\n",
            x, y, side, side, (long long)layer, (long long)head, 100 * s.first, 100 * s.previous,
            100 * s.self, s.entropy);
}

/* The text, with a sign between tokens, in few lines. */
static void draw_tokens(FILE *file, const attention *a, double *y)
{
    char *all = NULL;
    size_t size = 0;
    FILE *joined = open_memstream(&all, &size);
    for (size_t i = 0; joined != NULL && i < a->tokens->n; i++) {
        char *shown = inspect_token_shown(a->tokens->texts[i], 40);
        fprintf(joined, "%s%s", i > 0 ? "\u2502" : "", shown != NULL ? shown : "");
        free(shown);
    }
    if (joined != NULL && fclose(joined) == 0)
        cli_svg_note(file, CLI_SVG_MARGIN, y, "mono", 56, all);
    free(all);
}

static void draw_start(FILE *file, const inspect_values *v, const char *path, const attention *a,
                       double *y)
{
    static const char *const labels[CLI_SVG_LEVELS] = {"less", "2%",  "5%",  "10%", "20%",
                                                       "35%",  "50%", "70%", "90%"};
    char text[512];
    const bool one = a->from == a->to;
    int n = snprintf(text, sizeof text, "Attention: %.60s", inspect_name(path, 1));
    if (one)
        n += snprintf(text + n, sizeof text - (size_t)n, ", layer %lld", (long long)a->from);
    cli_svg_note(file, CLI_SVG_MARGIN, y, "title", 42, text);
    *y += 4;
    n = snprintf(text, sizeof text, "%s tokens%s%.80s. ", cli_count(a->found->length),
                 v->adapter != NULL ? ", with the adapter " : "",
                 v->adapter != NULL ? inspect_name(v->adapter, 2) : "");
    snprintf(text + n, sizeof text - (size_t)n,
             "%s each map, a row is a token, from the first at the top, and a column is a token "
             "that it reads, from the first at the left.",
             one ? "One map for each head. In" : "Rows are layers, columns are heads. In");
    cli_svg_note(file, CLI_SVG_MARGIN, y, "note", 70, text);
    *y += 4;
    draw_tokens(file, a, y);
    *y += 6;
    cli_svg_legend(file, y, "Share of a token in what the row's token reads, at least:", labels);
    *y += 8;
}

/* All heads of one layer, in few columns. */
static void draw_layer(FILE *file, const attention *a, double *y)
{
    const int64_t H = a->found->layers[a->from].n_heads;
    const int columns = H < LARGE_COLUMNS ? (int)H : LARGE_COLUMNS, gap = 12;
    const double room = CLI_SVG_WIDTH - 2.0 * CLI_SVG_MARGIN - gap * (columns - 1);
    const double side = fmin(room / columns, 300);
    for (int64_t h = 0; h < H; h++) {
        const double x = CLI_SVG_MARGIN + (double)(h % columns) * (side + gap);
        if (h > 0 && h % columns == 0)
            *y += side + 26;
        fprintf(file, "<text class=\"label\" x=\"%.6g\" y=\"%.6g\">head %lld</text>\n", x, *y + 12,
                (long long)h);
        draw_map(file, a, a->from, h, x, *y + 18, side, true);
    }
    *y += side + 26;
}

static void draw_grid(FILE *file, const attention *a, double *y)
{
    const double room = CLI_SVG_WIDTH - 2.0 * CLI_SVG_MARGIN - LABELS;
    const double step = fmin(room / (double)a->most_heads, MOST_SIDE);
    const double side = step - fmin(SPACE, step / 8);
    const int64_t every = step < 16 ? (int64_t)ceil(16 / step) : 1; /* labels may not overlap */
    *y += 12;
    fprintf(file, "<text class=\"label\" x=\"%d\" y=\"%.6g\" text-anchor=\"end\">head</text>\n",
            CLI_SVG_MARGIN + LABELS - 6, *y);
    for (int64_t h = 0; h < a->most_heads; h += every)
        fprintf(file,
                "<text class=\"label\" x=\"%.6g\" y=\"%.6g\" text-anchor=\"middle\">%lld</text>\n",
                CLI_SVG_MARGIN + LABELS + (double)h * step + side / 2, *y, (long long)h);
    *y += 5;
    int64_t row = 0;
    for (int64_t i = a->from; i <= a->to; i++) {
        if (a->found->layers[i].n_heads == 0)
            continue;
        if (row++ % every == 0)
            fprintf(file,
                    "<text class=\"label\" x=\"%d\" y=\"%.6g\" text-anchor=\"end\">%lld</text>\n",
                    CLI_SVG_MARGIN + LABELS - 6, *y + side / 2 + 4, (long long)i);
        for (int64_t h = 0; h < a->found->layers[i].n_heads; h++)
            draw_map(file, a, i, h, CLI_SVG_MARGIN + LABELS + (double)h * step, *y, side, false);
        *y += step;
    }
}

static weft_status draw(const inspect_values *v, const char *path, const attention *a)
{
    cli_svg svg;
    double y = 8;
    weft_status status = cli_svg_open(&svg);
    if (status != WEFT_OK)
        return status;
    draw_start(svg.file, v, path, a, &y);
    if (a->from == a->to)
        draw_layer(svg.file, a, &y);
    else
        draw_grid(svg.file, a, &y);
    return cli_svg_close(&svg, v->svg, "Attention weights by layer and head", CLI_SVG_WIDTH, y + 8);
}

static weft_status show(const inspect_values *v, const char *path, attention *a)
{
    const weft_status status = v->svg != NULL ? draw(v, path, a) : WEFT_OK;
    if (status == WEFT_OK && v->json)
        print_json(a);
    else if (status == WEFT_OK)
        print_plain(a);
    return status;
}

weft_status inspect_attention(const inspect_values *v, const char *path, const inspect_tokens *t)
{
    weft_model *model = NULL;
    weft_inspection *shapes = NULL, *found = NULL;
    attention a = {.tokens = t};
    weft_status status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_inspect(model, t->ids, t->n > 0 ? 1 : 0, &shapes);
    if (status == WEFT_OK)
        status = read_layers(v->layers, shapes->n_layers, &a);
    if (status == WEFT_OK)
        status = check_size(v, shapes, &a);
    if (status == WEFT_OK)
        status = weft_inspect_weights(model, t->ids, t->n, a.from, a.to, &found);
    a.found = found;
    if (status == WEFT_OK)
        status = show(v, path, &a);
    if (status == WEFT_OK)
        cli_profile_print();
    weft_inspection_free(shapes);
    weft_inspection_free(found);
    weft_model_free(model);
    return status;
}
