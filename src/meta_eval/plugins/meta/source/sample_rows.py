"""Makes the rows of the sample from the YAML in ``meta_eval/sample``.

The YAML is written by hand (``texts.yaml`` there explains its format). Opening the sample adds prompts, hashes and the
columns of Meta's details subsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from meta_eval.base.hashing import hash_text
from meta_eval.harness.families import list_families
from meta_eval.plugins.meta.source.rows import SourceRow
from meta_eval.sockets import read_regular

if TYPE_CHECKING:
    from jinja2 import Environment

TEXTS: Final = "texts.yaml"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FAMILY: Final = list_families()[0]
# The part of eval_config that is the same in all of Meta's rows, by task type.
_SAMPLING: Final = {"num_generations": 1, "temperature": 0.0, "top_k": 0, "top_p": 0}
_CONFIG: Final = {
    "Generative": {"return_logprobs": "false", "seed": 42, **_SAMPLING},
    "Choice": {"return_logprobs": "true", "seed": 42},
}
# Defaults of a subset.
_DEFAULTS: Final[SourceRow] = {
    "subtask": None,
    "subtasks": {},
    "few_shot": [],
    "bos": False,
    "choices": None,
    "compares": "raw",
    "input_question": "{{ question }}",
    "input_correct_responses": "{{ gold }}",
    "output_metrics": None,
}


@dataclass(frozen=True, slots=True)
class SampleTable:
    """One subset or original of the sample."""

    folder: str
    """``<model>-evals``, or ``originals``."""

    name: str
    """The name of the subset or original."""

    source: Path
    """The YAML file that defines it."""

    rows: Sequence[SourceRow]
    """With the columns of Meta's details subsets, or of the original."""

    disagreements: Mapping[str, str]
    """By question hash, why the recorded verdict is deliberately wrong."""

    def content(self) -> bytes:
        """The rows as JSON lines."""
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows).encode()


def list_sources(folder: Path) -> list[str]:
    """The names of the YAML files of a folder that define tables, sorted."""
    return sorted(path.name for path in folder.glob("*.yaml") if path.name != TEXTS)


def make_tables(path: Path) -> Iterator[SampleTable]:
    """Make everything that a YAML file defines.

    Raises:
        OSError: The file, or the texts beside it, cannot be read.
        yaml.YAMLError, KeyError, jinja2.TemplateError: It has the wrong format.
    """
    document = _load(path)
    templates = _Templates({**_load(path.parent / TEXTS)["texts"], **document.pop("texts", {})})
    questions = document.pop("questions", {})
    originals = document.pop("originals", {})
    for subset in document.pop("subsets"):
        yield _Subset({**document, **subset}, questions, templates).table(path)
    for name, columns in originals.items():
        asked = enumerate(questions.values())
        rows = [templates.fill(columns, {**question, "number": number}) for number, question in asked]
        yield SampleTable("originals", name, path, rows, {})


