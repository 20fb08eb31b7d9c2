# engine/bridge.py -- an engine program over transformers or mlx-lm: reads a command a line from its
# standard input, as a JSON object, and answers in lines. Run as: python3 -c TEXT transformers|mlx-lm
#
# A second thread reads the input, so that "cancel" is seen at the next token; the end of the input
# ends the program.
import copy
import json
import os
import pathlib
import queue
import sys
import threading

answers = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # what libraries print is not an answer
commands = queue.Queue()
cancelled = threading.Event()


def say(**answer):
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[answers.write(data):]


def listen():
    try:
        for line in sys.stdin.buffer:
            command = json.loads(line)
            if command.get("cmd") == "quit":
                break
            if command.get("cmd") == "cancel":
                cancelled.set()
            else:
                # A request that comes behind a cancel is not the one that was meant.
                if command.get("cmd") in ("generate", "chat"):
                    cancelled.clear()
                commands.put(command)
    except Exception as error:
        print("bridge:", error, file=sys.stderr)
    sys.stderr.flush()
    os._exit(0)


class Pieces:
    """The text that each token completes; never half a character."""

    def __init__(self, decode, prompt):
        self.decode = decode
        self.ids = list(prompt)[-16:]  # what a token gives can depend on those before
        self.start, self.end = 0, len(self.ids)

    def push(self, token):
        self.ids.append(token)
        if self.decode is None:
            return ""
        before = self.decode(self.ids[self.start:self.end])
        now = self.decode(self.ids[self.start:])
        if now.endswith("\ufffd") or len(now) <= len(before):
            return ""
        self.start, self.end = self.end, len(self.ids)
        return now[len(before):]

    def finish(self):
        if self.decode is None:
            return ""
        before = self.decode(self.ids[self.start:self.end])
        return self.decode(self.ids[self.start:])[len(before):]


def template_in(folder):
    """The chat template in a folder, or None."""
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        with open(path) as file:
            return file.read()
    for name in ("tokenizer_config.json", "chat_template.json"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path) as file:
                template = json.load(file).get("chat_template")
            if template is not None:
                return template
    return None


def with_adapter(tokenizer, adapter, load):
    """The tokenizer and the chat template that an adapter's folder may have, and the ids of the
    tokenizer's eos token, which end a text in addition to the model's."""
    ends = []
    if not adapter or not os.path.isdir(adapter):
        return tokenizer, ends
    template = template_in(adapter)
    if os.path.exists(os.path.join(adapter, "tokenizer.json")):
        own = load(adapter)
        if template is None and tokenizer is not None:
            template = tokenizer.chat_template
        ends = [] if own.eos_token_id is None else [own.eos_token_id]
        tokenizer = own
    if template is not None and tokenizer is not None:
        tokenizer.chat_template = template
    return tokenizer, ends


