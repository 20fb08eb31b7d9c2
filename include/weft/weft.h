/* weft/weft.h -- all of Weft's public headers. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/array.h"
#include "weft/backend.h"
#include "weft/creation.h"
#include "weft/dlpack.h"
#include "weft/dtype.h"
#include "weft/elementwise.h"
#include "weft/generate.h"
#include "weft/indexing.h"
#include "weft/io.h"
#include "weft/linalg.h"
#include "weft/memory.h"
#include "weft/model.h"
#include "weft/neural.h"
#include "weft/nn.h"
#include "weft/op.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/print.h"
#include "weft/products.h"
#include "weft/random.h"
#include "weft/reduce.h"
#include "weft/shape.h"
#include "weft/status.h"
#include "weft/tape.h"
#include "weft/tokenizer.h"
#include "weft/train.h"
#include "weft/transforms.h"
#include "weft/version.h"

#endif
