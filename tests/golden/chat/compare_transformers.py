"""compare_transformers.py BUILD FOLDER...: the chat templates of checkpoints (folders with tokenizer.json and
tokenizer_config.json), each over 30 conversations and 8 sets of options, tools, thinking and a last message that is
gone on with among them: transformers' apply_chat_template against weft_chat_render and weft_chat_encode, called in
BUILD's shared library. Prints what differs, in texts, in ids, or in who refuses; fails when anything does.

Checkpoints are not in this repository: this is run by hand.
"""
import ctypes
import datetime
import json
import sys

from conversations import OPTIONS, TALKS
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

NOW = 1700000000
SETS = OPTIONS + [{"continue_final_message": True}, {"continue_final_message": True, "tools": OPTIONS[4]["tools"]}]


class ChatOptions(ctypes.Structure):
    """weft_chat_options"""

    _fields_ = [
        ("generation_prompt", ctypes.c_bool),
        ("continue_final", ctypes.c_bool),
        ("thinking", ctypes.c_int),
        ("tools", ctypes.c_char_p),
        ("documents", ctypes.c_char_p),
        ("variables", ctypes.c_char_p),
        ("template_name", ctypes.c_char_p),
        ("now", ctypes.c_int64),
    ]


class Weft:
    def __init__(self, build, folder):
        self.lib = ctypes.CDLL(f"{build}/libweft.so")
        self.lib.weft_error_message.restype = ctypes.c_char_p
        self.lib.weft_free.argtypes = [ctypes.c_void_p]
        self.chat, self.tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
        path = folder.encode()
        self.missing = self.lib.weft_chat_load(path, ctypes.byref(self.chat)) != 0
        if self.lib.weft_tokenizer_load(path, ctypes.byref(self.tokenizer)) != 0:
            raise RuntimeError(self.lib.weft_error_message().decode())

    def render(self, talk, options):
        """(text, ids), or a message as a text alone."""
        tools = options.get("tools")
        thinking = {None: 0, True: 1, False: 2}[options.get("enable_thinking")]
        given = ChatOptions(
            options.get("add_generation_prompt", False), options.get("continue_final_message", False), thinking,
            json.dumps(tools).encode() if tools else None, None, None, None, NOW,
        )
        messages = json.dumps(talk).encode()
        text, length = ctypes.c_void_p(), ctypes.c_size_t()
        ids, count = ctypes.c_void_p(), ctypes.c_size_t()
        if self.lib.weft_chat_render(self.chat, messages, ctypes.byref(given), ctypes.byref(text),
                                     ctypes.byref(length)):
            return self.lib.weft_error_message().decode()
        if self.lib.weft_chat_encode(self.chat, self.tokenizer, messages, ctypes.byref(given), ctypes.byref(ids),
                                     ctypes.byref(count)):
            raise RuntimeError(self.lib.weft_error_message().decode())
        out = (ctypes.string_at(text, length.value).decode(),
               list((ctypes.c_int32 * count.value).from_address(ids.value)) if count.value else [])
        self.lib.weft_free(text)
        self.lib.weft_free(ids)
        return out


class Clock(datetime.datetime):
    """What strftime_now reads, stopped."""

    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


def reference(tokenizer, talk, options):
    try:
        text = tokenizer.apply_chat_template(talk, tokenize=False, **options)
        ids = tokenizer.apply_chat_template(talk, tokenize=True, return_dict=False, **options)
        return text, list(ids)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main():
    build, folders = sys.argv[1], sys.argv[2:]
    chat_template_utils.datetime = Clock
    differ = total = refused = 0
    for folder in folders:
        weft, tokenizer = Weft(build, folder), AutoTokenizer.from_pretrained(folder)
        if tokenizer.chat_template is None:
            print(f"{folder}: has no template")
            continue
        bad = 0
        for talk in TALKS:
            for options in SETS:
                want = reference(tokenizer, json.loads(json.dumps(talk)), options)
                got = weft.render(talk, options)
                total += 1
                both = isinstance(want, str) and isinstance(got, str)
                refused += both
                if not both and want != got:
                    bad += 1
                    if bad <= 3:
                        print(f"--- {folder} {json.dumps(talk)[:400]}\n{json.dumps(options)[:120]}\n"
                              f"want {want!r:.600}\ngot  {got!r:.600}")
        differ += bad
        print(f"{folder}: {len(TALKS) * len(SETS)} renders, {bad} differ")
    print(f"{total} renders ({refused} refused by both), {differ} differ")
    sys.exit(differ > 0)


main()
