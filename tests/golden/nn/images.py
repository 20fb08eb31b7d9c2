"""Reference values and gradients of test_images.c, by PyTorch in float64: python3 images.py writes
images.safetensors. Arrays are channels last, kernels (out, ..., in)."""
import os
import torch
import torch.nn.functional as F
from golden import case, normal, save


def first(x):  # channels first
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def conv(f, **options):
    return lambda x, p: last(f(first(x), first(p["weight"]), p.get("bias"), **options))


def transposed(f, **options):
    return lambda x, p: last(f(first(x), p["weight"].movedim(-1, 0), p.get("bias"), **options))


b = {"bias": normal(4)}
case("conv1d", conv(F.conv1d, stride=2, padding=1), normal(2, 7, 3), params={"weight": normal(4, 3, 3), **b})
case("conv2d", conv(F.conv2d, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), normal(1, 6, 7, 4),
     params={"weight": normal(4, 3, 2, 2), **b})
case("conv3d", conv(F.conv3d), normal(1, 3, 4, 3, 2), params={"weight": normal(4, 2, 2, 2, 2)})
case("conv_transpose1d", transposed(F.conv_transpose1d, stride=2, padding=1, output_padding=1), normal(2, 4, 3),
     params={"weight": normal(4, 3, 3), **b})
case("conv_transpose2d", transposed(F.conv_transpose2d, stride=(2, 1), padding=(0, 1), dilation=(1, 2)), normal(1, 3, 4, 2),
     params={"weight": normal(4, 3, 2, 2), **b})
case("conv_transpose3d", transposed(F.conv_transpose3d, stride=2), normal(1, 2, 2, 3, 2), params={"weight": normal(4, 2, 2, 2, 2), **b})

for d, shape in ((1, (2, 7, 3)), (2, (1, 6, 7, 2)), (3, (1, 4, 5, 4, 2))):
    x = normal(*shape)
    for kind in ("max", "avg"):
        f = getattr(F, f"{kind}_pool{d}d")
        case(f"{kind}_pool{d}d", lambda x, p: last(f(first(x), 3, 2, 1)), x, params={})
        case(f"{kind}_pool{d}d_plain", lambda x, p: last(f(first(x), 2)), x, params={})

x = normal(1, 4, 5, 2)


def resize(*size, **options):
    return lambda x, p: last(F.interpolate(first(x), size=size, **options))


case("nearest", resize(12, 10, mode="nearest"), x, params={})
case("nearest_more", resize(7, mode="nearest-exact"), normal(2, 5, 3), params={})
case("nearest_less", resize(3, mode="nearest"), normal(2, 7, 3), params={})
for name, mode in (("linear", "bilinear"), ("cubic", "bicubic")):
    case(name, resize(8, 15, mode=mode), x, params={})
    case(name + "_corners", resize(6, 10, mode=mode, align_corners=True), x, params={})
    case(name + "_antialias", resize(4, 2, mode=mode, antialias=True), normal(1, 8, 6, 2), params={})
case("linear1d", resize(10, mode="linear"), normal(2, 5, 3), params={})
case("linear3d", resize(4, 4, 6, mode="trilinear"), normal(1, 2, 2, 3, 1), params={})
save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "images.safetensors"))
