/* cli/inspect_adapter.c -- weft inspect --show adapter: what an adapter changed in each matrix. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/profile.h"

/* The changes in a table: a row for each layer, and one below for modules outside of layers; a
 * column for each module of a layer. */
typedef struct table {
    const weft_nn_lora_change *changes;
    size_t n;
    char **trained; /* paths of parameters that the adapter replaces */
    int n_trained;
    long most_layer; /* -1: none */
    char **columns;
    int n_columns, longest; /* the longest label */
    size_t *column_of;
} table;

/* The number after "layers." or another name in the path; -1: none. *after is the rest. */
static long layer_of(const char *path, const char **after)
{
    for (const char *at = path; (at = strchr(at, '.')) != NULL;) {
        at++;
        char *end;
        const long layer = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (layer >= 0 && *end == '.') {
            *after = end + 1;
            return layer;
        }
    }
    *after = path;
    return -1;
}

static double relative(const weft_nn_lora_change *c)
{
    return c->weight_norm > 0 ? c->norm / c->weight_norm : (double)NAN;
}

/* ---- loading -------------------------------------------------------------------------------- */

static weft_status add_column(table *t, size_t i)
{
    const char *name;
    (void)layer_of(t->changes[i].path, &name);
    for (t->column_of[i] = 0; t->column_of[i] < (size_t)t->n_columns; t->column_of[i]++) {
        if (strcmp(t->columns[t->column_of[i]], name) == 0)
            return WEFT_OK;
    }
    t->columns[t->n_columns] = strdup(name);
    if (t->columns[t->n_columns++] == NULL)
        return weft_fail(WEFT_MEMORY, "inspect: no memory");
    return WEFT_OK;
}

static weft_status fill(table *t)
{
    const char *rest;
    weft_status status = WEFT_OK;
    t->columns = calloc(t->n + 1, sizeof *t->columns);
    t->column_of = calloc(t->n + 1, sizeof *t->column_of);
    t->most_layer = -1;
    if (t->columns == NULL || t->column_of == NULL)
        return weft_fail(WEFT_MEMORY, "inspect: no memory");
    for (size_t i = 0; status == WEFT_OK && i < t->n; i++) {
        const long layer = layer_of(t->changes[i].path, &rest);
        t->most_layer = layer > t->most_layer ? layer : t->most_layer;
        if (layer >= 0)
            status = add_column(t, i);
    }
    return status;
}

/* Collects parameters that are trained but no factors of an adapter (modules_to_save, rows of
 * tokens). */
static weft_status find_trained(void *context, const weft_nn_item *item)
{
    table *t = context;
    if (item->slot->frozen || strstr(item->path, "lora_") != NULL)
        return WEFT_OK;
    char **more = realloc(t->trained, (size_t)(t->n_trained + 1) * sizeof *more);
    if (more == NULL)
        return weft_fail(WEFT_MEMORY, "inspect: no memory");
    t->trained = more;
    more[t->n_trained] = strdup(item->path);
    return more[t->n_trained++] != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "inspect: no memory");
}

