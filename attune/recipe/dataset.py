"""The `dataset:` block, from the manifest of a file of rows."""

from __future__ import annotations

from attune.recipe.blocks import Dataset, DatasetBuild
from attune.rows.manifest import Manifest, TokenizerRecord

_PACKING = (
    "source conversations in a seeded global permutation, concatenated with {separator} between "
    "them and cut into consecutive {tokens:,}-token rows; rows without supervised targets are "
    "skipped; the first token of a row is not supervised"
)


def rows_words(manifest: Manifest) -> str:
    """What the rows are, in words."""
    return (
        f"{manifest.source.name} in fixed rows of {manifest.row_tokens:,} tokens, "
        f"{100 * manifest.supervised_ratio:.1f} % supervised"
    )


def dataset_block(manifest: Manifest) -> Dataset:
    """Everything that another person needs to build the same rows."""
    source = manifest.source
    return Dataset(
        name=source.name,
        source=source.name,
        revision=source.revision,
        license=source.license,
        rows_sha256=manifest.rows_sha256,
        build=_build(manifest),
    )


def _build(manifest: Manifest) -> DatasetBuild:
    tokenizer, tokens = manifest.tokenizer, manifest.row_tokens
    name = tokenizer.name.rsplit("/", 1)[-1].lower()
    source = manifest.source.name.rsplit("/", 1)[-1]
    return DatasetBuild(
        name=f"{name}-{source}-fixed{tokens}",
        tokenizer=_tokenizer(tokenizer),
        loss_mask=manifest.loss_mask,
        rows=manifest.row_count,
        row_tokens=tokens,
        padding_tokens=0,
        seed=manifest.seed,
        packing=_PACKING.format(separator=tokenizer.separator, tokens=tokens),
        supervised_token_ratio=round(manifest.supervised_ratio, 3),
        parquet_sha256=manifest.parquet_sha256,
        parquet_bytes=manifest.parquet_bytes,
        builder=f"{manifest.builder} --loss-mask {manifest.loss_mask}",
    )


def _tokenizer(record: TokenizerRecord) -> str:
    revision = f"revision {record.revision}; " if record.revision else ""
    return (
        f"{record.name} ({revision}tokenizer.json sha256 {record.tokenizer_sha256}; "
        f"chat_template.jinja sha256 {record.template_sha256})"
    )
