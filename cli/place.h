/* cli/place.h -- where a command computes, and with which dtype: its options, and the choice where
 * they are not given. */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include <stdio.h>

#include "cli/options.h"
#include "cli/place_choice.h"

/* The device and dtype with which a command computes. */
typedef struct cli_place {
    int dtype;          /* index into CLI_DTYPES; -1: not given */
    const char *device; /* NULL: not given */
    int activations;    /* index into CLI_ACTIVATIONS */
    int64_t threads, gpu_layers, quantize;
    bool stream, profile, pull;
    const char *trace;
} cli_place;

#define CLI_DTYPES "float32|bfloat16|float16|auto"
enum { CLI_DTYPE_AUTO = 3 };
#define CLI_ACTIVATIONS "exact|int8"

/* The options that fill single members, or all, of a `cli_place place` in struct T. */
#define CLI_DEVICE_OPTION(T)                                                                       \
    {                                                                                              \
        .name = "device", .kind = CLI_TEXT, .value = "NAME", .environment = "WEFT_DEVICE",         \
        .offset = offsetof(T, place.device),                                                       \
        .help = "where to compute: cpu, vulkan, vulkan:1, ...; weft info --devices lists them; "   \
                "several, separated by commas: the layers are spread over them; default: an "      \
                "NVIDIA card if the model fits, otherwise cpu"                                     \
    }
#define CLI_THREADS_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "threads", .kind = CLI_INT, .value = "N", .low = 1, .high = 4096,                  \
        .offset = offsetof(T, place.threads), .help = "threads of the CPU; default: one a core"    \
    }

#define CLI_PLACE_OPTIONS(T)                                                                       \
    {.name = "dtype",                                                                              \
     .kind = CLI_CHOICE,                                                                           \
     .value = CLI_DTYPES,                                                                          \
     .environment = "WEFT_DTYPE",                                                                  \
     .offset = offsetof(T, place.dtype),                                                           \
     .marks = CLI_FIXED,                                                                           \
     .help = "dtype of the weights; auto: that of the checkpoint; default: bfloat16 for a "        \
             "bfloat16 checkpoint where the device has fast products of it (AMX, NVIDIA's "        \
             "matrix cores), and for GGUF blocks on such a card, otherwise float32"},              \
        CLI_DEVICE_OPTION(T),                                                                      \
        {.name = "gpu-layers",                                                                     \
         .kind = CLI_INT,                                                                          \
         .value = "N",                                                                             \
         .low = 0,                                                                                 \
         .high = 1 << 20,                                                                          \
         .offset = offsetof(T, place.gpu_layers),                                                  \
         .help = "put only the last N layers there, the others on the CPU; when N is above their " \
                 "number, the output head too; default: everything there"},                        \
        {.name = "stream",                                                                         \
         .kind = CLI_FLAG,                                                                         \
         .offset = offsetof(T, place.stream),                                                      \
         .marks = CLI_NOT_OF_FULL,                                                                 \
         .help = "keep the weights of all layers, or of those that --gpu-layers leaves on the "    \
                 "CPU, in the host's memory, and copy each to the device whenever it is used: "    \
                 "for models larger than the card"},                                               \
        {.name = "quantize",                                                                       \
         .kind = CLI_INT,                                                                          \
         .value = "BITS",                                                                          \
         .low = 2,                                                                                 \
         .high = 8,                                                                                \
         .offset = offsetof(T, place.quantize),                                                    \
         .marks = CLI_FIXED | CLI_NOT_OF_FULL,                                                     \
         .help = "store the weights in 2, 3, 4, 5, 6 or 8 bits"},                                  \
        CLI_THREADS_OPTION(T),                                                                     \
        {.name = "profile",                                                                        \
         .kind = CLI_FLAG,                                                                         \
         .offset = offsetof(T, place.profile),                                                     \
         .marks = CLI_TRANSIENT,                                                                   \
         .help = "print time per op and kernel: on standard error, or in the JSON object"},        \
        {.name = "trace",                                                                          \
         .kind = CLI_TEXT,                                                                         \
         .value = "FILE",                                                                          \
         .offset = offsetof(T, place.trace),                                                       \
         .help = "write a timeline of the run as Chrome trace events (chrome://tracing, "          \
                 "Perfetto), with or without --profile"},                                          \
    {                                                                                              \
        .name = "pull", .kind = CLI_FLAG, .offset = offsetof(T, place.pull),                       \
        .help = "fetch a model that is named ORG/NAME and is not in the local cache yet, as weft " \
                "pull does"                                                                        \
    }

/* For commands that run a model without training it. */
#define CLI_ACTIVATIONS_OPTION(T)                                                                  \
    {                                                                                              \
        .name = "activations", .kind = CLI_CHOICE, .value = CLI_ACTIVATIONS, .fallback = "exact",  \
        .offset = offsetof(T, place.activations),                                                  \
        .help =                                                                                    \
            "int8: round activations to 8 bits where they meet quantized weights (Q8_0, Q4_0, "    \
            "Q4_K, affine with 4 or 8 bits): faster prompts and batches, and with AVX2 "           \
            "generation; others round only more than 8 rows, other devices none"                   \
    }

/* The usage error in the options of a place; NULL: none. */
const char *cli_place_complaint(const cli_place *place);

/* Chooses the device and the dtype that are not given, for the model at `path`, and says so in a
 * line on standard error. Later calls in this process change nothing. The processes of a group
 * (NULL: none) choose alike. WEFT_DEVICE if the given device cannot be used. */
weft_status cli_place_settle(const char *path, const cli_place *place, place_use use,
                             weft_group *group);

/* The device: given, or chosen, or "cpu" before that; and the dtype, as an index into CLI_DTYPES.
 */
const char *cli_device(const cli_place *place);
/* Opens it, or the devices if several are given: their number, with the first as out[0]; 0, with a
 * message that names --device, if one cannot be used. */
int cli_devices(const cli_place *place, weft_device *out[WEFT_MODEL_DEVICES]);
bool cli_has_several_devices(const cli_place *place);
int cli_dtype(const cli_place *place);
weft_dtype cli_weft_dtype(const cli_place *place); /* 0: auto */
/* Writes the members "device" and "dtype", each after a comma. */
void cli_place_json(FILE *file, const cli_place *place);

/* Why weft_device_get failed for the device: the error's message without the device's name before
 * it, for lines that begin with the name. */
const char *cli_device_complaint(const char *name);

/* Sets the default device and the number of threads. With gpu_layers, unless the other layers are
 * streamed, the CPU stays the default device. WEFT_DEVICE, with a message that names --device, if
 * the device cannot be used. */
weft_status cli_set_place(const cli_place *place);

#endif
