"""tests/serve/clients.py URL -- the routes of `weft serve` by the official openai client, and
Anthropic's if it is there, with strict parsing of every answer and event. The server has the
storyteller as `storyteller`, with a chat template."""
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


def others(c):
    check([m.id for m in c.models.list()] == ["storyteller"], "models")
    check(c.models.retrieve("storyteller").id == "storyteller", "a model")
    vectors = c.embeddings.create(model="storyteller", input=["A cat.", "A dog."],
                                  encoding_format="float").data
    check([v.index for v in vectors] == [0, 1] and len(vectors[0].embedding) == 192, "embeddings")
    for error, call in ((NotFoundError, lambda: c.models.retrieve("other")),
                        (BadRequestError, lambda: c.completions.create(
                            model="storyteller", prompt="a", logprobs=21)),
                        (BadRequestError, lambda: c.responses.create(
                            model="storyteller", input="a", top_logprobs=21))):
        try:
            call()
            check(False, "expected " + error.__name__)
        except error as e:
            check(e.body["message"], "a message")


def teaching(c):
    """A file and a fine-tuning job, whose model answers and is deleted."""
    row = b'{"text": "All the birds of the town sing."}\n'
    file = c.files.create(file=("a.jsonl", row), purpose="fine-tune")
    check(c.files.content(file.id).read() == row, "the data of a file")
    check(file.id in [f.id for f in c.files.list()], "the files")
    method = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4}}}
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
    check([j.id for j in c.fine_tuning.jobs.list()] == [job.id], "the jobs")
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
    return "with anthropic"


def main():
    url = sys.argv[1]
    options = {"base_url": url + "/v1", "api_key": "none", "max_retries": 0}
    c = OpenAI(**options, _strict_response_validation=True)
    completions(OpenAI(**options))
    chats(c)
    responses(c)
    others(c)
    teaching(c)
    print("clients: ok, " + messages(url))


if __name__ == "__main__":
    main()
