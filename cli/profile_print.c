/* cli/profile_print.c -- prints profiles as tables and as JSON. */
#include "cli/profile.h"

static double seconds(int64_t nanoseconds)
{
    return 1e-9 * (double)nanoseconds;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* The share of the time in which the device was idle; 0 if kernels ran concurrently. */
static double idle(const weft_totals *t)
{
    return t->busy < t->wall ? 1 - share(t->busy, t->wall) : 0;
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* Prints a time and its share of `wall`: "3.210 s (12%)". */
static void print_time(const char *what, int64_t nanoseconds, int64_t wall)
{
    fprintf(stderr, "%s %.3f s (%.0f%%)", what, seconds(nanoseconds),
            100 * share(nanoseconds, wall));
}

static void print_fallbacks(const profile_device *m)
{
    fprintf(stderr, "  fallbacks to the CPU: ");
    if (m->fallbacks == 0)
        fputs("none", stderr);
    else
        fprintf(stderr, "%s:", cli_count(m->fallbacks));
    const char *comma = "";
    for (int i = 0; i < m->n_ops; i++) {
        int64_t n = profile_fallbacks(&m->ops[i].ran);
        if (n == 0)
            continue;
        fprintf(stderr, "%s %s %s", comma, m->ops[i].op, cli_count(n));
        comma = ",";
    }
    fputc('\n', stderr);
}

static void print_head(const profile_device *m)
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

static void print_ops(const profile_device *m)
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

/* Prints a rate in units of `unit` per second; "." if it is undefined. */
static void print_rate(double amount, double unit, int64_t nanoseconds)
{
    const double rate = nanoseconds > 0 ? amount / unit / seconds(nanoseconds) : 0;
    if (rate > 0)
        fprintf(stderr, " %9.*f", rate < 0.1 ? 4 : rate < 10 ? 2 : 1, rate);
    else
        fprintf(stderr, " %9s", ".");
}

static void print_ceilings(const weft_ceiling *ceilings)
{
    const char *comma = "";
    fputs("  ceilings:", stderr);
    for (int i = 0; i < WEFT_CEILING_COUNT; i++) {
        const weft_ceiling *c = &ceilings[i];
        if (!c->measured)
            continue;
        if (c->all >= 1000)
            fprintf(stderr, "%s %s %.1f T%s", comma, c->name, 1e-3 * c->all, c->unit + 1);
        else
            fprintf(stderr, "%s %s %.1f %s", comma, c->name, c->all, c->unit);
        comma = ",";
    }
    fputs("\n", stderr);
}

/* Whether a kernel reaches 1 TFLOP/s. */
static bool is_fast(const profile_device *m)
{
    for (int i = 0; i < m->n_kernels; i++) {
        const weft_kernel_report *k = &m->kernels[i];
        if (k->nanoseconds > 0 && k->work.flops >= 1e12 * seconds(k->nanoseconds))
            return true;
    }
    return false;
}

static void print_kernels(const profile_device *m)
{
    const bool tera = is_fast(m);
    fprintf(stderr, "  %-34s %9s %11s %6s %9s %9s", "kernel", "calls", "ms", "share",
            tera ? "TFLOP/s" : "GFLOP/s", "GB/s");
    fprintf(stderr, "%s\n", m->ceilings != NULL ? " of ceiling" : "");
    for (int i = 0; i < m->n_kernels; i++) {
        const weft_kernel_report *k = &m->kernels[i];
        char name[64];
        snprintf(name, sizeof name, "%s %s", k->op, k->variant);
        fprintf(stderr, "  %-34s %9s %11.3f %5.1f%%", name, cli_count(k->calls),
                1e3 * seconds(k->nanoseconds), 100 * share(k->nanoseconds, m->nanoseconds));
        print_rate(k->work.flops, tera ? 1e12 : 1e9, k->nanoseconds);
        print_rate(k->work.bytes, 1e9, k->nanoseconds);
        const double reached = profile_share(m, k);
        if (reached > 0)
            fprintf(stderr, " %9.0f%%", 100 * reached);
        fputc('\n', stderr);
    }
    if (m->ceilings != NULL)
        print_ceilings(m->ceilings);
}

static void print_phase(const profile_phase *phase)
{
    if (phase->name != NULL)
        fprintf(stderr, "%s\n", phase->name);
    for (int i = 0; i < phase->n; i++) {
        const profile_device *m = &phase->devices[i];
        if (i > 0 && m->nodes == 0)
            continue;
        print_head(m);
        print_ops(m);
        print_kernels(m);
    }
}

void cli_profile_print(void)
{
    int n;
    profile_phase *const *phases = profile_phases(&n);
    for (int i = 0; i < n; i++)
        print_phase(phases[i]);
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

static void json_kernels(FILE *file, const profile_device *m)
{
    fputs("\"kernels\": [", file);
    for (int i = 0; i < m->n_kernels; i++) {
        const weft_kernel_report *k = &m->kernels[i];
        fprintf(file, "%s{\"op\": \"%s\", \"variant\": \"%s\", \"calls\": %lld", i > 0 ? ", " : "",
                k->op, k->variant, (long long)k->calls);
        fprintf(file, ", \"seconds\": %.9g, \"flops\": %.17g, \"bytes\": %.17g",
                seconds(k->nanoseconds), k->work.flops, k->work.bytes);
        if (m->ceilings != NULL)
            fprintf(file, ", \"share_of_ceiling\": %.4g", profile_share(m, k));
        fputs("}", file);
    }
    fputs("]", file);
}

static void json_ceilings(FILE *file, const weft_ceiling *ceilings)
{
    const char *comma = "";
    fputs(", \"ceilings\": [", file);
    for (int i = 0; i < WEFT_CEILING_COUNT; i++) {
        const weft_ceiling *c = &ceilings[i];
        if (!c->measured)
            continue;
        fprintf(file, "%s{\"name\": \"%s\", \"unit\": \"%s\", \"one\": %.6g, \"all\": %.6g}", comma,
                c->name, c->unit, c->one, c->all);
        comma = ", ";
    }
    fputs("]", file);
}

static void json_device(FILE *file, const profile_device *m)
{
    const weft_totals *t = &m->totals;
    fprintf(file, "{\"device\": \"%s\", \"nodes\": %lld", m->name, (long long)m->nodes);
    json_counts(file, &m->ran);
    fprintf(file, ", \"fallbacks\": {");
    const char *comma = "";
    for (int i = 0; i < m->n_ops; i++) {
        int64_t n = profile_fallbacks(&m->ops[i].ran);
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
    fputs("], ", file);
    json_kernels(file, m);
    if (m->ceilings != NULL)
        json_ceilings(file, m->ceilings);
    fputs("}", file);
}

static void json_phase(FILE *file, const profile_phase *phase)
{
    fprintf(file, "\"wall\": %.9g, \"devices\": [", seconds(phase->devices[0].totals.wall));
    for (int i = 0; i < phase->n; i++) {
        fputs(i > 0 ? ", " : "", file);
        json_device(file, &phase->devices[i]);
    }
    fputs("]", file);
}

void cli_profile_json(FILE *file)
{
    int n;
    profile_phase *const *phases = profile_phases(&n);
    if (n == 0)
        return;
    fputs(", \"profile\": {", file);
    if (phases[0]->name == NULL) {
        json_phase(file, phases[0]);
    } else {
        fputs("\"phases\": [", file);
        for (int i = 0; i < n; i++) {
            fprintf(file, "%s{\"name\": \"%s\", ", i > 0 ? ", " : "", phases[i]->name);
            json_phase(file, phases[i]);
            fputs("}", file);
        }
        fputs("]", file);
    }
    fputs("}", file);
}
