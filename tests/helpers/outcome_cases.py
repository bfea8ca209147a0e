"""The cases of `outcomes`: runs that are drawn, named or recorded, and what the tool says of each.

A case is called in a folder that all cases share, and returns plain data. What several cases read is made once.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import importlib.util
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import patch

from drawn_logs import INSPECT_PAIRS, WRITERS, draw_answers, write_inspect
from drawn_runs import write_pair
from named_pairs import CASES as NAMED_PAIRS
from named_pairs import RECORDS, write_record
from one_task import run as command
from packs import prepare
from places import REPOSITORY, TEMPLATES

from meta_eval import compare, report
from meta_eval.api import compare_candidates, compare_texts
from meta_eval.base.errors import UserError
from meta_eval.reports.samples import read_shown_samples
from meta_eval.reports.views import find_view

DATA = REPOSITORY / "tests" / "data"
PAIRS = 200
_TIME, _STAMP = "2026-03-01T10-00-00.000000", re.compile(r"20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}")
Said = dict[str, Any]
Case = Callable[[], Said]


def list_cases(pairs: int = PAIRS) -> dict[str, Case]:
    """Every case by name, the slowest first; with few pairs these alone."""
    drawn: dict[str, Case] = {f"pair {number:03}": functools.partial(_of_pair, number) for number in range(pairs)}
    if pairs < PAIRS:
        return drawn
    cases: dict[str, Case] = {
        "load": _of_load, "verify sample": _of_sample, "report sample": _of_recorded_run, "stopped run": _of_stopped_run,
        "fidelity of a pack": _of_fidelity, "audit": _of_audit, "history": _of_history, "candidates": _of_candidates,
        "candidates of a pack": _of_candidates_of_a_pack, "perplexity": _of_perplexity, "frozen": _of_frozen,
        "texts": _of_texts, "two harnesses": _of_two_harnesses,
    }  # fmt: skip
    cases |= {f"record {name}": functools.partial(_of_record, name) for name in _RECORDS}
    cases |= {f"record of lm-eval {name}": functools.partial(_of_lm_eval_record, name) for name in RECORDS}
    cases |= {f"named {name}": functools.partial(_of_named, name) for name in NAMED_PAIRS}
    cases |= {f"inspect_ai {name}": functools.partial(_of_inspect, name) for name in INSPECT_PAIRS}
    tables = sorted(path for path in (DATA / "fidelity").rglob("*.parquet") if ".probes" not in path.name)
    for path in tables:
        if path.stem != "reference":
            name = path.relative_to(DATA / "fidelity").with_suffix("")
            cases[f"fidelity {name}".replace("/", " ")] = functools.partial(_of_table, path)
    for folder in sorted((DATA / "lm_eval_outputs").iterdir()):
        if folder.is_dir():
            cases[f"report {folder.name}"] = functools.partial(_of_output, folder)
    return cases | drawn


def _once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of a name. The first case that asks for it has ``make`` fill it."""
    folder = Path(name).absolute()
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = Path(f"{folder}.half")
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder


def _of_pair(number: int) -> Said:
    a, b, gate = write_pair(number, Path(f"pair_{number}"))
    said = _tell(compare(a, b, gate=gate))
    shutil.rmtree(f"pair_{number}")
    return said


def _tell(found: Any, *, samples: bool = False, kind: str = "compare") -> Said:
    """What a report says as JSON, as a page, and to JUnit."""
    document = found.document(lambda: read_shown_samples(found.tasks)) if samples else found.document()
    said: Said = json.loads(str(find_view("json", kind).render(document)))
    if kind in ("compare", "report", "candidates"):
        said["junit"] = str(find_view("junit", kind).render(document))
    return said | _take_page_apart("".join(find_view("html", kind).render(document)))


