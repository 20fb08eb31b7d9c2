/* tests/reference/write_functions.c -- docs/reference/functions.md: all public functions, and
 * macros that are called like functions, in alphabetical order, each with the page and the section
 * that describe it. */
#include "tests/reference/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 4000, NAME = 96, SECTION = 128 };

typedef struct function {
    char name[NAME], section[SECTION]; /* section: "" before the first one */
    const char *header;
} function;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const function *)a)->name, ((const function *)b)->name);
}

/* The title of a line such as "/ * ---- Files ------ * /". */
static void read_section(const char *at, char *out)
{
    const char *start = at + strspn(at, "/*- "), *end = strstr(start, " --");
    snprintf(out, SECTION, "%.*s", (int)(end != NULL ? end - start : 0), start);
}

/* The name that a declaration declares: the last word in front of its first parenthesis. Returns
 * false where it declares no function. */
static bool read_name(const char *declaration, char *out)
{
    const char *end = declaration + strcspn(declaration, "(;={");
    if (*end != '(')
        return false;
    const char *start = end;
    while (start > declaration && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
        start--;
    snprintf(out, NAME, "%.*s", (int)(end - start), start);
    return strncmp(out, "weft_", 5) == 0;
}

static int read_header(const char *header, const char *text, function *out, int most)
{
    char section[SECTION] = "";
    int n = 0;
    for (const char *at = text; at != NULL && *at != '\0' && n < most;) {
        if (strncmp(at, "/* ----", 7) == 0)
            read_section(at, section);
        if (strncmp(at, "WEFT_NODISCARD ", 15) == 0)
            at += 15;
        static const char *const starts[] = {"WEFT_API ", "#define ", "static inline "};
        bool found = false;
        for (int i = 0; i < 3 && !found; i++) {
            const size_t length = strlen(starts[i]);
            found = strncmp(at, starts[i], length) == 0 && read_name(at + length, out[n].name);
        }
        if (found) {
            out[n].header = header;
            memcpy(out[n++].section, section, SECTION);
        }
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    return n;
}

/* The anchor of a heading in Markdown: lower case, no punctuation, hyphens for spaces. */
static void write_anchor(FILE *file, const char *title)
{
    if (title[0] != '\0')
        fputc('#', file);
    for (; *title != '\0'; title++) {
        if (isalnum((unsigned char)*title) || *title == '-' || *title == '_')
            fputc(tolower((unsigned char)*title), file);
        else if (*title == ' ')
            fputc('-', file);
    }
}

weft_status write_functions(const char *source_root, const char *path)
{
    static function functions[FUNCTIONS];
    int n = 0;
    for (int i = 0; reference_headers[i] != NULL; i++) {
        char name[512], *text = NULL;
        snprintf(name, sizeof name, "%s/include/weft/%s.h", source_root, reference_headers[i]);
        weft_status status = weft_file_read(name, 0, &text, NULL);
        if (status != WEFT_OK)
            return status;
        n += read_header(reference_headers[i], text, functions + n, FUNCTIONS - n);
        weft_free(text);
    }
    qsort(functions, (size_t)n, sizeof *functions, by_name);
    int kept = 0; /* a function that is also a macro counts once */
    for (int i = 0; i < n; i++) {
        if (kept == 0 || strcmp(functions[kept - 1].name, functions[i].name) != 0)
            functions[kept++] = functions[i];
    }
    n = kept;
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return weft_fail(WEFT_IO, "%s: cannot be written", path);
    fprintf(file,
            "# Function index\n\nAll %d public functions and macros that are called like "
            "functions. Each links to the section of the "
            "[reference](README.md) that describes\nit. Made by `build/tests/write_reference "
            "docs`.\n",
            n);
    for (int i = 0; i < n; i++) {
        const char letter = functions[i].name[5];
        if (i == 0 || functions[i - 1].name[5] != letter)
            fprintf(file, "\n## %c\n\n", toupper((unsigned char)letter));
        fprintf(file, "- `%s`: [%s.h](%s.md", functions[i].name, functions[i].header,
                functions[i].header);
        write_anchor(file, functions[i].section);
        fprintf(file, ")%s%s\n", functions[i].section[0] != '\0' ? ", " : "", functions[i].section);
    }
    return fclose(file) == 0 ? WEFT_OK : weft_fail(WEFT_IO, "%s: cannot be written", path);
}
