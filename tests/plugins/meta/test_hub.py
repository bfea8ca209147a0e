"""Loading from the hub: the real huggingface_hub against a hub of our own over HTTP, and every way that it can fail."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakehub import FakeHub, sha256
from forked import Forked
from marks import thorough

from meta_eval.base.errors import SourceError
from meta_eval.pack import hub
from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source import hub_datasets

EVALS = "acme/Llama-3.1-8B-Instruct-evals"
OLD = "acme/Meta-Llama-3.1-8B-Instruct-evals"
STEM = "Llama-3.1-8B-Instruct-evals"
PRO = f"{STEM}/Details_mmlu_pro_2024-09-01T10-00-00.123456.parquet.gzip"
MMLU = f"{STEM}/Details_mmlu_2024-09-01T10-00-00.123456.parquet.gzip"
UNKNOWN = Identity(None, None, None)
INSTRUCT = Identity("Llama-3.1-8B-Instruct", "3.1", "instruct")
API_PATH = "/api/datasets/"
SECRET = "hf_thisIsNoTokenOfAnybody"


def parquet(*values: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"value": list(values)}), sink, compression="gzip")
    return sink.getvalue()


def card(*configs: tuple[str, str]) -> bytes:
    lines = [
        f"- config_name: {name}\n  data_files:\n  - split: latest\n    path:\n    - {path}\n" for name, path in configs
    ]
    return f"---\nconfigs:\n{''.join(lines)}---\n# A card\n".encode()


CARD = card((f"{STEM}__mmlu_pro__details", f"{STEM}/Details_mmlu_pro_*"), (f"{STEM}__mmlu__details", MMLU))
FILES = {"README.md": CARD, PRO: parquet("one", "two"), MMLU: parquet("three")}


@dataclass
class Bench:
    """A hub, a cache and a client that notes its waits instead of waiting."""

    hub: FakeHub
    cache: Path
    waits: list[float] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def client(self) -> hub.HubClient:
        return hub.HubClient(
            endpoint=self.hub.url,
            cache_dir=self.cache,
            sleep=self.waits.append,
            jitter=lambda: 0.5,
            **self.settings,  # type: ignore[arg-type]
        )

    def evals(self, dataset_id: str = EVALS, revision: str | None = None, identity: Identity = UNKNOWN):
        return hub_datasets.open_evals_dataset(dataset_id, revision=revision, identity=identity, client=self.client)

    def original(self, files: dict[str, bytes], split: str) -> tuple[DataFile, ...]:
        self.hub.add("acme/original", files)
        return hub_datasets.open_original("acme/original", revision=None, client=self.client).fetch(split)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library waits too, and its waits cannot be set
    with FakeHub() as server:
        server.add(EVALS, FILES)
        yield Bench(server, tmp_path / "cache")


@pytest.fixture
def nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """The same with nobody logged in."""
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    return bench


def message(action: Callable[[], object]) -> str:
    with pytest.raises(SourceError) as caught:
        action()
    assert SECRET not in str(caught.value)
    return str(caught.value)


# What is found


def test_opens_at_the_commit_and_fetches_what_the_card_names(bench: Bench) -> None:
    dataset = bench.evals()
    assert dataset.revision == bench.hub.heads[EVALS]
    assert dataset.subsets == ("mmlu", "mmlu_pro")
    assert dataset.config_name("mmlu_pro") == f"{STEM}__mmlu_pro__details"
    assert (dataset.identity, dataset.warnings, dataset.kind) == (INSTRUCT, (), "hub")
    (file,) = dataset.fetch("mmlu_pro")
    assert (file.name, file.sha256) == (PRO, sha256(FILES[PRO]))
    assert file.path.read_bytes() == FILES[PRO]


def test_a_commit_stays_what_it_was(bench: Bench) -> None:
    first = bench.hub.heads[EVALS]
    bench.hub.add(EVALS, {**FILES, MMLU: parquet("changed")})
    (file,) = bench.evals(revision=first).fetch("mmlu")
    assert file.sha256 == sha256(FILES[MMLU])
    (file,) = bench.evals().fetch("mmlu")
    assert file.sha256 == sha256(parquet("changed"))


def test_what_is_cached_is_not_downloaded_again(bench: Bench) -> None:
    bench.evals().fetch("mmlu")
    bench.hub.requests.clear()
    bench.evals().fetch("mmlu")
    assert not bench.hub.seen("/cdn/")


def test_a_former_id_and_former_config_names_are_followed(bench: Bench) -> None:
    name = "Meta-Llama-3.1-8B-Instruct-evals__mmlu__details"
    bench.hub.add(EVALS, {**FILES, "README.md": card((name, MMLU))})
    bench.hub.move(OLD, EVALS)
    dataset = bench.evals(OLD)
    assert dataset.config_name("mmlu") == name
    assert dataset.identity == INSTRUCT
    assert dataset.fetch("mmlu")[0].sha256 == sha256(FILES[MMLU])


def test_without_configs_the_newest_file_of_each_subset_counts(bench: Bench) -> None:
    older = PRO.replace("2024-09-01", "2024-08-31")
    metrics = f"{STEM}/Details_metrics_details_2024-09-01T10-00-00.1.parquet.gzip"
    bench.hub.add(EVALS, {PRO: FILES[PRO], older: parquet("old"), MMLU: FILES[MMLU], metrics: parquet("m")})
    dataset = bench.evals()
    assert dataset.subsets == ("mmlu", "mmlu_pro")
    assert dataset.config_name("mmlu_pro") == f"{STEM}__mmlu_pro__details"
    assert dataset.fetch("mmlu_pro")[0].name == PRO


def test_a_missing_subset_is_answered_with_those_there_are(bench: Bench) -> None:
    dataset = bench.evals()
    text = message(lambda: dataset.fetch("mmlu_por"))
    assert "has no subset 'mmlu_por'; did you mean 'mmlu_pro'?" in text
    assert "It offers: mmlu, mmlu_pro" in text


def test_a_file_that_only_the_card_knows_is_named(bench: Bench) -> None:
    bench.hub.add(EVALS, {"README.md": CARD, PRO: FILES[PRO]})
    dataset = bench.evals()
    assert MMLU in message(lambda: dataset.fetch("mmlu"))


# What is sent and said


def test_the_token_goes_to_the_hub_and_not_to_the_cdn(bench: Bench) -> None:
    bench.evals().fetch("mmlu")
    sent = {request.headers.get("authorization") for request in bench.hub.seen("datasets/")}
    assert sent == {f"Bearer {SECRET}"}
    assert [request.headers.get("authorization") for request in bench.hub.seen("/cdn/")] == [None]


API = {"path": API_PATH}
FILE = {"path": "Details_"}
PAGE = f"/datasets/{EVALS}"


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        (API | {"status": 401}, ["does not accept the token", "hf auth login", "HF_TOKEN"]),
        (FILE | {"status": 401}, ["does not accept the token", PRO]),
        (API | {"status": 401, "code": "RepoNotFound"}, ["no such dataset, or it is private", "spelling"]),
        (FILE | {"status": 403, "code": "GatedRepo"}, ["is gated", "not been granted", "{url}" + PAGE]),
        (FILE | {"status": 401, "code": "GatedRepo"}, ["is gated", "nobody is logged in", "{url}" + PAGE]),
        (API | {"status": 403}, ["the hub refuses (status 403)", "token"]),
        (FILE | {"status": 403}, ["the hub refuses (status 403)", PRO]),
        (API | {"status": 404, "code": "RepoNotFound"}, ["no such dataset, or it is private", EVALS]),
        (API | {"status": 404, "code": "RevisionNotFound"}, ["no such revision"]),
        (FILE | {"status": 404, "code": "EntryNotFound"}, ["no such file", PRO]),
    ],
)
def test_what_a_retry_cannot_help_is_said_at_once(bench: Bench, fault: dict[str, object], parts: list[str]) -> None:
    bench.hub.fail(**fault)  # type: ignore[arg-type]
    text = message(lambda: bench.evals().fetch("mmlu_pro"))
    for part in parts:
        assert part.format(url=bench.hub.url) in text
    assert bench.waits == []
    assert len(bench.hub.seen(str(fault["path"]))) == 1


def test_nobody_logged_in_is_told_to_log_in(nobody: Bench) -> None:
    nobody.hub.fail(API_PATH, status=401)
    text = message(nobody.evals)
    assert "answers only those who are logged in" in text
    assert "hf auth login" in text
    assert all("authorization" not in request.headers for request in nobody.hub.requests)


def test_an_unknown_dataset_and_an_unknown_revision(bench: Bench) -> None:
    assert "acme/nothing: there is no such dataset" in message(lambda: bench.evals("acme/nothing"))
    assert f"{EVALS} at v9: there is no such revision" in message(lambda: bench.evals(revision="v9"))
    assert "not the id of a dataset" in message(lambda: bench.evals("not an id"))


def test_an_answer_that_is_not_a_hubs(bench: Bench) -> None:
    bench.hub.fail(API_PATH, times=1, body=b"<html>Log in to the network</html>")
    assert "does not respond like a hub" in message(bench.evals)
    bench.hub.fail(API_PATH, times=1, body=b"[]")
    assert "HF_ENDPOINT" in message(bench.evals)


def test_an_endpoint_that_is_no_address() -> None:
    client = hub.HubClient(endpoint="http://hub:port")
    assert "is not a hub address" in message(
        lambda: hub_datasets.open_evals_dataset(EVALS, revision=None, identity=UNKNOWN, client=client)
    )


def test_a_dataset_without_details_is_no_evals_dataset(bench: Bench) -> None:
    bench.hub.add(EVALS, {"README.md": b"# Nothing"})
    assert "holds no evals dataset subset" in message(bench.evals)


# What is tried again


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        ({"status": 503}, [1.0, 2.0]),
        ({"status": 500}, [1.0, 2.0]),
        ({"status": 429, "headers": {"Retry-After": "7"}}, [7.0, 7.0]),
        ({"status": 429, "headers": {"RateLimit": '"api";r=0;t=9'}}, [9.0, 9.0]),
        ({"status": 429, "headers": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}}, [1.0, 2.0]),
        ({"cut": -1}, [1.0, 2.0]),
        ({"cut": 20}, [1.0, 2.0]),
    ],
)
def test_a_passing_failure_is_waited_out(bench: Bench, fault: dict[str, object], waits: list[float]) -> None:
    bench.hub.fail(API_PATH, times=2, **fault)
    assert bench.evals().subsets == ("mmlu", "mmlu_pro")
    assert bench.waits == waits


def test_jitter_moves_a_delay_by_a_quarter_at_most(bench: Bench) -> None:
    bench.hub.fail(API_PATH, times=1, status=503)
    least, most = [], []
    for jitter, waits in ((0.0, least), (0.999, most)):
        bench.hub.faults[0].times = 1
        client = hub.HubClient(
            endpoint=bench.hub.url,
            cache_dir=bench.cache,
            first_delay=8.0,
            sleep=waits.append,
            jitter=lambda j=jitter: j,
        )
        hub_datasets.open_original(EVALS, revision=None, client=client)
    assert least == [6.0]
    assert 9.9 < most[0] < 10.0


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ({"status": 429}, "limits the rate of requests"),
        ({"status": 502}, "a fault of its own (status 502)"),
        ({"cut": -1}, "cannot be reached"),
        ({"silent": True}, "cannot be reached"),
    ],
)
def test_retries_end(bench: Bench, fault: dict[str, object], part: str) -> None:
    bench.settings["timeout"] = 0.1 if "silent" in fault else 10
    bench.hub.fail(API_PATH, **fault)
    assert part in message(bench.evals)
    assert bench.waits == [1.0, 2.0, 4.0]
    assert len(bench.hub.seen(API_PATH)) == 4


def test_a_hub_that_wants_an_hour_is_not_waited_for(bench: Bench) -> None:
    bench.hub.fail(API_PATH, status=429, headers={"Retry-After": "3600"})
    assert "limits the rate" in message(bench.evals)
    assert bench.waits == []


def test_a_file_that_the_hub_fails_to_serve(bench: Bench) -> None:
    dataset = bench.evals()
    bench.hub.fail("Details_", status=503)
    text = message(lambda: dataset.fetch("mmlu"))
    assert "a fault of its own (status 503)" in text
    assert MMLU in text


# What arrives


def test_a_cut_download_is_resumed_where_it_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50)  # it keeps whole chunks, of 10 MiB
    dataset = bench.evals()
    bench.hub.fail("/cdn/", times=1, cut=100)
    (file,) = dataset.fetch("mmlu_pro")
    assert file.path.read_bytes() == FILES[PRO]
    assert [request.headers.get("range") for request in bench.hub.seen("/cdn/")] == [None, "bytes=100-"]


def test_a_download_that_is_always_cut(bench: Bench) -> None:
    dataset = bench.evals()
    bench.hub.fail("/cdn/", cut=0)
    text = message(lambda: dataset.fetch("mmlu_pro"))
    assert "the download failed" in text
    assert PRO in text


@pytest.mark.parametrize("path", ["/cdn/", "README.md"])
def test_a_corrupt_file_is_fetched_once_more(bench: Bench, path: str) -> None:
    bench.hub.fail(path, method="GET", times=1, corrupt=True)
    (file,) = bench.evals().fetch("mmlu_pro")
    assert file.path.read_bytes() == FILES[PRO]
    assert len(bench.hub.seen(path, "GET")) == 2


def test_a_file_that_stays_corrupt_is_refused_and_not_kept(bench: Bench) -> None:
    dataset = bench.evals()
    bench.hub.fail("/cdn/", corrupt=True)
    text = message(lambda: dataset.fetch("mmlu_pro"))
    assert "is corrupt" in text
    assert PRO in text
    assert not [path for path in bench.cache.rglob("*") if path.name in (sha256(FILES[PRO]), Path(PRO).name)]


def test_a_file_that_rots_in_the_cache_is_fetched_again(bench: Bench) -> None:
    (file,) = bench.evals().fetch("mmlu_pro")
    file.path.write_bytes(b"rot")
    (file,) = bench.evals().fetch("mmlu_pro")
    assert file.path.read_bytes() == FILES[PRO]


def test_a_cache_that_cannot_be_written(bench: Bench, tmp_path: Path) -> None:
    bench.cache = tmp_path / "file" / "cache"
    (tmp_path / "file").write_text("in the way")
    text = message(bench.evals)
    assert "cannot be stored" in text
    assert "HF_HOME" in text


# Without a network


def test_a_hub_that_is_gone_is_replaced_by_the_cache(bench: Bench) -> None:
    commit = bench.evals().revision
    bench.evals().fetch("mmlu")
    bench.hub.close()
    dataset = bench.evals()
    assert dataset.revision == commit
    assert dataset.fetch("mmlu")[0].sha256 == sha256(FILES[MMLU])
    assert dataset.warnings == (f"The hub could not be reached: commit {commit} from the cache may not be the newest.",)
    assert "not in the cache" in message(lambda: dataset.fetch("mmlu_pro"))


def test_a_hub_that_is_gone_and_an_empty_cache(bench: Bench) -> None:
    bench.hub.close()
    text = message(bench.evals)
    assert "cannot be reached, and the cache does not hold it" in text
    assert "HF_ENDPOINT" in text


# A model's files


def test_the_files_of_a_model_are_those_of_the_wanted_that_it_has(bench: Bench) -> None:
    bench.hub.add("acme/model", {"tokenizer.json": b"{}", "config.json": b"{}", "model.safetensors": b"0"})
    hub.download_model_files(
        "acme/model", ("tokenizer.json", "config.json", "tokenizer_config.json"), client=bench.client
    )
    kept = {path.name for path in bench.cache.rglob("snapshots/*/*")}
    assert kept == {"tokenizer.json", "config.json"}


@pytest.mark.parametrize(
    ("name", "fault", "text", "requests"),
    [
        ("a-served-name", None, "a-served-name: there is no such model", 1),
        ("acme/model", {"status": 500}, "the hub has a fault of its own", 1),
        ("acme/model", {"cut": -1}, "cannot be reached, and the cache does not hold it", 1),
        ("/nonexistent/model", None, "there is no such folder on this machine", 0),
        ("name:latest", None, "this is not the id of a model", 0),
    ],
)
def test_the_hub_is_asked_once_for_a_model_and_nothing_is_waited_for(
    bench: Bench, name: str, fault: dict[str, object] | None, text: str, requests: int
) -> None:
    """The name of a model may be a server's own, and then nobody's there."""
    if fault is not None:
        bench.hub.fail("/api/models", **fault)
    assert text in message(lambda: hub.download_model_files(name, ("tokenizer.json",), client=bench.client))
    assert len(bench.hub.requests) == requests
    assert not bench.waits


# What the library reads from the environment as it is imported: a process of its own

DRIVER = f"""
import json, sys
from meta_eval.base.errors import SourceError
from meta_eval.pack import hub
from meta_eval.plugins.meta.source import hub_datasets
from meta_eval.plugins.meta.catalog.dataset_names import Identity
if len(sys.argv) > 1:
    import resource
    sys.dont_write_bytecode = True  # Python up to 3.12 keeps a compiled module that was cut by the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    dataset = hub_datasets.open_evals_dataset({EVALS!r}, revision=None, identity=Identity(None, None, None))
    print(json.dumps([dataset.revision, [file.sha256 for file in dataset.fetch("mmlu_pro")], dataset.warnings]))
