/* tests/reference/all_lines.h -- the lines of all headers, in order. Included where LINE, FILLS and
 * STATUS are defined; HEADER is the header that they are of.
 *
 * LINE(mlx, function, expression): the name in MLX, the function, a call that gives one array.
 * FILLS(mlx, function, n, call): a call that fills out[0 .. n). STATUS(mlx, function, n, call): one
 * that returns a status; n is 0 if it makes no array.
 *
 * In them f(i, 2, N) is input i, an array (2, N) of numbers, f0(i) a scalar, p of positive numbers,
 * u of numbers between 0 and 1, w of whole numbers, m a well-conditioned square matrix, z of
 * complex64, b of bool, n(i, 4, 2) of two indices below 4, k(i) a random key; N is a length that
 * may vary and T the dtype under test. */
#define HEADER "creation"
#include "tests/reference/lines_creation.h"
#undef HEADER
#define HEADER "elementwise"
#include "tests/reference/lines_elementwise.h"
#undef HEADER
#define HEADER "shape"
#include "tests/reference/lines_shape.h"
#undef HEADER
#define HEADER "indexing"
#include "tests/reference/lines_indexing.h"
#undef HEADER
#define HEADER "reduce"
#include "tests/reference/lines_reduce.h"
#undef HEADER
#define HEADER "products"
#include "tests/reference/lines_products.h"
#undef HEADER
#define HEADER "conv"
#include "tests/reference/lines_conv.h"
#undef HEADER
#define HEADER "linalg"
#include "tests/reference/lines_linalg.h"
#undef HEADER
#define HEADER "fft"
#include "tests/reference/lines_fft.h"
#undef HEADER
#define HEADER "random"
#include "tests/reference/lines_random.h"
#undef HEADER
#define HEADER "neural"
#include "tests/reference/lines_neural.h"
#undef HEADER
#define HEADER "quantize"
#include "tests/reference/lines_quantize.h"
#undef HEADER
#define HEADER "activations"
#include "tests/reference/lines_activations.h"
#undef HEADER
#define HEADER "losses"
#include "tests/reference/lines_losses.h"
#undef HEADER
#define HEADER "init"
#include "tests/reference/lines_init.h"
#undef HEADER
#define HEADER "transforms"
#include "tests/reference/lines_transforms.h"
#undef HEADER
#define HEADER "io"
#include "tests/reference/lines_io.h"
#undef HEADER
