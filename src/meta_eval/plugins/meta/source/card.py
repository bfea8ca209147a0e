"""Finds the files of each subset or split of a dataset, from its card or else from file names.

Pure: the text of a card and names in, names out.

An evals dataset of Meta has a config ``<model>-evals__<subset>__details`` per details subset. Its only split ``latest``
is a single file ``<model>-evals/Details_<subset>_<timestamp>.parquet.gzip``. Names from before October 2024 start with
``Meta-Llama``. A renamed repository keeps its config names, so names are read and never constructed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from meta_eval.base.errors import suggest_name
from meta_eval.base.pack_names import join_names
from meta_eval.base.yaml_files import YamlError, parse_yaml
from meta_eval.harness.output_index import RESTORE_NAME, explain_wrong_time
from meta_eval.plugins.meta.source.dataset import Subset
from meta_eval.sockets import SourceError

CARD = "README.md"

# The text between the first two lines of three hyphens, as the hub splits a card. huggingface_hub's DatasetCard does
# the same but reads the YAML without limits: a card of 543 bytes with nested merges took it 93 s and 1.7 GB (2.4.0).
# parse_yaml refuses that in a millisecond, and duplicate keys too.
_FRONT_MATTER = re.compile(r"[\ufeff\s]*---[^\S\n]*\n(.*?)^---[^\S\n]*$", re.DOTALL | re.MULTILINE)
_CONFIG = re.compile(r"(?P<stem>.+?-evals)__(?P<subset>.+)__details")
_DETAILS = re.compile(
    r"(?:(?P<folder>.+)/)?Details_(?P<subset>.+)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)"
    r"\.parquet(?:\.gzip|\.gz)?"
)
_PLAIN = re.compile(r"(?P<subset>[^/.][^/]*?)(?:\.parquet(?:\.gzip|\.gz)?|\.jsonl)")
_DATA = re.compile(r"(?:\.parquet(?:\.gzip|\.gz)?|\.jsonl|\.json)$")
_SHARD = re.compile(r"-(?P<index>\d{5})-of-(?P<count>\d{5})(?:-[0-9a-f]{16})?(?=\.)")
_METRICS = "metrics_details"  # the file of the metrics config is named like a details file: Details_metrics_details_…
_METRICS_CONFIG = "__metrics"
_SPLITS = ("train", "test", "validation", "valid", "val", "dev")
MAX_CARD_BYTES = 2**20
_LONGEST = 500  # characters of a name or of a path in a card
# Limit of comparisons between the patterns of a card and file names; they take a second or two.
_MOST_MATCHES = 500_000
# Metadata files of dataset tools; never rows.
_NOT_ROWS = ("dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json", "config.json")


@dataclass(frozen=True, slots=True)
class _Config:
    name: str
    is_default: bool
    splits: Mapping[str, tuple[str, ...]]


def find_subsets(card: str | None, names: Iterable[str]) -> tuple[dict[str, Subset], tuple[str, ...]]:
    """The details subsets of an evals dataset.

    The card's configs come first. Other subsets are found by file name: the newest ``Details_<subset>_<timestamp>``
    file, else ``<subset>.parquet`` or ``<subset>.jsonl`` at the top.

    Args:
        card: Text of the card; None without a card.
        names: Every file of the dataset, with ``/``.

    Returns:
        Subsets by name (their files need not exist), and warnings, each a sentence.

    Raises:
        SourceError: Two sets of files claim the same subset.
    """
    ordered = sorted(names)
    files_here = _Names(ordered)
    configs, warnings = _read_card(card)
    table: dict[str, Subset] = {}
    for config in configs:
        split = "latest" if "latest" in config.splits else next(iter(config.splits))
        if config.name.endswith(_METRICS_CONFIG):
            continue
        if len(config.splits) > 1 and split != "latest":
            warnings.append(f"{CARD}: config {config.name} has several splits and none is 'latest'; it is left out.")
            continue
        match = _CONFIG.fullmatch(config.name)
        subset = match["subset"] if match else config.name
        entry = Subset(config.name, files_here.expand(config.splits[split]))
        if table.setdefault(subset, entry).files != entry.files:
            raise _ambiguous(f"subset {subset!r}", [*table[subset].files, *entry.files])
    metrics = find_metrics(card, ordered)
    by_name = _subsets_by_name([name for name in ordered if name not in metrics], frozenset(table))
    return {**by_name, **table}, tuple(warnings)


def find_metrics(card: str | None, names: Iterable[str]) -> tuple[str, ...]:
    """The files of the ``__metrics`` config, which has Meta's reported scores; empty if there is no such config.

    As with subsets, the card comes first, then the newest file of that name.
    """
    ordered = sorted(names)
    files_here = _Names(ordered)
    for config in _read_card(card)[0]:
        if config.name.endswith(_METRICS_CONFIG):
            return files_here.expand(pattern for patterns in config.splits.values() for pattern in patterns)
    dated = [(match["time"], name) for name in ordered if (match := _DETAILS.fullmatch(name))]
    runs = [run for run in dated if _DETAILS.fullmatch(run[1])["subset"] == _METRICS]  # type: ignore[index]
    return (max(runs)[1],) if runs else ()


def _subsets_by_name(names: Sequence[str], listed: frozenset[str]) -> dict[str, Subset]:
    dated: dict[str, list[tuple[str, str, str]]] = {}
    plain: dict[str, list[str]] = {}
    for name in names:
        if match := _DETAILS.fullmatch(name):
            dated.setdefault(match["subset"], []).append((match["time"], match["folder"] or "", name))
        elif match := _PLAIN.fullmatch(name):
            plain.setdefault(match["subset"], []).append(name)
    table: dict[str, Subset] = {}
    for subset in sorted({*dated, *plain} - listed - {_METRICS}):
        runs = dated.get(subset, [])
        # Two folders mean two models; the newer file of the wrong model would give a wrong number.
        if len({folder for _, folder, _ in runs}) + len(plain.get(subset, ())) > 1:
            raise _ambiguous(f"subset {subset!r}", [*(run[2] for run in runs), *plain.get(subset, ())])
        if runs:
            for time, _, name in runs:
                if wrong := explain_wrong_time(time):  # it could be the newest by chance
                    raise SourceError(wrong, where=name, hint=RESTORE_NAME)
            _, folder, newest = max(runs)
            stem = folder.rpartition("/")[2]
            table[subset] = Subset(f"{stem}__{subset}__details" if stem.endswith("-evals") else subset, (newest,))
        else:
            table[subset] = Subset(subset, tuple(plain[subset]))
    return table


def split_files(card: str | None, names: Iterable[str], split: str) -> tuple[str, ...]:
    """Find the files of a split of an original dataset, sorted.

    They are those of the card's default or only config. Without a config, they are the data files with the split as a
    word in their path. If no data file names a split, ``train`` is the only table.

    Raises:
        SourceError: No file has that split, or several files that are not shards of a table could be it.
    """
    ordered = sorted(names)
    files_here = _Names(ordered)
    configs, _ = _read_card(card)
    chosen = [config for config in configs if config.is_default] or configs
    if len(chosen) > 1:
        files = files_here.expand(pattern for config in chosen for pattern in config.splits.get(split, ()))
        raise _ambiguous(f"split {split!r}, of several configs without a default one,", files)
    matches: Sequence[str]
    if chosen and split in chosen[0].splits:
        matches = files_here.expand(chosen[0].splits[split])
    elif chosen:
        raise SourceError(
            f"{CARD} has no split {split!r}{suggest_name(split, chosen[0].splits)}",
            hint=f"It has: {', '.join(chosen[0].splits)}",
        )
    else:
        data = [name for name in ordered if is_data_file(name)]
        matches = [name for name in data if _has_word(name, split)]
        if not matches and split == "train" and not any(_has_word(name, word) for name in data for word in _SPLITS):
            matches = data
        if len({_SHARD.sub("", name) for name in matches}) > 1:
            raise _ambiguous(f"split {split!r}", matches)
    if not matches:
        raise SourceError(
            f"no file holds the split {split!r}",
            hint=f"Its data files are: {_listing(name for name in ordered if is_data_file(name))}",
        )
    _refuse_lost_shards(matches)
    return tuple(sorted(matches))


def is_data_file(name: str) -> bool:
    """Whether a file name is that of a data file: parquet, JSON lines or JSON, and not in a hidden folder."""
    parts = name.split("/")
    return bool(_DATA.search(name)) and not any(part.startswith(".") for part in parts) and parts[-1] not in _NOT_ROWS


def _read_card(card: str | None) -> tuple[list[_Config], list[str]]:
    """The configs in a card's YAML front matter that name data files, and warnings about the rest."""
    matter = _FRONT_MATTER.match(card or "")
    if matter is None:
        return [], []
    try:
        data = parse_yaml(matter[1], where=CARD, as_text=True).tree
    except YamlError as error:
        return [], [f"{CARD}: its front matter is not read ({error.what}); the subsets are taken from the file names."]
    listed = data.get("configs") if isinstance(data, dict) else None
    if listed is None:
        return [], []
    configs: list[_Config] = []
    warnings: list[str] = []
    for number, entry in enumerate(listed if isinstance(listed, list) else [listed], start=1):
        name = entry.get("config_name") if isinstance(entry, dict) else None
        splits = _splits(entry.get("data_files"), entry.get("data_dir")) if isinstance(entry, dict) else None
        if not isinstance(name, str) or len(name) > _LONGEST or splits is None:
            warnings.append(f"{CARD}: entry {number} of 'configs' is malformed; file names stand in for it.")
        elif splits:
            configs.append(_Config(name, name == "default" or entry.get("default") is True, splits))
    return configs, warnings


