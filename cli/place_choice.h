/* cli/place_choice.h -- decides from facts where a command computes, and with which dtype. */
#ifndef CLI_PLACE_CHOICE_H
#define CLI_PLACE_CHOICE_H

#include "weft/weft.h"

/* What most bytes of a checkpoint are. */
typedef enum place_weights {
    PLACE_OTHER,    /* float32, float16, or packed in a format other than GGUF's */
    PLACE_BFLOAT16, /* dense bfloat16 */
    PLACE_BLOCKS,   /* GGUF blocks, such as Q4_K */
} place_weights;

typedef enum place_use {
    PLACE_RUN,  /* the model is not trained */
    PLACE_LORA, /* an adapter is trained */
    PLACE_FULL, /* all parameters are trained */
} place_use;

typedef struct place_device {
    char name[64];
    weft_device_traits traits;
    bool refused; /* it cannot be opened, or failed its self-test */
} place_device;

enum { PLACE_DEVICES = 32 };

typedef struct place_facts {
    const char *device; /* the one that was given; NULL: none */
    bool has_dtype;     /* a dtype was given */
    weft_dtype dtype;   /* it; 0: that of the checkpoint */
    bool split;         /* --gpu-layers */
    place_use use;
    place_weights weights;
    int64_t elements;                    /* of dense tensors */
    int64_t packed_bytes;                /* of the other tensors */
    int64_t quantize;                    /* bits of --quantize; 0: none */
    int ranks, rank;                     /* processes of the run on this machine, and the own one */
    place_device devices[PLACE_DEVICES]; /* the first is the CPU */
    int n_devices;
} place_facts;

typedef struct place_choice {
    const char *device;        /* of the facts */
    weft_dtype dtype;          /* 0: that of the checkpoint, if that was given */
    const place_device *small; /* a card whose free memory is less than `needed`; NULL: none */
    int64_t needed;            /* the estimate for it in bytes */
} place_choice;

/* An estimate of the memory that the command needs, in bytes. */
int64_t place_memory(const place_facts *f, weft_dtype dtype);

/* Without a given device it is a discrete card with fast bfloat16 and enough free memory, if each
 * process on this machine gets one of its own, otherwise the CPU. Without a given dtype it is
 * bfloat16 for a bfloat16 checkpoint on a device with fast bfloat16, and for GGUF blocks on such a
 * card; otherwise, and if all parameters are trained, float32. */
place_choice place_choose(const place_facts *f);

#endif
