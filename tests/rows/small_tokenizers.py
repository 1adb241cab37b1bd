"""Small tokenizers in the style of each chat format, trained on the conversations beside this.

python -m tests.rows.small_tokenizers FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
CONVERSATIONS = HERE / "conversations.jsonl"
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
GLM = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"]
GLM += ["<|observation|>"]
LLAMA3 = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"]
LLAMA3 += ["<|eot_id|>", "<|eom_id|>"]
WRITTEN = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
"""Added tokens that are no control tokens: a model writes them."""
SPECIAL = {
    "chatml": CHATML,
    "template": CHATML,
    "qwen3": CHATML,
    "llama3": LLAMA3,
    "glm45": GLM,
    "glm5": GLM,
}
END = {"llama3": "<|end_of_text|>", "chatml": "<|im_end|>"}


def make_tokenizer(family: str, folder: Path, vocabulary: int = 600) -> Path:
    """A tokenizer's folder for one chat format; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    fast.train_from_iterator(CONVERSATIONS.read_text().splitlines(), trainer)
    data = json.loads(fast.to_str())
    data["added_tokens"] = _added(family, fast.get_vocab_size())
    (folder / "tokenizer.json").write_text(json.dumps(data))
    config = {"eos_token": END.get(family, "<|endoftext|>")}
    if family == "llama3":
        config["bos_token"] = "<|begin_of_text|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    template = (HERE / "templates" / f"{family}.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template)
    return folder


def _added(family: str, first: int) -> list[dict]:
    special = SPECIAL[family]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": first + number, "content": text, "special": text in special, **flags}
        for number, text in enumerate([*special, *WRITTEN])
    ]


if __name__ == "__main__":
    for name in SPECIAL:
        print(make_tokenizer(name, Path(sys.argv[1]) / name))
