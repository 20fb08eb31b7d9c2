/* ops/table.h -- every op of Weft, one line each. Include it with OP(name) defined; the literal is
 * weft_op_<name>. */
#include "ops/elementwise/table.h"

/* conversion (ops/elementwise/cast.c) */
OP(cast)
OP(copy)

/* products, norms, attention, losses, optimizer step */
#include "ops/nn/table.h"

/* quantized arrays (ops/quantize) */
#include "ops/quantize/table.h"
/* products of selected or partial matrices (ops/products) */
OP(gather_linear)
OP(gather_mm)
OP(gather_mm_sums)
OP(hadamard)
OP(segmented_mm)
OP(segmented_mm_grad)

/* convolutions (ops/conv) */
OP(conv)
OP(conv_weight_grad)

/* creation (ops/create.c) */
OP(full)
OP(arange)

/* structure (ops/structure) */
OP(as_strided)
OP(bounded_index)
OP(broadcast_to)
OP(concatenate)
OP(contiguous)
OP(dynamic_slice)
OP(number_of_elements)
OP(pad)
OP(put_along_axis)
OP(reshape)
OP(scatter)
OP(scatter_add)
OP(scatter_add_along_axis)
OP(slice)
OP(slice_grad)
OP(slice_set)
OP(slice_update)
OP(stop_gradient)
OP(take)
OP(take_along_axis)
OP(transpose)
OP(view)

/* reductions (ops/reduce) */
OP(all)
OP(any)
OP(argmax)
OP(argmin)
OP(argpartition)
OP(topk)
OP(top_p)
OP(argsort)
OP(cumargmax)
OP(cumargmin)
OP(cummax)
OP(cummin)
OP(cumprod)
OP(cumsum)
OP(linear_scan)
OP(log_softmax)
OP(log_softmax_grad)
OP(logcumsumexp)
OP(logsumexp)
OP(max)
OP(mean)
OP(min)
OP(prod)
OP(searchsorted)
OP(softmax)
OP(softmax_grad)
OP(sort)
OP(sum)
OP(sum_squares)
OP(var)

/* random (ops/random) */
OP(random_bits)

/* linear algebra (ops/linalg) */
OP(cholesky)
OP(det)
OP(eig)
OP(eigh)
OP(lu)
OP(pinv)
OP(qr)
OP(slogdet)
OP(solve)
OP(solve_triangular)
OP(svd)

/* Fourier transforms (ops/fft) */
OP(fft)
OP(irfft)
OP(rfft)
