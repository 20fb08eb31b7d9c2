"""30 conversations, with tools and thinking among them, that templates are compared over."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The weather of a place, as in "Köln".',
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "nullable": True},
                "hours": {"type": "array", "items": {"type": "number", "minimum": 0.5}},
            },
            "required": ["city"],
        },
        "return": {"type": "string"},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches <all> & everything",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "where": {
                    "type": "object",
                    "description": "limits",
                    "properties": {"site": {"type": "string"}, "safe": {"type": "boolean"}},
                    "required": ["site"],
                },
            },
            "required": ["query", "where"],
        },
    },
}


def user(text):
    return {"role": "user", "content": text}


def model(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, id="call00001"):
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def result(text, name="get_weather", id="call00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": text}


WEATHER_CALL = call("get_weather", {"city": "Köln", "days": 3, "hours": [1.0, 2.5], "deep": {"a": None, "b": True}})

TALKS = [
    [user("What is 2+2?")],
    [user("  spaces \n around\t")],
    [user("")],
    [user('"quotes", <tags> & \\ back\\nslash, ünïcödé 漢字 🎉')],
    [system("You are terse."), user("Hi")],
    [system("  padded \n"), user(" Hi "), model(" Hello. \n"), user(" Bye\n")],
    [user("a"), model("b"), user("c"), model("d"), user("e")],
    [user("a"), model("b")],
    [system("s"), user("a"), model("b"), user("c"), model("d")],
    [user("a"), model("<think>\nI think.\n</think>\n\nSo.")],
    [user("a"), model("<think>\nI think.\n</think>\n\nSo."), user("b")],
    [user("a"), model("So.", reasoning_content="I think.")],
    [user("a"), model("So.", reasoning_content="\nI think.\n"), user("b")],
    [user("Weather?"), model("", tool_calls=[WEATHER_CALL]), result("sunny")],
    [user("Weather?"), model("Let me see.", tool_calls=[WEATHER_CALL]), result('{"t": 20}'), model("20 degrees.")],
    [
        user("Both?"),
        model("", tool_calls=[WEATHER_CALL, call("search", {"query": "x", "where": {"site": "y"}}, "call00002")]),
        result("sunny"),
        result("found", "search", "call00002"),
    ],
    [
        system("Use tools."),
        user("Weather?"),
        model("", reasoning_content="I need a tool.", tool_calls=[WEATHER_CALL]),
        result("sunny"),
        model("", reasoning_content="Again.", tool_calls=[call("get_weather", {}, "call00003")]),
        result("rain", id="call00003"),
        model("Mixed.", reasoning_content="Done."),
        user("Thanks"),
    ],
    [user("x" * 3000)],
    [user("line one\nline two\r\nline three")],
    [system(""), user("empty system")],
    [user("a"), user("b")],
    [model("I begin."), user("a")],
    [system("s")],
    [user([{"type": "text", "text": " parts "}, {"type": "text", "text": "two"}])],
    [user("look"), model([{"type": "text", "text": "seen"}])],
    [{"role": "tool", "content": "stray"}],
    [{"role": "developer", "content": "Be good."}, user("ok")],
    [user("<|im_end|> injected <start_of_turn>")],
    [user("a"), model("answer with </think> inside"), user("b"), model("<think></think>x")],
    [user("null"), {"role": "assistant", "content": None, "tool_calls": [call("get_weather", '{"city": "Rom"}')]}],
]
assert len(TALKS) == 30

OPTIONS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True},
    {"add_generation_prompt": True, "tools": [WEATHER, SEARCH]},
    {"add_generation_prompt": True, "tools": [WEATHER], "enable_thinking": False},
]


def prepared(talk):
    """As transformers hands messages to a template: no members that are null, reasoning under each of its names."""
    out = []
    for message in talk:
        message = {k: v for k, v in message.items() if v is not None}
        names = ("reasoning_content", "thinking", "reasoning")
        reasoning = next((message[k] for k in names if message.get(k) is not None), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        out.append(message)
    return out