class Transformers:
    def load(self, c):
        import torch
        import transformers

        self.torch = torch
        dtype = getattr(torch, c.get("dtype") or "float32")
        path = c["path"]
        adapter = c.get("adapter_path")
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        except Exception as error:
            print("bridge: no tokenizer:", error, file=sys.stderr)
            tokenizer = None
        self.tokenizer, self.ends = with_adapter(
            tokenizer, adapter, transformers.AutoTokenizer.from_pretrained
        )
        if adapter:
            import peft

            if self.tokenizer is not tokenizer:  # it may have new tokens
                tokens = len(self.tokenizer)
                if tokens > self.model.get_input_embeddings().weight.shape[0]:
                    self.model.resize_token_embeddings(tokens)
            self.model = peft.PeftModel.from_pretrained(self.model, adapter)
        device = c.get("device") or "cpu"
        self.model = self.model.to(device).eval()
        self.config = self.model.config.get_text_config()

    def info(self):
        return dict(
            architecture=self.model.config.model_type,
            vocab_size=self.config.vocab_size,
            layers=self.config.num_hidden_layers,
            hidden_size=self.config.hidden_size,
            context_len=getattr(self.config, "max_position_embeddings", None) or 0,
        )

    def settings(self, c, limit):
        """The checkpoint's own settings are not used but for the tokens that end a text."""
        import transformers

        own = self.model.generation_config
        eos = [] if c.get("ignore_eos") else own.eos_token_id
        eos = list(eos) if isinstance(eos, (list, tuple)) else [] if eos is None else [eos]
        eos += [] if c.get("ignore_eos") else self.ends
        eos += c.get("stop_ids") or []
        settings = transformers.GenerationConfig(max_new_tokens=limit, do_sample=False)
        settings.eos_token_id = eos or None
        settings.pad_token_id = own.pad_token_id if own.pad_token_id is not None else 0
        settings.bos_token_id = own.bos_token_id
        if c.get("repeat_penalty"):
            settings.repetition_penalty = c["repeat_penalty"]
        if c.get("temperature"):
            settings.do_sample = True
            settings.temperature = c["temperature"]
            settings.top_k = c.get("top_k") or 0
            settings.top_p = c.get("top_p") or 1.0
            if c.get("min_p"):
                settings.min_p = c["min_p"]
            self.torch.manual_seed(c.get("seed") or 0)
        return settings, eos

    def run(self, c, prompt, limit, give):
        import transformers

        settings, eos = self.settings(c, limit)
        own, self.model.generation_config = self.model.generation_config, copy.deepcopy(settings)

        class Streamer(transformers.generation.streamers.BaseStreamer):
            first = True

            def put(self, value):
                if self.first:  # the prompt
                    self.first = False
                    return
                for token in value.flatten().tolist():
                    if token not in eos:
                        give(token)

            def end(self):
                pass

        class Stop(transformers.StoppingCriteria):
            def __call__(self, ids, scores, **rest):
                import torch

                return torch.full((ids.shape[0],), cancelled.is_set(), device=ids.device)

        ids = self.torch.tensor([prompt], device=self.model.device)
        try:
            with self.torch.no_grad():
                self.model.generate(
                    input_ids=ids,
                    attention_mask=self.torch.ones_like(ids),
                    generation_config=settings,
                    streamer=Streamer(),
                    stopping_criteria=transformers.StoppingCriteriaList([Stop()]),
                )
        finally:
            self.model.generation_config = own


class MlxLm:
    def load(self, c):
        import mlx_lm

        self.lm = mlx_lm
        adapter = c.get("adapter_path")
        self.model, tokenizer = mlx_lm.load(c["path"], adapter_path=adapter)
        self.tokenizer, self.ends = with_adapter(
            tokenizer, adapter, lambda path: mlx_lm.utils.load_tokenizer(pathlib.Path(path))
        )
        self.context = c.get("context_len") or None
        with open(os.path.join(c["path"], "config.json")) as file:
            self.config = json.load(file)

    def info(self):
        inner = self.config.get("text_config") or self.config
        quant = self.config.get("quantization") or {}
        return dict(
            architecture=self.config.get("model_type", ""),
            vocab_size=inner.get("vocab_size", 0),
            layers=inner.get("num_hidden_layers", 0),
            hidden_size=inner.get("hidden_size", 0),
            context_len=inner.get("max_position_embeddings", 0),
            quant_bits=quant.get("bits", 0),
            quant_group=quant.get("group_size", 0),
        )

    def run(self, c, prompt, limit, give):
        import mlx.core as mx
        from mlx_lm.sample_utils import make_logits_processors, make_sampler

        mx.random.seed(c.get("seed") or 0)
        sampler = make_sampler(
            temp=c.get("temperature") or 0.0,
            top_p=c.get("top_p") or 0.0,
            min_p=c.get("min_p") or 0.0,
            top_k=c.get("top_k") or 0,
        )
        eos = set() if c.get("ignore_eos") else {*self.tokenizer.eos_token_ids, *self.ends}
        eos |= set(c.get("stop_ids") or [])
        processors = make_logits_processors(repetition_penalty=c.get("repeat_penalty") or None)
        from mlx_lm.generate import generate_step

        for token, _ in generate_step(
            mx.array(prompt),
            self.model,
            max_tokens=limit,
            sampler=sampler,
            logits_processors=processors,
            max_kv_size=self.context,
        ):
            if cancelled.is_set() or int(token) in eos:
                break
            give(int(token))


def prompt_of(engine, c):
    tokenizer = engine.tokenizer
    if "prompt_ids" in c:
        return c["prompt_ids"]
    if tokenizer is None:
        raise ValueError("the model has no tokenizer")
    special = c.get("add_special_tokens", True)
    text = c.get("prompt", "")
    if c["cmd"] == "chat":
        more = dict(c.get("variables") or {})
        if "enable_thinking" in c:
            more["enable_thinking"] = c["enable_thinking"]
        text = tokenizer.apply_chat_template(
            c["messages"],
            tools=c.get("tools"),
            documents=c.get("documents"),
            chat_template=c.get("template"),
            add_generation_prompt=c.get("add_generation_prompt", True),
            tokenize=False,
            **more,
        )
        special = False  # the template has written its own
    return list(tokenizer.encode(text, add_special_tokens=special))


