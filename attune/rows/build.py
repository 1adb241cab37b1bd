"""Builds a file of rows from conversations.

    source -> seeded permutation -> tokens and mask, a stream on disk -> rows -> parquet, manifest

The stream is made by any number of processes and joined in order, so the result depends on the
request alone. Memory holds a few chunks of conversations, whatever the size of the source.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeVar

from attune.errors import AttuneError
from attune.rows.cut import cut_rows
from attune.rows.digest import RowsDigest, file_sha256
from attune.rows.manifest import Manifest, SourceRecord, TokenizerRecord, manifest_path
from attune.rows.parquet import Ids, Mask, RowsWriter
from attune.rows.request import BuildRequest
from attune.rows.source import Progress, Source, find_source, index_lines, permute_lines, unpack
from attune.rows.space import space_for
from attune.rows.tokenizer import Tokenizer, load_tokenizer
from attune.rows.unfinished import Unfinished, write_whole
from attune.rows.workers import Work, encode_chunks

Result = TypeVar("Result")

_CHECKED = 32
"""Conversations on which the cut at control tokens is compared with the library."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is."""

    phase: Literal["unpacking", "reading", "encoding", "writing"]
    done: int
    total: int
    """Bytes while unpacking and reading, rows after that."""


def build_rows(request: BuildRequest) -> Iterator[BuildProgress | Manifest]:
    """Builds the rows; yields how far it is, and the manifest last.

    Started again after an interruption it goes on where it was.

    Raises:
        AttuneError: a wrong value, source or tokenizer; a source too short for the rows asked;
            no space left.
    """
    request.check()
    with space_for(request.output):
        yield from _Build(request).run()


