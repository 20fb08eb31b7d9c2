/* tools/terminal_svg.c -- terminal_svg TYPESCRIPT TIMING COLUMNS SPEED: draws a recording made by
 * script(1) as an animated SVG. Understands carriage return, newline, erasing to the end of a line,
 * and SGR colors, which is what the weft command writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 200, COLUMNS = 200, VERSIONS = 4000, CELL = 8, LINE = 18, MARGIN = 18, BAR = 30 };

typedef struct cell {
    char text[5]; /* one character of UTF-8 */
    char style;   /* 0: plain; 'b' bold, 'd' dim, 'r' red, 'g' green, 'y' yellow, 'c' cyan */
} cell;

typedef struct version { /* a row as it looked from `start` to the row's next version */
    int row;
    double start;
    cell cells[COLUMNS];
} version;

static cell screen[ROWS][COLUMNS];
static version versions[VERSIONS];
static int n_versions, row, column, width, used;
static char style;
static double now;

static int fail(const char *why)
{
    fprintf(stderr, "terminal_svg: %s\n", why);
    exit(1);
}

static void newline(void)
{
    column = 0;
    if (++row == ROWS)
        fail("the recording has too many lines");
    used = row + 1 > used ? row + 1 : used;
}

static void set_style(const char *numbers)
{
    switch (atoi(numbers)) {
    case 1:
        style = 'b';
        break;
    case 2:
        style = 'd';
        break;
    case 31:
        style = 'r';
        break;
    case 32:
        style = 'g';
        break;
    case 33:
        style = 'y';
        break;
    case 36:
        style = 'c';
        break;
    default:
        style = 0;
        break;
    }
}

/* An escape sequence that begins at `at`; returns its length. */
static int escape(const char *at)
{
    int length = 2;
    if (at[1] != '[')
        return 2;
    while (at[length] != '\0' && !(at[length] >= '@' && at[length] <= '~'))
        length++;
    if (at[length] == 'K')
        memset(screen[row] + column, 0, sizeof(cell) * (size_t)(COLUMNS - column));
    else if (at[length] == 'm')
        set_style(at + 2);
    return at[length] == '\0' ? length : length + 1;
}

/* Writes one character at the cursor; returns its bytes. */
static int put(const char *at)
{
    unsigned char first = (unsigned char)*at;
    int length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (column == width)
        newline();
    cell *c = &screen[row][column++];
    memset(c, 0, sizeof *c);
    strncpy(c->text, at, (size_t)length);
    c->style = style;
    return length;
}

/* Records the rows that changed. A change soon after the last one replaces it. */
static void note_changes(void)
{
    for (int r = 0; r < used; r++) {
        version *last = NULL;
        for (int i = n_versions - 1; i >= 0 && last == NULL; i--)
            last = versions[i].row == r ? &versions[i] : NULL;
        if (last != NULL && memcmp(last->cells, screen[r], sizeof screen[r]) == 0)
            continue;
        if (last == NULL || now - last->start > 0.2) {
            if (n_versions == VERSIONS)
                fail("the recording has too many changes");
            last = &versions[n_versions++];
            last->row = r;
            last->start = now;
        }
        memcpy(last->cells, screen[r], sizeof screen[r]);
    }
}

static void play(const char *text, FILE *timing, double speed)
{
    double pause;
    long bytes;
    const char *first = strchr(text, '\n'); /* behind script's own first line */
    const char *at = first != NULL ? first + 1 : text;
    used = 1;
    while (fscanf(timing, "%lf %ld", &pause, &bytes) == 2) {
        const char *end = at + bytes;
        now += (pause < 2 ? pause : 2) / speed;
        while (at < end && *at != '\0') {
            if (*at == '\033')
                at += escape(at);
            else if (*at == '\r')
                column = 0, at++;
            else if (*at == '\n')
                newline(), at++;
            else
                at += put(at);
        }
        note_changes();
    }
}

