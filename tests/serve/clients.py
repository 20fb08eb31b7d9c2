"""tests/serve/clients.py URL -- the routes of `weft serve` by the official openai client, and
Anthropic's if it is there, with strict parsing of every answer and event. The server has the
storyteller as `storyteller`, with a chat template."""
import base64
import json
import math
import sys
import time

from openai import BadRequestError, NotFoundError, OpenAI

HI = [{"role": "user", "content": "Tell a story."}]
INCLUDE = ["message.output_text.logprobs"]


def check(found, what):
    if not found:
        sys.exit("failed: " + what)


def completions(c):
    """As evaluation harnesses score texts: a prompt with its answer, echoed. The first token has no
    value, as in OpenAI's answers, which the client's own types do not allow."""
    text = "Once upon a time, there was a little girl."
    r = c.completions.create(model="storyteller", prompt=text, max_tokens=0, echo=True, logprobs=3)
    one = r.choices[0]
    p = one.logprobs
    check(one.text == text and one.finish_reason == "length", "the echoed prompt")
    check(p.tokens and "".join(p.tokens) == text, "its tokens")
    check(p.token_logprobs[0] is None and p.top_logprobs[0] is None, "no value of the first token")
    check(all(text[o:].startswith(t) for t, o in zip(p.tokens, p.text_offset)), "offsets")
    check(all(len(best) in (3, 4) and t in best and best[t] == v for t, v, best in
              zip(p.tokens[1:], p.token_logprobs[1:], p.top_logprobs[1:])), "the best tokens")
    check(r.usage.completion_tokens == 0 and r.usage.prompt_tokens == len(p.tokens), "usage")
    # One more token, after the same prompt.
    more = c.completions.create(model="storyteller", prompt=[text, "The cat"], max_tokens=1,
                                echo=True, logprobs=1, temperature=0)
    check(len(more.choices) == 2 and more.choices[0].text.startswith(text), "two prompts")
    for a, b in zip(p.token_logprobs[1:], more.choices[0].logprobs.token_logprobs[1:]):
        check(abs(a - b) < 1e-4, "the same values again: %r and %r" % (a, b))
    check(len(more.choices[0].logprobs.tokens) == len(p.tokens) + 1, "one token more")
    stream = list(c.completions.create(model="storyteller", prompt=text, max_tokens=3, echo=True,
                                       logprobs=2, temperature=0, stream=True))
    check(stream[0].choices[0].text == text, "a stream begins with the prompt")
    check(sum(len(e.choices[0].logprobs.tokens) for e in stream if e.choices[0].logprobs)
          == len(p.tokens) + 3, "log-probabilities in a stream")


def more_completions(c):
    """Several choices, stop texts, token ids, and streams of several choices."""
    ask = {"model": "storyteller", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    whole = c.completions.create(**ask)
    n = c.completions.create(**ask, n=3)
    check([x.index for x in n.choices] == [0, 1, 2], "three choices")
    check({x.text for x in n.choices} == {whole.choices[0].text}, "which are the same")
    check(n.usage.prompt_tokens == whole.usage.prompt_tokens, "a prompt that counts once")
    cut = whole.choices[0].text.split()[3]
    stopped = c.completions.create(**ask, stop=["nothing of that", " " + cut])
    check(stopped.choices[0].finish_reason == "stop", "a stop text")
    check(stopped.choices[0].text == whole.choices[0].text.split(" " + cut)[0], "the text before it")
    stream = list(c.completions.create(**ask, n=2, stream=True, stop=cut,
                                       stream_options={"include_usage": True}))
    texts = {i: "".join(e.choices[0].text for e in stream if e.choices and e.choices[0].index == i)
             for i in (0, 1)}
    check(texts[0] == texts[1] == whole.choices[0].text.split(cut)[0], "stop texts in a stream")
    check(stream[-1].choices == [] and stream[-1].usage.completion_tokens > 0, "usage at the end")
    ids = c.post("/../tokenize", body={"content": ask["prompt"], "add_special": True},
                 cast_to=object)["tokens"]
    check(c.completions.create(**{**ask, "prompt": ids}).choices[0].text
          == whole.choices[0].text, "a prompt of token ids")
    bias = c.completions.create(**ask, logit_bias={str(ids[-1]): 100})
    check(bias.choices[0].text != whole.choices[0].text, "a bias")
    first, again = (c.completions.create(**{**ask, "temperature": 1}, seed=5).choices[0].text
                    for _ in range(2))
    check(first == again, "a seed")


TOOLS = [{"type": "function", "function": {
    "name": "add", "description": "Adds two numbers.", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
        "required": ["a", "b"], "additionalProperties": False}}}]


