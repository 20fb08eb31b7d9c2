/* cli/profile.c -- --profile: where the time of a command goes, by device and op. */
#include "cli/profile.h"

#include <string.h>

enum { DEVICES = 2, OPS = 512, COUNTERS = 32 };

static struct {
    weft_device *devices[DEVICES];
    int n;
} profiled;

/* What was measured of one device. */
typedef struct measured {
    const char *name;
    weft_op_report ops[OPS];
    int n_ops;
    weft_totals totals;
    weft_counts ran; /* of all ops */
    int64_t nodes, fallbacks, nanoseconds;
    weft_counter counters[COUNTERS];
    int n_counters;
} measured;

weft_status cli_profile_start(const cli_place *place)
{
    if (!place->profile)
        return WEFT_OK;
    weft_device *devices[DEVICES] = {weft_device_get(place->device), weft_device_get("cpu")};
    weft_status status = WEFT_OK;
    for (int i = 0; i < DEVICES && status == WEFT_OK; i++) {
        if (devices[i] == NULL || (i > 0 && devices[i] == devices[0]))
            continue;
        status = weft_device_profile(devices[i], true);
        if (status == WEFT_OK)
            profiled.devices[profiled.n++] = devices[i];
    }
    return status;
}

/* ---- Adding up ------------------------------------------------------------------------------ */

static int64_t fallbacks_of(const weft_counts *ran)
{
    return ran->references + ran->host_copies;
}

static int64_t nodes_of(const weft_counts *ran)
{
    return ran->rows + ran->elementwise + ran->fused + ran->expansions + ran->references +
           ran->views + ran->transfers;
}

static void add(weft_counts *to, const weft_counts *from)
{
    to->rows += from->rows;
    to->elementwise += from->elementwise;
    to->fused += from->fused;
    to->expansions += from->expansions;
    to->references += from->references;
    to->views += from->views;
    to->transfers += from->transfers;
    to->copies += from->copies;
    to->host_copies += from->host_copies;
}

static void measure(weft_device *device, measured *m)
{
    memset(m, 0, sizeof *m);
    m->name = weft_device_name(device);
    m->n_ops = weft_device_report(device, m->ops, OPS, &m->totals);
    m->n_counters = weft_device_counters(device, m->counters, COUNTERS);
    for (int i = 0; i < m->n_ops; i++) {
        add(&m->ran, &m->ops[i].ran);
        m->nanoseconds += m->ops[i].nanoseconds;
    }
    m->nodes = nodes_of(&m->ran);
    m->fallbacks = fallbacks_of(&m->ran);
}

