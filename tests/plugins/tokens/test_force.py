"""fidelity: every recorded answer is forced once, whatever interrupts it, and the table is that of all of them."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import cli
from fake_model import FakeClient, model_folder
from fake_server import FakeServer
from noted import noted
from packs import prepare, read_docs

from meta_eval import Config
from meta_eval.ask.pipeline import Interrupted
from meta_eval.ask.request import Request
from meta_eval.base.errors import UserError
from meta_eval.judge.token_table import read_choices, read_tokens
from meta_eval.pack.manifest import read_manifest
from meta_eval.plugins.tokens.api import fidelity, fidelity_report
from meta_eval.plugins.tokens.perturbations import ALONE, MAX_ANSWER_TOKENS, PROMPTS
from meta_eval.plugins.tokens.probe_table import read_probes
from meta_eval.plugins.tokens.token_scoring import FidelityResult

# The docs alone; the probes have tests of their own.
measure = partial(fidelity, probe=False)

TEXTS, CHOICES = "meta_mmlu_pro_instruct", "meta_mmlu_pretrain"
# Docs of each, of two subtasks.
LIMIT = 10


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    return stand_in(monkeypatch)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.plugins.tokens.token_scoring.find_client", lambda *_backend, **_keys: made)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))
    return made


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    with chdir(folder):
        model_folder(folder / "m")
        return prepare(folder / "work_dir", f"{TEXTS},{CHOICES}", model_name="m", output_path="out", limit=LIMIT)


@dataclass(frozen=True)
class Whole:
    """What nothing disturbed: the docs alone, and the texts with probes; what each came to and was asked."""

    docs: FidelityResult
    asked: tuple[str, ...]
    probed: FidelityResult
    asked_with_probes: tuple[str, ...]


@pytest.fixture(scope="module")
def whole(prepared: Path) -> Whole:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(prepared.parent)
        client = stand_in(monkeypatch)
        docs, asked = measure(pack=prepared, output=str(prepared.parent / "docs")), tuple(client.asked)
        client.asked.clear()
        probed = fidelity(pack=prepared, tasks=[TEXTS], output=str(prepared.parent / "probed"))
        return Whole(docs, asked, probed, tuple(client.asked))


@pytest.fixture
def pack(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model_folder(tmp_path / "m")
    return Path(shutil.copytree(prepared, tmp_path / "work_dir"))


def rows(table: Path | None) -> list[tuple[str, int, tuple[int, ...], tuple[float, ...]]]:
    assert table is not None
    return [(row.task, row.doc, tuple(row.token_ids), tuple(row.logprobs)) for row in read_tokens(table)]


def test_every_recorded_answer_is_in_the_table_as_its_tokens(whole: Whole, pack: Path) -> None:
    from tokenizers import Tokenizer

    done = whole.docs
    assert done.tables is not None and done.tables.texts is not None
    tokenizer = Tokenizer.from_file("m/tokenizer.json")
    docs = read_docs(pack, TEXTS)[:LIMIT]
    result = list(read_tokens(done.tables.texts))
    assert [row.doc for row in result] == [n for n, doc in enumerate(docs) if (doc["recorded_output"] or "").strip()]
    for row in result:
        doc = docs[row.doc]
        assert tokenizer.decode(row.token_ids, skip_special_tokens=False) == doc["recorded_output"]
        assert row.prompt_tokens == 1 + len(tokenizer.encode(doc["prompt"], add_special_tokens=False).ids)
        assert row.margins == pytest.approx(np.where(np.arange(len(row.margins)) % 3 == 2, 0.25, 0))
    assert len(whole.asked) == len(set(whole.asked))


def test_choices_stand_beside_what_meta_recorded(whole: Whole, pack: Path) -> None:
    done = whole.docs
    assert done.tables is not None and done.tables.choices is not None
    _, result = read_choices(done.tables.choices)
    for choices, doc in zip(result, read_docs(pack, CHOICES)[:LIMIT], strict=True):
        assert choices.recorded == pytest.approx(
            [-value for value in doc["recorded_negative_log_likelihoods"]], rel=1e-6
        )
        assert choices.best == int(np.argmax(choices.recorded))
        assert len(choices.logprobs) == len(doc["continuations"])


def test_the_header_says_what_it_is_of(pack: Path) -> None:
    done = measure(pack=pack, docs=9)
    assert done.tables is not None and done.tables.texts is not None
    header = read_tokens(done.tables.texts).header
    assert (header.model, header.engine, header.answers) == ("m", "fake 1.0", "recorded")
    assert header.seed == read_manifest(pack).run_settings.seed
    assert len(header.manifest_sha256) == len(header.tokenizer_sha256) == len(header.settings_sha256) == 64
    assert sum(header.docs.values()) == 9
    assert done.tables.texts.name == f"m.{header.settings_sha256[:12]}.parquet"


def test_no_prompt_and_no_answer_is_in_a_table(whole: Whole) -> None:
    import pyarrow.parquet as pq

    done = whole.docs
    assert done.tables is not None and done.tables.texts is not None
    columns = pq.read_table(done.tables.texts).to_pydict()
    texts = {text for name, values in columns.items() for text in values if isinstance(text, str)}
    assert texts <= {TEXTS, *(line["request_sha256"] for line in read_lines(done.answers))} | set(columns["subtask"])


def read_lines(files: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()[1:]]


def test_whatever_interrupts_it_the_same_again_asks_the_rest_and_makes_the_same_table(
    whole: Whole, pack: Path, client: type[FakeClient]
) -> None:
    total = len(whole.asked)

    def before(given: int) -> None:
        if given == 9:
            raise KeyboardInterrupt

    client.before = staticmethod(before)  # type: ignore[assignment]
    with pytest.raises(Interrupted) as end:
        measure(pack=pack)
    assert (end.value.kept, end.value.total) == (9, total)
    client.before = staticmethod(lambda _given: None)  # type: ignore[assignment]
    done = measure(pack=pack)
    assert done.before == 9
    assert len(client.asked) == len(set(client.asked)) == total
    assert done.tables is not None and whole.docs.tables is not None
    assert done.tables.texts is not None and whole.docs.tables.texts is not None
    assert done.tables.texts.read_bytes() == whole.docs.tables.texts.read_bytes()


def test_shards_share_the_docs_and_the_table_is_of_all(whole: Whole, pack: Path, client: type[FakeClient]) -> None:
    parts = [measure(pack=pack, shard=(number, 3)) for number in range(3)]
    assert all(part.tables is None for part in parts)
    assert len(client.asked) == len(set(client.asked)) == len(whole.asked)
    started = len(client.made)
    done = measure(pack=pack, ask=False)
    assert len(client.made) == started
    assert done.tables is not None and whole.docs.tables is not None
    assert rows(done.tables.texts) == rows(whole.docs.tables.texts)


def test_some_docs_are_spread_over_tasks_and_more_hold_the_fewer(pack: Path, client: type[FakeClient]) -> None:
    measure(pack=pack, docs=6)
    few = set(client.asked)
    assert {name.split("/")[0] for name in few} == {TEXTS, CHOICES}
    client.asked.clear()
    done = measure(pack=pack, docs=12)
    assert done.before == 6
    assert not few & set(client.asked)
    assert len(client.asked) == 6
    assert done.tables is not None
    assert done.tables.answers == 12


def test_what_does_not_fit_is_not_asked_and_said(pack: Path, client: type[FakeClient]) -> None:
    def fits(request: Request, _attempt: int) -> str | None:
        return "its prompt needs 9, and max_model_len is 8" if request.id == f"{TEXTS}/0" else None

    client.fails = staticmethod(fits)  # type: ignore[assignment]
    with noted() as notes:
        done = measure(pack=pack, tasks=[TEXTS])
    assert done.failed == 1
    assert any("max_model_len is 8" in note for note in notes)
    assert done.tables is not None
    assert done.tables.left_out[TEXTS]["too long for max_model_len"] == 1
    assert done.tables.texts is not None
    assert read_tokens(done.tables.texts).header.left_out == done.tables.left_out


def test_more_likely_tokens_are_asked_for_anew_and_fewer_are_not(pack: Path, client: type[FakeClient]) -> None:
    measure(pack=pack, tasks=[TEXTS], docs=4)
    total = len(client.asked)
    done = measure(pack=pack, tasks=[TEXTS], docs=4, top_k=3)
    assert len(client.asked) == 2 * total
    assert done.tables is not None and done.tables.texts is not None
    first = next(iter(read_tokens(done.tables.texts)))
    assert first.top_k_ids is not None and first.top_k_logprobs is not None
    assert first.top_k_ids.shape == first.top_k_logprobs.shape == (len(first.token_ids), 3)
    assert (first.top_k_ids[:, 0] == first.top_ids).all()
    measure(pack=pack, tasks=[TEXTS], docs=4, top_k=2)
    assert len(client.asked) == 2 * total


def test_a_kept_answer_that_no_model_can_give_is_asked_again(pack: Path, client: type[FakeClient]) -> None:
    first = measure(pack=pack, tasks=[TEXTS], docs=4)
    (file,), asked = first.answers, list(client.asked)
    lines = read_lines([file])
    (bad,) = [line for line in lines if line.get("id") == asked[1]]
    bad["tokens"]["top_logprobs"][0] = 2.5
    head = file.read_text(encoding="utf-8").splitlines()[: -len(lines)]
    file.write_text("\n".join([*head, *map(json.dumps, lines)]) + "\n", encoding="utf-8")
    done = measure(pack=pack, tasks=[TEXTS], docs=4)
    assert client.asked == [*asked, asked[1]]
    assert done.tables is not None and first.tables is not None
    assert (done.tables.answers, done.tables.left_out) == (first.tables.answers, first.tables.left_out)


def test_a_backend_that_says_nothing_of_tokens_is_refused_before_it_starts(
    pack: Path, client: type[FakeClient]
) -> None:
    with pytest.raises(
        UserError,
        match="backend sglang cannot be asked how likely each token of a text is.*server, llamacpp, ray, vllm, hf",
    ):
        measure(pack=pack, overrides=["backend=sglang"])
    assert client.made == []
    assert measure(pack=pack, tasks=[CHOICES], docs=2, overrides=["backend=sglang"]).asked > 0, (
        "of choices a sum is all that is wanted"
    )


def test_a_wrong_override_of_a_pack_is_named(pack: Path) -> None:
    with pytest.raises(UserError, match="^--set concurrency=x: concurrency: 'x' is not allowed: it must be a whole"):
        measure(pack=pack, overrides=["concurrency=x"])


def test_with_nothing_answered_there_is_no_table(pack: Path, client: type[FakeClient]) -> None:
    """What is named is there: the user's file, the folder of nothing, or the line that says what failed."""
    Path("w.jsonl").write_text(json.dumps({"id": "t/0", "prompt_sha256": "0" * 64, "text": "A"}) + "\n")
    with pytest.raises(UserError, match=r"^w.jsonl: none of these docs .*\(20 not asked yet\).*export --force"):
        measure(pack=pack, answers=["w.jsonl"], output="C")
    with pytest.raises(
        UserError, match=r"^out/fidelity: none of these docs .*not asked yet\)\. Rerun without --no-ask"
    ):
        measure(pack=pack, ask=False)
    client.fails = staticmethod(lambda _request, _attempt: "boom")
    with pytest.raises(
        UserError, match=r"^out/fidelity/m\.\w+\.jsonl, line \d+: none of these docs .*This line says why"
    ):
        measure(pack=pack, docs=4)


