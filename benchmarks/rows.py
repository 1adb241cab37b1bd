"""Tokens per second of building rows, and its peak memory.

python -m benchmarks.rows             cutting, masking and writing, the tokenizer apart
python -m benchmarks.rows --tokens    encoding too, against the tokenizers library alone
python -m benchmarks.rows --source-gb 2    peak memory of a whole build of a source of that size
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attune.rows.build import build_rows
from attune.rows.cut import RowCounter, cut_rows, to_words
from attune.rows.digest import RowsDigest
from attune.rows.encode import Encoder
from attune.rows.manifest import Manifest
from attune.rows.parquet import RowsWriter
from attune.rows.request import BuildRequest
from attune.rows.tokenizer import load_tokenizer
from tests.rows.small_tokenizers import CONVERSATIONS, make_tokenizer

ROW_TOKENS = 8192
ROWS = 2048
VOCABULARY = 151_000
CHUNK_TOKENS = 200_000


def chunks(tokens: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encoded chunks of a stream: ids by Zipf's law, turns of 128 tokens, 2/3 supervised."""
    draw = np.random.default_rng(0)
    weights = np.cumsum(np.arange(1, VOCABULARY + 1) ** -1.1)
    for start in range(0, tokens, CHUNK_TOKENS):
        size = min(CHUNK_TOKENS, tokens - start)
        ids = np.searchsorted(weights, draw.random(size) * weights[-1]).astype(np.int32)
        turns = draw.random(size // 128 + 1) < 2 / 3
        yield ids, np.repeat(turns, 128)[:size].astype(np.uint8)


def writing(folder: Path) -> dict[str, Any]:
    """From encoded chunks to the file: stream, cut, mask, digest, parquet."""
    made = list(chunks(ROW_TOKENS * ROWS))
    stream, target = folder / "stream.bin", folder / "rows.parquet"
    processor, clock = time.process_time(), time.perf_counter()
    counter, tokens = RowCounter(ROW_TOKENS), 0
    with stream.open("wb") as file:
        for ids, mask in made:
            file.write(to_words(ids, mask).data)
            counter.add(mask)
            tokens += len(ids)
    digest = RowsDigest()
    with RowsWriter(target) as writer:
        for ids, mask in cut_rows(stream, tokens, ROW_TOKENS, ROWS):
            writer.write(ids, mask)
            digest.add(ids, mask)
    return {
        "tokens": tokens,
        "tokens_per_s_per_core": round(tokens / (time.process_time() - processor)),
        "tokens_per_s": round(tokens / (time.perf_counter() - clock)),
        "bytes_per_token": round(target.stat().st_size / tokens, 2),
    }


class TimedEncoder(Encoder):
    """Knows how much of its time goes into tokenizing."""

    seconds = 0.0

    def _tokenize(self, pieces: list[Any]) -> None:
        started = time.process_time()
        super()._tokenize(pieces)
        self.seconds += time.process_time() - started


def long_record(number: int) -> dict[str, Any]:
    """Four messages of about a thousand characters: a conversation of usual length."""
    draw = random.Random(number)
    said = [json.loads(line)["messages"] for line in CONVERSATIONS.read_text().splitlines()]
    texts = [message["content"] for messages in said for message in messages]
    content = [" ".join(draw.choices(texts, k=14)) for _ in range(4)]
    roles = ("user", "assistant", "user", "assistant")
    return {"messages": [{"role": r, "content": c} for r, c in zip(roles, content, strict=True)]}


def encoding(folder: Path, tokenizer: str | None, loss_mask: str) -> dict[str, Any]:
    """Rendering, tokenizing and masking against the library's batch on the same text."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    known = load_tokenizer(tokenizer or str(make_tokenizer(loss_mask, folder / "tokenizer")))
    encoder, whole = TimedEncoder(known, loss_mask), known.whole()
    records = [long_record(number) for number in range(1024)]
    texts = [encoder._marked(record).text for record in records]
    groups = range(0, len(records), 256)
    started = time.process_time()
    ours = sum(len(encoder.encode(records[g : g + 256]).ids) for g in groups)
    seconds, started = time.process_time() - started, time.process_time()
    for group in groups:
        for found in whole.encode_batch(texts[group : group + 256], add_special_tokens=False):
            np.array(found.ids, dtype=np.int32)
    alone = time.process_time() - started
    return {
        "tokens": ours,
        "tokens_per_s_per_core": round(ours / seconds),
        "tokenizing_tokens_per_s_per_core": round(ours / encoder.seconds),
        "library_tokens_per_s_per_core": round(ours / alone),
    }


def memory(folder: Path, source_gb: float, processes: int) -> dict[str, Any]:
    """Peak memory of this process and its largest child over a whole build."""
    source = folder / "source.jsonl"
    block = CONVERSATIONS.read_bytes() * 100
    with source.open("wb") as file:
        while file.tell() < source_gb * 1e9:
            file.write(block)
    request = BuildRequest(
        source=str(source),
        tokenizer=str(make_tokenizer("glm45", folder / "tokenizer")),
        output=folder / "rows.parquet",
        row_count=256,
        loss_mask="glm45",
        processes=processes,
    )
    started = time.perf_counter()
    *_, manifest = build_rows(request)
    assert isinstance(manifest, Manifest)
    peaks = [
        resource.getrusage(who).ru_maxrss / 2**20
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {
        "source_gb": source_gb,
        "conversations": manifest.source.conversations,
        "processes": processes,
        "seconds": round(time.perf_counter() - started, 1),
        "peak_gib": round(peaks[0], 3),
        "peak_gib_of_a_worker": round(peaks[1], 3),
    }


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--source-gb", type=float)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tokenizer", help="folder; a small one is made where it is not given")
    parser.add_argument("--loss-mask", default="glm45")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rows-"))
    try:
        if asked.source_gb:
            figures = memory(folder, asked.source_gb, asked.processes)
        elif asked.tokens:
            figures = encoding(folder, asked.tokenizer, asked.loss_mask)
        else:
            figures = writing(folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
