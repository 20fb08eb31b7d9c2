/* cli/inspect_loss.c -- weft inspect --show loss: the loss of each token of a text, without and
 * with an adapter. */
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/profile.h"

enum { MOST_DRAWN = 10000, MOST_LISTED = 10 };

/* Losses in nats of each token but the first, at its index; NaN: not known. */
typedef struct losses {
    double *base, *adapter; /* adapter: NULL without one */
    double base_mean, adapter_mean;
} losses;

/* ---- computing ------------------------------------------------------------------------------ */

static weft_status score(weft_model *model, const inspect_tokens *t, double *out, double *mean)
{
    weft_scored scored = {0};
    const weft_score_request request = {
        .text = {.ids = t->ids, .n = t->n}, .from = 1, .logprobs = out + 1};
    weft_status status = weft_score(model, &request, 1, NULL, &scored);
    if (status == WEFT_OK && scored.status != WEFT_OK)
        status =
            weft_fail(scored.status, "%s", scored.message != NULL ? scored.message : "inspect");
    weft_scored_free(&scored, 1);
    double sum = 0;
    out[0] = (double)NAN;
    for (size_t i = 1; status == WEFT_OK && i < t->n; i++) {
        out[i] = fmax(0, -out[i]); /* not -0 */
        sum += out[i];
    }
    *mean = sum / (double)(t->n - 1);
    return status;
}

/* Whether the model's vocabulary, which an adapter may extend, has all tokens. */
static bool knows(const weft_model *model, const inspect_tokens *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->ids[i] >= weft_model_info_of(model)->vocab_size)
            return false;
    }
    return true;
}

static weft_status measure(const inspect_values *v, const char *path, const inspect_tokens *t,
                           losses *out)
{
    weft_model *model = NULL;
    weft_status status = cli_load_model(path, &v->place, NULL, &model);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK && (v->adapter == NULL || knows(model, t)))
        status = score(model, t, out->base, &out->base_mean);
    if (status == WEFT_OK && v->adapter != NULL)
        status = weft_adapter_load_list(model, v->adapter, NULL);
    if (status == WEFT_OK && v->adapter != NULL)
        status = score(model, t, out->adapter, &out->adapter_mean);
    if (status == WEFT_OK)
        cli_profile_print();
    weft_model_free(model);
    return status;
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_json(const inspect_tokens *t, const losses *l)
{
    fputs("{\"loss\": ", stdout);
    cli_json_number(stdout, l->base_mean);
    if (l->adapter != NULL) {
        cli_json_member("adapter_loss", l->adapter_mean);
    }
    fputs(", \"tokens\": [", stdout);
    for (size_t i = 0; i < t->n; i++) {
        printf("%s{\"id\": %d, \"text\": ", i > 0 ? ", " : "", (int)t->ids[i]);
        cli_json_text(stdout, t->texts[i], strlen(t->texts[i]));
        cli_json_member("loss", l->base[i]);
        if (l->adapter != NULL) {
            cli_json_member("adapter_loss", l->adapter[i]);
        }
        putchar('}');
    }
    puts("]}");
}

/* Compares indices by their losses, the highest first. */
static const double *compared;