def test_the_table_of_another_selection_is_not_left_beside_it(pack: Path) -> None:
    first = measure(pack=pack, docs=4)
    assert first.tables is not None and first.tables.choices is not None
    assert first.tables.choices.exists()
    measure(pack=pack, tasks=[TEXTS], docs=4)
    assert not first.tables.choices.exists()


def test_another_model_of_the_same_pack_has_a_table_of_its_own(pack: Path, tmp_path: Path) -> None:
    model_folder(tmp_path / "other", weights=b"others")
    first = measure(pack=pack, tasks=[TEXTS], docs=4)
    before = (pack / "manifest.json").read_bytes() if (pack / "manifest.json").exists() else b""
    two = measure(pack=pack, tasks=[TEXTS], docs=4, overrides=["model_name=other"])
    assert first.tables is not None and two.tables is not None
    assert first.tables.texts != two.tables.texts
    assert rows(first.tables.texts) == rows(two.tables.texts)
    assert before == ((pack / "manifest.json").read_bytes() if before else b"")


def test_what_made_the_pack_cannot_be_changed_beside_it(pack: Path) -> None:
    with pytest.raises(UserError, match="--set evals_dataset=x: cannot change: the pack was made with it"):
        measure(pack=pack, overrides=["evals_dataset=x"])
    with pytest.raises(UserError, match="no such key; did you mean 'dtype'"):
        measure(pack=pack, overrides=["dtpe=float16"])