except SourceError as error:
    print(json.dumps(str(error)))
"""


def run(home: Path, *args: str, **environment: str) -> tuple[object, str]:
    """What the driver prints, and its stderr."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    words = ["-c", DRIVER, *args]
    ours = {**kept, "HF_HOME": str(home), "HF_TOKEN": SECRET, **environment}
    driver = Forked(words, ".", subprocess.PIPE, ours, parent="light")
    out, error = driver.communicate(60)
    assert driver.wait() == 0, error
    assert SECRET not in out + error
    return json.loads(out), error


@thorough
def test_a_mirror_then_offline_from_its_cache(bench: Bench, tmp_path: Path) -> None:
    expected = [bench.hub.heads[EVALS], [sha256(FILES[PRO])], []]
    # The variable is tqdm's of the library, and makes it show progress where stderr is no terminal.
    result, shown = run(tmp_path / "home", HF_ENDPOINT=bench.hub.url, TQDM_POSITION="-1")
    assert result == expected
    assert "100%" in shown
    assert bench.hub.seen(API_PATH)[0].headers["authorization"] == f"Bearer {SECRET}"
    bench.hub.requests.clear()
    result, _ = run(tmp_path / "home", HF_ENDPOINT=bench.hub.url, HF_HUB_OFFLINE="1")
    assert result == expected
    assert bench.hub.requests == []


