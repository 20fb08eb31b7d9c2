/* tests/reference/write_inventory.c -- docs/function-support.md: the measured support of each
 * function of arrays. */
#include "tests/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

const char *reason_for(const char *name, const char *column)
{
#define REASON(function, where, text) {function, where, text},
    static const struct {
        const char *name, *column, *text;
    } reasons[] = {
#include "tests/reference/reasons.h"
    };
#undef REASON
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (strcmp(reasons[i].name, name) == 0 && strcmp(reasons[i].column, column) == 0)
            return reasons[i].text;
    }
    return NULL;
}

/* The last cell of the function's row in the text of an older inventory; false: there is none. */
static bool old_cell(const char *text, const char *name, char *cell)
{
    char start[96];
    snprintf(start, sizeof start, "| `%s` |", name);
    const char *row = text != NULL ? strstr(text, start) : NULL;
    const char *end = row != NULL ? strchr(row, '\n') : NULL;
    if (end == NULL)
        return false;
    const char *last = end - 2; /* " |" */
    const char *from = last - 1;
    while (from > row && *from != '|')
        from--;
    int length = (int)(last - from - 2);
    snprintf(cell, CELL, "%.*s", length < 0 ? 0 : length, from + 2);
    return length > 0;
}

static const char preface[] =
    "# What each function supports\n\n"
    "For every array function: dtypes, derivatives, batching, compilation, export and Vulkan. The\n"
    "table is measured: `build/tests/write_reference docs` runs an example of each function, from\n"
    "`tests/reference/`.\n\n"
    "| column | what was run |\n"
    "|---|---|\n"
    "| dtypes | the example in each of the 14 dtypes; reasons for refusals are at the end |\n"
    "| vjp, jvp | gradient and tangent, at values where both agree |\n"
    "| vmap | two examples at once, compared with each alone |\n"
    "| shapeless | compiled once with a varying length, called with two other lengths |\n"
    "| exported | written to a file, read back and called: the same bytes |\n"
    "| Vulkan | \"yes\": all of it ran on the device; otherwise the operations that ran on the CPU "
    "|\n\n"
    "\"no float inputs\" and \"result is no float\": there is nothing to differentiate. \"no "
    "array\n"
    "inputs\": nothing to map or to compile for. \"line of fixed shape\": the example has its "
    "lengths\n"
    "as numbers in the call. On Vulkan the CPU computes factorizations (LAPACK), spectra, scans\n"
    "other than sums, quantization (not products with quantized matrices), searches, and the "
    "parts\n"
    "of complex numbers. `write_reference docs --vulkan` measures that column for new rows,\n"
    "`--vulkan-again` for all.\n";

static void head(FILE *file, const char *header)
{
    fprintf(file, "\n## weft/%s.h\n\n", header);
    fputs("| Weft | MLX | dtypes | vjp | jvp | vmap | shapeless | exported | Vulkan |\n", file);
    fputs("|---|---|---|---|---|---|---|---|---|\n", file);
}

static int row(FILE *file, const line *l, const measured *m, const char *old)
{
    char dtypes[CELL], vulkan[CELL] = "";
    dtypes_in_words(m->dtypes, dtypes, sizeof dtypes);
    if (m->dtypes == 0)
        snprintf(dtypes, sizeof dtypes, "%s", m->ran ? "fixed" : "DOES NOT RUN");
    if (m->vulkan[0] != '\0')
        snprintf(vulkan, sizeof vulkan, "%s", m->vulkan);
    else
        old_cell(old, l->name, vulkan);
    fprintf(file, "| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", l->name,
            l->mlx[0] != '\0' ? l->mlx : "-", dtypes, m->vjp, m->jvp, m->vmap, m->shapeless,
            m->exported, vulkan);
    const char *cells[] = {m->vjp, m->jvp, m->vmap, m->shapeless, m->exported, vulkan};
    int wrong = !m->ran;
    for (int i = 0; i < 6; i++)
        wrong += cells[i][0] == '\0' || strcmp(cells[i], "DISAGREE") == 0 ||
                 strcmp(cells[i], "zero") == 0; /* with a reason it is longer than that word */
    return wrong;
}

/* The names of MLX without a line: where they are in Weft, or why they are absent. */
static void others(FILE *file)
{
    char *text = NULL;
    if (weft_file_read(check_source("tests/reference/mlx_names.txt"), 0, &text, NULL) != WEFT_OK)
        return;
    fputs("\n## MLX's other names\n\n| MLX | Weft |\n|---|---|\n", file);
    char *rest = text, *entry;
    while ((entry = strsep(&rest, "\n")) != NULL) {
        char *colon = strchr(entry, ':');
        if (entry[0] != '#' && colon != NULL)
            fprintf(file, "| %.*s | %s |\n", (int)(colon - entry), entry, colon + 2);
    }
    weft_free(text);
}

static void refusals(FILE *file, const measured *all)
{
    fputs("\n## Dtypes that are refused\n\n", file);
    for (int i = 0; i < line_count(); i++) {
        for (int r = 0; r < all[i].n_refused; r++) {
            char dtypes[CELL];
            dtypes_in_words(all[i].refused[r].dtypes, dtypes, sizeof dtypes);
            fprintf(file, "- `%s`, %s: %s\n", line_at(i)->name, dtypes, all[i].refused[r].words);
        }
    }
}

int write_inventory(const char *path, const char *old, weft_device *vulkan, bool again,
                    const char *folder)
{
    char cell[CELL];
    measured *all = calloc((size_t)line_count(), sizeof *all);
    FILE *file = all != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) {
        free(all);
        return -1;
    }
    int wrong = 0;
    fputs(preface, file);
    for (int i = 0; i < line_count(); i++) {
        const line *l = line_at(i);
        if (i == 0 || strcmp(l->header, line_at(i - 1)->header) != 0)
            head(file, l->header);
        bool known = !again && old_cell(old, l->name, cell);
        measure(l, known ? NULL : vulkan, folder, &all[i]);
        int bad = row(file, l, &all[i], old);
        if (bad > 0)
            fprintf(stderr, "%s: %d cells are empty or wrong; last error: %s\n", l->name, bad,
                    weft_error_message());
        wrong += bad;
    }
    others(file);
    refusals(file, all);
    free(all);
    return fclose(file) == 0 ? wrong : -1;
}
