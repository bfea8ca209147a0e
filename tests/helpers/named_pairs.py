"""Pairs of runs that differ in one thing, by name. Each was once judged wrongly, or nearly.

All docs are made up. A case writes its runs and says what is compared: folders of A, folders of B, options.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from drawn_logs import Asked
from runs import write_lines
from stock_runs import SETTINGS, Row, make_choice, make_sample, write_stock_run

# Of each doc the answer, whether it is right, and what a filter extracts.
Answers = list[tuple[str | None, bool, str]]
Compared = tuple[list[Path], list[Path], dict[str, Any]]

DOCS = 400
_UNREAD = "[invalid]"
WORDS = [
    "river",
    "lamp",
    "the",
    "of",
    "seven",
    "hat",
    "quick",
    "stone",
    "blue",
    "over",
    "lantern",
    "and",
    "then",
    "go",
]
CASES: dict[str, Callable[[Path], Compared]] = {}


def _case(make: Callable[[Path], Compared]) -> Callable[[Path], Compared]:
    CASES[make.__name__.strip("_").replace("_", " ")] = make
    return make


def _answer(share: float, seed: int = 3, docs: int = DOCS) -> Answers:
    """Answers of which a share is right; which of them, the seed says."""
    chance = random.Random(seed)
    return [(f"#### {doc if right else 'x'}", right, f"{doc if right else 'x'}") for doc in range(docs)
            for right in [chance.random() < share]]  # fmt: skip


def _spoil(answers: Answers, which: Collection[int], text: str | None, extracted: str = _UNREAD) -> Answers:
    return [(text, False, extracted) if doc in which else answer for doc, answer in enumerate(answers)]


def _rows(
    answers: Answers, filters: Sequence[str] = ("strict", "flexible"), metric: str = "exact_match",
    settings: Mapping[str, Any] = SETTINGS, **parts: Any,
) -> list[Row]:  # fmt: skip
    """A row for each answer and filter. ``parts`` are of all samples, or functions of the doc."""
    rows = []
    for doc, (text, right, extracted) in enumerate(answers):
        own = {name: value(doc) if callable(value) else value for name, value in parts.items()}
        prompt = own.pop("prompt", f"Question: what is {doc} and {doc}?\nAnswer:")
        arguments = {"gen_args_0": {"arg_0": prompt, "arg_1": dict(settings)}}
        rows += [
            make_sample(doc, name, {metric: float(right)}, text=text, extracted=extracted, prompt=prompt,
                        arguments=arguments, **own)
            for name in filters
        ]  # fmt: skip
    return rows


def _write(folder: Path, tasks: Mapping[str, Sequence[Row]] | Sequence[Row], **head: Any) -> Path:
    """Write a run; rows without a task are of ``sums``. ``model`` names it, ``day`` is when, the rest is of the file."""
    named = tasks if isinstance(tasks, Mapping) else {"sums": tasks}
    model, higher = head.pop("model", "org/m"), head.pop("higher", True)
    configs, versions = {}, head.pop("version", 1.0)
    for task, rows in named.items():
        metrics = sorted({metric for row in rows for metric in row["metrics"]})
        kind = "multiple_choice" if "gen_args_1" in rows[0]["arguments"] else "generate_until"
        configs[task] = {
            "task": task, "output_type": kind, "num_fewshot": 0, "metadata": {"version": versions},
            "repeats": head.get("repeats", 1), "generation_kwargs": rows[0]["arguments"]["gen_args_0"]["arg_1"],
            "metric_list": [{"metric": each, "aggregation": "mean", "higher_is_better": higher} for each in metrics],
        }  # fmt: skip
    args = {"pretrained": model, **head.pop("model_args", {})}
    day = head.pop("day", 1)
    write_stock_run(
        folder, named, configs=configs, model_name=model,
        config={"model": head.pop("backend", "vllm"), "model_args": args, "limit": None, "gen_kwargs": {}},
        versions=dict.fromkeys(named, versions), **{"n-shot": dict.fromkeys(named, 0)},
        higher_is_better={task: dict.fromkeys({m for row in rows for m in row["metrics"]}, higher) for task, rows in named.items()},
        **{"total_evaluation_time_seconds": "100.0", "date": 1772272800.0 + 86400 * day, **head},
    )  # fmt: skip
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("2026-03-01T", f"2026-03-{day:02}T")))
    return folder


def _pair(folder: Path, a: Any, b: Any, of_a: Mapping[str, Any] | None = None, of_b: Mapping[str, Any] | None = None,
          **options: Any) -> Compared:  # fmt: skip
    """Two runs, each with its heads."""
    return [_write(folder / "A", a, **(of_a or {}))], [_write(folder / "B", b, **(of_b or {}))], options


_CUT = "first we look at the number and then " * 60
# Records of which much is lost, or nothing, and the run beside each.
RECORDS: dict[str, tuple[Answers, Answers]] = {
    "all empty": (_spoil(_answer(0.9), range(DOCS), ""), _answer(0.15, 11)),
    "a fifth empty": (_spoil(_answer(0.9), range(0, DOCS, 5), ""), _answer(0.78)),
    "sound": (_answer(0.9), _answer(0.88)),
    "a fifth cut": (_spoil(_answer(0.9), range(0, DOCS, 5), _CUT), _answer(0.78)),
}


def write_record(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """A record, a run beside it, and the folder with the task of both."""
    docs = [{"question": f"What is the double of {doc}/2?", "gold": str(doc)} for doc in range(DOCS)]
    a, b = (
        _rows(
            answers,
            doc=docs.__getitem__,
            prompt=lambda doc: docs[doc]["question"],
            doc_hash=lambda doc: _hash(json.dumps(docs[doc])),
        )
        for answers in RECORDS[name]
    )
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    write_lines(tasks / "sums.jsonl", docs)
    found = {name: {"function": "regex", "regex_pattern": form} for name, form in _FORMS.items()}
    tree = {
        "task": "sums", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "sums.jsonl"}},
        "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{gold}}",
        "generation_kwargs": SETTINGS, "metadata": {"version": 1.0},
        "filter_list": [{"name": name, "filter": [how, {"function": "take_first"}]} for name, how in found.items()],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (tasks / "sums.yaml").write_text(yaml.dump(tree), encoding="utf-8")
    head = {"lm_eval_version": "0.4.13"}
    return _write(folder / "A", a, **head), _write(folder / "B", b, **head), tasks


_FORMS = {"strict": r"^#### (\w+)$", "flexible": r"(\w+)$"}


def write_answers(folder: Path, asked: Sequence[Asked]) -> Path:
    """The answers to drawn questions as lm-eval writes them, under another prompt."""
    answers: Answers = [(one.text, one.right, one.text) for one in asked]
    docs = [{"question": one.question, "gold": one.gold} for one in asked]
    prompts = [json.dumps([{"role": "user", "content": f"Answer with a number. {one.question}"}]) for one in asked]
    rows = _rows(
        answers, ("none",), doc=docs.__getitem__, target=lambda doc: asked[doc].gold, prompt=prompts.__getitem__
    )
    return _write(folder, rows, backend="local-chat-completions", chat_template="T")


def write_night(folder: Path, night: int, lost: int) -> Path:
    """A run of a history: of 200 docs 120 are right, 30 flip from run to run, and some more are lost."""
    chance = random.Random(night)
    rights = [doc >= lost if doc < 120 else doc < 150 and chance.random() < 0.5 for doc in range(200)]
    return _write(folder, _rows([(f"{right}", right, "x") for right in rights], ("none",)), day=1 + night)


@_case
def _thoughts_left(folder: Path) -> Compared:
    good = _answer(0.9)
    left = [
        (f"<think>1 or {value}? Let me add.</think>{text}", right and doc % 5 > 0, value if doc % 5 else "1")
        for doc, (text, right, value) in enumerate(good)
    ]
    ends = {"model_args": {"think_end_token": "</think>"}, "chat_template": "T"}
    return _pair(folder, _rows(good, ("first",)), _rows(left, ("first",)), ends, {"chat_template": "T"})


@_case
def _empty_answers(folder: Path) -> Compared:
    good = _answer(0.95, 1, 1300)
    return _pair(folder, _rows(good), _rows(_spoil(good, range(0, 700, 10), "")))


@_case
def _word_salad(folder: Path) -> Compared:
    chance, good = random.Random(5), _answer(0.95, 1, 1300)
    salad = [
        (" ".join(chance.choice(WORDS) for _ in range(180)) + " 4", False, "4") if doc % 20 == 3 else answer
        for doc, answer in enumerate(good)
    ]
    return _pair(folder, _rows(good), _rows(salad))


@_case
def _open_fences(folder: Path) -> Compared:
    programs = [(f"```python\nprint({value})\n```", right, value) for _, right, value in _answer(0.9)]
    opened = [
        (text.removesuffix("\n```"), False, value) if doc % 8 == 0 else (text, right, value)
        for doc, (text, right, value) in enumerate(programs)
    ]
    return _pair(folder, _rows(programs, ("code",)), _rows(opened, ("code",)))


@_case
def _golds_changed(folder: Path) -> Compared:
    def rows(changed: int) -> list[Row]:
        answers = [(text, right and doc >= changed, value) for doc, (text, right, value) in enumerate(_answer(0.8, 9))]
        return _rows(answers, ("strict",), target=lambda doc: str(doc + 7 if doc < changed else doc),
                     target_hash=lambda doc: _hash(str(doc + 7 if doc < changed else doc)))  # fmt: skip

    return _pair(folder, rows(0), rows(40))


@_case
def _other_system_message(folder: Path) -> Compared:
    def rows(answers: Answers, *before: dict[str, str]) -> list[Row]:
        return _rows(answers, prompt=lambda doc: json.dumps([*before, {"role": "user", "content": f"What is {doc}?"}]))

    system = {"role": "system", "content": "Be careful."}
    head = {"backend": "local-chat-completions", "chat_template": "T"}
    return _pair(
        folder, rows(_answer(0.6)), rows(_answer(0.8, 4), system), head, head | {"system_instruction": "Be careful."}
    )


@_case
def _multiturn(folder: Path) -> Compared:
    def rows(answers: Answers, *, many: bool) -> list[Row]:
        shots = [{"role": "user", "content": "Q: x"}, {"role": "assistant", "content": "1"}] if many else []
        return _rows(answers, prompt=lambda doc: json.dumps(
            [*shots, {"role": "user", "content": f"{'' if many else 'Q: x A: 1 '}What is {doc}?"}]))  # fmt: skip

    head = {"backend": "local-chat-completions", "chat_template": "T"}
    return _pair(folder, rows(_answer(0.8, 5), many=False), rows(_answer(0.8, 6), many=True),
                 head | {"fewshot_as_multiturn": False}, head | {"fewshot_as_multiturn": True})  # fmt: skip


@_case
def _token_limit(folder: Path) -> Compared:
    a, b = (_rows(_answer(0.8, most), settings={**SETTINGS, "max_gen_toks": most}) for most in (1024, 256))
    return _pair(folder, a, b)


@_case
def _filter_name(folder: Path) -> Compared:
    return _pair(folder, _rows(_answer(0.8), ("none",)), _rows(_answer(0.8, 6), ("flexible",)))


@_case
def _judge_flips(folder: Path) -> Compared:
    good = _answer(0.9)
    lost: Answers = [
        (f"#### 1 {doc}", False, "1") if doc % 4 == 0 else (text, right != (doc in (1, 2, 3)), value)
        for doc, (text, right, value) in enumerate(good)
    ]
    return _pair(folder, _rows(good), _rows(lost), None, {"model": "org/n"})


def _passages(folder: Path, **options: Any) -> Compared:
    def rows(*, is_b: bool) -> list[Row]:
        chance, answers, docs = random.Random(5), [], []
        for doc in range(1000):
            right, flips = chance.random() < 0.7, chance.random() < 0.04
            right = (right != (flips and is_b)) and not (is_b and doc < 40)
            answers.append((f"{is_b} {doc if right else 0}", right, str(doc if right else 0)))
            shared = f"Passage {doc // 20}. {'Words that twenty questions share. ' * 6}"
            docs.append({"question": f"Question {doc}", "passage": shared})
        return _rows(answers, ("none",), doc=docs.__getitem__, doc_hash=lambda doc: _hash(json.dumps(docs[doc])),
                     prompt=lambda doc: docs[doc]["question"])  # fmt: skip

    return _pair(folder, rows(is_b=False), rows(is_b=True), **options)


CASES["passages"] = _passages
CASES["passages as clusters"] = lambda folder: _passages(folder, cluster={"sums": "passage"})


def _second_run(folder: Path) -> list[Path]:
    chance, runs = random.Random(1), []
    for at, run in enumerate(("A1", "A2", "B")):
        tasks = {}
        for task, docs in enumerate((270, 660, 224, 500)):
            truth, answers = random.Random(task), []
            for doc in range(docs):
                right = truth.random() < 0.6
                right = chance.random() < 0.5 if chance.random() < 0.04 else right
                answers.append((f"{doc if right else run}", right, str(doc if right else "x")))
            tasks[f"part_{task}"] = _rows(answers, ("none",))
        runs.append(_write(folder / run, tasks, day=1 + at))
    return runs


@_case
def _second_run_of_a(folder: Path) -> Compared:
    first, second, other = _second_run(folder)
    return [first, second], [other], {}


@_case
def _one_run_of_a(folder: Path) -> Compared:
    first, _, other = _second_run(folder)
    return [first], [other], {}


@_case
def _drop_is_the_margin(folder: Path) -> Compared:
    good: Answers = [(f"#### {doc}", doc % 5 > 0, str(doc)) for doc in range(DOCS)]
    return _pair(folder, _rows(good), _rows(_spoil(good, range(1, DOCS // 20, 5), "#### x", "x")))


@_case
def _other_grader(folder: Path) -> Compared:
    good = _answer(0.6, 1, 1300)
    regraded = [(text, right and doc % 12 > 0, value) for doc, (text, right, value) in enumerate(good)]
    return _pair(folder, _rows(good), _rows(regraded), None, {"version": 1.1})


@_case
def _likelihoods_that_are_no_numbers(folder: Path) -> Compared:
    def rows(*, broken: bool) -> list[Row]:
        chance, made = random.Random(7), []
        for doc in range(2000):
            gold, best, is_lost = chance.randrange(4), chance.randrange(4), chance.random() < 0.6 and broken
            values = ["nan"] * 4 if is_lost else [str(-1.0 if place == best else -3.0) for place in range(4)]
            own = {"prompt_hash": _hash(f"Q{doc}")}
            made.append({**make_choice(doc, values, (0 if is_lost else best) == gold), **own, "target": gold})
        return made

    return _pair(folder, {"near_chance": rows(broken=False)}, {"near_chance": rows(broken=True)})


def _lose(answers: Answers, **changes: Any) -> Answers:
    """The same answers, of which some 45 % that were wrong anyway are changed: ``text``, ``extracted``."""
    return [
        (changes.get("text", text), right, changes.get("extracted", value)) if not right and doc % 8 else (text, right, value)
        for doc, (text, right, value) in enumerate(answers)
    ]  # fmt: skip


@_case
def _answers_that_are_null(folder: Path) -> Compared:
    low = _answer(0.45, 2, 1300)
    return _pair(folder, _rows(low), _rows(_lose(low, text=None, extracted=_UNREAD)))


@_case
def _nothing_extracted(folder: Path) -> Compared:
    low = _answer(0.45, 2, 1300)
    unread = [*_rows(_lose(low, extracted=_UNREAD), ("strict",)), *_rows(low, ("flexible",))]
    return _pair(folder, _rows(low), unread)


@_case
def _two_bos(folder: Path) -> Compared:
    def rows(answers: Answers) -> list[Row]:
        return _rows(
            answers, prompt=lambda doc: f"<bos><start_of_turn>user\n{doc}<end_of_turn>\n<start_of_turn>model\n"
        )

    head = {"model_args": {"add_bos_token": True}, "chat_template": "{{ bos_token }}"}
    return _pair(folder, rows(_answer(0.5, 5)), rows(_answer(0.6, 1)), {**head, "lm_eval_version": "0.4.9.1"}, head)


@_case
def _same_texts(folder: Path) -> Compared:
    rows = _rows(_answer(0.6, 1, 3000), ("strict",))
    return _pair(folder, rows, rows, {"model": "org/base"}, {"model": "org/base-lora"})


@_case
def _thoughts_that_never_end(folder: Path) -> Compared:
    def rows(cut: Callable[[int], bool]) -> list[Row]:
        answers: Answers = [
            ("<think>\nLet me add.", False, _UNREAD)
            if cut(doc)
            else (f"<think>\nSo.\n</think>\n\n{text}", right, value)
            for doc, (text, right, value) in enumerate(_answer(0.6, 1, 1300))
        ]
        return _rows(answers, settings={**SETTINGS, "max_gen_toks": 4096})

    return _pair(folder, rows(lambda _: False), rows(lambda doc: doc % 12 == 0))


@_case
def _four_answers_in_a_line(folder: Path) -> Compared:
    def rows(share: float) -> list[Row]:
        chance, made = random.Random(7), []
        for doc in range(300):
            values = [str(doc) if chance.random() < share else "x" for _ in range(4)]
            row = make_sample(doc, "take_first_k", {"exact_match": float(values[0] == str(doc))}, extracted=values[0])
            made.append({**row, "resps": [[f" #### {value}" for value in values]]})
        return made

    return _pair(folder, rows(0.6), rows(0.5), {"repeats": 4}, {"repeats": 4})


@_case
def _direction(folder: Path) -> Compared:
    a, b = (_rows(_answer(share, 11, 2000), ("none",), "wrong") for share in (0.1, 0.126))
    return _pair(folder, a, b, {"higher": False}, {"higher": True})


@_case
def _scale(folder: Path) -> Compared:
    def tasks(mean: float) -> dict[str, list[Row]]:
        judged = [make_sample(doc, "none", {"judge_score": mean + doc % 7 - 3}, text="x") for doc in range(400)]
        return {"judged": judged, "sums": _rows(_answer(0.6, 1, 2000), ("none",))}

    return _pair(folder, tasks(79.6), tasks(39.6))


@_case
def _a_penalty_of_one_side(folder: Path) -> Compared:
    good = _answer(0.8, 3)
    return _pair(folder, _rows(good), _rows(good, settings={**SETTINGS, "repetition_penalty": 1.3}))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