static int by_loss(const void *a, const void *b)
{
    const size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const double x = compared[i], y = compared[j];
    return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

static void print_line(const inspect_tokens *t, const losses *l, size_t i)
{
    char *shown = inspect_token_shown(t->texts[i], 40);
    printf("%6zu ", i);
    if (l->adapter != NULL)
        printf(" %8.4f", l->base[i]);
    printf(" %8.4f  ", l->adapter != NULL ? l->adapter[i] : l->base[i]);
    if (shown != NULL)
        fputs(weft_printable(shown), stdout);
    putchar('\n');
    free(shown);
}

static weft_status print_plain(const inspect_tokens *t, const losses *l)
{
    const double *last = l->adapter != NULL ? l->adapter : l->base;
    size_t *order = malloc(t->n * sizeof *order);
    if (order == NULL)
        return weft_fail(WEFT_MEMORY, "inspect: no memory for %zu tokens", t->n);
    for (size_t i = 0; i + 1 < t->n; i++)
        order[i] = i + 1;
    compared = last;
    qsort(order, t->n - 1, sizeof *order, by_loss);
    printf("%s tokens, loss %.4f nats per token", cli_count((int64_t)t->n), l->base_mean);
    if (l->adapter != NULL)
        printf(", with the adapter %.4f", l->adapter_mean);
    printf("\nhighest losses%s:\n", l->adapter != NULL ? " with the adapter (base, adapter)" : "");
    for (size_t k = 0; k < MOST_LISTED && k + 1 < t->n; k++)
        print_line(t, l, order[k]);
    free(order);
    return WEFT_OK;
}

/* ---- drawing -------------------------------------------------------------------------------- */

enum { COLUMN = 8, ROW = 20, GAP = 9, NAMES = 56 };

typedef struct drawing {
    FILE *file;
    const inspect_tokens *tokens;
    const losses *losses;
    double left, y; /* of the lines, and of the current one */
    int columns, used;
} drawing;

/* Level k: a probability of at most 1 / 2^k. */
static int level_of(double loss)
{
    const double bits = loss / log(2);
    return bits >= CLI_SVG_LEVELS - 1 ? CLI_SVG_LEVELS - 1 : (int)bits;
}

static void write_loss(FILE *file, const char *name, double loss)
{
    if (!isnan(loss))
        fprintf(file, "\n%s: loss %.4f, probability %.3g%%", name, loss, 100 * exp(-loss));
}

static void write_hover(const drawing *d, size_t i)
{
    const losses *l = d->losses;
    char *shown = inspect_token_shown(d->tokens->texts[i], 200);
    fprintf(d->file, "<title>token %zu: ", i);
    if (shown != NULL)
        cli_svg_text(d->file, shown, strlen(shown));
    free(shown);
    if (i == 0)
        fputs("\nnot predicted: the first token", d->file);
    write_loss(d->file, l->adapter != NULL ? "base" : "model", l->base[i]);
    if (l->adapter != NULL)
        write_loss(d->file, "adapter", l->adapter[i]);
    fputs("</title>", d->file);
}

/* One row of a token's cell. */
static void draw_cell(const drawing *d, double y, double loss, const char *shown, int columns)
{
    const double x = d->left + d->used * COLUMN, w = columns * COLUMN;
    if (isnan(loss))
        fprintf(d->file,
                "<rect class=\"frame\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%d\"/>",
                x + 0.5, y + 0.5, w - 1, ROW - 1);
    else
        fprintf(d->file, "<rect class=\"v%d\" x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%d\"/>",
                level_of(loss), x + 0.4, y, w - 0.8, ROW);
    if (shown[strspn(shown, " ")] == '\0')
        return;
    char class[8] = "";
    if (!isnan(loss))
        snprintf(class, sizeof class, " t%d", level_of(loss));
    fprintf(d->file, "<text class=\"mono%s\" x=\"%.6g\" y=\"%.6g\" textLength=\"%.6g\" ", class, x,
            y + 14, w);
    fputs("lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">", d->file);
    cli_svg_text(d->file, shown, strlen(shown));
    fputs("</text>", d->file);
}

static void next_line(drawing *d)
{
    const bool both = d->losses->adapter != NULL;
    if (d->used > 0)
        d->y += (both ? 2 * ROW : ROW) + GAP;
    d->used = 0;
}

static void draw_names(const drawing *d)
{
    static const char *const names[] = {"base", "adapter"};
    for (int i = 0; d->losses->adapter != NULL && i < 2; i++)
        fprintf(d->file, "<text class=\"label\" x=\"%d\" y=\"%.6g\">%s</text>\n",
                CLI_SVG_MARGIN - 4, d->y + i * ROW + 14, names[i]);
}

static void draw_token(drawing *d, size_t i)
{
    const losses *l = d->losses;
    char *shown = inspect_token_shown(d->tokens->texts[i], d->columns);
    if (shown == NULL)
        return;
    const int columns = cli_svg_columns(shown, strlen(shown));
    if (d->used + columns > d->columns)
        next_line(d);
    if (d->used == 0)
        draw_names(d);
    fputs("<g class=\"cell\">", d->file);
    write_hover(d, i);
    draw_cell(d, d->y, l->base[i], shown, columns);
    if (l->adapter != NULL)
        draw_cell(d, d->y + ROW, l->adapter[i], shown, columns);
    fputs("</g>\n", d->file);
    d->used += columns;
    if (strchr(d->tokens->texts[i], '\n') != NULL)
        next_line(d);
    free(shown);
}

static void draw_start(const inspect_values *v, const char *path, drawing *d)
{
    static const char *const labels[CLI_SVG_LEVELS] = {"50%",  "25%",  "13%",  "6%",  "3%",
                                                       "1.6%", "0.8%", "0.4%", "less"};
    const losses *l = d->losses;
    char text[512];
    snprintf(text, sizeof text, "Surprising tokens: %.60s", inspect_name(path, 1));
    cli_svg_note(d->file, CLI_SVG_MARGIN, &d->y, "title", 42, text);
    int n = snprintf(text, sizeof text, "%s tokens. Mean loss %.4f nats",
                     cli_count((int64_t)d->tokens->n), l->base_mean);
    if (l->adapter != NULL)
        snprintf(text + n, sizeof text - (size_t)n, "; with the adapter %.80s %.4f",
                 inspect_name(v->adapter, 2), l->adapter_mean);
    d->y += 4;
    cli_svg_note(d->file, CLI_SVG_MARGIN, &d->y, "note", 70, text);
    d->y += 6;
    cli_svg_legend(d->file, &d->y,
                   "Probability of the token according to the model, at least:", labels);
    d->y += 14;
}

static weft_status draw(const inspect_values *v, const char *path, const inspect_tokens *t,
                        const losses *l)
{
    cli_svg svg;
    weft_status status = cli_svg_open(&svg);
    if (status != WEFT_OK)
        return status;
    drawing d = {.file = svg.file, .tokens = t, .losses = l, .left = CLI_SVG_MARGIN, .y = 8};
    if (l->adapter != NULL)
        d.left = NAMES;
    d.columns = (int)((CLI_SVG_WIDTH - CLI_SVG_MARGIN - d.left) / COLUMN);
    draw_start(v, path, &d);
    for (size_t i = 0; i < t->n; i++)
        draw_token(&d, i);
    next_line(&d);
    return cli_svg_close(&svg, v->svg, "Loss of each token of a text", CLI_SVG_WIDTH, d.y + 8);
}

weft_status inspect_loss(const inspect_values *v, const char *path, const inspect_tokens *t)
{
    if (t->n < 2)
        return weft_fail(WEFT_INVALID, "inspect: the text has %zu tokens; a loss needs at least 2",
                         t->n);
    if (v->svg != NULL && t->n > MOST_DRAWN)
        return weft_fail(
            WEFT_INVALID,
            "inspect: the text has %zu tokens, a picture at most %d: shorten the text, "
            "or use --json without --svg",
            t->n, MOST_DRAWN);
    losses l = {.base = malloc(t->n * sizeof *l.base), .base_mean = (double)NAN};
    l.adapter = v->adapter != NULL ? malloc(t->n * sizeof *l.adapter) : NULL;
    weft_status status = WEFT_OK;
    if (l.base == NULL || (v->adapter != NULL && l.adapter == NULL))
        status = weft_fail(WEFT_MEMORY, "inspect: no memory for %zu tokens", t->n);
    for (size_t i = 0; status == WEFT_OK && i < t->n; i++)
        l.base[i] = (double)NAN;
    if (status == WEFT_OK)
        status = measure(v, path, t, &l);
    if (status == WEFT_OK && v->svg != NULL)
        status = draw(v, path, t, &l);
    if (status == WEFT_OK && v->json)
        print_json(t, &l);
    else if (status == WEFT_OK)
        status = print_plain(t, &l);
    free(l.base);
    free(l.adapter);
    return status;
}
