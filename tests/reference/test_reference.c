/* tests/reference/test_reference.c -- the generated documents: every function of arrays has a line,
 * every name of MLX is accounted for, and docs/ is up to date. */
#include "tests/reference/reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

static char *read_source(const char *name)
{
    char *text = NULL;
    if (!CHECK_OK(weft_file_read(check_source(name), 0, &text, NULL)))
        return NULL;
    return text;
}

/* The first position where two texts differ, with the text there. */
static bool same_text(const char *made, const char *committed, const char *name)
{
    size_t i = 0;
    int row = 1;
    while (made[i] != '\0' && made[i] == committed[i])
        row += made[i++] == '\n';
    if (made[i] == committed[i])
        return CHECK(true);
    while (i > 0 && made[i - 1] != '\n')
        i--;
    CHECK_FAIL("%s:%d is out of date (build/tests/write_reference docs):\n  made:      %.*s\n"
               "  committed: %.*s",
               name, row, (int)strcspn(made + i, "\n"), made + i, (int)strcspn(committed + i, "\n"),
               committed + i);
    return false;
}

static void check_file(const char *made_path, const char *name)
{
    char *made = NULL, *committed = read_source(name);
    if (CHECK_OK(weft_file_read(made_path, 0, &made, NULL)) && committed != NULL)
        same_text(made, committed, name);
    weft_free(made);
    weft_free(committed);
}

static bool has_line(const char *name, size_t length)
{
    for (int i = 0; i < line_count(); i++) {
        if (strlen(line_at(i)->name) == length && strncmp(line_at(i)->name, name, length) == 0)
            return true;
    }
    return false;
}

static void every_function_of_arrays_has_a_line(void)
{
    static const char *const headers[] = {
        "creation", "elementwise", "shape",    "indexing",    "reduce", "products", "linalg", "fft",
        "random",   "neural",      "quantize", "activations", "losses", "init",     "conv",   NULL};
    for (int h = 0; headers[h] != NULL; h++) {
        char path[128];
        snprintf(path, sizeof path, "include/weft/%s.h", headers[h]);
        char *text = read_source(path);
        int found = 0;
        for (char *at = text; at != NULL && (at = strstr(at, "WEFT_API ")) != NULL;) {
            char *name = strstr(at, "weft_");
            while (name != NULL && name[strcspn(name, " (*;")] != '(')
                name = strstr(name + 5, "weft_");
            if (!CHECK(name != NULL))
                break;
            size_t length = strcspn(name, "(");
            found++;
            if (!has_line(name, length))
                CHECK_FAIL("%s: %.*s has no line in tests/reference/", path, (int)length, name);
            at = name;
        }
        CHECK(found > 0);
        weft_free(text);
    }
}

static bool mlx_has_line(const char *name)
{
    for (int i = 0; i < line_count(); i++) {
        if (strcmp(line_at(i)->mlx, name) == 0)
            return true;
    }
    return false;
}

/* A name of the list has either a line or an answer after a colon. */
static void every_name_of_mlx_is_answered(void)
{
    char *text = read_source("tests/reference/mlx_names.txt"), *rest = text, *entry;
    int names = 0;
    while (rest != NULL && (entry = strsep(&rest, "\n")) != NULL) {
        if (entry[0] == '\0' || entry[0] == '#')
            continue;
        char *colon = strchr(entry, ':');
        if (colon != NULL)
            *colon = '\0';
        names++;
        if (mlx_has_line(entry) == (colon != NULL))
            CHECK_FAIL("%s: %s", entry, colon != NULL ? "has a line and an answer" : "no line");
    }
    CHECK_EQ_INT(names, 259);
    weft_free(text);
}

static void lines_name_what_mlx_has(void)
{
    char *text = read_source("tests/reference/mlx_names.txt");
    for (int i = 0; i < line_count() && text != NULL; i++) {
        char entry[96];
        snprintf(entry, sizeof entry, "\n%s\n", line_at(i)->mlx);
        if (line_at(i)->mlx[0] != '\0' && strstr(text, entry) == NULL)
            CHECK_FAIL("%s: %s is no name of MLX", line_at(i)->name, line_at(i)->mlx);
    }
    CHECK(text != NULL);
    weft_free(text);
}

/* Lines write files where they are. */
static bool go_to(const char *folder)
{
    return CHECK_OK(weft_folder_make(folder)) && CHECK(chdir(folder) == 0);
}

/* Compares the table except for the column of another device, which is copied. */
static void the_inventory_is_what_the_lines_do(void)
{
    if (strcmp(weft_device_name(weft_default_device()), "cpu") != 0) {
        check_skip("it is measured on the CPU");
        return;
    }
    char *old = read_source("docs/function-support.md"), folder[512], made[600];
    snprintf(folder, sizeof folder, "%s", check_temporary("lines"));
    if (!go_to(folder))
        return;
    snprintf(made, sizeof made, "%s/function-support.md", folder);
    weft_scope_open();
    CHECK_EQ_INT(write_inventory(made, old, NULL, false, folder), 0);
    weft_scope_close(NULL);
    check_file(made, "docs/function-support.md");
    weft_free(old);
}

