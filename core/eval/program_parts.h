/* core/eval/program_parts.h -- types shared by program.c and program_run.c. */
#ifndef CORE_EVAL_PROGRAM_PARTS_H
#define CORE_EVAL_PROGRAM_PARTS_H

#include "core/eval/program.h"

/* A memory block of a program: those of the inputs first, then those that a run allocates. */
typedef struct weft__program_buffer {
    weft_device *device;
    int64_t bytes;
    const char *label;
    weft_spec spec;
    bool written; /* by a step */
    int64_t first_patch, n_patches;
} weft__program_buffer;

struct weft__stand_ins {
    weft__program_buffer *at;
    int64_t n;
};

/* An address in a step that points into a block. */
typedef struct weft__patch {
    void **data, **handle;
    int64_t *at;           /* pointer to the offset, or NULL */
    weft__buffer **buffer; /* or NULL */
    int64_t offset;
} weft__patch;

/* The memory of a block in the latest run, whose addresses are in the steps. */
typedef struct weft__base {
    weft__buffer *buffer;
    void *handle;
    char *host;
    int64_t offset;
} weft__base;

typedef struct weft__program_output {
    weft_spec spec;
    int64_t buffer;  /* index of the block; -1: a constant, whose buffer is in `view` */
    weft__view view; /* offset and strides within the block */
} weft__program_output;

struct weft__program {
    weft__plan plan; /* its steps, and their memory */
    int n_in, n_out;
    weft__stand_ins buffers;
    weft__patch *patches; /* by block */
    weft__base *bases;    /* per block */
    uint64_t ticket;      /* of the latest run; 0: no run yet */
    const void *owner;    /* of the latest run: its stream or thread */
    weft__program_output *outputs;
    weft__step *copies; /* per input: a step that copies it, if a run needs a copy */
    weft_tensor *copied;
    weft__buffer **copied_buffers;
    weft__program_facts facts;
};

#endif
