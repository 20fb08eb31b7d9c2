"""Measures PyTorch, transformers and PEFT for compare.py. Each program prints one JSON line.

    python peer_torch.py versions
    python peer_torch.py lora MODEL [--dtype D] [--rows R] [--length L] [--rank R] [--steps N]
                         [--mode eager|compile] [--checkpoint] [--device cpu|cuda]
    python peer_torch.py inferena MODEL [--dtype D] [--steps N] [--mode eager|compile]
                         [--device cpu|cuda] [--tf32]
    python peer_torch.py generate MODEL [--dtype D] [--prompt N] [--tokens N]
    python peer_torch.py gemm [--dtype D] [--rows R] [--width W] [--steps N]

lora: tokens a second of the median step after the first, with clipping and AdamW, on random tokens.
inferena: what bench_inferena measures, in milliseconds; --tf32 permits it for float32. generate:
prefill of N tokens and greedy decoding after it, one sequence with the KV cache. gemm: x
(R, W) times the transpose of (W, W), GFLOP/s of the median; PyTorch computes float32 by its BLAS
(MKL or OpenBLAS) and bfloat16 by oneDNN.
"""
import argparse
import json
import resource
import statistics
import time

import torch

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def load(arguments):
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(arguments.model,
                                                 dtype=getattr(torch, arguments.dtype))
    return model.to(arguments.device)


def now(arguments):
    """Seconds, after all work of the device."""
    if arguments.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def with_lora(model, rank):
    """The model in LoRA on all linears, and its optimizer."""
    from peft import LoraConfig, get_peft_model
    model.config.use_cache = False
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=TARGETS))
    parameters = [p for p in model.parameters() if p.requires_grad]
    return model, torch.optim.AdamW(parameters, lr=2e-4, weight_decay=0.01), parameters


def versions(arguments):
    names = {"torch": torch.__version__,
             "onednn": torch.backends.mkldnn.is_available(),
             "mkl": torch.backends.mkl.is_available()}
    for name in ("transformers", "peft"):
        try:
            names[name] = __import__(name).__version__
        except ImportError:
            names[name] = None
    return names


def lora(arguments):
    torch.manual_seed(0)
    model = load(arguments)
    vocabulary = model.config.vocab_size
    model, optimizer, parameters = with_lora(model, arguments.rank)
    if arguments.checkpoint:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.train()
    forward = torch.compile(model) if arguments.mode == "compile" else model
    seconds = []
    for _ in range(arguments.steps + (arguments.steps > 1)):
        batch = torch.randint(0, vocabulary, (arguments.rows, arguments.length + 1),
                              device=arguments.device)
        begin = now(arguments)
        logits = forward(input_ids=batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary).float(),
                                                 batch[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(now(arguments) - begin)
    # The first step is warm-up, unless it is the only one.
    took = statistics.median(seconds[1:] or seconds)
    return {"train": arguments.rows * arguments.length / took,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def generate(arguments):
    model = load(arguments).eval()
    prompt = (torch.arange(arguments.prompt) * 7919 % model.config.vocab_size)[None]
    rates, prefills = [], []
    with torch.inference_mode():
        for _ in range(3 if arguments.prompt < 2048 else 1):
            start = time.perf_counter()
            out = model(prompt, use_cache=True, logits_to_keep=1)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            begin = time.perf_counter()
            prefills.append(arguments.prompt / (begin - start))
            for _ in range(arguments.tokens):
                out = model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1].argmax(-1, keepdim=True)
            rates.append(arguments.tokens / (time.perf_counter() - begin))
    return {"prefill": statistics.median(prefills), "decode": statistics.median(rates)}


def inferena(arguments):
    """The inputs, phases and counts of kvark/inferena's runner for PyTorch."""
    torch.set_float32_matmul_precision("high" if arguments.tf32 else "highest")
    model = load(arguments).train()
    model.config.use_cache = False
    tokens = torch.arange(128, device=arguments.device)[None]
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens + 1}
    forward = torch.compile(model) if arguments.mode == "compile" else model

    def train():
        model.zero_grad()
        loss = forward(**inputs).loss
        loss.backward()
        return loss

    def infer(count):
        with torch.no_grad():
            return forward(input_ids=tokens[:, :count])

    def median(function):
        seconds, cpu = [], []
        for _ in range(5 + arguments.steps):
            begin, cpu_begin = now(arguments), time.process_time()
            result = function()
            seconds.append(now(arguments) - begin)
            cpu.append(time.process_time() - cpu_begin)
        return (1e3 * statistics.median(seconds[5:]), 1e3 * statistics.median(cpu[5:]), seconds[0],
                result)

    training, training_cpu, first, loss = median(train)
    norm = torch.linalg.vector_norm(torch.stack([p.grad.float().norm() for p in model.parameters()]))
    inference, inference_cpu = median(lambda: infer(128))[:2]
    return {"training_ms": training, "inference_ms": inference,
            "latency_ms": median(lambda: infer(1))[0], "training_cpu_ms": training_cpu,
            "inference_cpu_ms": inference_cpu, "compile_s": first, "loss": loss.item(),
            "gradient_norm": norm.item()}


def gemm(arguments):
    dtype = getattr(torch, arguments.dtype)
    x = torch.randn(arguments.rows, arguments.width).to(dtype)
    w = torch.randn(arguments.width, arguments.width).to(dtype)
    rates = []
    with torch.inference_mode():
        for _ in range(arguments.steps + 1):
            begin = time.perf_counter()
            torch.nn.functional.linear(x, w)
            took = time.perf_counter() - begin
            rates.append(2e-9 * arguments.rows * arguments.width ** 2 / took)
    return {"gemm": statistics.median(rates[1:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = {"versions": versions, "lora": lora, "inferena": inferena, "generate": generate,
                "gemm": gemm}
    parser.add_argument("program", choices=programs)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tf32", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(programs[arguments.program](arguments)))


if __name__ == "__main__":
    main()
