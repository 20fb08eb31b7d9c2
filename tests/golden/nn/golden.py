"""What the scripts of this folder share: cases of functions and modules, in float64."""
import numpy as np
import torch
from safetensors.numpy import save_file

rng = np.random.default_rng(4)
out = {}


def normal(*shape, scale=1.0):
    return (rng.normal(size=shape) * scale).astype(np.float32)


def case(name, f, *inputs, params=None, grads=True):
    """Inputs and parameters (path -> array, trained if the path is not in running_*) of a case, the
    value of f(*inputs, **params by path), and the gradients of sum(value * ct)."""
    leaves = {}

    def leaf(key, grad_key, a):
        a = np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a)
        out[f"{name}/{key}"] = a
        t = torch.tensor(a)
        if t.is_floating_point():
            t = t.double()
            if "running_" not in key:
                t.requires_grad_()
                leaves[grad_key] = t
        return t

    ins = [leaf(f"in{i}", f"grad{i}", a) for i, a in enumerate(inputs)]
    ps = {k: leaf("param/" + k, "grad/" + k, a) for k, a in (params or {}).items()}
    y = f(*ins, ps) if params is not None else f(*ins)
    out[f"{name}/out0"] = y.detach().double().contiguous().numpy()
    if not grads or not y.requires_grad:
        return
    ct = normal(*y.shape)
    out[f"{name}/ct"] = np.asarray(ct)
    got = torch.autograd.grad(y, list(leaves.values()), torch.tensor(ct).double(), allow_unused=True)
    for key, t, g in zip(leaves, leaves.values(), got):
        if g is not None:
            out[f"{name}/{key}"] = g.contiguous().numpy()


def save(path):
    save_file(out, path)
