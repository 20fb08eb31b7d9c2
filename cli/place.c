/* cli/place.c -- where a command computes, and with which dtype: gathers the facts for the choice
 * of place_choice.c, says what was chosen, and sets it. */
#include "cli/place.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/common.h"

static struct {
    bool settled;
    char device[64];
    int dtype;
} chosen;

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, (weft_dtype)0};

const char *cli_device(const cli_place *place)
{
    return place->device ? place->device : chosen.settled ? chosen.device : "cpu";
}

int cli_dtype(const cli_place *place)
{
    return place->dtype >= 0 ? place->dtype : chosen.settled ? chosen.dtype : 0;
}

weft_dtype cli_weft_dtype(const cli_place *place)
{
    return dtypes[cli_dtype(place)];
}

static void dtype_word(int dtype, char *out, size_t size)
{
    cli_word(CLI_DTYPES, dtype, out, size);
}

void cli_place_json(FILE *file, const cli_place *place)
{
    char dtype[16];
    const char *device = cli_device(place);
    dtype_word(cli_dtype(place), dtype, sizeof dtype);
    fputs(", \"device\": ", file);
    cli_json_text(file, device, strlen(device));
    fprintf(file, ", \"dtype\": \"%s\"", dtype);
}

/* ---- Setting --------------------------------------------------------------------------------- */

bool cli_has_several_devices(const cli_place *place)
{
    return place->device != NULL && strchr(place->device, ',') != NULL;
}

const char *cli_place_complaint(const cli_place *place)
{
    if (cli_has_several_devices(place) && (place->stream || place->gpu_layers != CLI_ABSENT))
        return place->stream ? "--stream is for one --device"
                             : "--gpu-layers is for one --device: several share all layers";
    const bool cpu = place->device == NULL || strcmp(place->device, "cpu") == 0 ||
                     strncmp(place->device, "cpu:", 4) == 0;
    return cpu && place->gpu_layers != CLI_ABSENT ? "--gpu-layers needs a --device beside the CPU"
           : cpu && place->stream                 ? "--stream needs a --device beside the CPU"
                                                  : NULL;
}

/* Whether the name is what other programs call a GPU. */
static bool is_gpu_of_others(const char *name)
{
    static const char *const others[] = {"cuda", "gpu",  "nvidia", "amd",   "rocm",
                                         "hip",  "xpu",  "intel",  "mps",   "metal",
                                         "sycl", "auto", "opencl", "webgpu"};
    const size_t n = strcspn(name, ":,");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strlen(others[i]) == n && strncasecmp(name, others[i], n) == 0)
            return true;
    }
    return false;
}

const char *cli_device_complaint(const char *name)
{
    const char *why = weft_error_message();
    char quoted[80], whole[80], backend[80];
    snprintf(quoted, sizeof quoted, "'%.64s': ", weft_printable(name));
    snprintf(whole, sizeof whole, "%.64s: ", name);
    snprintf(backend, sizeof backend, "%.*s: ", (int)strcspn(whole, ":"), name);
    const char *const known[] = {"device: ", quoted, whole, backend};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i]);
        if (strncmp(why, known[i], n) == 0)
            why += n;
    }
    return why;
}

/* Opens the devices: their number; 0, with a message that names --device. */
static int open_devices(const char *name, weft_device **out)
{
    int n;
    if (weft_devices_get(name, out, WEFT_MODEL_DEVICES, &n) == WEFT_OK)
        return n;
    char *why = weft_strdup(cli_device_complaint(name));
    if (is_gpu_of_others(name))
        weft_fail(WEFT_DEVICE,
                  "--device %s: Weft uses GPUs of all vendors through Vulkan: --device vulkan, or "
                  "vulkan:1 for the second; weft info --devices lists them",
                  weft_printable(name));
    else
        weft_fail(WEFT_DEVICE, "--device %s: %s; weft info --devices lists those of this machine",
                  weft_printable(name), why ? why : "it cannot be used");
    weft_free(why);
    return 0;
}

int cli_devices(const cli_place *place, weft_device *out[WEFT_MODEL_DEVICES])
{
    return open_devices(cli_device(place), out);
}

