"""Writes the tables of a fidelity run from its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.client import TOO_LONG
from meta_eval.base.hashing import hash_file
from meta_eval.base.pack_names import join_names
from meta_eval.judge.token_table import Choices, Forced, Header, find_choices_path, write_choices, write_tokens
from meta_eval.pack.manifest import MANIFEST
from meta_eval.pack.prompt_lengths import find_tokenizer_file
from meta_eval.plugins.tokens.forced_requests import ProbeRequests, ToForce
from meta_eval.plugins.tokens.probe_table import find_probes_path, write_probes
from meta_eval.sockets import Answer, UserError

# By task, the hash and answer of each request, in the order of the pack.
_Found = Mapping[str, Sequence[tuple[str, Answer]]]


@dataclass(slots=True)
class Tables:
    """The written tables."""

    texts: Path | None = None
    """The table of texts, token by token; None if there is none."""

    choices: Path | None = None
    """The table of choices; likewise."""

    probes: Path | None = None
    """The table of probes; likewise."""

    answers: int = 0
    """Number of answers in the first two."""

    tokens: int = 0
    """Number of tokens of texts."""

    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of docs in no table, by task and reason."""


def write_tables(
    path: Path,
    pending: ToForce,
    answers: Answers,
    probing: ProbeRequests | None = None,
    *,
    model: str,
    settings_sha256: str,
    tokenizer: str | None = None,
    measured: Mapping[str, str] | None = None,
    files: Sequence[Path] = (),
) -> Tables:
    """Write the tables in the order of the pack; a table without rows is not written.

    Args:
        path: The table of texts; the others are next to it.
        pending: The requests.
        answers: The answers.
        probing: The probes; None for none.
        model: The model that was asked.
        settings_sha256: The hash of all settings that affect answers.
        tokenizer: The model with its tokenizer; None for its own.
        measured: Settings of the engine that change rounding; None if they are not known.
        files: The files of answers that the user named, for messages. Without them: that of the run beside the table.

    Raises:
        UserError: Nothing is answered.
        OutputError: They cannot be written.
    """
    answers_by_task, left_out = _sorted(pending, answers)
    used = [answer for rows in answers_by_task.values() for _, answer in rows]
    if not used:
        reasons = ", ".join(
            f"{count:,} {why}" for why, count in sum(map(Counter, left_out.values()), Counter()).items()
        )
        where, hint = (
            join_names([str(file) for file in files], 3),
            "Name answers to the requests of `meta-eval export --force`",
        )
        if not files and answers.failed:
            failed = next(iter(answers.failed.values()))
            where, hint = failed.where, "This line says why. Rerun to ask again, without --no-ask"
        elif not files:
            where, hint = str(path.parent), "Rerun without --no-ask, which asks nothing"
        raise UserError(f"none of these docs has an answer ({reasons})", where=where, hint=hint)
    header = Header(
        model=model,
        engine=", ".join(sorted({answer.engine for answer in used if answer.engine})),
        settings_sha256=settings_sha256,
        manifest_sha256=hash_file(pending.pack / MANIFEST),
        tokenizer_sha256=hash_tokenizer(tokenizer or model),
        docs=pending.docs, left_out=left_out, seed=pending.seed, measured=measured or {},
    )  # fmt: skip
    done = Tables(answers=len(used), left_out=left_out)
    top_ks = [answer.tokens.top_k for answer in used if answer.tokens is not None]
    if top_ks:
        done.tokens = write_tokens(path, header, _texts(answers_by_task, pending, min(top_ks))).tokens
        done.texts = path
    if len(top_ks) < len(used):
        done.choices = find_choices_path(path)
        write_choices(done.choices, header, _choices(answers_by_task, pending))
    probes = list(probing.build_table(answers)) if probing is not None and done.texts else []
    if probes:
        done.probes = find_probes_path(path)
        write_probes(done.probes, header, probes)
    for old in {path, find_choices_path(path), find_probes_path(path)} - {done.texts, done.choices, done.probes}:
        old.unlink(missing_ok=True)  # from another selection of docs; its answers are in the journal
    return done


def hash_tokenizer(model: str) -> str:
    """The SHA-256 of a model's tokenizer.json; empty where it is not on this machine."""
    file = find_tokenizer_file(model)
    return "" if file is None else hash_file(Path(file))


def _sorted(pending: ToForce, answers: Answers) -> tuple[_Found, dict[str, dict[str, int]]]:
    """The existing answers by task, and the number of missing answers by reason."""
    answers_by_task: dict[str, list[tuple[str, Answer]]] = {}
    left_out = {}
    for name, hashes in pending.hashes.items():
        whys = Counter({pending.recordings.missing: pending.docs[name] - len(hashes)})
        for key in hashes.items():
            answer = answers.by_key.get(key)
            if answer is not None and pending.is_whole(answer):
                answers_by_task.setdefault(name, []).append((key[1], answer))
            else:
                whys[_why(answers.failed.get(key))] += 1
        if +whys:
            left_out[name] = dict(sorted((+whys).items()))
    return answers_by_task, left_out


def _why(failed: Answer | None) -> str:
    if failed is None or failed.error is None:
        return "not asked yet"
    return "too long for max_model_len" if TOO_LONG in failed.error else "failed"


def _texts(answers_by_task: _Found, pending: ToForce, top_k: int) -> Iterator[Forced]:
    for name, rows in answers_by_task.items():
        _, subtasks = pending.recordings.read_task(name)
        for sha256, answer in rows:
            tokens = answer.tokens
            if tokens is None:
                continue
            doc = answer.doc
            yield Forced(
                task=name,
                subtask=subtasks[doc],
                doc=doc,
                request_sha256=sha256,
                prompt_tokens=answer.prompt_tokens or 0,
                token_ids=np.asarray(tokens.ids, np.int32),
                logprobs=np.asarray(tokens.logprobs, np.float32),
                ranks=np.asarray(tokens.ranks, np.int32),
                top_ids=np.asarray(tokens.top_ids, np.int32),
                top_logprobs=np.asarray(tokens.top_logprobs, np.float32),
                top_k_ids=_first(tokens.top_k_ids, top_k, np.int32),
                top_k_logprobs=_first(tokens.top_k_logprobs, top_k, np.float32),
            )


def _choices(answers_by_task: _Found, pending: ToForce) -> Iterator[Choices]:
    for name, rows in answers_by_task.items():
        recorded, _ = pending.recordings.read_task(name)
        for sha256, answer in rows:
            recorded_answer = recorded[answer.doc]
            if answer.choices and recorded_answer is not None:
                recorded_logprobs = np.asarray([value for value, _ in recorded_answer.choices], np.float32)
                logprobs = np.asarray([logprob for logprob, _ in answer.choices], np.float32)
                yield Choices(name, answer.doc, sha256, logprobs, recorded_logprobs, int(np.argmax(recorded_logprobs)))


def _first(lists: Any, top_k: int, kind: type[np.generic]) -> Any:
    """The first columns of all rows, which may have more; None for none."""
    return np.asarray([row[:top_k] for row in lists], kind) if top_k else None