static void free_table(table *t)
{
    for (int i = 0; i < t->n_columns; i++)
        free(t->columns[i]);
    for (int i = 0; i < t->n_trained; i++)
        free(t->trained[i]);
    free(t->columns);
    free(t->trained);
    free(t->column_of);
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_json(const table *t)
{
    fputs("{\"changes\": [", stdout);
    for (size_t i = 0; i < t->n; i++) {
        const weft_nn_lora_change *c = &t->changes[i];
        printf("%s{\"path\": ", i > 0 ? ", " : "");
        cli_json_text(stdout, c->path, strlen(c->path));
        printf(", \"out\": %lld, \"in\": %lld, \"matrices\": %lld, \"rank\": %lld, \"dora\": %s",
               (long long)c->out_features, (long long)c->in_features, (long long)c->n,
               (long long)c->rank, c->dora ? "true" : "false");
        cli_json_member("scale", c->scale);
        cli_json_member("norm", c->norm);
        cli_json_member("weight_norm", c->weight_norm);
        cli_json_member("relative", relative(c));
        cli_json_member("effective_rank", c->effective_rank);
        fputs(", \"singular_values\": [", stdout);
        for (int64_t k = 0; k < c->n * c->rank; k++) {
            fputs(k > 0 ? ", " : "", stdout);
            cli_json_number(stdout, c->singular[k]);
        }
        fputs("]}", stdout);
    }
    fputs("], \"trained_whole\": [", stdout);
    for (int i = 0; i < t->n_trained; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        cli_json_text(stdout, t->trained[i], strlen(t->trained[i]));
    }
    puts("]}");
}

static void print_plain(const table *t)
{
    puts("    change  of weight  rank used  matrix");
    for (size_t i = 0; i < t->n; i++) {
        const weft_nn_lora_change *c = &t->changes[i];
        char used[32];
        snprintf(used, sizeof used, "%.1f of %lld", c->effective_rank, (long long)c->rank);
        printf("%10.4f %9.3f%% %10s  %s\n", c->norm, 100 * relative(c), used,
               weft_printable(c->path));
    }
    for (int i = 0; i < t->n_trained; i++)
        printf("trained as a whole, not measured: %s\n", weft_printable(t->trained[i]));
}

/* ---- drawing -------------------------------------------------------------------------------- */

enum { LABELS = 26, ROW = 18, LEAST_STEP = 22, NUMBERS = 34 };

/* Width of a label's character. */
#define LABEL_COLUMN 5.7

/* One of the two pictures: a value in [0, 1] for the color, and its text. */
typedef struct panel {
    const char *title, *what;
    const char *labels[CLI_SVG_LEVELS];
    int (*level)(const weft_nn_lora_change *c);
    void (*text)(const weft_nn_lora_change *c, char *out, size_t size);
} panel;

/* The lower bounds of the levels of the relative norm. */
static const double bounds[CLI_SVG_LEVELS] = {0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2};

static int norm_level(const weft_nn_lora_change *c)
{
    int level = 0;
    while (level + 1 < CLI_SVG_LEVELS && relative(c) >= bounds[level + 1])
        level++;
    return level;
}

static void norm_text(const weft_nn_lora_change *c, char *out, size_t size)
{
    const double percent = 100 * relative(c);
    snprintf(out, size, "%.*f%%", percent < 0.995 ? 2 : percent < 9.95 ? 1 : 0, percent);
}

/* Level k: a share of at least (k + 1) / 10. */
static int rank_level(const weft_nn_lora_change *c)
{
    const double share = c->rank > 0 ? c->effective_rank / (double)c->rank : 0;
    return (int)fmin(CLI_SVG_LEVELS - 1, fmax(0, floor(10 * share) - 1));
}

static void rank_text(const weft_nn_lora_change *c, char *out, size_t size)
{
    snprintf(out, size, c->effective_rank < 99.95 ? "%.1f" : "%.0f", c->effective_rank);
}

static void draw_cell(FILE *file, const panel *p, const weft_nn_lora_change *c, double x, double y,
                      double w)
{
    char text[32];
    const int level = p->level(c);
    p->text(c, text, sizeof text);
    fputs("<g class=\"cell\"><title>", file);
    cli_svg_text(file, c->path, strlen(c->path));
    fprintf(file,
            "\nchange %.4g, %.3g%% of the weight's norm %.4g\nrank used %.2f of %lld\nlargest "
            "singular value %.4g%s</title>",
            c->norm, 100 * relative(c), c->weight_norm, c->effective_rank, (long long)c->rank,
            c->rank > 0 ? c->singular[0] : 0, c->dora ? "\nDoRA" : "");
    fprintf(file, "<rect class=\"v%d\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%d\"/>", level,
            x, y, w - 1, ROW - 1);
    if (w >= NUMBERS)
        fprintf(file, "<text class=\"t%d\" x=\"%.6g\" y=\"%.6g\" text-anchor=\"middle\">%s</text>",
                level, x + w / 2, y + 13, text);
    fputs("</g>\n", file);
}

static const char *short_name(const char *column)
{
    const char *dot = strrchr(column, '.');
    return dot != NULL ? dot + 1 : column;
}

/* Whether the columns' short names (without "self_attn.", "mlp.") are distinct and fit. */
static bool short_names_fit(const table *t, double step)
{
    for (int i = 0; i < t->n_columns; i++) {
        if ((double)strlen(short_name(t->columns[i])) * LABEL_COLUMN > step)
            return false;
        for (int j = 0; j < i; j++) {
            if (strcmp(short_name(t->columns[i]), short_name(t->columns[j])) == 0)
                return false;
        }
    }
    return true;
}

/* The names of the columns; from bottom to top where they do not fit. */
static void draw_columns(FILE *file, const table *t, double step, double *y)
{
    const bool upright = !short_names_fit(t, step);
    int longest = 0;
    for (int i = 0; i < t->n_columns; i++) {
        const int n = (int)strlen(t->columns[i]);
        longest = n > longest ? n : longest;
    }
    const double height = upright ? longest * LABEL_COLUMN + 4 : 14;
    for (int i = 0; i < t->n_columns; i++) {
        const char *name = upright ? t->columns[i] : short_name(t->columns[i]);
        const double x = CLI_SVG_MARGIN + LABELS + (i + 0.5) * step, bottom = *y + height - 3;
        if (upright)
            fprintf(file, "<text class=\"label\" transform=\"translate(%.6g %.6g) rotate(-90)\">",
                    x + 3, bottom);
        else
            fprintf(file, "<text class=\"label\" x=\"%.6g\" y=\"%.6g\" text-anchor=\"middle\">", x,
                    bottom);
        cli_svg_text(file, name, strlen(name));
        fputs("</text>\n", file);
    }
    *y += height;
}

static void draw_panel(FILE *file, const table *t, const panel *p, double step, double *y)
{
    cli_svg_note(file, CLI_SVG_MARGIN, y, "title", 42, p->title);
    *y += 2;
    cli_svg_legend(file, y, p->what, p->labels);
    *y += 8;
    if (t->n_columns > 0)
        draw_columns(file, t, step, y);
    for (long layer = 0; layer <= t->most_layer; layer++)
        fprintf(file, "<text class=\"label\" x=\"%d\" y=\"%.6g\" text-anchor=\"end\">%ld</text>\n",
                CLI_SVG_MARGIN + LABELS - 6, *y + (double)layer * ROW + 13, layer);
    for (size_t i = 0; i < t->n; i++) {
        const char *rest;
        const long layer = layer_of(t->changes[i].path, &rest);
        if (layer >= 0)
            draw_cell(file, p, &t->changes[i],
                      CLI_SVG_MARGIN + LABELS + (double)t->column_of[i] * step,
                      *y + (double)layer * ROW, step);
    }
    *y += (double)(t->most_layer + 1) * ROW;
    for (size_t i = 0; i < t->n; i++) {
        const char *rest;
        const weft_nn_lora_change *c = &t->changes[i];
        if (layer_of(c->path, &rest) >= 0)
            continue;
        const double w = fmax(step, 56);
        *y += 4;
        draw_cell(file, p, c, CLI_SVG_MARGIN + LABELS, *y, w);
        fprintf(file, "<text class=\"label\" x=\"%.6g\" y=\"%.6g\">",
                CLI_SVG_MARGIN + LABELS + w + 6, *y + 13);
        cli_svg_text(file, c->path, strlen(c->path));
        fputs("</text>\n", file);
        *y += ROW;
    }
    *y += 14;
}

static void draw_start(FILE *file, const inspect_values *v, const char *path, const table *t,
                       double *y)
{
    char text[512];
    cli_svg_note(file, CLI_SVG_MARGIN, y, "title", 42, "What the adapter changed");
    *y += 4;
    snprintf(text, sizeof text, "%.160s on %.160s: %s adapted matrices; a row for each layer.",
             inspect_name(v->adapter, 2), inspect_name(path, 1), cli_count((int64_t)t->n));
    cli_svg_note(file, CLI_SVG_MARGIN, y, "note", 70, text);
    if (t->n_trained > 0) {
        snprintf(text, sizeof text, "%s parameters are trained as a whole and not shown.",
                 cli_count(t->n_trained));
        cli_svg_note(file, CLI_SVG_MARGIN, y, "note", 70, text);
    }
    *y += 10;
}

static weft_status draw(const inspect_values *v, const char *path, const table *t)
{
    static const panel panels[] = {
        {"Size of the change",
         "Norm of the change relative to the norm of the weight, at least:",
         {"less", "0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%", "20%"},
         norm_level,
         norm_text},
        {"Rank used",
         "Effective rank (numbers) as a share of the adapter's rank, at least:",
         {"less", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%"},
         rank_level,
         rank_text},
    };
    cli_svg svg;
    double y = 8;
    weft_status status = cli_svg_open(&svg);
    if (status != WEFT_OK)
        return status;
    const double room = CLI_SVG_WIDTH - 2.0 * CLI_SVG_MARGIN - LABELS;
    const double step = t->n_columns > 0 ? fmax(fmin(room / t->n_columns, 110), LEAST_STEP) : room;
    draw_start(svg.file, v, path, t, &y);
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++)
        draw_panel(svg.file, t, &panels[i], step, &y);
    const double width = 2.0 * CLI_SVG_MARGIN + LABELS + step * t->n_columns;
    return cli_svg_close(&svg, v->svg, "What an adapter changed in each matrix",
                         fmax(width, CLI_SVG_WIDTH), y);
}

weft_status inspect_adapter(const inspect_values *v, const char *path)
{
    weft_model *model = NULL;
    weft_nn_lora_change *changes = NULL;
    table t = {0};
    weft_status status = cli_load_model(path, &v->place, v->adapter, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_nn_lora_changes(weft_model_module(model), &changes, &t.n);
    t.changes = changes;
    if (status == WEFT_OK)
        status = weft_nn_visit(weft_model_module(model), find_trained, &t);
    if (status == WEFT_OK)
        status = fill(&t);
    if (status == WEFT_OK && v->svg != NULL)
        status = draw(v, path, &t);
    if (status == WEFT_OK && v->json)
        print_json(&t);
    else if (status == WEFT_OK)
        print_plain(&t);
    if (status == WEFT_OK)
        cli_profile_print();
    free_table(&t);
    weft_nn_lora_changes_free(changes, t.n);
    weft_model_free(model);
    return status;
}