class _Templates:
    """The Jinja templates of one file; each may include any of the named texts."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.environment = _environment(texts)
        self.compiled: dict[str, Callable[..., Any]] = {}

    def fill(self, template: Any, scope: SourceRow) -> Any:
        """Fill a template with the values of a scope. A value that is a single ``{{ expression }}`` keeps its type,
        such as a list or number."""
        if isinstance(template, dict):
            return {key: self.fill(value, scope) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value, scope) for value in template]
        if not isinstance(template, str) or "{" not in template:
            return template
        name = template[3:-3]
        if name.isidentifier() and template == f"{{{{ {name} }}}}":  # the most common case, faster without Jinja
            return scope[name]
        if template not in self.compiled:
            match = re.fullmatch(r"\{\{((?:(?!\{\{|\}\}).)*)\}\}", template, re.DOTALL)
            self.compiled[template] = (
                self.environment.compile_expression(match[1], undefined_to_none=False)
                if match
                else self.environment.from_string(template).render
            )
        return self.compiled[template](scope)


class _Subset:
    """A subset: its settings, with those of the whole file, and the questions of its rows."""

    def __init__(self, settings: SourceRow, questions: Mapping[Any, SourceRow], templates: _Templates) -> None:
        self.settings = {**_DEFAULTS, "task_name": settings["name"], **settings}
        self.questions = questions
        if "language" in settings:
            self.questions = {key: _translated(question, settings["language"]) for key, question in questions.items()}
        self.fill = templates.fill
        self.shots: dict[tuple[str | None, int], str] = {}

    def table(self, source: Path) -> SampleTable:
        rows, disagreements = [], {}
        for number, recorded in enumerate(self.settings["rows"]):
            try:
                row = self._row(recorded, number)
            except Exception as error:
                error.add_note(f"in {source}, subset {self.settings['name']}, row {number}")
                raise
            rows.append(row)
            if "disagrees" in recorded:
                disagreements[row["input_question_hash"]] = recorded["disagrees"]
        return SampleTable(f"{self.settings['model']}-evals", self.settings["name"], source, rows, disagreements)

    def _row(self, recorded: SourceRow, number: int) -> SourceRow:
        """Make a row. Values of the row and its question are used as they are; values of subset and subtask are filled
        templates."""
        answer = {**self.questions.get(recorded.get("of"), {}), **recorded}
        subtask = answer.get("subtask") or self.fill(self.settings["subtask"], answer)
        shared = {**self.settings, **self.settings["subtasks"].get(subtask, {})}
        scope = _lettered({**shared, **answer, "subtask": subtask, "number": number})

        def value(name: str) -> Any:
            return answer[name] if name in answer else self.fill(shared[name], scope)

        prompt = scope["final_prompt"] = _FAMILY.bos * scope["bos"] + self._prompt(shared, scope)
        if "likelihoods" in answer:
            kind, ends = "Choice", scope.get("ends") or list(scope["choices"])
            prompts, completions = [f"{prompt} {end}" for end in ends], [f"Answer: {end}" for end in ends]
            likelihoods = _normalised(answer["likelihoods"], completions)
            compared = likelihoods[shared["compares"]]
            output, parsed = None, completions[compared.index(min(compared))]
        else:
            kind, prompts, completions, likelihoods = "Generative", [prompt], None, None
            output = scope["output"] = value("output")
            parsed = value("parsed")
        question, gold, correct = value("input_question"), value("input_correct_responses"), value("is_correct")
        metrics = value("output_metrics") or {shared["metric"]: int(correct)}
        config = {**_CONFIG[kind], **shared["eval_config"]}
        return {
            "task_type": kind,
            "task_name": shared["task_name"],
            "subtask_name": f"{shared['task_name']}.{subtask}" if subtask else None,
            "input_question": question,
            "input_choice_list": scope["choices"],
            "input_final_prompts": prompts,
            "input_correct_responses": gold if isinstance(gold, list) else [gold],
            "output_prediction_text": None if output is None else [output],
            "output_parsed_answer": parsed,
            "output_choice_completions": completions,
            "output_choice_negative_log_likelihoods": likelihoods,
            # Shares are written as fractions: 2/3.
            "output_metrics": {name: float(Fraction(str(share))) for name, share in metrics.items()},
            "is_correct": correct,
            "input_question_hash": hash_text(question),
            "input_final_prompts_hash": [hash_text(prompt) for prompt in prompts],
            "benchmark_label": shared["benchmark_label"],
            "eval_config": {key: str(config[key]) for key in sorted(config)},
        }

    def _prompt(self, shared: SourceRow, scope: SourceRow) -> str:
        """Render the prompt, without BOS: a dialog if it has user turns, else plain text."""
        form, shots = shared["prompt"], shared["few_shot"]
        if isinstance(shots, int):
            shots = self._others(scope["of"], shots)
        preamble, prefix = self.fill(form.get("before", ""), scope), self.fill(form.get("prefix", ""), scope)
        if "system" in form:
            preamble += _FAMILY.turn("system", self.fill(form["system"], scope))
        shown = "".join(self._shot(shared, scope["subtask"], shot) for shot in shots)
        if "text" in form:
            return f"{preamble}{shown}{self.fill(form['text'], scope)}"
        asked = _FAMILY.turn("user", self.fill(form["user"], scope))
        return f"{preamble}{shown}{asked}{_FAMILY.head('assistant')}{prefix}"

    def _shot(self, shared: SourceRow, subtask: str | None, shot: SourceRow) -> str:
        """Render a question with its answer for use as a shot; cached for all rows of a subtask."""
        if (subtask, id(shot)) not in self.shots:
            form, scope = shared["prompt"], _lettered({**shared, **shot})
            if "text" in form:
                shown = self.fill(form["text"], scope) + self.fill(form["answer"], scope)
            else:
                user_text, assistant_text = self.fill(form["user"], scope), self.fill(form["assistant"], scope)
                shown = _FAMILY.turn("user", user_text) + _FAMILY.turn("assistant", assistant_text)
            self.shots[subtask, id(shot)] = shown
        return self.shots[subtask, id(shot)]

    def _others(self, key: Any, count: int) -> list[SourceRow]:
        """The next questions of the same subtask; after the last comes the first."""
        subtask = self.questions[key].get("subtask")
        same = [name for name, question in self.questions.items() if question.get("subtask") == subtask]
        place = same.index(key)
        return [self.questions[name] for name in (same[place + 1 :] + same[:place])[:count]]


def _translated(question: SourceRow, language: str) -> SourceRow:
    return {name: value[language] if isinstance(value, dict) else value for name, value in question.items()}


def _lettered(scope: SourceRow) -> SourceRow:
    """Add choices by letter to a scope. With ``letters``, letters after the last choice are None, as in Meta's rows."""
    if scope["choices"] is None:
        return scope
    letters = scope.get("letters") or "ABCDEFGHIJ"[: len(scope["choices"])]
    return {**scope, "choices": dict(zip_longest(letters, scope["choices"]))}


def _normalised(raw: Sequence[float], completions: Sequence[str]) -> dict[str, list[float]]:
    """Negative log-likelihoods, in total, per character of a completion, and per token (words, colons, end)."""
    return {
        "raw": list(raw),
        "text": [round(value / len(text), 6) for value, text in zip(raw, completions, strict=True)],
        "token": [round(value / 3, 6) for value in raw],
    }


def _environment(texts: Mapping[str, str]) -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(  # noqa: S701 (prompts are no HTML)
        loader=DictLoader(texts),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        # The group of the pattern's first or last match, or empty.
        "first_match": lambda text, pattern: next(iter(re.findall(pattern, text)), ""),
        "last_match": lambda text, pattern: (re.findall(pattern, text) or [""])[-1],
        # A line per choice: the first {} is the letter, the second the choice.
        "lines": lambda choices, form="{}. {}", between="\n": between.join(
            form.format(letter, choice) for letter, choice in choices.items() if choice is not None
        ),
        "json": json.dumps,
    }
    return environment


def _load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(read_regular(path), Loader=_LOADER)  # noqa: S506 (a safe loader)
    return content