def _splits(data_files: object, data_dir: object) -> dict[str, tuple[str, ...]] | None:
    """Parse ``data_files``, in any of the hub's spellings, to patterns by split; None for any other shape."""
    if data_files is None:
        return {}
    pairs: list[tuple[object, object]]
    if isinstance(data_files, dict):
        pairs = list(data_files.items())
    elif isinstance(data_files, list) and all(isinstance(item, dict) for item in data_files):
        pairs = [(item.get("split", "train"), item.get("path")) for item in data_files]
    else:
        pairs = [("train", data_files)]
    splits: dict[str, list[str]] = {}
    for split, paths in pairs:
        patterns = [paths] if isinstance(paths, str) else paths
        if not isinstance(split, str) or not isinstance(patterns, list) or not patterns:
            return None
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > _LONGEST:
                return None
            path = f"{data_dir.strip('/')}/{pattern}" if isinstance(data_dir, str) else pattern
            splits.setdefault(split, []).append(path.removeprefix("./"))
    return {split: tuple(paths) for split, paths in splits.items()}


@dataclass(slots=True)
class _Names:
    """The file names that a card's paths are compared with, and the number of comparisons left."""

    names: Sequence[str]
    left: int = _MOST_MATCHES
    listed: frozenset[str] = frozenset()
    parts: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        self.listed, self.parts = frozenset(self.names), [name.split("/") for name in self.names]

    def expand(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Expand a card's paths to file names without duplicates. A path without a file stays, so that fetching it
        fails with a message.

        Raises:
            SourceError: The card has too many patterns for so many files.
        """
        return tuple(dict.fromkeys(name for pattern in patterns for name in self._expand(pattern)))

    def _expand(self, pattern: str) -> list[str]:
        if pattern in self.listed or not re.search(r"[*?\[]", pattern):
            return [pattern]
        split = pattern.split("/")
        steps = [part for previous, part in pairwise(["", *split]) if not part == previous == "**"]
        self.left -= len(self.names) * len(steps)
        if self.left < 0:
            raise SourceError(
                f"has too many file patterns for {len(self.names):,} files",
                where=CARD,
                hint="List the files in its front matter, or remove the patterns to go by file names",
            )
        matches = [name for name, parts in zip(self.names, self.parts, strict=True) if _matches(parts, steps)]
        return matches or [pattern]


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches a pattern, part by part. ``**`` is any number of parts; other parts are shell patterns.

    fnmatch compares the parts. Libraries with ``**`` make a regular expression of the whole pattern: fsspec's took 36 s
    for nine stars and a name of 60 letters. Here the time is at most the product of both lengths. ``places`` are the
    possible positions in the pattern.
    """
    places = _on_from({0}, pattern)
    for part in name:
        here = {place for place in places if place < len(pattern)}
        stay = {place for place in here if pattern[place] == "**"}
        step = {place + 1 for place in here - stay if fnmatchcase(part, pattern[place])}
        places = _on_from(stay | step, pattern)
    return len(pattern) in places


def _on_from(places: set[int], pattern: Sequence[str]) -> set[int]:
    """The positions, and those after a ``**`` that matches nothing. Two ``**`` never follow each other."""
    return places | {place + 1 for place in places if place < len(pattern) and pattern[place] == "**"}


def _has_word(name: str, word: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}(?![a-z0-9])", name.lower()) is not None


def _refuse_lost_shards(files: Sequence[str]) -> None:
    """Refuse a partial copy, if the names of its shards show that some are missing."""
    shards = [match for name in files if (match := _SHARD.search(name))]
    if shards and {int(match["index"]) for match in shards} != set(range(int(shards[0]["count"]))):
        raise SourceError(
            f"only {len(shards)} of {int(shards[0]['count'])} shards found: {_listing(files)}",
            hint="Fetch the whole dataset again",
        )


def _ambiguous(what: str, files: Sequence[str]) -> SourceError:
    return SourceError(
        f"{what} could be any of {_listing(files)}",
        hint="Keep one of them, or list its files in the front matter of README.md",
    )


def _listing(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    return join_names(every, 12) or "none"
