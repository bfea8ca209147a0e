"""What a pack is made of: tasks that can be chosen by name, each of which prepares itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from meta_eval.base.outputs import write_file
from meta_eval.pack.manifest import OriginalEntry
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.records.recorded_docs import RecordedDocs
from meta_eval.pack.records.task_code import read_group
from meta_eval.pack.records.task_groups import ALL
from meta_eval.pack.templates.template_folder import TemplateFolder


@dataclass(slots=True)
class CandidateTask:
    """A prepared task, before its requests are compared with recorded ones."""

    task: PreparedTask
    """The pack's task."""

    rows: RecordedDocs | None = None
    """The recorded docs whose requests lm-eval has to build; None if the task's own docs say what is asked."""

    where: str = ""
    """The record and the task, for messages."""

    rebuild: Callable[[str], PreparedTask] | None = None
    """Makes the task again with another delimiter between prompt and choice."""

    postprocess: Callable[[PreparedTask], PreparedTask] = lambda task: task
    """Changes the task after its requests were checked."""


class TaskSource(ABC):
    """The tasks that a pack can be made of."""

    @abstractmethod
    def choose(self, names: Sequence[str]) -> tuple[list[str], Mapping[str, tuple[str, ...]]]:
        """Choose tasks by names of tasks and groups, and by patterns. A minus leaves out.

        Returns:
            The tasks in the order of the manifest, and the members of each requested group.

        Raises:
            ConfigError: A name is unknown, or no task is left.
        """

    @abstractmethod
    def prepare(self, task: str, context: PrepareContext) -> CandidateTask:
        """Prepare a task that was chosen.

        Raises:
            UserError: It cannot be prepared.
        """

    def find_more_groups(self, tasks: Sequence[PreparedTask]) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002
        """More groups that these tasks make up."""
        return {}

    def read_folder(self, scratch: Path, groups: Sequence[str]) -> TemplateFolder:
        """The YAML of groups, and the aliases of tasks: here, groups as the installed lm-eval averages them.

        Args:
            scratch: A folder that does not exist yet, for files.
            groups: The groups of the pack.
        """
        files = {}
        scratch.mkdir(parents=True)
        for name in groups:
            text = None if name == ALL else read_group(name)  # a search of the installed lm-eval
            if text is not None:
                file = PurePosixPath(f"{name}.yaml")
                write_file(scratch / file, text.encode())
                files[name] = file
        return TemplateFolder(scratch, {}, files)

    def list_originals(self) -> Mapping[str, OriginalEntry]:
        """Other datasets that the prepared tasks were joined with, for the manifest."""
        return {}

    def list_files(self) -> Iterable[str]:
        """Local files that the prepared tasks were made of, outside ``evals_dataset`` and ``template_dir``, as the user
        wrote them."""
        return ()
