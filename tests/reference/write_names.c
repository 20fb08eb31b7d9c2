/* tests/reference/write_names.c -- docs/names.md: the names of functions in other libraries. */
#include "tests/reference/reference.h"

#include <stdio.h>
#include <string.h>

#include "tests/check.h"

/* The rest of the line of peer_names.txt that begins with the name: "numpy | torch". */
static const char *peers_of(const char *text, const char *name)
{
    char start[96];
    snprintf(start, sizeof start, "\n%s | ", name);
    const char *found = strstr(text, start);
    return found != NULL ? found + strlen(start) : NULL;
}

static void code(FILE *file, const char *name, int length)
{
    if (length == 1 && name[0] == '-')
        fputs(" | -", file);
    else
        fprintf(file, " | `%.*s`", length, name);
}

int write_names(const char *path)
{
    char *text = NULL;
    if (weft_file_read(check_source("tests/reference/peer_names.txt"), 0, &text, NULL) != WEFT_OK)
        return -1;
    FILE *file = fopen(path, "w");
    int absent = 0;
    fputs(
        "# Names in MLX, NumPy and PyTorch\n\n"
        "Every array function with its name in MLX (`mlx.core`), NumPy (or SciPy, where marked)\n"
        "and PyTorch (`torch`), or the expression that computes the same there; \"-\" means that\n"
        "there is none. For arguments, axes and defaults see the\n"
        "[reference](reference/README.md). Made by `build/tests/write_reference docs`.\n",
        file != NULL ? file : stderr);
    for (int i = 0; i < line_count() && file != NULL; i++) {
        const line *l = line_at(i);
        const char *peers = peers_of(text, l->name);
        if (i == 0 || strcmp(l->header, line_at(i - 1)->header) != 0)
            fprintf(file, "\n## weft/%s.h\n\n| Weft | MLX | NumPy | PyTorch |\n|---|---|---|---|\n",
                    l->header);
        fprintf(file, "| `%s`", l->name);
        code(file, l->mlx[0] != '\0' ? l->mlx : "-", l->mlx[0] != '\0' ? (int)strlen(l->mlx) : 1);
        if (peers == NULL) {
            fprintf(stderr, "%s: not in peer_names.txt\n", l->name);
            absent++;
            peers = "? | ?\n";
        }
        const char *bar = strstr(peers, " | ");
        code(file, peers, (int)(bar - peers));
        code(file, bar + 3, (int)strcspn(bar + 3, "\n"));
        fputs(" |\n", file);
    }
    weft_free(text);
    return file == NULL || fclose(file) != 0 ? -1 : absent;
}