def test_the_command_says_what_it_wrote(pack: Path) -> None:
    done = cli("fidelity", str(pack), "--docs", "5", "--no-probe", "--json", cwd=pack.parent)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["answers"] == output["asked"] == 5
    assert Path(output["table"]).exists()
    assert "5 answers" in done.stderr
    again = cli("fidelity", str(pack), "--docs", "5", "--json", "--no-ask", cwd=pack.parent)
    assert json.loads(again.stdout)["asked"] == 0


def test_answers_from_elsewhere_make_the_same_table(whole: Whole, pack: Path, client: type[FakeClient]) -> None:
    from meta_eval import export

    ours = whole.docs
    assert ours.tables is not None
    export(pack, "r.jsonl", force=True)
    asked = {json.loads(line)["id"] for line in Path("r.jsonl").read_text().splitlines()[1:]}
    lines = [line for file in ours.answers for line in file.read_text().splitlines()[1:]]
    assert {json.loads(line)["id"] for line in lines} == asked
    Path("a.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    started = len(client.made)
    done = measure(pack=pack, answers=["a.jsonl"], output="elsewhere")
    assert len(client.made) == started
    assert done.tables is not None
    assert rows(done.tables.texts) == rows(ours.tables.texts)
    assert (done.tables.answers, done.tables.left_out) == (ours.tables.answers, ours.tables.left_out)
    Path("a.jsonl").write_text("\n".join(lines[1:]) + "\n")
    Path("b.jsonl").write_text(lines[0].replace('"model": "m"', '"model": "other"') + "\n")
    with pytest.raises(UserError, match="are of m, other, and a table holds one"):
        measure(pack=pack, answers=["a.jsonl", "b.jsonl"])
    Path("b.jsonl").write_text(lines[1].replace('"model": "m"', '"model": "other"') + "\n")
    twice = f"hold two answers to {json.loads(lines[1])['id']}, and a table holds one"
    with pytest.raises(UserError, match=twice):
        measure(pack=pack, answers=["a.jsonl", "b.jsonl"])
    other = json.loads(next(line for line in lines if "tokens" in json.loads(line)))
    other["tokens"]["logprobs"][0] -= 1.0
    Path("a.jsonl").write_text("\n".join(lines) + "\n")
    Path("b.jsonl").write_text(json.dumps(other) + "\n")
    with pytest.raises(UserError, match=f"hold two answers to {other['id']}, and a table holds one"):
        measure(pack=pack, answers=["a.jsonl", "b.jsonl"])
    kept = ("id", "prompt_sha256", "request_sha256", "engine", "model")
    failed = [json.dumps({name: json.loads(line)[name] for name in kept} | {"error": "no"}) for line in lines[:5]]
    Path("a.jsonl").write_text("\n".join([*failed, *lines[5:]]) + "\n")
    assert cli("fidelity", str(pack), "--answers", "a.jsonl", "--output", "failed", cwd=Path()).returncode == 1


def test_a_configuration_is_prepared_first(pack: Path) -> None:
    keys: dict[str, Any] = {"model_name": "m", "evals_dataset": "sample", "tasks": (TEXTS,), "work_dir": "new"}
    done = measure(Config(**keys), docs=3)
    assert done.tables is not None
    assert (Path("new"), done.tables.answers) == (done.pack, 3)
    with pytest.raises(UserError, match="names 2 models"):
        measure(Config(**{**keys, "model_name": ["m", "other"]}))


def test_probes_are_asked_first_and_once_and_lie_beside_the_table(
    whole: Whole, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = whole.probed
    assert done.tables is not None and done.tables.texts is not None and done.tables.probes is not None
    assert done.probed == len(whole.asked_with_probes) - done.asked == 70
    probes = read_probes(done.tables.texts)
    assert len(probes) == done.probed
    texts = {(row.task, row.doc): row for row in read_tokens(done.tables.texts)}
    assert {name for *_, name in probes} == {*PROMPTS}
    for (task, doc, name), probe in probes.items():
        assert probe.prompt_tokens == texts[task, doc].prompt_tokens
        own = texts[task, doc].token_ids[:MAX_ANSWER_TOKENS]
        assert probe.token_ids.tolist() == (own[1:] if name == ALONE else own).tolist()
    monkeypatch.chdir(prepared.parent)
    again = fidelity(pack=prepared, tasks=[TEXTS], output=str(prepared.parent / "probed"))
    assert (again.probed, again.asked) == (0, 0)


def test_probes_that_were_cut_off_are_asked_with_the_rest(whole: Whole, pack: Path, client: type[FakeClient]) -> None:
    def before(given: int) -> None:
        if given == 9:
            raise KeyboardInterrupt

    client.before = staticmethod(before)  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        fidelity(pack=pack, tasks=[TEXTS])
    client.before = staticmethod(lambda _given: None)  # type: ignore[assignment]
    done = fidelity(pack=pack, tasks=[TEXTS])
    assert done.probed == whole.probed.probed - 9
    assert done.tables is not None and done.tables.probes is not None
    assert whole.probed.tables is not None and whole.probed.tables.probes is not None
    assert done.tables.probes.read_bytes() == whole.probed.tables.probes.read_bytes()


def test_of_shards_the_first_asks_the_probes(pack: Path) -> None:
    first, second = (fidelity(pack=pack, tasks=[TEXTS], docs=4, shard=(number, 2)) for number in range(2))
    assert first.probed > second.probed == 0
    done = fidelity(pack=pack, tasks=[TEXTS], docs=4, ask=False)
    assert done.tables is not None and done.tables.texts is not None
    assert len(read_probes(done.tables.texts)) == first.probed


def test_a_table_of_choices_alone_has_no_probes(pack: Path) -> None:
    done = fidelity(pack=pack, tasks=[CHOICES], docs=2)
    assert (done.probed, done.tables.probes if done.tables else 0) == (0, None)


def test_a_file_of_answers_brings_its_probes(whole: Whole, pack: Path) -> None:
    ours = whole.probed
    done = fidelity(pack=pack, tasks=[TEXTS], answers=ours.answers, output="elsewhere")
    assert ours.tables is not None and ours.tables.texts is not None
    assert done.tables is not None and done.tables.texts is not None
    assert read_probes(done.tables.texts).keys() == read_probes(ours.tables.texts).keys()


@pytest.mark.parametrize("tasks", [TEXTS, CHOICES])
def test_a_baseline_of_another_tokenizer_is_refused_before_anything_is_asked(
    whole: Whole, pack: Path, client: type[FakeClient], tasks: str
) -> None:
    tables = whole.docs.tables
    assert tables is not None and tables.texts is not None
    path = Path("m/tokenizer.json")
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    done = cli("fidelity", pack, "--tasks", tasks, "--baseline", tables.texts, "--output", "new")
    assert (done.returncode, client.asked, client.made) == (2, [], [])
    assert "its tokens come from a different tokenizer than m's" in " ".join(done.stderr.split())


def test_a_second_measurement_lies_beside_the_first_and_is_its_noise(pack: Path) -> None:
    with pytest.raises(UserError, match="--again: .*without --again first"):
        measure(pack=pack, tasks=[TEXTS], docs=4, again=True)
    first, again = (measure(pack=pack, tasks=[TEXTS], docs=4, again=twice).tables for twice in (False, True))
    assert first and again and first.texts and again.texts
    assert again.texts.parent == first.texts.parent / "again"
    tables = [read_tokens(path) for path in (first.texts, again.texts)]
    assert [table.header.measured["enforce_eager"] for table in tables] == ["false", "true"]
    assert len(tables[0]) == len(tables[1])
    report = fidelity_report(again.texts, baseline=first.texts)
    assert report.is_noise and report.summary.startswith("The noise of this model between two measurements")


@pytest.mark.plugin("meta")
def test_a_token_check_belongs_to_its_server_too(tmp_path: Path) -> None:
    from small_model import write_tokenizer

    write_tokenizer(tmp_path / "tokenizer")
    settings = {
        "model_name": "tiny", "evals_dataset": "sample", "tasks": "meta_gpqa", "backend": "server", "concurrency": 4,
        "max_model_len": 65536, "retries": 0, "limit": 6, "tokenizer": str(tmp_path / "tokenizer"),
    }  # fmt: skip
    with FakeServer() as a, FakeServer() as b:
        codes = []
        for server in (a, b):
            config = {**settings, "base_url": server.url}
            (tmp_path / "eval_config.yaml").write_text(json.dumps(config), encoding="utf-8")
            done = cli("fidelity", "--docs", "2", "--no-probe", cwd=tmp_path)
            codes.append(done.returncode)
    assert codes == [0, 2], done.stderr
    assert "--output FOLDER" in done.stderr and "--same-deployment" in done.stderr
