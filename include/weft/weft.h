/* weft/weft.h -- all of Weft's public headers. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/array.h"
#include "weft/backend.h"
#include "weft/dtype.h"
#include "weft/generate.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/model.h"
#include "weft/nn.h"
#include "weft/op.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/status.h"
#include "weft/tape.h"
#include "weft/tokenizer.h"
#include "weft/train.h"
#include "weft/transforms.h"
#include "weft/version.h"

#endif
