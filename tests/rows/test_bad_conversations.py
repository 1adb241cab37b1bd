"""Every kind of bad input is named or counted, and never ends a build."""

from __future__ import annotations

import json
from shutil import copytree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attune.errors import AttuneError
from attune.rows.encode import Encoder
from attune.rows.lines import LARGEST_BYTES
from attune.rows.tokenizer import load_tokenizer
from tests.rows.builds import built
from tests.rows.small_tokenizers import CONVERSATIONS

ANSWER = {"role": "assistant", "content": "Yes."}
BAD = {
    "not JSON": b'{"messages": [',
    "not UTF-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "no list `messages`": b'{"text": "Hi"}',
    "empty conversation": b'{"messages": []}',
    "unknown role": b'{"messages": [{"role": "wizard", "content": "Hi"}]}',
    "message without content": b'{"messages": [{"role": "user"}]}',
    "content is not text": b'{"messages": [{"role": "user", "content": 7}]}',
    "a message is no mapping": b'{"messages": ["Hi"]}',
    "no assistant message": b'{"messages": [{"role": "user", "content": "Hi"}]}',
    "tool calls are no list": b'{"messages": [{"role": "assistant", "tool_calls": 3}]}',
    "nested too deep": b'{"messages": ' + b"[" * 400 + b"]" * 400 + b"}",
    "a noncharacter of Unicode in the text": json.dumps(
        {"messages": [{"role": "user", "content": "\ufdd1"}, ANSWER]}
    ).encode(),
}


def test_bad_records_are_counted_by_reason(ask, tmp_path):
    surrogate = json.dumps({"messages": [{"role": "user", "content": "\ud800"}, ANSWER]}).encode()
    lines = [*BAD.values(), BAD["unknown role"], surrogate, b"", b"null", b"[1]"]
    source = tmp_path / "some.jsonl"
    source.write_bytes(b"\n".join(lines) + b"\n" + CONVERSATIONS.read_bytes())
    manifest = built(ask(source=str(source), row_count=150))
    expected = dict.fromkeys(BAD, 1)
    # A lone surrogate has no UTF-8 either; null and a list have no messages.
    expected |= {"unknown role": 2, "not UTF-8": 2, "no list `messages`": 3}
    assert manifest.skipped.keys() <= expected.keys()
    whole = built(ask(source=str(source), row_count=manifest.row_count, overwrite=True))
    assert whole.rows_sha256 == manifest.rows_sha256
    with pytest.raises(AttuneError) as raised:
        built(ask(source=str(source), row_count=10_000, output=tmp_path / "all.parquet"))
    for reason, count in expected.items():
        assert f"{count} {reason}" in str(raised.value)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [100, 480, 960, 100_000])
def test_nothing_nested_ends_a_build(tokenizer_of, levels):
    encoder = Encoder(load_tokenizer(str(tokenizer_of("glm45"))), "glm45")
    call = {"function": {"name": "f", "arguments": nested(levels)}}
    records = [
        {"messages": nested(levels)},
        {"messages": [ANSWER], "tools": nested(levels)},
        {"messages": [{"role": "assistant", "tool_calls": [call]}]},
    ]
    skipped = encoder.encode(records).skipped
    assert sum(skipped.values()) >= 2, "tools that are no JSON are no tools"


def test_a_call_without_text_is_of_the_assistant_alone(tokenizer_of):
    call = {"function": {"name": "f", "arguments": {}}}
    encoder = Encoder(load_tokenizer(str(tokenizer_of("glm45"))), "glm45")
    record = {"messages": [{"role": "user", "content": None, "tool_calls": [call]}, ANSWER]}
    assert encoder.encode([record]).skipped == {"message without content": 1}


def test_a_byte_order_mark_costs_no_record(ask, tmp_path):
    source = tmp_path / "marked.jsonl"
    source.write_bytes(b"\xef\xbb\xbf" + CONVERSATIONS.read_bytes())
    assert built(ask(source=str(source), row_count=150)).skipped == {}


def test_messages_may_be_json_text(ask, tmp_path):
    records = [json.loads(line)["messages"] for line in CONVERSATIONS.read_text().splitlines()]
    pq.write_table(pa.table({"messages": list(map(json.dumps, records))}), tmp_path / "s.parquet")
    assert built(ask(source=str(tmp_path / "s.parquet"))).skipped == {}