static void escape_xml(const char *text)
{
    if (*text == '<' || *text == '&')
        printf(*text == '<' ? "&lt;" : "&amp;");
    else
        printf("%s", text);
}

/* Characters of one style from column a to b. Each non-ASCII character is positioned separately, as
 * fonts may give it another width. */
static void print_run(const cell *cells, int a, int b)
{
    printf("<tspan x=\"%d", MARGIN + a * CELL);
    for (int c = a + 1; c < b && (cells[a].text[0] & 0x80) != 0; c++)
        printf(" %d", MARGIN + c * CELL);
    printf("\"");
    if (cells[a].style != 0)
        printf(" class=\"%c\"", cells[a].style);
    printf(">");
    for (int c = a; c < b; c++)
        escape_xml(cells[c].text[0] != '\0' ? cells[c].text : " ");
    printf("</tspan>");
}

static void print_row(const version *v, double end)
{
    int length = COLUMNS;
    while (length > 0 && v->cells[length - 1].text[0] == '\0')
        length--;
    if (length == 0)
        return;
    printf("<text y=\"%d\"%s>", BAR + MARGIN + v->row * LINE,
           end > 0 ? " visibility=\"hidden\"" : "");
    for (int a = 0, b; a < length; a = b) {
        for (b = a + 1; b < length && v->cells[b].style == v->cells[a].style &&
                        ((v->cells[b].text[0] ^ v->cells[a].text[0]) & 0x80) == 0;
             b++) {
        }
        if (v->cells[a].text[0] != ' ' || b - a > 1)
            print_run(v->cells, a, b);
    }
    /* Without animation the last version of each row is what shows. */
    if (end > 0)
        printf("<set attributeName=\"visibility\" to=\"visible\" begin=\"%.2fs\" end=\"%.2fs\"/>",
               v->start, end);
    else if (v->start > 0)
        printf("<set attributeName=\"visibility\" to=\"hidden\" begin=\"0s\" end=\"%.2fs\"/>",
               v->start);
    printf("</text>\n");
}

static void print_svg(void)
{
    int w = width * CELL + 2 * MARGIN, h = BAR + used * LINE + MARGIN;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
           "xml:space=\"preserve\">\n",
           w, h);
    printf("<style>\n  text { white-space: pre; font: 13.3px ui-monospace, \"DejaVu Sans Mono\", "
           "monospace; "
           "fill: #d1d5db }\n"
           "  .b { font-weight: 700; fill: #f9fafb } .d { fill: #6b7280 } .r { fill: #f87171 }\n"
           "  .g { fill: #4ade80 } .y { fill: #fbbf24 } .c { fill: #22d3ee }\n</style>\n");
    printf("<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#111827\"/>\n", w, h);
    for (int i = 0; i < 3; i++)
        printf("<circle cx=\"%d\" cy=\"16\" r=\"5\" fill=\"#4b5563\"/>\n", MARGIN + 5 + 16 * i);
    for (int i = 0; i < n_versions; i++) {
        double end = 0;
        for (int k = i + 1; k < n_versions && end <= 0; k++)
            end = versions[k].row == versions[i].row ? versions[k].start : 0;
        print_row(&versions[i], end);
    }
    printf("</svg>\n");
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    if (argc != 5) {
        fprintf(stderr, "usage: terminal_svg TYPESCRIPT TIMING COLUMNS SPEED\n");
        return 2;
    }
    FILE *typescript = fopen(argv[1], "rb"), *timing = fopen(argv[2], "r");
    width = atoi(argv[3]);
    double speed = atof(argv[4]);
    if (typescript == NULL || timing == NULL || width < 1 || width >= COLUMNS || !(speed > 0))
        return fail("cannot read the recording, or a number is out of range");
    text[fread(text, 1, sizeof text - 1, typescript)] = '\0';
    play(text, timing, speed);
    print_svg();
    fclose(typescript);
    fclose(timing);
    return ferror(stdout) != 0;
}
