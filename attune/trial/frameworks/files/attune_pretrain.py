"""Runs a pretraining script of Megatron-LM, fed with rows of attune where a file is given.

`attune_pretrain.py PRETRAIN_GPT_PY FLAGS...`. The script is run as it stands in the checkout. With
`--train-data-path` its own data set provider, which cannot read rows, gives way to that of
`attune_rows_dataset.py` just before the script's main part begins.
"""

import ast
import sys
from pathlib import Path


def main() -> None:
    """Runs the script in place of this one."""
    path = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[:0] = [str(Path(path).resolve().parent)]
    tree = ast.parse(Path(path).read_text(encoding="utf-8"), path)
    if "--train-data-path" in sys.argv:
        feed_rows(tree)
    names = {"__name__": "__main__", "__file__": path}
    exec(compile(tree, path, "exec"), names)


def feed_rows(tree: ast.Module) -> None:
    """Has the provider of attune take the place of the script's before its main part."""
    place = next((i for i, node in enumerate(tree.body) if is_main(node)), None)
    if place is None:
        sys.exit('the pretraining script has no `if __name__ == "__main__":`; give no rows')
    provider = "from attune_rows_dataset import datasets_provider"
    name = "train_valid_test_datasets_provider"
    tree.body[place:place] = ast.parse(f"{provider} as {name}").body


def is_main(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


if __name__ == "__main__":
    main()
