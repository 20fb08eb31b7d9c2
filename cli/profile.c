/* cli/profile.c -- --profile and --trace: measures the time of a command by device, op and kernel.
 */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "weft/op.h"

enum { CEILING_ROUNDS = 3 };

static struct {
    bool tables; /* --profile */
    char *trace; /* a copy: the words of --config and --resume are freed before it is used */
    weft_device *devices[PROFILE_DEVICES];
    int n;
    weft_ceiling ceilings[PROFILE_DEVICES][WEFT_CEILING_COUNT];
    bool has_ceilings[PROFILE_DEVICES];
    int64_t phase_began;
    profile_phase *phases[PROFILE_PHASES];
    int n_phases;
    bool open; /* whether measuring has started */
} profiled;

bool cli_profile_asked(const cli_place *place)
{
    return place->profile || place->trace != NULL;
}

/* Lists the place's devices and the CPU, without duplicates. */
static int devices_of(const cli_place *place, weft_device **out)
{
    int n = cli_devices(place, out);
    bool has_cpu = false;
    weft_device *cpu = weft_device_get("cpu");
    for (int i = 0; i < n; i++)
        has_cpu = has_cpu || out[i] == cpu;
    if (!has_cpu)
        out[n++] = cpu;
    return n;
}

static weft_status switch_all(bool on)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < profiled.n && status == WEFT_OK; i++)
        status = weft_device_profile(profiled.devices[i], on);
    profiled.phase_began = weft_timeline_now();
    return status;
}

weft_status cli_profile_start(const cli_place *place)
{
    if (!cli_profile_asked(place))
        return WEFT_OK;
    profiled.tables = place->profile;
    weft_free(profiled.trace);
    profiled.trace = place->trace ? weft_strdup(place->trace) : NULL;
    if (place->trace && profiled.trace == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the name of a trace");
    profiled.n = devices_of(place, profiled.devices);
    profiled.open = true;
    if (profiled.trace != NULL)
        weft_timeline_start();
    return switch_all(true);
}

weft_status cli_profile_ceilings(const cli_place *place)
{
    weft_device *devices[PROFILE_DEVICES];
    const int n = place->profile ? devices_of(place, devices) : 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        status =
            weft_bench_ceilings(devices[i], weft_threads(), CEILING_ROUNDS, profiled.ceilings[i]);
        profiled.has_ceilings[i] = status == WEFT_OK;
    }
    return status;
}

weft_status cli_profile_save_trace(void)
{
    const weft_status status =
        profiled.trace != NULL ? weft_timeline_save(profiled.trace) : WEFT_OK;
    weft_free(profiled.trace);
    profiled.trace = NULL;
    return status;
}

/* ---- Adding up ------------------------------------------------------------------------------ */

int64_t profile_fallbacks(const weft_counts *ran)
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

static void measure(int i, profile_device *m)
{
    weft_device *device = profiled.devices[i];
    m->name = weft_device_name(device);
    m->n_ops = weft_device_report(device, m->ops, PROFILE_OPS, &m->totals);
    m->n_kernels = weft_device_kernels(device, m->kernels, PROFILE_KERNELS);
    m->n_counters = weft_device_counters(device, m->counters, PROFILE_COUNTERS);
    m->ceilings = profiled.has_ceilings[i] ? profiled.ceilings[i] : NULL;
    for (int k = 0; k < m->n_ops; k++) {
        add(&m->ran, &m->ops[k].ran);
        m->nanoseconds += m->ops[k].nanoseconds;
    }
    m->nodes = nodes_of(&m->ran);
    m->fallbacks = profile_fallbacks(&m->ran);
}

/* Ends a phase; false: out of memory, or too many phases. */
static bool take(const char *name)
{
    profile_phase *phase = profiled.n_phases < PROFILE_PHASES ? calloc(1, sizeof *phase) : NULL;
    if (phase == NULL)
        return false;
    phase->name = name;
    phase->n = profiled.n;
    for (int i = 0; i < profiled.n; i++)
        measure(i, &phase->devices[i]);
    profiled.phases[profiled.n_phases++] = phase;
    return true;
}

weft_status cli_profile_phase(const char *name)
{
    if (!profiled.open)
        return WEFT_OK;
    if (!take(name))
        return weft_fail(WEFT_MEMORY, "profile: out of memory for the phase %s", name);
    weft_timeline_add(&(weft_span){.name = name,
                                   .category = "phase",
                                   .begin = profiled.phase_began,
                                   .duration = weft_timeline_now() - profiled.phase_began});
    return switch_all(true);
}

weft_status cli_profile_restart(void)
{
    return profiled.open ? switch_all(true) : WEFT_OK;
}

profile_phase *const *profile_phases(int *n)
{
    if (profiled.open && profiled.n_phases == 0)
        (void)take(NULL);
    *n = profiled.tables ? profiled.n_phases : 0;
    return profiled.phases;
}

/* ---- Ceilings ------------------------------------------------------------------------------- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Operations per second of the fastest instructions that compute what the kernel does. Products may
 * use tiles of bfloat16 (AMX): a float16 number is a sum of two such numbers and takes 4 products;
 * a float32 number, or one of quantized weights, is a sum of three and takes 6. */
static double arithmetic(const profile_device *d, const weft_kernel_report *k)
{
    const weft_ceiling *c = d->ceilings;
    const double f32 = c[WEFT_CEILING_FLOAT32].all, bf16 = c[WEFT_CEILING_BF16].all;
    const double tiles = c[WEFT_CEILING_AMX].all;
    const weft_op *op = weft_op_find(k->op);
    if (strcmp(d->name, "cpu") != 0)
        return 1e9 * larger(f32, bf16);
    if (op == NULL || op->work == NULL || strcmp(k->variant, "float64") == 0)
        return 1e9 * f32; /* an elementwise kernel, or one without products in float32 */
    if (strcmp(k->variant, "bfloat16") == 0)
        return 1e9 * larger(larger(f32, bf16), tiles);
    return 1e9 * larger(f32, tiles / (strcmp(k->variant, "float16") == 0 ? 4 : 6));
}

double profile_share(const profile_device *d, const weft_kernel_report *k)
{
    const double took = 1e-9 * (double)k->nanoseconds;
    if (d->ceilings == NULL || took <= 0)
        return 0;
    const double flops = arithmetic(d, k), bytes = 1e9 * d->ceilings[WEFT_CEILING_READ].all;
    const double computing = flops > 0 ? k->work.flops / flops : 0;
    const double reading = bytes > 0 ? k->work.bytes / bytes : 0;
    return larger(computing, reading) / took;
}
