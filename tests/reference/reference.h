/* tests/reference/reference.h -- one line of code for each function of arrays, which is run,
 * measured and shown in the documentation. The lines are in lines_*.h, by public header. */
#ifndef TESTS_REFERENCE_REFERENCE_H
#define TESTS_REFERENCE_REFERENCE_H

#include "weft/weft.h"

enum { MAX_INPUTS = 8, MAX_RESULTS = 8, DYNAMIC = 3 };

typedef struct line {
    const char *header; /* "products": declared in weft/products.h */
    const char *mlx;    /* the name in MLX; "" where it has none */
    const char *name;   /* "weft_matmul" */
    const char *text;   /* the expression as it is written */
    int n_out;          /* number of result arrays; 0: not a function of arrays */
    /* Fills out[], and `said` with the text if the function returns one. */
    weft_status (*run)(weft_array **out, char *said, size_t size);
} line;

int line_count(void);
const line *line_at(int i);

/* ---- Inputs: what f(), p(), ... stand for (lines.c) ----------------------------------------- */

typedef enum input_kind {
    INPUT_NUMBER,   /* f: from -1.875 to 1.875, never 0 */
    INPUT_POSITIVE, /* p: from 0.25 to 4 */
    INPUT_UNIT,     /* u: between 0 and 1 */
    INPUT_MATRIX,   /* m: square, its diagonal larger than the rest of its row */
    INPUT_WHOLE,    /* w: integers from 0 to 7 */
    INPUT_COMPLEX,  /* z: complex64 */
    INPUT_MASK,     /* b: bool */
    INPUT_INDEX,    /* n: int32 from 0 to below a bound */
    INPUT_KEY       /* k: a random key, or several */
} input_kind;

typedef struct line_input {
    input_kind kind;
    int64_t below;
    weft_dims shape;
    int dynamic; /* the axis whose length is N; -1: none */
} line_input;

/* Finds the inputs of a line by running it; returns their number, or below 0 on failure. */
int line_inputs(const line *l, line_input *inputs);

/* Input i, of `dtype` if its kind takes the dtype under test, with N = length; `seed` changes the
 * elements. */
weft_array *line_input_array(const line_input *input, int i, weft_dtype dtype, int64_t length,
                             int seed);
bool input_takes_dtype(input_kind kind); /* its dtype is the one under test */

/* float32, or int32 for a line of whole numbers. */
weft_dtype line_dtype(const line_input *inputs, int n);

/* A line as a function of its inputs, for transforms: context is a line_call. Its dtype is what T
 * stands for. */
typedef struct line_call {
    const line *l;
    const line_input *inputs;
    weft_dtype dtype;
} line_call;
weft_function line_function;

/* ---- Measuring (measure.c) ------------------------------------------------------------------ */

enum { CELL = 160, WORDS = 240 };

typedef struct measured {
    bool ran;
    uint32_t dtypes; /* bit per dtype that it takes; 0: it has none to choose */
    char vjp[CELL], jvp[CELL], vmap[CELL], shapeless[CELL], exported[CELL], vulkan[CELL];
    /* Why dtypes are refused: the library's messages, and the dtypes that each applies to. */
    struct {
        uint32_t dtypes;
        char words[WORDS];
    } refused[4];
    int n_refused;
} measured;

/* `vulkan`: the device for that column; NULL leaves it empty. `folder` is for a temporary file. */
void measure(const line *l, weft_device *vulkan, const char *folder, measured *out);

/* "all", "floats, complex64", ... */
void dtypes_in_words(uint32_t dtypes, char *out, size_t size);

/* ---- Writing (write_*.c) -------------------------------------------------------------------- */

/* The reason for a cell that is not a plain yes, from reasons.h; NULL: there is none. */
const char *reason_for(const char *name, const char *column);

/* docs/function-support.md. The Vulkan column is what the text `old` has, and is measured on the
 * device for rows that it does not have, or for all, `again`. Returns how many cells are empty or
 * wrong; below 0: a file failed. */
int write_inventory(const char *path, const char *old, weft_device *vulkan, bool again,
                    const char *folder);

/* docs/names.md: names in MLX, NumPy and PyTorch, the last two from peer_names.txt. Returns the
 * number of lines that the file lacks; below 0: a file failed. */
int write_names(const char *path);

/* docs/reference/HEADER.md from include/weft/HEADER.h, and the list of all of them. */
weft_status write_reference(const char *header, const char *source_root, const char *path);
extern const char *const reference_headers[]; /* ends with NULL */
weft_status write_reference_list(const char *source_root, const char *path);

/* docs/reference/functions.md: an index of the functions that the headers declare. */
weft_status write_functions(const char *source_root, const char *path);

#endif