class _Build:
    def __init__(self, request: BuildRequest) -> None:
        self.request = request
        self.source = find_source(request.source, request.revision)
        self.tokenizer = load_tokenizer(request.tokenizer, request.tokenizer_revision)
        settings = _settings(request, self.source, self.tokenizer)
        self.unfinished = Unfinished(request.folder, settings, restart=request.restart)

    def run(self) -> Iterator[BuildProgress | Manifest]:
        with self.unfinished:
            yield from self._read()
            yield from self._encode()
            yield from self._write()
            self.unfinished.remove()

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.source.files if self.source.plain else (self.unfinished.unpacked,)

    def _read(self) -> Iterator[BuildProgress]:
        """Indexes the source and permutes it."""
        if self.unfinished.source:
            return
        if not self.source.plain:
            unpacking = unpack(self.source, self.request.column, self.unfinished.unpacked)
            yield from _told("unpacking", unpacking)
        index = self.unfinished.folder / "index.bin"
        count, digest = yield from _told("reading", index_lines(self._files, index))
        permute_lines(index, count, self.request.seed, self.unfinished.order)
        index.unlink()
        self.unfinished.save_source(count, digest)

    def _encode(self) -> Iterator[BuildProgress]:
        """Extends the stream until it holds the rows, or the source ends."""
        asked, state = self.request.row_count, self.unfinished
        counter = state.resume(self.request.row_tokens, asked)
        work, count = self._work(), state.source["conversations"]
        if not state.conversations:
            work.encoder().check_cut(work.lines().records(0, min(_CHECKED, count)))
        yield BuildProgress("encoding", min(counter.rows, asked), asked)
        if counter.rows < asked:
            chunks = encode_chunks(work, state.conversations, count, self.request.workers)
            for conversations, encoded in chunks:
                state.add(conversations, encoded)
                counter.add(encoded.mask)
                yield BuildProgress("encoding", min(counter.rows, asked), asked)
                if counter.rows >= asked:
                    chunks.close()
                    break
        if counter.rows < asked:
            raise AttuneError(self._too_short(counter.rows))

    def _too_short(self, rows: int) -> str:
        state = self.unfinished
        skipped = ", ".join(f"{n} {reason}" for reason, n in state.skipped.most_common())
        return (
            f"{self.source.name} is too short for {self.request.row_count} rows: its "
            f"{state.conversations} conversations fill {rows} rows of {self.request.row_tokens} "
            f"tokens{f' (left out: {skipped})' if skipped else ''}; "
            + (f"give --row-count {rows} or less" if rows else "give more conversations")
        )

    def _work(self) -> Work:
        request = self.request
        return Work(
            tokenizer=request.tokenizer,
            tokenizer_revision=self.tokenizer.revision,
            loss_mask=request.loss_mask,
            column=request.column,
            files=self._files,
            order=self.unfinished.order,
        )

    def _write(self) -> Iterator[BuildProgress | Manifest]:
        """Writes parquet and manifest, under their final names only when whole."""
        request = self.request
        part = request.output.with_name(request.output.name + ".part")
        totals = _Totals()
        try:
            with RowsWriter(part) as writer:
                for ids, mask in cut_rows(
                    self.unfinished.stream,
                    self.unfinished.tokens,
                    request.row_tokens,
                    request.row_count,
                ):
                    writer.write(ids, mask)
                    totals.add(ids, mask)
                    yield BuildProgress("writing", writer.written, request.row_count)
            manifest = self._manifest(part, totals)
            # The manifest first: a build killed here goes on, as its file is not there yet.
            write_whole(manifest_path(request.output), manifest.text())
            part.replace(request.output)
        finally:
            part.unlink(missing_ok=True)
        yield manifest

    def _manifest(self, part: Path, totals: _Totals) -> Manifest:
        request, state, tokenizer = self.request, self.unfinished, self.tokenizer
        return Manifest(
            builder=_builder(),
            rows_sha256=totals.digest.hexdigest(),
            parquet_sha256=file_sha256(part),
            parquet_bytes=part.stat().st_size,
            row_count=totals.rows,
            row_tokens=request.row_tokens,
            supervised_tokens=totals.supervised,
            largest_id=totals.largest_id,
            loss_mask=request.loss_mask,
            seed=request.seed,
            conversations_used=state.conversations,
            skipped=dict(sorted(state.skipped.items())),
            source=SourceRecord(
                name=self.source.name,
                revision=self.source.revision,
                license=self.source.license,
                **state.source,
            ),
            tokenizer=TokenizerRecord(
                name=tokenizer.name,
                revision=tokenizer.revision,
                tokenizer_sha256=tokenizer.sha256,
                template_sha256=tokenizer.template.sha256,
                vocabulary=tokenizer.vocabulary,
                separator=tokenizer.separator,
            ),
        )


class _Totals:
    """What the manifest tells of the rows."""

    def __init__(self) -> None:
        self.digest = RowsDigest()
        self.rows = self.supervised = self.largest_id = 0

    def add(self, ids: Ids, mask: Mask) -> None:
        self.digest.add(ids, mask)
        self.rows += len(ids)
        self.supervised += int(mask.sum())
        self.largest_id = max(self.largest_id, int(ids.max()))


def _told(
    phase: Literal["unpacking", "reading"], progress: Progress[Result]
) -> Generator[BuildProgress, None, Result]:
    """Progress in bytes as that of the build; gives the result."""
    while True:
        try:
            done, total = next(progress)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield BuildProgress(phase, done, max(total, 1))


def _builder() -> str:
    try:
        return f"attune rows build {metadata.version('attune')}"
    except metadata.PackageNotFoundError:
        from attune import __version__

        return f"attune rows build {__version__}"


def _settings(request: BuildRequest, source: Source, tokenizer: Tokenizer) -> dict[str, object]:
    """All that the stream depends on: a build goes on only under the same settings."""
    return {
        "builder": _builder(),
        "source": source.fingerprint(),
        "revision": source.revision,
        "tokenizer": tokenizer.sha256,
        "template": tokenizer.template.sha256,
        "seed": request.seed,
        "loss mask": request.loss_mask,
        "column": request.column,
    }