def test_offline_with_an_empty_cache(bench: Bench, tmp_path: Path) -> None:
    result, _ = run(tmp_path / "home", HF_ENDPOINT=bench.hub.url, HF_HUB_OFFLINE="1")
    assert "nothing can be downloaded offline" in str(result)
    assert "HF_HUB_OFFLINE" in str(result)


@thorough
def test_a_disk_that_takes_no_more(bench: Bench, tmp_path: Path) -> None:
    bench.hub.add(EVALS, {**FILES, PRO: os.urandom(100_000)})
    result, _ = run(tmp_path / "home", "50000", HF_ENDPOINT=bench.hub.url)
    assert "cannot be stored" in str(result)
    assert PRO in str(result)


# Originals

ROW = b'{"key": 1}\n'


@pytest.mark.parametrize(
    ("files", "split", "expected"),
    [
        ({"input_data.jsonl": ROW}, "train", ["input_data.jsonl"]),
        ({"README.md": b"# Card", "ifeval_input_data.jsonl": ROW}, "train", ["ifeval_input_data.jsonl"]),
        ({"data/train.jsonl": ROW, "data/test.jsonl": ROW, "latest.jsonl": ROW}, "test", ["data/test.jsonl"]),
        (
            {"data/test-00001-of-00002.jsonl": ROW, "data/test-00000-of-00002.jsonl": ROW},
            "test",
            ["data/test-00000-of-00002.jsonl", "data/test-00001-of-00002.jsonl"],
        ),
        (
            {
                "README.md": b"---\nconfigs:\n- config_name: algebra\n  data_files: algebra/*\n"
                b"- config_name: default\n  data_files:\n  - {split: train, path: data/train-*}\n"
                b"  - {split: test, path: data/test-*}\n---\n",
                "algebra/test.jsonl": ROW,
                "data/test-00000-of-00001.jsonl": ROW,
                "data/train-00000-of-00001.jsonl": ROW,
            },
            "test",
            ["data/test-00000-of-00001.jsonl"],
        ),
        ({".cache/train.jsonl": ROW, "dataset_infos.json": b"{}", "rows.json": ROW}, "train", ["rows.json"]),
    ],
)
def test_the_files_of_a_split(bench: Bench, files: dict[str, bytes], split: str, expected: list[str]) -> None:
    fetched = bench.original(files, split)
    assert [file.name for file in fetched] == expected
    assert [file.sha256 for file in fetched] == [sha256(ROW)] * len(expected)