def calls(c):
    """Tools that must be called, whole and in a stream, and a document."""
    ask = {"model": "storyteller", "messages": HI, "max_tokens": 200, "temperature": 0}
    call = {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "add"}}}
    r = c.chat.completions.create(**ask, **call)
    one = r.choices[0].message.tool_calls[0]
    check(r.choices[0].finish_reason == "tool_calls" and one.type == "function", "a call")
    check(set(json.loads(one.function.arguments)) == {"a", "b"}, "its arguments")
    events = list(c.chat.completions.create(**ask, **call, stream=True))
    pieces = [t for e in events if e.choices for t in e.choices[0].delta.tool_calls or []]
    check(pieces[0].id and pieces[0].function.name == "add", "a streamed call")
    check("".join(t.function.arguments or "" for t in pieces) == one.function.arguments, "arguments")
    back = [*HI, r.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": one.id, "content": "3"}]
    check(c.chat.completions.create(**{**ask, "messages": back, "max_tokens": 4}).usage, "results")
    schema = {"type": "json_schema", "json_schema": {
        "name": "a", "strict": True, "schema": TOOLS[0]["function"]["parameters"]}}
    r = c.chat.completions.create(**ask, response_format=schema)
    check(set(json.loads(r.choices[0].message.content)) == {"a", "b"}, "a document")
    r = c.responses.create(model="storyteller", input="Add.", temperature=0, tool_choice="required",
                           tools=[{"type": "function", **TOOLS[0]["function"]}])
    check(r.output[-1].type == "function_call" and r.output[-1].name == "add", "a response's call")
    events = list(c.responses.create(
        model="storyteller", input="Add.", temperature=0, tool_choice="required", stream=True,
        tools=[{"type": "function", **TOOLS[0]["function"]}]))
    done = next(e for e in events if e.type == "response.function_call_arguments.done")
    check(done.arguments == r.output[-1].arguments, "a streamed response's call")
    check([e.sequence_number for e in events] == list(range(len(events))), "numbers of events")
    check(events[-1].type == "response.completed", "its end")
    count = c.responses.input_tokens.count(model="storyteller", input="Add.")
    check(count.input_tokens > 0, "the tokens of a response")
    text = {"format": {"type": "json_schema", **schema["json_schema"]}}
    r = c.responses.create(model="storyteller", input="Add.", temperature=0, text=text)
    check(set(json.loads(r.output_text)) == {"a", "b"}, "a response's document")


def reasoning(c):
    """Apart from the text, whole and in streams."""
    think = {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
    ask = {"model": "storyteller", "messages": HI, "max_tokens": 12, "temperature": 0, **think}
    r = c.chat.completions.create(**ask)
    thought = r.choices[0].message.reasoning_content
    check(thought and not r.choices[0].message.content, "reasoning of a chat")
    deltas = [e.choices[0].delta for e in c.chat.completions.create(**ask, stream=True)]
    check("".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == thought, "streamed")
    ask = {"model": "storyteller", "input": "Tell a story.", "max_output_tokens": 12,
           "temperature": 0, **think}
    r = c.responses.create(**ask)
    check([i.type for i in r.output] == ["reasoning"], "reasoning of a response")
    check(r.output[0].content[0].text == thought and r.status == "incomplete", "which is the same")
    events = list(c.responses.create(**ask, stream=True))
    check("".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == thought,
          "streamed reasoning")


def embeddings(c):
    """In both encodings, of both kinds of input, and cut."""
    ask = {"model": "storyteller", "input": ["A cat.", "A dog."]}
    plain = [v.embedding for v in c.embeddings.create(**ask, encoding_format="float").data]
    coded = [v.embedding for v in c.embeddings.create(**ask).data]  # asks for base64, decodes
    check(max(abs(a - b) for x, y in zip(plain, coded) for a, b in zip(x, y)) < 1e-7, "base64")
    raw = c.embeddings.create(**ask, encoding_format="base64").data[0].embedding
    check(isinstance(raw, str) and len(base64.b64decode(raw)) == 4 * 192, "base64 as it is")
    short = c.embeddings.create(**ask, encoding_format="float", dimensions=64).data[1].embedding
    norm = math.sqrt(sum(x * x for x in plain[1][:64]))
    check(len(short) == 64 and max(abs(a - b / norm) for a, b in zip(short, plain[1])) < 1e-6,
          "the first elements")
    one = c.embeddings.create(model="storyteller", input=[5, 6, 7])
    check(len(one.data) == 1 and one.usage.prompt_tokens == 3, "token ids")


def chats(c):
    r = c.chat.completions.create(model="storyteller", messages=HI, max_tokens=12, temperature=0,
                                  logprobs=True, top_logprobs=4)
    content = r.choices[0].logprobs.content
    check("".join(t.token for t in content) == r.choices[0].message.content, "tokens of a chat")
    check(all(len(t.top_logprobs) == 4 and math.isclose(t.top_logprobs[0].logprob, t.logprob)
              for t in content), "greedy tokens are the best ones")
    stream = list(c.chat.completions.create(model="storyteller", messages=HI, max_tokens=12,
                                            temperature=0, stream=True, logprobs=True,
                                            stream_options={"include_usage": True}))
    text = "".join(e.choices[0].delta.content or "" for e in stream if e.choices)
    check(text == r.choices[0].message.content, "a streamed chat")
    check(stream[-1].usage.completion_tokens == r.usage.completion_tokens, "its usage")


def responses(c):
    ask = {"model": "storyteller", "input": "Tell a story.", "max_output_tokens": 12,
           "temperature": 0}
    plain = c.responses.create(**ask)
    check(not plain.output[0].content[0].logprobs, "no log-probabilities unless asked for")
    chat = c.chat.completions.create(model="storyteller", messages=HI, max_tokens=12,
                                     temperature=0, logprobs=True, top_logprobs=3)
    expected = [(t.token, t.logprob, len(t.top_logprobs))
                for t in chat.choices[0].logprobs.content]
    for top, include in ((3, INCLUDE), (3, None), (None, INCLUDE)):
        more = {k: v for k, v in (("top_logprobs", top), ("include", include)) if v}
        r = c.responses.create(**ask, **more)
        part = r.output[0].content[0]
        check(part.text == plain.output_text, "the text of a response")
        check([(t.token, t.logprob, len(t.top_logprobs)) for t in part.logprobs]
              == [(t, v, top or 0) for t, v, _ in expected], "its log-probabilities")
        check(r.top_logprobs == (top or 0), "the echoed setting")
        events = list(c.responses.create(**ask, **more, stream=True))
        deltas = [e for e in events if e.type == "response.output_text.delta"]
        check([(t.token, t.logprob) for e in deltas for t in e.logprobs]
              == [(t, v) for t, v, _ in expected], "log-probabilities of deltas")
        done = next(e for e in events if e.type == "response.output_text.done")
        check([(t.token, t.logprob) for t in done.logprobs] == [(t, v) for t, v, _ in expected],
              "log-probabilities at the end of a text")
        last = events[-1].response.output[0].content[0]
        check([t.model_dump() for t in last.logprobs] == [t.model_dump() for t in part.logprobs],
              "log-probabilities of the last event")


def fails(error, call):
    try:
        call()
    except error as e:
        check(e.body["message"], "a message")
    else:
        check(False, "expected " + error.__name__)


def others(c):
    check([m.id for m in c.models.list()] == ["storyteller"], "models")
    check(c.models.retrieve("storyteller").id == "storyteller", "a model")
    vectors = c.embeddings.create(model="storyteller", input=["A cat.", "A dog."],
                                  encoding_format="float").data
    check([v.index for v in vectors] == [0, 1] and len(vectors[0].embedding) == 192, "embeddings")
    fails(NotFoundError, lambda: c.models.retrieve("other"))
    fails(BadRequestError, lambda: c.completions.create(model="storyteller", prompt="a",
                                                        logprobs=21))
    fails(BadRequestError, lambda: c.responses.create(model="storyteller", input="a",
                                                      top_logprobs=21))
    fails(BadRequestError, lambda: c.embeddings.create(model="storyteller", input="a",
                                                       dimensions=1000))


def teaching(c):
    """A file and a fine-tuning job, whose model answers and is deleted."""
    row = b'{"text": "All the birds of the town sing."}\n'
    file = c.files.create(file=("a.jsonl", row), purpose="fine-tune")
    check(c.files.content(file.id).read() == row, "the data of a file")
    check(file.id in [f.id for f in c.files.list()], "the files")
    method = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4}}}
    check(c.files.retrieve(file.id).bytes == len(row), "a file")
    check(c.files.wait_for_processing(file.id).status == "processed", "a file's status")
    late = c.fine_tuning.jobs.create(model="storyteller", training_file=file.id, seed=1,
                                     method={"type": "supervised", "supervised": {
                                         "hyperparameters": {"n_epochs": 10000}}})
    check(c.fine_tuning.jobs.cancel(late.id).status == "cancelled", "a cancelled job")
    check(c.fine_tuning.jobs.retrieve(late.id).finished_at, "its end")
    messages = [e.message for e in c.fine_tuning.jobs.list_events(late.id)]
    check(messages[0] == "The job was cancelled", "its events: %s" % messages[:3])
    fails(BadRequestError, lambda: c.fine_tuning.jobs.cancel(late.id))
    fails(NotFoundError, lambda: c.fine_tuning.jobs.retrieve("ftjob-none"))
    fails(NotFoundError, lambda: c.files.retrieve("file-none"))
    job = c.fine_tuning.jobs.create(model="storyteller", training_file=file.id, suffix="birds",
                                    seed=1, method=method, extra_body={"weft": {"rank": 4}})
    end = time.time() + 300
    while job.status in ("validating_files", "queued", "running") and time.time() < end:
        time.sleep(0.1)
        job = c.fine_tuning.jobs.retrieve(job.id)
    check(job.status == "succeeded" and job.trained_tokens > 0, "a job: " + job.status)
    events = list(c.fine_tuning.jobs.list_events(job.id, limit=3)) # of several pages
    check(len({e.id for e in events}) == len(events) > 6, "its events: %d" % len(events))
    check([e.data["step"] for e in events if e.type == "metrics"] == [4, 3, 2, 1], "its updates")
    check([j.id for j in c.fine_tuning.jobs.list(limit=1)] == [job.id, late.id], "the jobs")
    model = job.fine_tuned_model
    check([m.id for m in c.models.list()] == ["storyteller", model], "its model")
    check(c.completions.create(model=model, prompt="All", max_tokens=4).model == model, "an answer")
    check(c.models.delete(model).deleted and c.files.delete(file.id).deleted, "deletions")
    check([m.id for m in c.models.list()] == ["storyteller"], "models after a deletion")