def _take_page_apart(page: str) -> Said:
    """The sections of a page, and the texts of its samples, which it holds compressed."""
    data = [_decompress(text) for text in re.findall(r'<script type="text/plain"[^>]*>([^<]*)</script>', page)]
    shown = re.sub(r"<(style|script)\b.*?</\1>|<meta [^>]*>", "", page, flags=re.DOTALL)
    head, *sections = re.split(r'<section id="([^"]*)"', shown)
    parts = {f"page {name}": text for name, text in zip(sections[::2], sections[1::2], strict=True)}
    return {"page": head, **parts, **({"page's samples": data} if any(data) else {})}


def _decompress(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text), wbits=31))


def _ask(*words: str | Path) -> Said:
    """What a command prints as JSON, its exit code, and what it says beside."""
    code, out, errors = command(*words, "--json")
    said = json.loads(out) if out.strip() else {}
    return {**said, "code": code, "errors": errors}


def _with(prefix: str, said: Said) -> Said:
    """The same under other names, so that a case can hold several."""
    tasks = said.pop("tasks", [])
    pairs = tasks.items() if isinstance(tasks, dict) else ((task["name"], task) for task in tasks)
    return {f"{prefix}: {name}": value for name, value in said.items()} | {
        f"{prefix}: task {name}": task for name, task in pairs
    }


def _try(make: Callable[[], Said]) -> Said:
    """What is said, or why nothing is."""
    try:
        return make()
    except UserError as error:
        return {"error": str(error)}


# The embedded sample.
def _prepare_sample() -> Path:
    def make(folder: Path) -> None:
        prepare(folder / "work_dir", "meta_instruct", model_name="org/m", backend="recorded")
        _ask("verify", folder / "work_dir")

    return _once("sample", make) / "work_dir"


def _of_sample() -> Said:
    return _with("verify", _ask("verify", _prepare_sample()))


def _of_recorded_run() -> Said:
    """The sample's record in a model's place, beside its pack."""
    return _run_and_report(_prepare_sample(), Path("sample_run"))


def _run_and_report(pack: Path, output: Path, *settings: str) -> Said:
    words = [word for setting in (f"output_path={output}", *settings) for word in ("--set", setting)]
    ran = _ask("run", pack, "--allow-code", "--no-canary", *words)
    return _with("run", _fix_times(ran, output)) | _tell(report(output, pack=pack), samples=True, kind="report")


def _fix_times(said: Said, output: Path) -> Said:
    """Let a run have been at a fixed time, and what is said of it but for its report, which has the other time."""
    said.pop("report", None)
    for file in [path for path in output.rglob("*") if _STAMP.search(path.name)]:
        file.rename(file.with_name(_STAMP.sub(_TIME, file.name)))
    for file in output.rglob("results_*.json"):
        tree = json.loads(file.read_text(encoding="utf-8"))
        tree |= {"date": 1772359200.0, "total_evaluation_time_seconds": "100.0"}
        file.write_text(json.dumps(tree), encoding="utf-8")
    fixed: Said = json.loads(_STAMP.sub(_TIME, json.dumps(said)))
    return fixed


# Pairs and records.
def _of_named(name: str) -> Said:
    a, b, options = NAMED_PAIRS[name](Path(f"named {name}"))
    return _tell(compare(a, b, **options), samples=True)


def _of_lm_eval_record(name: str) -> Said:
    folder = Path(f"record {name}")
    a, b, tasks = write_record(name, folder)
    return _tell(compare(a, b)) | _of_pack(folder, a, b, template_dir=str(tasks.absolute()))


def _of_inspect(name: str) -> Said:
    folder = Path(f"inspect {name}")
    a, b = (
        write_inspect(folder / str(side), draw_answers(side), side, **head)
        for side, head in enumerate(INSPECT_PAIRS[name])
    )
    return _tell(compare(a, b), samples=True)


def _of_two_harnesses() -> Said:
    from named_pairs import write_answers

    asked = draw_answers(0), draw_answers(1)
    a, b = write_inspect(Path("harnesses/A"), asked[0]), write_answers(Path("harnesses/B"), asked[1])
    return _tell(compare(a, b), samples=True)