@pytest.mark.parametrize(
    ("files", "split", "parts"),
    [
        ({"a.jsonl": ROW, "b.jsonl": ROW}, "train", ["could be any of a.jsonl, b.jsonl"]),
        ({"test.jsonl": ROW, "algebra/test.jsonl": ROW}, "test", ["algebra/test.jsonl, test.jsonl"]),
        ({"rows.jsonl": ROW}, "test", ["no file holds the split 'test'", "rows.jsonl"]),
        ({"test.jsonl": ROW}, "train", ["no file holds the split 'train'", "test.jsonl"]),
        ({"test-00000-of-00002.jsonl": ROW}, "test", ["only 1 of 2 shards"]),
        (
            {"README.md": card(("default", "x.jsonl")), "x.jsonl": ROW},
            "test",
            ["has no split 'test'", "latest"],
        ),
        (
            {"README.md": card(("algebra", "a.jsonl"), ("geometry", "b.jsonl")), "a.jsonl": ROW, "b.jsonl": ROW},
            "latest",
            ["several configs without a default", "a.jsonl, b.jsonl"],
        ),
    ],
)
def test_a_split_that_is_not_clear(bench: Bench, files: dict[str, bytes], split: str, parts: list[str]) -> None:
    text = message(lambda: bench.original(files, split))
    assert all(part in text for part in parts)