def generate(engine, c, context):
    prompt = prompt_of(engine, c)
    limit = c.get("max_tokens") or 256
    if context:
        if len(prompt) > context:
            raise ValueError(f"the prompt has {len(prompt)} tokens, the context {context}")
        limit = min(limit, context - len(prompt))
    decode = None
    if engine.tokenizer is not None:
        skip = not c.get("keep_special")

        def decode(ids):
            return engine.tokenizer.decode(ids, skip_special_tokens=skip)

    pieces, n = Pieces(decode, prompt), 0

    def give(token):
        nonlocal n
        n += 1
        if not cancelled.is_set():
            say(token=pieces.push(token), token_id=token)

    if limit > 0 and not cancelled.is_set():
        engine.run(c, prompt, limit, give)
    rest = pieces.finish()
    if rest and not cancelled.is_set():
        say(token=rest, token_id=-1)
    finish = "cancelled" if cancelled.is_set() else "length" if n >= limit else "stop"
    say(done=True, tokens_generated=n, prompt_tokens=len(prompt), finish=finish)


class Recorder:
    """Queries and keys as attention gets them, of each layer that is computed."""

    def __init__(self, model):
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        self.functions, self.model, self.layers = ALL_ATTENTION_FUNCTIONS, model, {}

    def record(self, module, query, key, *rest, **more):
        i, at = module.layer_idx, key.data_ptr()
        # A layer that uses another's keys gets the same memory.
        source = next((j for j, old in self.layers.items() if old[1].data_ptr() == at), i)
        self.layers[i] = (query[0], key[0], source)
        own = self.own or sys.modules[type(module).__module__].eager_attention_forward
        return own(module, query, key, *rest, **more)

    def __enter__(self):
        config = self.model.config.get_text_config()
        self.name = config._attn_implementation
        self.own = self.functions.get(self.name)  # a model's own "eager" is not among them
        self.functions[self.name] = self.record
        return self

    def __exit__(self, *what):
        if self.own is None:
            del self.functions[self.name]
        else:
            self.functions[self.name] = self.own


def write(folder, kind, i, x):
    x = x.float().cpu().contiguous()
    x.numpy().astype("<f4").tofile(os.path.join(folder, "%s_%02d.bin" % (kind, i)))
    return list(x.shape)


def inspect(engine, c):
    """Keys and queries as attention sees them, layer by layer: (heads, tokens, size), float32."""
    import tempfile

    if not isinstance(engine, Transformers):
        raise ValueError("only transformers' models can be looked into")
    torch, prompt = engine.torch, prompt_of(engine, c)
    ids = torch.tensor([prompt], device=engine.model.device)
    with torch.no_grad(), Recorder(engine.model) as recorder:
        engine.model(input_ids=ids, use_cache=True)  # some layers find keys only there
    layers = [recorder.layers[i] for i in sorted(recorder.layers)]
    if not layers:
        raise ValueError("the model's attention cannot be watched")
    folder = tempfile.mkdtemp(prefix="weft-inspect-")
    say(
        ok=True,
        path=folder,
        shapes=[write(folder, "keys", i, key) for i, (_, key, _) in enumerate(layers)],
        query_shapes=[write(folder, "queries", i, query) for i, (query, _, _) in enumerate(layers)],
        sources=[source for _, _, source in layers],
        ids=prompt,
    )


def main():
    engine = {"transformers": Transformers, "mlx-lm": MlxLm}[sys.argv[1]]()
    loaded, context = False, 0
    threading.Thread(target=listen, daemon=True).start()
    while True:
        c = commands.get()
        try:
            if c["cmd"] == "load":
                engine.load(c)
                loaded, context = True, c.get("context_len") or 0
                say(ok=True)
            elif not loaded:
                raise ValueError("no model is loaded")
            elif c["cmd"] == "info":
                template = getattr(engine.tokenizer, "chat_template", None) is not None
                say(chat_template=template, **engine.info())
            elif c["cmd"] == "inspect":
                inspect(engine, dict(c, cmd="chat" if "messages" in c else "generate"))
            elif c["cmd"] in ("generate", "chat"):
                generate(engine, c, context)
            else:
                raise ValueError("unknown command: %s" % c["cmd"])
        except Exception as error:
            say(error="%s: %s: %s" % (c.get("cmd"), type(error).__name__, error))


main()