def _of_output(folder: Path) -> Said:
    return _tell(report(folder), samples=True, kind="report")


def _of_frozen() -> Said:
    a, b, pack = (DATA / "frozen" / name for name in ("a", "b", "pack"))
    return _tell(compare(a, b), samples=True) | _with("pack", _try(lambda: _tell(compare(a, b, pack=pack))))


def _of_candidates() -> Said:
    folders = [write_pair(number, Path(f"candidates_{number}"))[0][0] for number in (1, 1_001)]
    pair = write_pair(1, Path("candidates"))
    return _tell(compare_candidates(pair[0][0], [pair[1][0], folders[0]]), kind="candidates")


def _of_candidates_of_a_pack() -> Said:
    folder = _once("ranked", lambda folder: [
        write_inspect(folder / f"{at}", draw_answers(min(at, 1), loss=0.04 * at), at) for at in range(4)
    ])  # fmt: skip
    a, *others = (folder / str(at) / "log.json" for at in range(4))
    return _tell(compare_candidates(a, others, margin=3.0), kind="candidates")


# Records of each format.
def _write_format(name: str, folder: Path) -> tuple[Path, Path | None]:
    a, b = (WRITERS[name](folder / "AB"[side], draw_answers(side), side) for side in range(2))
    return a, b


def _write_lighteval(_: Path) -> tuple[Path, Path | None]:
    return DATA / "lighteval_outputs" / "0.13.0", None


def _write_first_board(folder: Path) -> tuple[Path, Path | None]:
    from first_board import tasks, write

    return write(folder / "details_org__Model-one", tasks()), None


def _write_shape(name: str, folder: Path) -> tuple[Path, Path | None]:
    import board_shapes

    return board_shapes.write_shape(folder / "run", getattr(board_shapes, name)()), None


def _write_smollm2(_: Path) -> tuple[Path, Path | None]:
    return REPOSITORY / "src/meta_eval/base/assets/smollm2/recorded_run", None


def _write_real_model(_: Path) -> tuple[Path, Path | None]:
    return DATA / "real_model" / "record", None


_SHAPES = (
    "choices_of_2023", "texts_of_2023", "truths_of_2023", "sums_of_2023", "drop_of_2023", "choices_since_november_2023",
    "sums_since_november_2023", "endings_since_november_2023", "choices_of_lighteval", "texts_of_lighteval",
    "answers_of_lighteval",
)  # fmt: skip
_RECORDS: dict[str, Callable[[Path], tuple[Path, Path | None]]] = {
    **{name: functools.partial(_write_format, name) for name in WRITERS},
    **{name.replace("_", " "): functools.partial(_write_shape, name) for name in _SHAPES},
    "lighteval": _write_lighteval, "first board": _write_first_board, "smollm2": _write_smollm2,
    "real model": _write_real_model,
}  # fmt: skip
# Where lm-eval's own tasks of a record lie.
_TEMPLATES = {
    "smollm2": REPOSITORY / "src/meta_eval/base/assets/smollm2/tasks",
    "real model": DATA / "real_model" / "tasks",
}


def _of_record(name: str) -> Said:
    """A record becomes a pack, is verified, and another run is judged beside it; without one the record itself."""
    folder = Path(f"record {name}").absolute()
    folder.mkdir()
    with _examples_installed():
        a, b = _RECORDS[name](folder)
        said = _try(lambda: _tell(report(a), samples=True, kind="report"))
        if b is not None:
            said = _with("report", said) | _try(lambda: _tell(compare(a, b), samples=True))
        return said | _of_pack(folder, a, b, template_dir=str(_TEMPLATES.get(name, TEMPLATES)))