def messages(url):
    try:
        from anthropic import Anthropic
    except ImportError:
        return "without anthropic"
    c = Anthropic(base_url=url, api_key="none", _strict_response_validation=True)
    ask = {"model": "storyteller", "max_tokens": 12, "messages": HI, "extra_body":
           {"temperature": 0}}
    whole = c.messages.create(**ask)
    with c.messages.stream(**ask) as stream:
        check("".join(stream.text_stream) == whole.content[0].text, "a streamed message")
    count = c.messages.count_tokens(model="storyteller", messages=HI).input_tokens
    check(count == whole.usage.input_tokens, "the tokens of a message")
    check([m.id for m in c.models.list()] == ["storyteller"], "models of Anthropic's API")
    check(c.models.retrieve("storyteller").id == "storyteller", "a model of it")
    function = TOOLS[0]["function"]
    tools = {"tools": [{"name": "add", "description": function["description"],
                        "input_schema": function["parameters"]}],
             "tool_choice": {"type": "tool", "name": "add"}}
    called = c.messages.create(**{**ask, "max_tokens": 200}, **tools)
    use = called.content[-1]
    check(called.stop_reason == "tool_use" and use.type == "tool_use", "a message's call")
    check(set(use.input) == {"a", "b"}, "its input: %s" % use.input)
    with c.messages.stream(**{**ask, "max_tokens": 200}, **tools) as stream:
        kinds = [e.type for e in stream]
        final = stream.get_final_message()
    check("input_json" in kinds and final.content[-1].input == use.input, "a streamed call")
    schema = {"format": {"type": "json_schema", "schema": function["parameters"]}}
    document = c.messages.create(**{**ask, "max_tokens": 200}, output_config=schema)
    check(set(json.loads(document.content[0].text)) == {"a", "b"}, "a message's document")
    with c.messages.stream(**{**ask, "max_tokens": 200}, output_config=schema) as stream:
        check("".join(stream.text_stream) == document.content[0].text, "a streamed document")
    back = [*HI, {"role": "assistant", "content": called.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": use.id, "content": "3"}]}]
    check(c.messages.create(**{**ask, "messages": back}).content, "a message after a result")
    stop = whole.content[0].text.split()[2]
    stopped = c.messages.create(**ask, stop_sequences=[stop])
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == stop, "a stop text")
    thinking = {**ask, "thinking": {"type": "enabled", "budget_tokens": 1024}, "system": "Think."}
    thought = c.messages.create(**thinking)
    check([b.type for b in thought.content] == ["thinking"], "a message with thinking")
    with c.messages.stream(**thinking) as stream:
        thoughts = "".join(e.thinking for e in stream if e.type == "thinking")
    check(thoughts and thoughts == thought.content[0].thinking, "streamed thinking")
    return "with anthropic"


def main():
    url = sys.argv[1]
    options = {"base_url": url + "/v1", "api_key": "none", "max_retries": 0}
    c = OpenAI(**options, _strict_response_validation=True)
    completions(OpenAI(**options))
    more_completions(OpenAI(**options))  # whose types lack the null of events, as of OpenAI
    chats(c)
    calls(c)
    reasoning(c)
    embeddings(OpenAI(**options))  # whose types lack base64
    responses(c)
    others(c)
    teaching(c)
    print("clients: ok, " + messages(url))


if __name__ == "__main__":
    main()
