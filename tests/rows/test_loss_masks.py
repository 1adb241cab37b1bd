"""Masks of every chat format, checked by hand: supervised text stands between « and »."""

from __future__ import annotations

from itertools import pairwise
from shutil import copytree

import numpy as np
import pytest

from attune.errors import AttuneError
from attune.rows.encode import Encoder
from attune.rows.tokenizer import load_tokenizer

CALL = {"function": {"name": "look_up", "arguments": {"topic": "tea"}}}
TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "Because."},
]
THOUGHT = [
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "Because.", "reasoning_content": "Hm."},
]
TOOL = [
    {"role": "user", "content": "Tea?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "hot"},
    {"role": "assistant", "content": "It is hot."},
]
OPT_OUT = [
    {"role": "user", "content": "A"},
    {"role": "assistant", "content": "bad", "step_loss_mask": 0},
    {"role": "user", "content": "B"},
    {"role": "assistant", "content": "good"},
]

MASKS = {
    ("chatml", "talk"): "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\n«Hello!<|im_end|>»\n<|im_start|>user\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\n«Because.<|im_end|>»\n<|im_end|>",
    ("template", "talk"): "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\n«Hello!<|im_end|>»\n<|im_start|>user\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\n«Because.<|im_end|>»\n<|endoftext|>",
    ("chatml", "opt out"): "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nbad<|im_end|>\n"
    "<|im_start|>user\nB<|im_end|>\n<|im_start|>assistant\n«good<|im_end|>»\n<|im_end|>",
    ("qwen3", "talk"): "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\n«Hello!<|im_end|>»\n<|im_start|>user\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n«Because.<|im_end|>»\n<|endoftext|>",
    ("qwen3", "thought"): "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    "«<think>\nHm.\n</think>\n\nBecause.<|im_end|>»\n<|endoftext|>",
    ("qwen3", "tool"): "<|im_start|>user\nTea?<|im_end|>\n<|im_start|>assistant\n"
    '«\n<tool_call>\n{"name": "look_up", "arguments": {"topic": "tea"}}\n</tool_call><|im_end|>»\n'
    "<|im_start|>user\n<tool_response>\nhot\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n«It is hot.<|im_end|>»\n<|endoftext|>",
    ("llama3", "talk"): "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Be kind.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n«Hello!<|eot_id|>»"
    "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n«Because.<|eot_id|>»<|end_of_text|>",
    ("llama3", "tool"): "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
    "Tea?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    '«{"name": "look_up", "parameters": {"topic": "tea"}}<|eom_id|>»'
    "<|start_header_id|>ipython<|end_header_id|>\n\nhot<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n«It is hot.<|eot_id|>»<|end_of_text|>",
    ("glm45", "talk"): "[gMASK]<sop><|system|>\nBe kind.<|user|>\nHi<|assistant|>\n"
    "<think></think>«\nHello!<|user|>»\nWhy?<|assistant|>\n<think></think>"
    "«\nBecause.<|endoftext|>»",
    ("glm45", "thought"): "[gMASK]<sop><|user|>\nWhy?<|assistant|>\n<think>"
    "«Hm.</think>\nBecause.<|endoftext|>»",
    ("glm45", "tool"): "[gMASK]<sop><|user|>\nTea?<|assistant|>\n<think></think>"
    "«\n<tool_call>look_up\n<arg_key>topic</arg_key>\n<arg_value>tea</arg_value>\n</tool_call>"
    "<|observation|>»\n<tool_response>\nhot\n</tool_response><|assistant|>\n<think></think>"
    "«\nIt is hot.<|endoftext|>»",
    ("glm45", "opt out"): "[gMASK]<sop><|user|>\nA<|assistant|>\n<think></think>\nbad<|user|>\nB"
    "<|assistant|>\n<think></think>«\ngood<|endoftext|>»",
    (
        "glm5",
        "talk",
    ): "[gMASK]<sop><|system|>Be kind.<|user|>Hi<|assistant|></think>«Hello!<|user|>»"
    "Why?<|assistant|></think>«Because.<|endoftext|>»",
    ("glm5", "thought"): "[gMASK]<sop><|user|>Why?<|assistant|><think>"
    "«Hm.</think>Because.<|endoftext|>»",
    ("glm5", "tool"): "[gMASK]<sop><|user|>Tea?<|assistant|></think>«<tool_call>look_up"
    "<arg_key>topic</arg_key><arg_value>tea</arg_value></tool_call><|observation|>»"
    "<tool_response>hot</tool_response><|assistant|></think>«It is hot.<|endoftext|>»",
}
CONVERSATIONS = {"talk": TALK, "thought": THOUGHT, "tool": TOOL, "opt out": OPT_OUT}


def marked(folder, family, messages, **record) -> str:
    """The decoded stream of one conversation, « and » around what is supervised."""
    tokenizer = load_tokenizer(str(folder))
    encoded = Encoder(tokenizer, family).encode([{"messages": messages, **record}])
    assert not encoded.skipped
    whole, text = tokenizer.whole(), ""
    bounds = [0, *(np.flatnonzero(np.diff(encoded.mask)) + 1).tolist(), len(encoded.ids)]
    for start, end in pairwise(bounds):
        part = whole.decode(encoded.ids[start:end].tolist(), skip_special_tokens=False)
        text += f"«{part}»" if encoded.mask[start] else part
    return text


@pytest.mark.parametrize(("family", "name"), MASKS, ids=lambda word: word)
def test_masks_are_as_checked_by_hand(tokenizer_of, family, name):
    assert marked(tokenizer_of(family), family, CONVERSATIONS[name]) == MASKS[family, name]


@pytest.mark.parametrize("name", ["step_loss_mask", "weight", "train"])
def test_a_turn_can_opt_out(tokenizer_of, name):
    messages = [*OPT_OUT[:1], {"role": "assistant", "content": "bad", name: 0}, *OPT_OUT[2:]]
    assert marked(tokenizer_of("chatml"), "chatml", messages) == MASKS["chatml", "opt out"]


@pytest.mark.parametrize("family", ["chatml", "qwen3", "llama3", "glm45", "glm5"])
def test_typed_control_tokens_stay_text(tokenizer_of, family):
    typed = "<|im_end|><|im_start|>assistant\n<|assistant|><|eot_id|><|user|><|endoftext|><think>"
    messages = [
        {"role": "user", "content": typed},
        {"role": "assistant", "content": f"You wrote {typed.removesuffix('<think>')}."},
    ]
    tokenizer = load_tokenizer(str(tokenizer_of(family)))
    encoded = Encoder(tokenizer, family).encode([{"messages": messages}])
    plain = [{**m, "content": "x"} for m in messages]
    expected = Encoder(tokenizer, family).encode([{"messages": plain}])
    controls = set(tokenizer.added.values())
    kept, wanted = ([i for i in e.ids.tolist() if i in controls] for e in (encoded, expected))
    assert kept == wanted
    text = tokenizer.whole().decode(encoded.ids.tolist(), skip_special_tokens=False)
    assert text.count(typed.removesuffix("<think>")) == 2


def test_a_token_across_the_boundary_is_not_supervised(tokenizer_of):
    folder = tokenizer_of("chatml")
    text = marked(folder, "chatml", [*TALK[1:2], {"role": "assistant", "content": "\n\nHello"}])
    assert text.endswith("Hello<|im_end|>»\n<|im_end|>")
    assert "assistant\n" in text.split("«")[0]


def test_characters_of_several_tokens_keep_their_place(tokenizer_of):
    messages = [
        {"role": "user", "content": "🫖 été"},
        {"role": "assistant", "content": "🌊 naïve 漢字"},
    ]
    text = marked(tokenizer_of("glm45"), "glm45", messages)
    assert text.endswith("«\n🌊 naïve 漢字<|endoftext|>»")


def test_only_the_empty_thinking_block_is_skipped(tokenizer_of):
    messages = [{"role": "user", "content": "Code?"}, {"role": "assistant", "content": "    pass"}]
    text = marked(tokenizer_of("qwen3"), "qwen3", messages)
    assert text.endswith("<think>\n\n</think>\n\n«    pass<|im_end|>»\n<|endoftext|>")


def test_typed_control_tokens_survive_json_in_ascii(tokenizer_of, tmp_path):
    folder = tmp_path / "tokenizer"
    copytree(tokenizer_of("qwen3"), folder)
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text().replace("tool | tojson", "tool | tojson(ensure_ascii=True)"))
    text = marked(folder, "qwen3", TALK, tools=[{"name": "<|im_end|> é 🌊"}])
    assert r'{"name": "<|im_end|> \u00e9 \ud83c\udf0a"}' in text


def test_masks_of_another_format_are_refused(tokenizer_of):
    tokenizer = load_tokenizer(str(tokenizer_of("qwen3")))
    with pytest.raises(AttuneError, match=r"needs <.assistant.>"):
        Encoder(tokenizer, "glm45")
    with pytest.raises(AttuneError, match="marks no"):
        Encoder(tokenizer, "template")
    with pytest.raises(AttuneError, match="no loss mask `glm`; there are chatml, qwen3"):
        Encoder(tokenizer, "glm")


@pytest.mark.parametrize("family", ["chatml", "qwen3", "llama3", "glm45", "glm5"])
def test_tokens_are_those_of_the_library(tokenizer_of, family):
    tokenizer = load_tokenizer(str(tokenizer_of(family)))
    records = [{"messages": messages} for messages in CONVERSATIONS.values()]
    Encoder(tokenizer, family).check_cut(records)
