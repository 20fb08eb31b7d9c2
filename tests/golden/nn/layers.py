"""Reference values and gradients of test_layers_more.c, test_recurrent.c and test_transformer.c, by
PyTorch in float64: python3 layers.py writes layers.safetensors. Parameters have MLX's names."""
import os
import numpy as np
import torch
import torch.nn.functional as F
from golden import case, normal, rng, save


def first(x):  # channels first
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))


# ---- small layers
case("bilinear", lambda a, b, p: F.bilinear(a, b, p["weight"].transpose(1, 2), p["bias"]), normal(2, 3, 4), normal(2, 3, 5),
     params={"weight": normal(6, 5, 4), "bias": normal(6)})
case("prelu_layer", lambda x, p: F.prelu(x, p["weight"]), normal(3, 5), params={"weight": normal(5)})
case("sequential", lambda x, p: linear(p, "layers.2", torch.relu(linear(p, "layers.0", x))), normal(3, 4),
     params={"layers.0.weight": normal(5, 4), "layers.0.bias": normal(5), "layers.2.weight": normal(2, 5)})

# ---- normalisation
x = normal(4, 3, 5, 6) * 3 + 2
wb = {"weight": normal(6), "bias": normal(6)}
run = {"running_mean": normal(6), "running_var": np.abs(normal(6)) + np.float32(0.5)}
norm = lambda train: lambda x, p: last(F.batch_norm(first(x), p["running_mean"].clone(), p["running_var"].clone(), p["weight"],
                                                    p["bias"], training=train, eps=1e-3))
case("batch_norm_eval", norm(False), x, params={**wb, **run})
case("batch_norm_train", norm(True), x, params={**wb, **run})
case("batch_norm_bare", lambda x, p: last(F.batch_norm(first(x), None, None, training=True)), x, params={})
case("group_norm_torch", lambda x, p: last(F.group_norm(first(x), 3, p["weight"], p["bias"])), x, params=wb)


def mlx_group_norm(x, p):  # channel c is of group c mod 3
    y = x.reshape(4, -1, 3)
    y = (y - y.mean(1, keepdim=True)) * torch.rsqrt(y.var(1, keepdim=True, unbiased=False) + 1e-5)
    return y.reshape(x.shape) * p["weight"] + p["bias"]


case("group_norm_mlx", mlx_group_norm, x, params=wb)
case("instance_norm", lambda x, p: last(F.instance_norm(first(x), weight=p["weight"], bias=p["bias"])), x, params=wb)
case("instance_norm_bare", lambda x, p: last(F.instance_norm(first(x))), x, params={})


