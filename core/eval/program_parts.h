/* core/eval/program_parts.h -- what the files of programs share. */
#ifndef CORE_EVAL_PROGRAM_PARTS_H
#define CORE_EVAL_PROGRAM_PARTS_H

#include "core/eval/program.h"

/* A block of memory of a program: first those of the inputs, then what a run takes. */
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
    int64_t n, capacity;
};

/* Where a step has an address within a block. */
typedef struct weft__patch {
    void **data, **handle;
    int64_t *at;           /* the offset, or NULL */
    weft__buffer **buffer; /* or NULL */
    int64_t offset;
} weft__patch;

/* The memory of a block in the latest run, for which the steps are set up. */
typedef struct weft__base {
    weft__buffer *buffer;
    void *handle;
    char *host;
    int64_t offset;
} weft__base;

typedef struct weft__program_output {
    weft_spec spec;
    int64_t buffer;  /* which block; -1: a constant, whose buffer is in `view` */
    weft__view view; /* offset and strides within the block */
} weft__program_output;

struct weft__program {
    weft__plan plan; /* its steps and their memory */
    int n_in, n_out;
    weft__stand_ins buffers;
    weft__patch *patches; /* by block */
    weft__base *bases;    /* per block */
    uint64_t ticket;      /* of the latest run; 0: none */
    const void *owner;    /* of the latest run: its stream or its thread */
    weft__program_output *outputs;
    weft__step *copies; /* per input: a copy of it, if a run needs one */
    weft_tensor *copied;
    weft__buffer **copied_buffers;
    weft__program_facts facts;
};

#endif