def test_a_source_too_short_says_how_many_rows_there_are(ask, tmp_path):
    source = tmp_path / "short.jsonl"
    source.write_text("\n".join(CONVERSATIONS.read_text().splitlines()[:10]))
    with pytest.raises(AttuneError, match=r"its 10 conversations fill (\d+) rows") as raised:
        built(ask(source=str(source), row_count=1000))
    count = int(str(raised.value).split("fill ")[1].split()[0])
    assert built(ask(source=str(source), row_count=count)).row_count == count


def test_an_empty_source_is_told(ask, tmp_path):
    source = tmp_path / "empty.jsonl"
    source.touch()
    with pytest.raises(AttuneError, match=r"fill 0 rows .*; give more conversations"):
        built(ask(source=str(source)))


def test_a_message_of_a_megabyte_is_taken(ask, tmp_path):
    source = tmp_path / "long.jsonl"
    text = "The moon is far. " * 65_536
    messages = [{"role": "user", "content": "Write."}, {"role": "assistant", "content": text}]
    source.write_text(json.dumps({"messages": messages}))
    assert built(ask(source=str(source), row_count=1000)).supervised_ratio > 0.95


def test_a_record_beyond_all_measure_is_left_out(ask, tmp_path):
    source = tmp_path / "long.jsonl"
    source.write_bytes(b"x" * (LARGEST_BYTES + 1) + b"\n" + CONVERSATIONS.read_bytes())
    built(ask(source=str(source)))


def test_parts_of_text_are_joined_and_arguments_read(ask, tmp_path):
    source = tmp_path / "parts.jsonl"
    parts = [{"type": "text", "text": "The moon "}, {"type": "text", "text": "is far."}]
    call = {"function": {"name": "f", "arguments": '{"topic": "moon"}'}}
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    source.write_text("".join(json.dumps({"messages": messages}) + "\n" for _ in range(40)))
    built(ask(source=str(source), row_count=2, row_tokens=32))


def test_a_template_that_raises_is_counted(ask, tokenizer_of, tmp_path):
    folder = tmp_path / "tokenizer"
    copytree(tokenizer_of("chatml"), folder)
    template = (folder / "chat_template.jinja").read_text()
    refusal = "{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    (folder / "chat_template.jinja").write_text(refusal + template)
    manifest = built(ask(tokenizer=str(folder), loss_mask="chatml", row_count=20))
    assert manifest.skipped["template: no system"] > 0


def test_reasons_that_differ_each_time_are_counted_together(ask, tokenizer_of, tmp_path):
    folder = tmp_path / "tokenizer"
    copytree(tokenizer_of("chatml"), folder)
    template = "{{ raise_exception(messages | tojson) }}"
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(AttuneError, match=r"\d+ other reasons") as raised:
        built(ask(tokenizer=str(folder), loss_mask="chatml"))
    assert str(raised.value).count("template: ") == 24


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer_config.json", '{"eos_token": {"lstrip": false}}'),
        ("tokenizer_config.json", '{"eos_token": 5}'),
        ("tokenizer_config.json", '{"eos_token": "<|endoftext|>", "chat_template": [1]}'),
        ("tokenizer.json", '{"added_tokens": [{"content": "a"}]}'),
        ("tokenizer.json", '{"added_tokens": [{"id": 1, "content": ""}]}'),
        ("tokenizer.json", '{"added_tokens": 3}'),
        ("tokenizer.json", "[" * 100_000),
        ("chat_template.jinja", "\udcff"),
    ],
)
def test_a_damaged_tokenizer_is_named(ask, tokenizer_of, tmp_path, name, text):
    copytree(tokenizer_of("glm45"), tmp_path / "tokenizer")
    path = tmp_path / "tokenizer" / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(AttuneError, match=rf"{name} .*copy it again"):
        built(ask(tokenizer=str(tmp_path / "tokenizer")))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"row_tokens": 1}, "--row-tokens 1"),
        ({"row_count": 0}, "--row-count 0"),
        ({"loss_mask": "glm"}, "no loss mask `glm`"),
        ({"source": "nowhere.jsonl"}, "no file or folder nowhere.jsonl"),
        ({"tokenizer": "nowhere"}, "no file or folder nowhere"),
    ],
)
def test_wrong_requests_are_named(ask, fields, message):
    with pytest.raises(AttuneError, match=message):
        built(ask(**fields))