static void every_header_has_a_page(void)
{
    DIR *folder = opendir(check_source("include/weft"));
    int found = 0;
    for (struct dirent *e; CHECK(folder != NULL) && (e = readdir(folder)) != NULL;) {
        const size_t length = strcspn(e->d_name, ".");
        bool listed = strcmp(e->d_name, "weft.h") == 0;
        if (strcmp(e->d_name + length, ".h") != 0)
            continue;
        for (int h = 0; reference_headers[h] != NULL; h++) {
            const char *name = reference_headers[h];
            listed = listed || (strlen(name) == length && strncmp(name, e->d_name, length) == 0);
        }
        if (!listed)
            CHECK_FAIL("include/weft/%s: not in the list of reference_headers", e->d_name);
        found++;
    }
    CHECK(found > 0);
    if (folder != NULL)
        closedir(folder);
}

/* Every line of a header that begins a declaration, in C, stands in its page. */
static void pages_have_all_declarations(void)
{
    for (int h = 0; reference_headers[h] != NULL; h++) {
        char path[128], row[256];
        snprintf(path, sizeof path, "include/weft/%s.h", reference_headers[h]);
        char *text = read_source(path);
        snprintf(path, sizeof path, "docs/reference/%s.md", reference_headers[h]);
        char *page = read_source(path);
        static const char opened[] = "extern \"C\" {\n#endif\n";
        const char *at = text != NULL ? strstr(text, opened) : NULL;
        at = at != NULL ? at + strlen(opened) : text;
        for (; at != NULL && page != NULL && strncmp(at, "#ifdef __cplusplus", 18) != 0;) {
            snprintf(row, sizeof row, "\n%.*s\n", (int)strcspn(at, "\n"), at);
            const bool guard = strstr(row, "_H\n") != NULL;
            const bool forward = strncmp(at, "struct ", 7) == 0 && strchr(row, ';') != NULL;
            if (((*at >= 'A' && *at <= 'z') || strncmp(at, "#define ", 8) == 0) && !guard &&
                !forward && strstr(page, row) == NULL)
                CHECK_FAIL("%s: missing: %s", path, row);
            at = strchr(at, '\n');
            at = at != NULL ? at + 1 : NULL;
        }
        weft_free(text);
        weft_free(page);
    }
}

static void the_reference_is_what_the_headers_say(void)
{
    char made[512], root[512];
    snprintf(made, sizeof made, "%s", check_temporary("page.md"));
    snprintf(root, sizeof root, "%s", check_source("."));
    if (!go_to(check_temporary("lines")))
        return;
    weft_scope_open();
    for (int i = 0; reference_headers[i] != NULL; i++) {
        char name[128];
        snprintf(name, sizeof name, "docs/reference/%s.md", reference_headers[i]);
        if (CHECK_OK(write_reference(reference_headers[i], root, made)))
            check_file(made, name);
    }
    if (CHECK_OK(write_reference_list(root, made)))
        check_file(made, "docs/reference/README.md");
    if (CHECK_OK(write_functions(root, made)))
        check_file(made, "docs/reference/functions.md");
    weft_scope_close(NULL);
}

static void the_names_are_those_of_the_lines(void)
{
    const char *made = check_temporary("names.md");
    CHECK_EQ_INT(write_names(made), 0);
    check_file(made, "docs/names.md");
}

/* Text without the spaces in front of lines. */
static void flush_left(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        from += strspn(from, " ");
        size_t length = strcspn(from, "\n");
        memmove(to, from, length);
        to += length;
        from += length;
        if (*from == '\n')
            *to++ = *from++;
    }
    *to = '\0';
}

/* Every C block of the document is a part of an example, which the tests run. */
static void check_snippets(const char *document, const char *example)
{
    char *text = read_source(document), *code = read_source(example);
    int blocks = 0;
    if (text == NULL || code == NULL)
        return;
    flush_left(code);
    for (char *at = text; (at = strstr(at, "```c\n")) != NULL;) {
        char *start = at + 5, *end = strstr(start, "```");
        if (!CHECK(end != NULL))
            break;
        *end = '\0';
        blocks++;
        flush_left(start);
        if (strstr(code, start) == NULL)
            CHECK_FAIL("%s: not in %s:\n%s", document, example, start);
        at = end + 1;
    }
    CHECK(blocks > 0);
    weft_free(text);
    weft_free(code);
}

static void snippets_are_parts_of_examples(void)
{
    check_snippets("docs/tutorial.md", "examples/08_transformer.c");
    check_snippets("docs/coming-from-mlx.md", "examples/09_from_python.c");
    check_snippets("docs/coming-from-numpy.md", "examples/09_from_python.c");
    check_snippets("docs/coming-from-pytorch.md", "examples/09_from_python.c");
}

CHECK_MAIN("reference", CHECK_CASE(every_function_of_arrays_has_a_line),
           CHECK_CASE(every_name_of_mlx_is_answered), CHECK_CASE(lines_name_what_mlx_has),
           CHECK_CASE(the_inventory_is_what_the_lines_do),
           CHECK_CASE(the_names_are_those_of_the_lines), CHECK_CASE(snippets_are_parts_of_examples),
           CHECK_CASE(every_header_has_a_page), CHECK_CASE(pages_have_all_declarations),
           CHECK_CASE(the_reference_is_what_the_headers_say))
