"""Writes gated_delta.safetensors and state_space.safetensors: the gated delta rule and that of Mamba 2
one token after another, and their gradients, by torch in float64. Run with `python -P` in this
folder."""

import numpy as np
import torch
from safetensors.numpy import save_file

NAMES = ("q", "k", "v", "g", "beta", "state")


def rule(q, k, v, g, *more):
    """`more`: beta and the state, or only the state, for Mamba 2."""
    *beta, state = more
    share = v.shape[2] // k.shape[2]
    q, k = (x.repeat_interleave(share, 2) for x in (q, k))
    read = []
    for t in range(q.shape[1]):
        state = state * torch.exp(g[:, t])[..., None, None]
        added = v[:, t]
        if beta:
            known = torch.einsum("bhvd,bhd->bhv", state, k[:, t])
            added = (added - known) * beta[0][:, t][..., None]
        state = state + added[..., None] * k[:, t][:, :, None]
        read.append(torch.einsum("bhvd,bhd->bhv", state, q[:, t]))
    return torch.stack(read, 1), state


def case(rng, name, B, L, Hk, Hv, D, Dv, least, out, names=NAMES):
    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def unit(*shape):
        x = normal(*shape)
        return x / np.sqrt((x * x).sum(-1, keepdims=True))

    g = rng.uniform(least, 0, (B, L, Hv)).astype(np.float32)
    beta = rng.uniform(0, 1, (B, L, Hv)).astype(np.float32)
    arrays = [unit(B, L, Hk, D), unit(B, L, Hk, D), normal(B, L, Hv, Dv), g, beta]
    arrays.append(normal(B, Hv, Dv, D))
    arrays = [a for a, own in zip(arrays, NAMES) if own in names]
    cts = [normal(B, L, Hv, Dv), normal(B, Hv, Dv, D)]
    inputs = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in arrays]
    outs = rule(*inputs)
    loss = sum((o * torch.tensor(c.astype(np.float64))).sum() for o, c in zip(outs, cts))
    grads = torch.autograd.grad(loss, inputs)
    for own, array, grad in zip(names, arrays, grads):
        out[f"{name}/{own}"] = array
        out[f"{name}/d{own}"] = grad.numpy()
    for i, o in enumerate(outs):
        out[f"{name}/ct{i}"] = cts[i]
        out[f"{name}/out{i}"] = o.detach().numpy()


def main():
    rng = np.random.default_rng(5)
    out = {}
    case(rng, "one", 2, 1, 1, 2, 8, 4, -1, out)
    case(rng, "chunk", 1, 64, 1, 1, 5, 7, -2, out)
    case(rng, "several", 2, 150, 1, 2, 9, 6, -0.3, out)
    case(rng, "forgetful", 1, 70, 2, 4, 16, 3, -80, out)
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, "gated_delta.safetensors")
    out, names = {}, ("q", "k", "v", "g", "state")
    case(rng, "one", 2, 1, 1, 2, 8, 4, -1, out, names)
    case(rng, "chunk", 1, 64, 1, 1, 5, 7, -2, out, names)
    case(rng, "several", 1, 150, 2, 4, 5, 4, -0.3, out, names)
    case(rng, "forgetful", 1, 70, 1, 4, 16, 3, -80, out, names)
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, "state_space.safetensors")


main()