# ---- positions
def rope(x, base, dims, traditional, scale, offset):
    f = torch.tensor(np.float32(scale * base ** (-2.0 * np.arange(dims // 2) / dims))).double()
    angle = torch.arange(offset, offset + x.shape[-2]).double()[:, None] * f
    c, s = torch.cos(angle), torch.sin(angle)
    rotated, rest = x[..., :dims], x[..., dims:]
    if traditional:
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        y = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    else:
        a, b = rotated[..., : dims // 2], rotated[..., dims // 2:]
        y = torch.cat([a * c - b * s, a * s + b * c], -1)
    return torch.cat([y, rest], -1)


case("rope", lambda x, p: rope(x, 10000, 8, False, 1, 0), normal(2, 3, 5, 8), params={})
case("rope_traditional", lambda x, p: rope(x, 100, 6, True, 0.5, 7), normal(2, 5, 8), params={})


def sinusoidal(x, p, dims=6, low=0.01, high=2.0, turns=2 * np.pi):
    share = 1 - np.arange(dims // 2) / (dims // 2 - 1)
    s = torch.tensor(np.float32(np.exp(share * (np.log(high) - np.log(low)) + np.log(low)) * turns)).double()
    y = x[..., None] * s
    return torch.cat([torch.cos(y), torch.sin(y)], -1) * (2 / dims) ** 0.5


case("sinusoidal", sinusoidal, normal(3, 4), params={})


def slopes(n):
    if (n & (n - 1)) == 0:
        s = 2 ** (-(2 ** -(np.log2(n) - 3)))
        return [s ** (i + 1) for i in range(n)]
    m = 2 ** int(np.floor(np.log2(n)))
    return slopes(m) + slopes(2 * m)[0::2][: n - m]


def alibi(x, p, offset=2):
    i, j = torch.arange(offset, offset + x.shape[2]), torch.arange(x.shape[3])
    return x - (i[:, None] - j).abs() * torch.tensor(slopes(x.shape[1]), dtype=torch.float64)[:, None, None]


case("alibi", alibi, normal(2, 6, 3, 5), params={})
case("alibi_forward", lambda x, p: alibi(x, p, 0), normal(1, 4, 3, 4), params={})

# ---- recurrent, from states and from zeros
from torch.func import functional_call


def rnn(kind, names, p, x, h, c=None, extra=None):
    m = kind(x.shape[-1], h.shape[-1], batch_first=True).double()
    q = {"weight_ih_l0": p[names[0]], "weight_hh_l0": p[names[1]]}
    q["bias_ih_l0"] = p[names[2]] if len(names) > 2 else torch.zeros_like(m.bias_ih_l0)
    q["bias_hh_l0"] = torch.zeros_like(m.bias_hh_l0) if extra is None else extra
    state = h[None] if c is None else (h[None], c[None])
    return functional_call(m, q, (x, state))[0]


N, L, I, H = 2, 5, 3, 4
x, h, c = normal(N, L, I), normal(N, H), normal(N, H)
p = {"Wxh": normal(H, I), "Whh": normal(H, H, scale=0.5), "bias": normal(H)}
case("rnn", lambda x, h, p: rnn(torch.nn.RNN, ["Wxh", "Whh", "bias"], p, x, h), x, h, params=p)
case("rnn_zeros", lambda x, p: rnn(torch.nn.RNN, ["Wxh", "Whh"], p, x, torch.zeros(N, H).double()), x,
     params={k: p[k] for k in ("Wxh", "Whh")})
p = {"Wx": normal(3 * H, I), "Wh": normal(3 * H, H, scale=0.5), "b": normal(3 * H), "bhn": normal(H)}


def gru(x, h, p):
    extra = torch.cat([torch.zeros(2 * H).double(), p["bhn"]]) if "bhn" in p else None
    return rnn(torch.nn.GRU, ["Wx", "Wh", "b"] if "b" in p else ["Wx", "Wh"], p, x, h, extra=extra)


case("gru", gru, x, h, params=p)
case("gru_zeros", lambda x, p: gru(x, torch.zeros(N, H).double(), p), x, params=p)
case("gru_bare", gru, x, h, params={k: p[k] for k in ("Wx", "Wh")})
p = {"Wx": normal(4 * H, I), "Wh": normal(4 * H, H, scale=0.5), "bias": normal(4 * H)}
case("lstm", lambda x, h, c, p: rnn(torch.nn.LSTM, ["Wx", "Wh", "bias"], p, x, h, c), x, h, c, params=p)
case("lstm_zeros", lambda x, p: rnn(torch.nn.LSTM, ["Wx", "Wh", "bias"], p, x, torch.zeros(N, H).double(), torch.zeros(N, H).double()),
     x, params=p)


# ---- transformer
def attention(p, name, q, k, v, heads, mask=None):
    split = lambda y: y.unflatten(-1, (heads, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(*(split(linear(p, f"{name}{n}_proj", a)) for n, a in (("query", q), ("key", k), ("value", v))),
                                       attn_mask=mask)
    return linear(p, name + "out_proj", y.transpose(1, 2).flatten(-2))


mha = {"query_proj.weight": normal(8, 6), "key_proj.weight": normal(8, 5), "value_proj.weight": normal(4, 7), "out_proj.weight": normal(3, 4)}
mha |= {k.replace("weight", "bias"): normal(v.shape[0]) for k, v in mha.items()}
mask = normal(2, 1, 3, 4)
case("mha", lambda q, k, v, m, p: attention(p, "", q, k, v, 2, m.detach()), normal(2, 3, 6), normal(2, 4, 5), normal(2, 4, 7), mask, params=mha)


def layer_norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])


def add(p, name, last, x, f):
    return layer_norm(p, name, x + f(x)) if last else x + f(layer_norm(p, name, x))


def encoder_layer(p, pre, x, mask, last, act):
    x = add(p, pre + "ln1", last, x, lambda y: attention(p, pre + "attention.", y, y, y, 2, mask))
    return add(p, pre + "ln2", last, x, lambda y: linear(p, pre + "linear2", act(linear(p, pre + "linear1", y))))


def decoder_layer(p, pre, x, memory, mask, last, act):
    x = add(p, pre + "ln1", last, x, lambda y: attention(p, pre + "self_attention.", y, y, y, 2, mask))
    x = add(p, pre + "ln2", last, x, lambda y: attention(p, pre + "cross_attention.", y, memory, memory, 2))
    return add(p, pre + "ln3", last, x, lambda y: linear(p, pre + "linear2", act(linear(p, pre + "linear1", y))))


E, M = 4, 6


def layer_params(pre, attentions, norms):
    p = {}
    for a in attentions:
        for n in ("query", "key", "value", "out"):
            p[f"{pre}{a}.{n}_proj.weight"] = normal(E, E, scale=0.7)
    for i in range(1, norms + 1):
        p[f"{pre}ln{i}.weight"], p[f"{pre}ln{i}.bias"] = normal(E), normal(E)
    p[f"{pre}linear1.weight"], p[f"{pre}linear1.bias"] = normal(M, E), normal(M)
    p[f"{pre}linear2.weight"], p[f"{pre}linear2.bias"] = normal(E, M), normal(E)
    return p


for last_ in (False, True):
    case("encoder_layer" + "_last" * last_, lambda x, p: encoder_layer(p, "", x, None, last_, F.gelu), normal(2, 3, E),
         params=layer_params("", ["attention"], 2))
params = {}
for i in range(2):
    params |= layer_params(f"encoder.layers.{i}.", ["attention"], 2)
params |= layer_params("decoder.layers.0.", ["self_attention", "cross_attention"], 3)
for side in ("encoder", "decoder"):
    params |= {f"{side}.ln.weight": normal(E), f"{side}.ln.bias": normal(E)}
causal = torch.full((3, 3), -np.inf, dtype=torch.float64).triu(1)


def transformer(s, t, p, last=False):
    for i in range(2):
        s = encoder_layer(p, f"encoder.layers.{i}.", s, None, last, torch.relu)
    s = layer_norm(p, "encoder.ln", s)
    t = decoder_layer(p, "decoder.layers.0.", t, s, causal, last, torch.relu)
    return layer_norm(p, "decoder.ln", t)


case("transformer", transformer, normal(2, 4, E), normal(2, 3, E), params=params)
case("transformer_last", lambda s, t, p: transformer(s, t, p, True), normal(2, 4, E), normal(2, 3, E), params=params)
save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.safetensors"))
