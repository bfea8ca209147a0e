"""Take docs/examples/fidelity.png: a four-bit copy compared with the original. Needs Chromium.

    python tools/take_fidelity_picture.py TABLES MODEL

TABLES is the output of forced_tokens.py for MODEL, which taught_llama.py wrote. The picture shows the outcome and three
answers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from meta_eval.plugins.tokens.fidelity_build import build_fidelity_report
from meta_eval.reports.views import HtmlView, write_view

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "fidelity.png"


def main() -> None:
    """Write the picture."""
    tables, model = map(Path, sys.argv[1:])
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    built = build_fidelity_report(tables / "int4.parquet", baseline=tables / "reference.parquet", tokenizer=tokenizer)
    calm = sorted(built.answers, key=lambda request: sum(token.top_token is not None for token in request.tokens))
    shown = replace(
        built, table="int4.parquet", figures=(), baseline_figures=(), choices=(), changes=(), answers=tuple(calm[:3])
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_view(page, HtmlView(), shown.document())
        chromium = shutil.which("chromium")
        assert chromium, "no Chromium"
        subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1160,1310",
             f"--screenshot={PICTURE}", page.as_uri()],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip


if __name__ == "__main__":
    main()