def _of_pack(folder: Path, a: Path, b: Path | None, **keys: Any) -> Said:
    """The pack of a record, verified; and a run beside it, by default its own record in a model's place."""
    pack = folder.absolute() / "pack"
    try:
        prepare(pack, "recorded", evals_dataset=str(a.absolute()), backend="recorded", **keys)
    except UserError as error:
        return {"prepare": str(error)}
    said = _with("verify", _ask("verify", pack))
    manifest = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    said["tasks of the pack"] = manifest["tasks"]
    if b is None:
        return said | _with("pack", _try(lambda: _run_and_report(pack, folder / "out", "model_args.spoil=0.2")))
    if (answers := b / "output.jsonl").is_file():  # batch files, whose answers nobody has graded
        graded = _ask("grade", answers, "--pack", pack, "--output", folder / "out")
        said |= _with("grade", _fix_times(graded, folder / "out"))
        b = folder / "out"
    return said | _with("pack", _try(lambda: _tell(report(b, pack=pack), samples=True, kind="report")))


@contextmanager
def _examples_installed() -> Iterator[None]:
    """The record format of examples/, as if a package had it with an entry point."""
    from meta_eval.base import extensions
    from meta_eval.pack.records import format_registry

    spec = importlib.util.spec_from_file_location("csv_record", REPOSITORY / "examples" / "csv_record.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Point(EntryPoint):
        def load(self) -> Any:
            return module.CsvFormat

    point = Point("csv", "csv_record:CsvFormat", format_registry.FORMATS_GROUP)
    read = extensions.entry_points

    def entry_points(group: str) -> list[EntryPoint]:
        return [*read(group=group), *([point] if group == format_registry.FORMATS_GROUP else [])]

    with patch.object(extensions, "entry_points", entry_points), patch.object(extensions, "_LOADED", {}):
        yield


# Runs that are asked.
def _of_stopped_run() -> Said:
    """A run of which much is lost ends as soon as that is proven."""
    folder = Path("stopped").absolute()
    record, _, tasks = write_record("sound", folder)
    keys = {"backend": "recorded", "margin": 5.0, "template_dir": str(tasks)}
    pack = prepare(folder / "pack", "recorded", evals_dataset=str(record), **keys)
    _ask("verify", pack)
    said: Said = {}
    for spoil in (0, 0.5):
        output = folder / f"out {spoil}"
        ran = _ask(
            "run", pack, "--stop-when-decided", "--order-seed", "0", "--rerun", "20", "--no-canary",
            "--set", f"output_path={output}", "--set", f"model_args.spoil={spoil}",
        )  # fmt: skip
        said |= _with(f"run {spoil}", _fix_times(ran, output))
        said |= _with(f"report {spoil}", _tell(report(output, pack=pack), samples=True, kind="report"))
    return said


def _of_texts() -> Said:
    """Greedy texts of two batch files, and of two logs."""
    said: Said = {}
    for name in ("chat", "inspect_ai"):
        a, b = _write_format(name, Path("texts") / name)
        said |= _with(name, _try(lambda a=a, b=b: _tell(compare_texts(a, b), kind="texts")))
    return said


def _of_history() -> Said:
    """Twenty runs of 200 docs: the last four lost docs. Judged after the sixteenth, and at the end."""
    from named_pairs import write_night

    said: Said = {}
    for night in range(20):
        run = write_night(Path("history runs") / str(night), night, lost=12 if night >= 16 else 0)
        added = command("history", "add", run, "--folder", "history", "--name", f"c{night}")
        said |= {f"added {night}": added}
        if night in (3, 15, 19):
            checked = _ask("history", "check", "--folder", "history", "--html", f"history {night}.html")
            page = Path(f"history {night}.html").read_text(encoding="utf-8")
            said |= _with(f"check {night}", checked | _take_page_apart(page))
    return said


def _of_load() -> Said:
    """A sound server, and one that loses text when it is full: at all but the first and the last time of a prompt."""
    from load_server import load_server, make_load_pack

    from meta_eval.plugins.load.api import load

    def lose_text(text: str, in_flight: int) -> str:
        return text[: len(text) // 2] if in_flight > 1 and zlib.crc32(text.encode()) % 5 == 0 else text

    folder, said = _once("load", make_load_pack), {}
    for name, spoil in (("sound", None), ("faulty", lose_text)):
        # Where the tokenizer lies that the pack names.
        with load_server(folder / "model", rounds=4, tied=0.02, spoil=spoil) as server, chdir(folder):
            found = load(
                pack="work_dir", concurrency=(4, 8), docs=40, traffic=0,
                overrides=[f"base_url={server.url}", f"output_path={name}"],
            )  # fmt: skip
        shown = json.loads(str(find_view("json", "load").render(found.document())))
        for times in (*shown["levels"], *(row["cells"] for table in shown["tables"] for row in table["rows"])):
            times.pop("seconds", None)
        said |= _with(name, shown)
    return said


# Tokens.
@contextmanager
def _no_engine() -> Iterator[None]:
    from fake_model import FakeClient

    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    with (
        patch("meta_eval.plugins.tokens.token_scoring.find_client", lambda *_backend, **_keys: made),
        patch("meta_eval.ask.client.ROUNDS", (0, 0, 0)),
    ):
        yield


def _prepare_tokens() -> Path:
    """A folder with a model, and with its pack, where nothing is asked yet."""

    def make(folder: Path) -> None:
        from fake_model import model_folder

        with chdir(folder):
            model_folder(folder / "m")
            prepare(folder / "work_dir", "meta_mmlu_pro_instruct", model_name="m", output_path="out")

    return _once("tokens", make)


def _of_fidelity() -> Said:
    folder = Path(shutil.copytree(_prepare_tokens(), "fidelity of a pack"))
    with _no_engine(), chdir(folder):
        asked = _ask("fidelity", "work_dir")
        shutil.copy(asked["table"], "base.parquet")
        Path("gate.yaml").write_text("fidelity: {margin: 0.05, min_docs: 5}\n", encoding="utf-8")
        words = ("--no-ask", "--baseline", "base.parquet", "--gate", "gate.yaml")
        return _with("asked", asked) | _with("beside itself", _ask("fidelity", "work_dir", *words))


def _of_audit() -> Said:
    """The record, and an endpoint's answers, under a copy that knows no text."""
    from accelerator import answer

    from meta_eval import export

    folder = Path(shutil.copytree(_prepare_tokens(), "audit"))
    said: Said = {}
    with _no_engine(), chdir(folder):
        export("work_dir", "requests.jsonl")
        for name, changed in (("record", None), ("other", "The best answer is certainly none of the others.")):
            answer(Path("work_dir"), Path("requests.jsonl"), Path(f"{name}.jsonl"),
                   change=lambda text, _, changed=changed: changed or text)  # fmt: skip
            said |= _with(name, _ask("audit", f"{name}.jsonl", "--pack", "work_dir", "--output", f"out_{name}"))
    return said


def _of_table(path: Path) -> Said:
    """A recorded table of tokens beside the reference of its folder."""
    from meta_eval.plugins.tokens.api import fidelity_report

    return _tell(fidelity_report(path, baseline=path.parent / "reference.parquet"), kind="fidelity")


def _of_perplexity() -> Said:
    import perplexity_logs as logs

    from meta_eval.plugins.tokens.api import perplexity_report

    text, said = logs.draw_text(), {}
    base = Path("base.log")
    base.write_text(logs.write_plain(text.base), encoding="utf-8")
    for name, log in {
        "plain": logs.write_plain(text.copy), "lines": logs.write_lines(text.copy), "table": logs.write_table(text),
        "old table": logs.write_old_table(text),
    }.items():  # fmt: skip
        copy = Path(f"{name}.log")
        copy.write_text(log, encoding="utf-8")
        for baseline in (None, base):
            found = _try(
                lambda copy=copy, baseline=baseline: _tell(perplexity_report(copy, baseline=baseline), kind="fidelity")
            )
            said |= _with(name if baseline is None else f"{name} beside a baseline", found)
    return said
