"""PyTorch and PEFT beside `bench_shapes vulkan SHAPE lora decode`.

    python3 peer_families.py SHAPE [cuda|cpu] [checkpoint:BxL ...]

SHAPE: gpt-oss-4 (four layers of gpt-oss 20B; LoRA of attention), lfm2 (LFM2 1.2B; of all linears),
8b, 1b (Llama 3) or 0.6b (Qwen 3). Random bfloat16 weights. LoRA of rank 16, 4 x 1,024 tokens,
clipping, AdamW: tokens/s (the median of steps 3 to 8) and peak memory. Decoding: 128 greedy tokens
after 16, the median of 3. With checkpoint:BxL, instead: LoRA with gradient checkpointing of B
sequences of L tokens, the median of steps 3 to 5.
"""
import statistics
import sys
import time

import peft
import torch
import transformers

BATCH, LENGTH, STEPS, PROMPT, TOKENS = 4, 1024, 8, 16, 128
SHAPES = {
    "gpt-oss-4": (dict(
        model_type="gpt_oss", vocab_size=201088, hidden_size=2880, intermediate_size=2880,
        num_hidden_layers=4, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
        num_local_experts=32, num_experts_per_tok=4, sliding_window=128,
        max_position_embeddings=8192), ["q_proj", "k_proj", "v_proj", "o_proj"]),
    "lfm2": (dict(
        model_type="lfm2", vocab_size=65536, hidden_size=2048, block_ff_dim=12288,
        num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, conv_L_cache=3,
        full_attn_idxs=[2, 5, 8, 10, 12, 14], max_position_embeddings=128000,
        tie_word_embeddings=True), "all-linear"),
    "8b": (dict(
        model_type="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336,
        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        max_position_embeddings=8192, rope_theta=500000.0), "all-linear"),
    "1b": (dict(
        model_type="llama", vocab_size=128256, hidden_size=2048, intermediate_size=8192,
        num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
        max_position_embeddings=8192, rope_theta=500000.0, tie_word_embeddings=True),
        "all-linear"),
    "0.6b": (dict(
        model_type="qwen3", vocab_size=151936, hidden_size=1024, intermediate_size=3072,
        num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
        max_position_embeddings=8192, rope_theta=1000000.0, tie_word_embeddings=True),
        "all-linear"),
}
VALUES, TARGETS = SHAPES[sys.argv[1]]
CONFIG = transformers.AutoConfig.for_model(**VALUES)
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
SIZES = [[int(n) for n in text.split(":")[1].split("x")] for text in sys.argv[3:]]


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def update(model, trained, optimizer, batch=BATCH, length=LENGTH):
    ids = torch.randint(0, CONFIG.vocab_size, (batch, length), device=DEVICE)
    wait()
    began = time.perf_counter()
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    wait()
    return time.perf_counter() - began


def decode(model):
    ids = torch.arange(PROMPT, device=DEVICE)[None] * 7919 % CONFIG.vocab_size
    seconds = []
    for n in (1, TOKENS + 1):
        wait()
        began = time.perf_counter()
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=n,
                       min_new_tokens=n, do_sample=False, pad_token_id=0)
        wait()
        seconds.append(time.perf_counter() - began)
    return TOKENS / (seconds[1] - seconds[0])


torch.manual_seed(7)
torch.set_default_dtype(torch.bfloat16)
with torch.device(DEVICE):
    model = transformers.AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval()
torch.set_default_dtype(torch.float32)
print(torch.__version__, "transformers", transformers.__version__, flush=True)
if not SIZES:
    with torch.no_grad():
        decode(model)
        rate = statistics.median(decode(model) for _ in range(3))
        print(f"decode: {rate:.1f} tokens/s", flush=True)
model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=TARGETS)).train()
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-4)
if SIZES:
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
for batch, length in SIZES or [(BATCH, LENGTH)]:
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = 5 if SIZES else STEPS
    step = statistics.median(
        [update(model, trained, optimizer, batch, length) for _ in range(steps)][2:])
    peak = (f", peak {1e-9 * torch.cuda.max_memory_allocated():.1f} GB" if DEVICE == "cuda" else "")
    print(f"LoRA {batch} x {length}: {batch * length / step:.0f} tokens/s, {1e3 * step:.1f} ms{peak}",
          flush=True)