weft_status cli_set_place(const cli_place *place)
{
    weft_device *all[WEFT_MODEL_DEVICES], *device = cli_devices(place, all) > 0 ? all[0] : NULL;
    if (device != NULL && place->gpu_layers != CLI_ABSENT && !place->stream)
        device = weft_device_get("cpu");
    if (device == NULL)
        return WEFT_DEVICE;
    if (cli_check_file(place->trace, "{\"displayTimeUnit\":\"ns\",\"otherData\":", false) !=
        WEFT_OK)
        return weft_fail(WEFT_INVALID, "%s: --trace replaces only traces: choose another file",
                         weft_printable(place->trace));
    weft_set_default_device(device);
    if (place->threads != CLI_ABSENT)
        weft_set_threads((int)place->threads);
    return WEFT_OK;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* The bytes of a checkpoint, and how many elements its dense tensors have. */
typedef struct weight_counts {
    int64_t dense, bfloat16, elements, packed;
} weight_counts;

static int64_t count_elements(weft_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    return n;
}

static void count_dense(weight_counts *c, weft_dtype dtype, weft_dims shape)
{
    const int64_t n = count_elements(shape);
    c->elements += n;
    c->dense += n * (int64_t)weft_dtype_size(dtype);
    if (dtype == WEFT_BFLOAT16)
        c->bfloat16 += n * (int64_t)weft_dtype_size(dtype);
}

static bool count_safetensors(const char *path, weight_counts *c)
{
    weft_safetensors *file;
    if (weft_safetensors_open_folder(path, &file) != WEFT_OK)
        return false;
    const int n = weft_safetensors_count(file);
    for (int i = 0; i < n; i++) {
        const weft_safetensors_entry *e = weft_safetensors_at(file, i);
        if (e->dtype == WEFT_UINT32) /* MLX's triples */
            c->packed += 4 * count_elements(e->shape);
        else
            count_dense(c, e->dtype, e->shape);
    }
    weft_safetensors_close(file);
    return n > 0;
}

static bool count_gguf(const char *path, weight_counts *c)
{
    weft_gguf *file;
    if (weft_gguf_open(path, &file) != WEFT_OK)
        return false;
    for (int i = 0; i < weft_gguf_count(file); i++) {
        const weft_gguf_entry *e = weft_gguf_at(file, i);
        if (e->encoding != NULL)
            c->packed += e->bytes;
        else
            count_dense(c, e->dtype, e->shape);
    }
    weft_gguf_close(file);
    return true;
}

/* Finds the GGUF file that the loader uses in a folder. Returns false if the folder has none. */
static bool find_gguf(const char *folder, char *out, size_t size)
{
    DIR *open = opendir(folder);
    bool found = false;
    for (const struct dirent *e; open != NULL && !found && (e = readdir(open)) != NULL;) {
        const size_t n = strlen(e->d_name);
        found = n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0;
        if (found)
            snprintf(out, size, "%s/%s", folder, e->d_name);
    }
    if (open != NULL)
        closedir(open);
    return found;
}

/* A model that cannot be read has no weights here; loading reports the reason. */
static void read_weights(const char *path, place_facts *f)
{
    char gguf[4096];
    struct stat what;
    weight_counts c = {0};
    const bool folder = stat(path, &what) == 0 && S_ISDIR(what.st_mode);
    const bool blocks = folder ? !count_safetensors(path, &c) &&
                                     find_gguf(path, gguf, sizeof gguf) && count_gguf(gguf, &c)
                               : count_gguf(path, &c);
    f->elements = c.elements;
    f->packed_bytes = c.packed;
    if (c.packed > c.dense)
        f->weights = blocks ? PLACE_BLOCKS : PLACE_OTHER;
    else if (2 * c.bfloat16 > c.dense)
        f->weights = PLACE_BFLOAT16;
}

static void add_device(place_facts *f, const char *name)
{
    place_device *d = &f->devices[f->n_devices];
    snprintf(d->name, sizeof d->name, "%s", name);
    d->refused = weft_device_traits_of(name, &d->traits) != WEFT_OK;
    f->n_devices++;
}

/* The given device, or all of them, with the CPU as the first. */
static void read_devices(place_facts *f)
{
    char name[64];
    if (f->device != NULL)
        add_device(f, f->device);
    for (int i = 0; f->device == NULL && f->n_devices < PLACE_DEVICES; i++) {
        if (!weft_device_at(i, name, sizeof name))
            break;
        add_device(f, name);
    }
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Chooses, and opens the device. One that was not given and cannot be opened, or whose units for
 * bfloat16 fail its self-test, is not used. */
static place_choice choose(place_facts *f)
{
    for (;;) {
        const place_choice c = place_choose(f);
        place_device *d = f->devices;
        while (d < f->devices + f->n_devices && strcmp(d->name, c.device) != 0)
            d++;
        if (d == f->devices + f->n_devices || !d->traits.discrete || d->refused)
            return c;
        const weft_device *device = weft_device_get(d->name);
        d->refused = device == NULL;
        const bool lacks = device && weft_device_matrix_dtype(device) != WEFT_BFLOAT16;
        if (!d->refused && !(lacks && d->traits.fast_bfloat16))
            return c;
        d->traits.fast_bfloat16 = d->traits.fast_bfloat16 && !lacks;
    }
}

/* What the processes exchange. */
typedef struct told {
    int card, dtype;
} told;

/* If a process has no card of its own, or another dtype, all of them compute on their CPUs in
 * float32, unless the options say otherwise. */
static weft_status agree(weft_group *group, place_facts *f, place_choice *c)
{
    const int size = weft_group_info_of(group).size;
    if (size == 1)
        return WEFT_OK;
    const told own = {.card = f->device == NULL && strcmp(c->device, "cpu") != 0,
                      .dtype = (int)c->dtype};
    weft_status status;
    told *all = cli_gather(group, &own, sizeof own, &status);
    bool alike = true;
    for (int r = 0; status == WEFT_OK && r < size; r++)
        alike = alike && all[r].card == own.card && all[r].dtype == own.dtype;
    if (!alike) {
        c->device = f->device ? f->device : "cpu";
        c->dtype = f->has_dtype ? f->dtype : WEFT_FLOAT32;
    }
    weft_free(all);
    return status;
}

static void say(const cli_place *place, const place_choice *c)
{
    char dtype[16];
    dtype_word(cli_dtype(place), dtype, sizeof dtype);
    fprintf(stderr, "weft: computes on %s in %s", weft_printable(cli_device(place)), dtype);
    if (c->small != NULL && place->device == NULL)
        fprintf(stderr, ", since %s has %s free of about %s", weft_printable(c->small->name),
                cli_bytes(c->small->traits.free_memory), cli_bytes(c->needed));
    fputs("; --device and --dtype change that\n", stderr);
}

weft_status cli_place_settle(const char *path, const cli_place *place, place_use use,
                             weft_group *group)
{
    if (chosen.settled || (place->device != NULL && place->dtype >= 0))
        return WEFT_OK;
    const weft_group_info ranks = weft_group_info_of(group);
    char first[64];
    weft_device *opened[WEFT_MODEL_DEVICES];
    const char *given = place->device;
    if (cli_has_several_devices(place)) { /* the first one decides the dtype */
        snprintf(first, sizeof first, "%.*s", (int)strcspn(given, ","), given);
        given = first;
    }
    place_facts f = {.device = given,
                     .has_dtype = place->dtype >= 0,
                     .dtype = place->dtype >= 0 ? dtypes[place->dtype] : 0,
                     .split = place->gpu_layers != CLI_ABSENT && !place->stream,
                     .use = use,
                     .quantize = place->quantize != CLI_ABSENT ? place->quantize : 0,
                     .ranks = ranks.local_size,
                     .rank = ranks.local_rank};
    read_weights(path, &f);
    read_devices(&f);
    place_choice c = choose(&f);
    weft_status status = agree(group, &f, &c);
    if (status == WEFT_OK && open_devices(c.device, opened) == 0)
        status = WEFT_DEVICE;
    if (status != WEFT_OK)
        return status;
    snprintf(chosen.device, sizeof chosen.device, "%s", c.device);
    chosen.dtype = c.dtype == WEFT_BFLOAT16 ? 1 : 0;
    chosen.settled = true;
    if (ranks.rank == 0)
        say(place, &c);
    return WEFT_OK;
}
