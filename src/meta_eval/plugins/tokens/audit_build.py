"""From a trusted copy's table of an endpoint's answers to the report of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.plugins.tokens.audit_report import AuditReport
from meta_eval.plugins.tokens.endpoint_answers import AnswerFacts, count_cut

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from meta_eval.judge.token_table import Header


def check_noise(noise: Path, header: Header, pack: Path) -> None:
    """Refuse a noise of another pack, before anything is asked.

    Args:
        noise: Its table.
        header: The table's header.
        pack: The folder of the pack whose answers are audited.

    Raises:
        PairingError: The manifests differ.
    """
    from meta_eval.base.hashing import hash_file
    from meta_eval.pack.manifest import MANIFEST
    from meta_eval.plugins.tokens.table_pairing import PairingError

    if header.manifest_sha256 != hash_file(pack / MANIFEST):
        raise PairingError(
            f"is of another pack than {pack}", where=str(noise),
            hint="Audit the answers of your own copy with this pack, and name that table with --noise",
        )  # fmt: skip


def build_audit_report(
    table: Path, facts: Mapping[tuple[str, int], AnswerFacts], *, endpoint: str, noise: Path | None = None,
    tokenizer: Tokenizer | None = None, exit_follows_decision: bool = False, answers: str = "",
) -> AuditReport:  # fmt: skip
    """Judge the answers of a table.

    Args:
        table: The trusted copy's table of the endpoint's answers.
        facts: What the endpoint says of each answer, by task and doc.
        endpoint: The model that the endpoint names.
        noise: The table of answers of another endpoint with the same weights; None without one.
        tokenizer: The trusted copy's, to find tokens that were generated otherwise.
        exit_follows_decision: Whether the exit code follows the outcome.
        answers: Where the answers are from.

    Raises:
        UserError: A table cannot be read, or the noise has another tokenizer or none of these docs.
    """
    from meta_eval.judge.token_table import read_tokens
    from meta_eval.plugins.tokens.answer_audit import judge_answers
    from meta_eval.plugins.tokens.answer_scores import Decoding, score_docs
    from meta_eval.plugins.tokens.audit_causes import count_prompts, find_causes
    from meta_eval.plugins.tokens.fidelity_text import describe_unread_tables
    from meta_eval.plugins.tokens.table_pairing import check_common_docs, check_same_tokenizer
    from meta_eval.sockets import plural

    def decode(ids: Sequence[int]) -> str:
        assert tokenizer is not None  # noqa: S101 (used only with one)
        text: str = tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    tokens = read_tokens(table)
    decodings = {key: Decoding(fact.temperature, fact.top_p) for key, fact in facts.items()}
    clusters = {key: fact.cluster for key, fact in facts.items() if fact.cluster is not None}
    decoder = decode if tokenizer else None
    docs = score_docs(tokens, decodings, decoder, clusters)
    again = None
    if noise is not None:
        check_same_tokenizer(noise, tokens.header.tokenizer_sha256, tokens.header.model)
        again = read_tokens(noise)
        check_common_docs(tokens, again)
    reference = None if again is None else score_docs(again, decodings, decoder, clusters)
    scored = {(doc.task, doc.doc) for doc in docs}
    unscored = sum((answer.task, answer.doc) not in scored for answer in tokens)
    differences, answered = [], []
    for answer in tokens:
        fact = facts.get((answer.task, answer.doc))
        if fact is not None:
            answered.append(fact)
            if fact.prompt_tokens is not None:
                differences.append(fact.prompt_tokens - answer.prompt_tokens)
    verdicts, prompts = judge_answers(docs, reference), count_prompts(differences)
    causes = find_causes(verdicts, docs, prompts, count_cut(answered))
    notes = describe_unread_tables(tokens.header.left_out)
    if unscored:
        notes.append(f"{plural(unscored, 'answer')} left out: no token can be scored")
    if again is not None and again.header.model != tokens.header.model:
        notes.append(f"the noise was scored by {again.header.model}, and the answers by {tokens.header.model}")
    if tokenizer is None:
        notes.append("without the tokenizer, tokens that were generated otherwise count as unlikely")
    return AuditReport(
        endpoint, tokens.header.model, tokens.header.engine, str(table), None if noise is None else str(noise),
        tuple(verdicts), causes, prompts, tuple(notes), exit_follows_decision, answers,
    )  # fmt: skip
