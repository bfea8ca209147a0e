"""Lets answers count only for the deployment that gave them.

Each answer has a hash of the address that gave it. Addresses that a configuration lists together are replicas of one
deployment; ``--same-deployment`` says the same of earlier addresses. Answers of any other address are not resumed: they
would be graded as those of this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from meta_eval.ask.answers.answer_files import Answers
from meta_eval.ask.answers.origin_counts import SAME, join_endpoints
from meta_eval.ask.journal import Journal
from meta_eval.base.display import plural
from meta_eval.base.errors import ConfigError
from meta_eval.base.hashing import OWN_SERVER
from meta_eval.base.logs import log, report_progress
from meta_eval.base.secrets import redact_secrets
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.registry import backend_of


def read_earlier_answers(
    journal: Journal,
    settings: RunSettings,
    *,
    asks: bool,
    same: bool,
    folder_option: str = "--set output_path=FOLDER",
) -> Answers:
    """Read the answers so far, and refuse to add others to them that are of another deployment.

    Args:
        journal: Of the run, open.
        settings: They name the addresses.
        asks: Whether the run may ask.
        same: Whether the user says that all addresses of this journal are one deployment.
        folder_option: The option that names another folder.

    Raises:
        AnswersError: They cannot be read.
        ConfigError: Some are of another deployment.
    """
    report_progress("looking for what is not answered yet")
    answers = journal.read()
    endpoints = backend_of(settings).list_endpoints(settings)
    if asks and endpoints:
        _check_deployment(journal, answers, endpoints, settings, same=same, folder_option=folder_option)
    return answers


def _check_deployment(
    journal: Journal,
    answers: Answers,
    endpoints: Sequence[str],
    settings: RunSettings,
    *,
    same: bool,
    folder_option: str,
) -> None:
    journal.endpoint = endpoints[0]
    given = Counter(answer.endpoint for answer in answers.by_key.values())
    if unknown := given.pop(None, 0):
        log.warning(f"{plural(unknown, 'earlier answer')} do not say which address gave them: they count as this one's")
    joined = join_endpoints([*answers.deployments, frozenset(endpoints)])
    own = next(deployment for deployment in joined if endpoints[0] in deployment)
    foreign = {endpoint: count for endpoint, count in given.items() if endpoint not in own}
    if foreign and not same:
        where = "base_url" if settings.base_url else "serve"
        urls = redact_secrets(", ".join(settings.base_url))
        this = "a server of this run's own" if endpoints[0] == OWN_SERVER else urls
        raise ConfigError(
            f"{plural(sum(foreign.values()), 'answer')} in {journal.path.parent} came from another address than {this}",
            where=where,
            hint=f"Ask this one in a folder of its own: {folder_option}. If the deployment only moved, add "
            "--same-deployment",
        )
    # Shards that run at the same time do not see each other's answers; what they all say joins them.
    together = frozenset({*endpoints, *foreign, *([SAME] if same else ())})
    if len(together) > 1 and not any(together <= deployment for deployment in answers.deployments):
        journal.note(deployment=sorted(together))