# Answers that are not a hub's


FILE = {"rfilename": "README.md", "blobId": "0" * 40, "size": 3}
ODD: list[object] = [
    [], "x", 5, None, {}, {"sha": 5}, {"sha": "../.."}, {"id": 1, "sha": "a" * 40, "siblings": "x"},
    *({"id": "a/b", "sha": "a" * 40, "siblings": siblings} for siblings in (
        5, [5], [None], {"rfilename": 1}, [{**FILE, "rfilename": 5}], [{**FILE, "rfilename": None}], [{**FILE, "rfilename": ["x"]}],
        [{**FILE, "rfilename": "../../x"}], [{**FILE, "rfilename": "/etc/x"}], [{**FILE, "blobId": 7}], [{**FILE, "lfs": "x"}],
        [{**FILE, "lfs": {"sha256": 5, "size": 1}}], [{**FILE, "lfs": {}}], [{}],
    )),
    *({"id": "a/b", "sha": "a" * 40, "siblings": [FILE], key: value} for key in ("lastModified", "cardData", "tags", "gated")
      for value in (5, "x", [5], {"a": [1]})),
]  # fmt: skip


@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
def test_an_answer_that_is_not_a_hubs_is_one_message(answer: object, bench: Bench) -> None:
    for kind in ("datasets", "models"):
        bench.hub.fail(f"/api/{kind}", body=json.dumps(answer).encode())
    message(bench.evals)
    with suppress(SourceError):  # a model's files are named by us, and nothing else of the answer is used
        hub.download_model_files("acme/model", ("tokenizer.json",), client=bench.client)