static double seconds(int64_t nanoseconds)
{
    return 1e-9 * (double)nanoseconds;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* What the device did not work; more than one kernel at a time leaves none. */
static double idle(const weft_totals *t)
{
    return t->busy < t->wall ? 1 - share(t->busy, t->wall) : 0;
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* "3.210 s (12%)" */
static void print_time(const char *what, int64_t nanoseconds, int64_t wall)
{
    fprintf(stderr, "%s %.3f s (%.0f%%)", what, seconds(nanoseconds),
            100 * share(nanoseconds, wall));
}

static void print_fallbacks(const measured *m)
{
    fprintf(stderr, "  fallbacks to the CPU: ");
    if (m->fallbacks == 0)
        fputs("none", stderr);
    else
        fprintf(stderr, "%s:", cli_count(m->fallbacks));
    const char *comma = "";
    for (int i = 0; i < m->n_ops; i++) {
        int64_t n = fallbacks_of(&m->ops[i].ran);
        if (n == 0)
            continue;
        fprintf(stderr, "%s %s %s", comma, m->ops[i].op, cli_count(n));
        comma = ",";
    }
    fputc('\n', stderr);
}

static void print_head(const measured *m)
{
    const weft_totals *t = &m->totals;
    const weft_counts *c = &m->ran;
    fprintf(stderr, "profile of %s: %.3f s, %s nodes (%s kernels, %s elementwise, %s fused, ",
            m->name, seconds(t->wall), cli_count(m->nodes), cli_count(c->rows),
            cli_count(c->elementwise), cli_count(c->fused));
    fprintf(stderr, "%s expanded, %s references, %s views, %s transfers), %s copies\n",
            cli_count(c->expansions), cli_count(c->references), cli_count(c->views),
            cli_count(c->transfers), cli_count(c->copies));
    print_fallbacks(m);
    print_time("  host: planning", t->planning, t->wall);
    print_time(", running", t->running, t->wall);
    print_time(", waiting", t->waiting, t->wall);
    print_time("\n  device: busy", t->busy, t->wall);
    fprintf(stderr, ", idle %.0f%%\n", 100 * idle(t));
    for (int i = 0; i < m->n_counters; i++)
        fprintf(stderr, "%s%s %s", i > 0 ? ", " : "  device: ", m->counters[i].name,
                cli_count(m->counters[i].value));
    fputs(m->n_counters > 0 ? "\n" : "", stderr);
}

static void print_ops(const measured *m)
{
    static const char *const heads[] = {"calls",     "kernel", "elementw.", "fused", "expanded",
                                        "reference", "view",   "transfer",  "copy"};
    fprintf(stderr, "  %-24s", "op");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fprintf(stderr, " %9s", heads[i]);
    fprintf(stderr, " %11s %6s\n", "ms", "share");
    for (int i = 0; i < m->n_ops; i++) {
        const weft_op_report *r = &m->ops[i];
        const int64_t columns[] = {r->calls,     r->ran.rows,       r->ran.elementwise,
                                   r->ran.fused, r->ran.expansions, r->ran.references,
                                   r->ran.views, r->ran.transfers,  r->ran.copies};
        fprintf(stderr, "  %-24s", r->op);
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            fprintf(stderr, " %9s", columns[c] > 0 ? cli_count(columns[c]) : ".");
        fprintf(stderr, " %11.3f %5.1f%%\n", 1e3 * seconds(r->nanoseconds),
                100 * share(r->nanoseconds, m->nanoseconds));
    }
}

void cli_profile_print(void)
{
    static measured m;
    for (int i = 0; i < profiled.n; i++) {
        measure(profiled.devices[i], &m);
        if (i > 0 && m.nodes == 0)
            continue;
        print_head(&m);
        print_ops(&m);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_counts(FILE *file, const weft_counts *c)
{
    const struct {
        const char *name;
        int64_t value;
    } all[] = {
        {"kernels", c->rows},
        {"elementwise", c->elementwise},
        {"fused", c->fused},
        {"expansions", c->expansions},
        {"references", c->references},
        {"views", c->views},
        {"transfers", c->transfers},
        {"copies", c->copies},
        {"host_copies", c->host_copies},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fprintf(file, ", \"%s\": %lld", all[i].name, (long long)all[i].value);
}

static void json_device(FILE *file, const measured *m)
{
    const weft_totals *t = &m->totals;
    fprintf(file, "{\"device\": \"%s\", \"nodes\": %lld", m->name, (long long)m->nodes);
    json_counts(file, &m->ran);
    fprintf(file, ", \"fallbacks\": {");
    const char *comma = "";
    for (int i = 0; i < m->n_ops; i++) {
        int64_t n = fallbacks_of(&m->ops[i].ran);
        if (n == 0)
            continue;
        fprintf(file, "%s\"%s\": %lld", comma, m->ops[i].op, (long long)n);
        comma = ", ";
    }
    fprintf(file, "}, \"planning\": %.9g, \"running\": %.9g, \"waiting\": %.9g, \"busy\": %.9g",
            seconds(t->planning), seconds(t->running), seconds(t->waiting), seconds(t->busy));
    fprintf(file, ", \"idle\": %.4g", idle(t));
    for (int i = 0; i < m->n_counters; i++)
        fprintf(file, ", \"%s\": %lld", m->counters[i].name, (long long)m->counters[i].value);
    fputs(", \"ops\": [", file);
    for (int i = 0; i < m->n_ops; i++) {
        const weft_op_report *r = &m->ops[i];
        fprintf(file, "%s{\"op\": \"%s\", \"calls\": %lld", i > 0 ? ", " : "", r->op,
                (long long)r->calls);
        json_counts(file, &r->ran);
        fprintf(file, ", \"seconds\": %.9g}", seconds(r->nanoseconds));
    }
    fputs("]}", file);
}

void cli_profile_json(FILE *file)
{
    static measured m;
    for (int i = 0; i < profiled.n; i++) {
        measure(profiled.devices[i], &m);
        if (i == 0)
            fprintf(file, ", \"profile\": {\"wall\": %.9g, \"devices\": [", seconds(m.totals.wall));
        else
            fputs(", ", file);
        json_device(file, &m);
    }
    fputs(profiled.n > 0 ? "]}" : "", file);
}
