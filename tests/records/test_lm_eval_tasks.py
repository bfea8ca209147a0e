"""lm-eval's own tasks, frozen into a pack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command import cli
from one_task import run as run_command
from own_record import config_of, record_run
from packs import prepare, read_docs
from places import REPOSITORY
from recorded_runs import ARC, own_gsm8k, record, whole_tasks
from small_model import write_tokenizer

from meta_eval import verify
from meta_eval.base.errors import UserError
from meta_eval.pack.baseline import NOTHING_RECORDED
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.lm_eval_tasks import find_lm_eval_tasks

TASKS = REPOSITORY / "tools" / "lm_eval_tasks"


def asked(run: Path, prompt: str = "hash") -> dict[tuple[int, str], tuple[str, str, float]]:
    """By doc and filter the prompt or its hash, the answer and its verdict."""
    (path,) = run.rglob("samples_gsm8k_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        (sample["doc_id"], sample["filter"]): (
            sample["prompt_hash"] if prompt == "hash" else sample["arguments"]["gen_args_0"]["arg_0"],
            sample["resps"][0][0],
            sample["exact_match"],
        )
        for sample in samples
    }


def test_a_frozen_task_asks_and_grades_as_lm_eval_does_with_the_shots_that_were_named(tmp_path: Path) -> None:
    templates = own_gsm8k(tmp_path / "templates")
    pack = prepare(tmp_path / "pack", "gsm8k@3", evals_dataset="lm-eval", template_dir=str(templates))
    record(templates, tmp_path / "plain", ["gsm8k"], num_fewshot=3)
    record(pack, tmp_path / "frozen", ["gsm8k"])
    assert asked(tmp_path / "frozen") == asked(tmp_path / "plain")
    manifest = read_manifest(pack)
    assert manifest.command[manifest.command.index("--tasks") + 1] == "gsm8k"
    record_of = manifest.tasks["gsm8k"].record
    assert record_of is not None
    assert (record_of.model, record_of.shots, record_of.grader_version) == (None, "3", "3.0")


def test_a_run_of_a_frozen_task_is_a_record(tmp_path: Path) -> None:
    templates = own_gsm8k(tmp_path / "templates")
    first = prepare(tmp_path / "first", "gsm8k", evals_dataset="lm-eval", template_dir=str(templates))
    record(first, tmp_path / "run", ["gsm8k"])
    second = prepare(tmp_path / "second", "gsm8k", evals_dataset=str(tmp_path / "run"), template_dir=str(templates))
    assert verify(second).passed
    (task,) = verify(first).tasks.values()
    assert (task.status, task.reason) == ("not checked", NOTHING_RECORDED)
    told = " ".join(" ".join(map(str, run_command("report", tmp_path / "run", "--pack", first))).split())
    assert "nobody has answered it yet" in told
    assert "run `meta-eval verify" not in told


def test_the_verdict_is_a_mean_over_docs_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"q": "Is it?", "label": 1}\n', encoding="utf-8")
    metrics = (("mcc", "matthews_corrcoef"), ("f1", "f1"), ("acc", "mean"))
    metric_list = "".join(
        f"  - {{metric: {metric}, aggregation: {how}, higher_is_better: true}}\n" for metric, how in metrics
    )
    (tmp_path / "own.yaml").write_text(
        "task: own\ndataset_path: json\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\n"
        "doc_to_target: label\ndoc_to_choice: ['no', 'yes']\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path / 'docs.jsonl'}}}}}\nmetric_list:\n{metric_list}",
        encoding="utf-8",
    )
    pack = prepare(tmp_path / "pack", "own", evals_dataset="lm-eval", template_dir=str(tmp_path))
    assert read_manifest(pack).tasks["own"].primary_metric == "acc,none"


def prepare_own_questions(
    folder: Path, content: bytes | None, grader: str = "quiz.grade", data: str = "json", more: str = ""
) -> CompletedProcess[str]:
    """Write a task of own questions, and prepare it."""
    (folder / "my_tasks").mkdir()
    if content is not None:
        (folder / f"my_tasks/questions.{data}").write_bytes(content)
    (folder / "my_tasks/quiz.py").write_text("def grade(doc, results):\n    return {'found': 1.0}\n", encoding="utf-8")
    lines = (
        f"task: my_quiz\ndataset_path: {data}\n"
        f"dataset_kwargs: {{data_files: {{test: my_tasks/questions.{data}}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        f"process_results: !function {grader}\nmetric_list: [{{metric: found, aggregation: mean}}]\n"
    ).splitlines()
    replaced = {line.partition(":")[0] for line in more.splitlines()}
    kept = [line for line in lines if line.partition(":")[0] not in replaced]
    (folder / "my_tasks/my_quiz.yaml").write_text("\n".join([*kept, more]), encoding="utf-8")
    keys = {"model_name": "m", "evals_dataset": "lm-eval", "template_dir": "./my_tasks", "tasks": "my_quiz"}
    (folder / "eval_config.yaml").write_text(json.dumps({**keys, "max_model_len": 1024}), encoding="utf-8")
    return cli("prepare", cwd=folder)


def own_questions(folder: Path, content: bytes | None, grader: str = "quiz.grade", data: str = "json") -> str:
    """Prepare a task of own questions, and give the one line that prepare says of it."""
    done = prepare_own_questions(folder, content, grader, data)
    assert done.returncode == 2
    assert str(folder) not in done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error")]
    return line


GOOD = b'{"question": "x", "answer": "y"}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD * 2 + b'{"question": "x"\n', "questions.json:3: is not JSON: unexpected end of data, at column"),
        (
            GOOD + b'\n{"question": "\\ud800", "answer": "x"}\n',
            "questions.json:3: is not JSON: no low surrogate in string",
        ),
        (GOOD + b"5\n", "questions.json:2: is JSON, but not an object"),
        (b'[\n{"question": "x"},\n{"question"}]\n', "questions.json:3: is not JSON"),
        ((GOOD * 2).decode().encode("utf-16"), "questions.json: cannot be read: it is UTF-16 and not UTF-8"),
        (b"", "questions.json: is empty"),
        (b"\n", "questions.json: is empty"),
        (
            None,
            "questions.json: cannot be read: there is no such file. Correct data_files of the task: a path counts from",
        ),
        (
            GOOD + b"\xff\n",
            "questions.json: cannot be read: byte 33 is not UTF-8. Write one JSON object a line, as UTF-8",
        ),
    ],
)
def test_questions_that_cannot_be_loaded_are_named_by_file_and_line(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    assert own_questions(tmp_path, content).startswith(f"error: my_tasks/{message}")


def test_questions_that_are_there_twice_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    other = b'{"question": "z", "answer": "y"}\n'
    done = prepare_own_questions(tmp_path, GOOD + other + GOOD * 2)
    assert done.returncode == 0
    said = "my_quiz: 2 docs ask what an earlier one does, and all count in the score; the first: doc 2, as doc 0"
    assert said in " ".join(done.stderr.split())
    assert read_manifest(tmp_path / "work_dir").tasks["my_quiz"].warnings == {"duplicate_prompts": 2}


def test_a_question_with_two_right_answers_is_refused(tmp_path: Path) -> None:
    told = own_questions(tmp_path, GOOD * 2 + b'{"question": "x", "answer": "z"}\n')
    expected = "docs 0 and 2 (from 0) ask the same, 'x', and their right answers differ: 'y' and 'z'"
    assert told.startswith(f"error: my_tasks/questions.json: {expected}")


EXACT = "process_results: null\nmetric_list: [{metric: exact_match, aggregation: mean}]\n"
CHOICES = (
    "process_results: null\nmetric_list: [{metric: acc, aggregation: mean}]\noutput_type: multiple_choice\n"
    "doc_to_choice: '{{choices}}'\n"
)


def own_docs(folder: Path, *docs: dict[str, object], more: str = EXACT) -> str:
    """Prepare a task of a good question and others, and give what prepare says."""
    good = {"question": "q", "answer": "0", "choices": ["x", "y"]}
    done = prepare_own_questions(folder, "".join(f"{json.dumps(doc)}\n" for doc in (good, *docs)).encode(), more=more)
    assert (done.returncode, "Traceback" in done.stderr) in ((0, False), (2, False))
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"question": "r"}, "doc 1 (from 0): doc_to_target gives 'None', because a value is missing or empty"),
        ({"question": "r", "answer": " "}, "doc 1 (from 0): doc_to_target gives ' ', because"),
        ({"question": None, "answer": "x"}, "doc 1 (from 0): doc_to_text gives 'None. Answer:', because"),
        ({"question": "", "answer": "x"}, "doc 1 (from 0): doc_to_text gives '. Answer:', because"),
    ],
)
def test_a_question_or_an_answer_that_is_missing_is_refused(
    doc: dict[str, object], message: str, tmp_path: Path
) -> None:
    said = own_docs(tmp_path, doc, more=f"{EXACT}doc_to_text: '{{{{question}}}}. Answer:'\n")
    assert f"error: my_tasks/questions.json: {message}" in said


def test_a_missing_question_is_found_beside_its_choices(tmp_path: Path) -> None:
    doc = {"question": None, "answer": "0", "choices": ["x", "y"]}
    more = f"{CHOICES}doc_to_text: '{{{{question}}}} A. {{{{choices[0]}}}} B. {{{{choices[1]}}}}'\n"
    assert "doc 1 (from 0): doc_to_text gives 'None A. x B. y', because" in own_docs(tmp_path, doc, more=more)


def test_an_optional_part_of_a_prompt_may_be_missing(tmp_path: Path) -> None:
    doc = {"question": "r", "answer": "x", "hint": "h"}
    said = own_docs(tmp_path, doc, more=f"{EXACT}doc_to_text: '{{{{hint or \"\"}}}}{{{{question}}}}'\n")
    assert "error" not in said


@pytest.mark.parametrize(
    ("answer", "choices", "message"),
    [
        ("A", ["x", "y"], "the right answer 'A' is not among the 2 choices, so every answer would be wrong"),
        ("2", ["x", "y"], "the right answer 2 is not among"),
        ("-1", ["x", "y"], "the right answer '-1' is not among"),
        (None, ["x", "y"], "doc_to_target gives 'None'"),
        ("0", [], "has the choices []"),
        ("0", ["x"], "has the choices ['x']"),
        ("0", ["x", " "], "has the choices ['x', ' ']"),
        ("0", None, "has the choices []"),
    ],
)
def test_a_choice_that_cannot_be_graded_is_refused(
    answer: str | None, choices: list[str] | None, message: str, tmp_path: Path
) -> None:
    said = own_docs(tmp_path, {"question": "r", "answer": answer, "choices": choices}, more=CHOICES)
    assert "error: my_tasks/questions.json: doc 1 (from 0)" in said
    assert message in said


def test_a_doc_without_choices_is_refused_where_a_function_grades_it(tmp_path: Path) -> None:
    more = "output_type: multiple_choice\ndoc_to_choice: '{{choices}}'\n"
    said = own_docs(tmp_path, {"question": "r", "answer": "0", "choices": []}, more=more)
    assert "my_quiz, doc 1: has no choices" in said


def test_choices_that_can_be_graded_are_prepared(tmp_path: Path) -> None:
    docs = [{"question": f"r{answer}", "answer": answer, "choices": ["x", "y"]} for answer in ("1", "y", "[0, 1]")]
    assert "error" not in own_docs(tmp_path, *docs, more=CHOICES)


def test_a_target_that_cannot_be_rendered_is_refused(tmp_path: Path) -> None:
    assert "UndefinedError: 'nothing' is undefined" in own_docs(tmp_path, more="doc_to_target: '{{nothing}}'\n")


def test_an_aggregation_that_lm_eval_lacks_is_refused(tmp_path: Path) -> None:
    said = own_docs(tmp_path, more="metric_list: [{metric: found, aggregation: meen}]\n")
    assert "my_tasks/my_quiz.yaml: metric_list.0.aggregation: unknown to lm-eval: 'meen'" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"question,answer\nx,y\nx,y,z\n", "Expected 2 fields in line 3, saw 3"), (None, "'my_tasks/questions.csv'")],
)
def test_of_other_questions_what_their_reader_says_is_kept(content: bytes | None, message: str, tmp_path: Path) -> None:
    assert message in own_questions(tmp_path, content, data="csv")


@pytest.mark.parametrize(
    ("grader", "message"),
    [
        ("quiz.grad", "my_quiz.yaml: process_results: my_tasks/quiz.py has no function 'grad'; did you mean 'grade'?"),
        ("quizz.grade", "quizz.py: cannot be read: there is no such file; did you mean 'quiz.py'?"),
    ],
)
def test_a_function_of_an_own_task_that_is_not_there_is_named(grader: str, message: str, tmp_path: Path) -> None:
    assert own_questions(tmp_path, GOOD, grader).startswith(f"error: my_tasks/{message}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('num_fewshot: "2"', "num_fewshot: '2' is not a number of examples. Write it without quotes"),
        ('generation_kwargs: {max_gen_toks: "64"}', "generation_kwargs.max_gen_toks: '64' is not a number of tokens"),
        ("generation_kwargs: {temperature: hot}", "generation_kwargs.temperature: 'hot' is not a number"),
    ],
)
def test_a_setting_of_an_own_task_that_is_no_number_is_named(setting: str, message: str, tmp_path: Path) -> None:
    done = prepare_own_questions(tmp_path, GOOD, more=f"{setting}\n")
    assert done.returncode == 2
    assert f"my_quiz.yaml: {message}" in " ".join(done.stderr.split())


def test_groups_are_those_of_lm_eval() -> None:
    tasks, groups = find_lm_eval_tasks(["mmlu@5", "ai2_arc"], TASKS)
    assert len(groups["mmlu"]) == 57
    assert groups["ai2_arc"] == ("arc_challenge", "arc_easy")
    assert (tasks["mmlu_anatomy"], tasks["arc_easy"]) == (5, None)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("no_such_task", "unknown task or group 'no_such_task': neither lm-eval nor template_dir has it"),
        ("leaderbord_v1", "unknown task or group 'leaderbord_v1'"),
        ("turblimp", "unknown task or group 'turblimp'"),  # its folder in lm-eval has a YAML with a key twice
        ("gsm8k@many", "'gsm8k@many' is not a task name"),
        ("ai2_arc@5,arc_easy@0", "arc_easy is named with two different numbers of shots"),
    ],
)
def test_what_is_no_task_is_named(tasks: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "pack", tasks, evals_dataset="lm-eval", template_dir=str(TASKS))


@pytest.mark.parametrize("dataset", ["lm-eval", "run"])
def test_a_template_dir_that_is_not_there_is_named_where_a_task_is_unknown(
    dataset: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = record_run(tmp_path_factory)
    source = {"evals_dataset": dataset} if dataset == "lm-eval" else config_of(made)
    keys = {**source, "model_name": "m", "template_dir": str(made / "taks")}
    keys |= {"tasks": "my_quiz"} if dataset == "lm-eval" else {}
    (tmp_path / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
    done = cli("prepare", cwd=tmp_path)
    assert done.returncode == 2
    assert "taks: there is no such folder; did you mean 'tasks'?" in " ".join(done.stderr.split())


def model_with_template(folder: Path) -> str:
    """A model folder whose chat template renders as that of `recorded_runs`."""
    folder.mkdir()
    template = "{{ bos_token }}{% for message in messages %}[{{ message.role }}] {{ message.content }} {% endfor %}"
    tree = {"bos_token": {"content": "<s>"}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(tree), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("multiturn", [True, False])
def test_a_chat_template_is_rendered_as_lm_eval_renders_it(tmp_path: Path, multiturn: bool) -> None:
    templates = own_gsm8k(tmp_path / "templates")
    model = model_with_template(tmp_path / "model")
    keys = {
        "evals_dataset": "lm-eval",
        "template_dir": str(templates),
        "fewshot_as_multiturn": multiturn,
        "model_name": model,
    }
    pack = prepare(tmp_path / "pack", "gsm8k@2", apply_chat_template=True, **keys)
    record(templates, tmp_path / "plain", ["gsm8k"], num_fewshot=2, chat=True, fewshot_as_multiturn=multiturn)
    record(pack, tmp_path / "frozen", ["gsm8k"])
    plain, frozen = (
        {key: (text.removeprefix("<s>"), *rest) for key, (text, *rest) in asked(tmp_path / run, "text").items()}
        for run in ("plain", "frozen")
    )
    assert frozen == plain
    manifest = read_manifest(pack)
    (entry,) = manifest.tasks.values()
    assert entry.record is not None
    assert (entry.record.bos_text, entry.record.chat_template, entry.warnings["prompt_with_bos"]) == ("<s>", True, 8)
    assert manifest.needs_bos


def test_choices_under_a_chat_template_have_no_delimiter_and_the_same_verdicts(tmp_path: Path) -> None:
    templates = whole_tasks(tmp_path / "templates", ["arc_challenge"])
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "apply_chat_template": True}
    pack = prepare(tmp_path / "pack", "arc_challenge", model_name=model_with_template(tmp_path / "model"), **keys)
    assert [doc["continuations"] for doc in read_docs(pack, "arc_challenge")] == [row["choices"]["text"] for row in ARC]
    record(templates, tmp_path / "plain", ["arc_challenge"], chat=True, fewshot_as_multiturn=True)
    record(pack, tmp_path / "frozen", ["arc_challenge"])
    assert right(tmp_path / "frozen", "arc_challenge") == right(tmp_path / "plain", "arc_challenge")


def test_a_system_instruction_is_put_before_each_prompt_as_lm_eval_puts_it(tmp_path: Path) -> None:
    templates = own_gsm8k(tmp_path / "templates")
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "system_instruction": "Be brief."}
    pack = prepare(tmp_path / "pack", "gsm8k@2", **keys)
    record(templates, tmp_path / "plain", ["gsm8k"], num_fewshot=2, system_instruction="Be brief.")
    record(pack, tmp_path / "frozen", ["gsm8k"])
    frozen = asked(tmp_path / "frozen", "text")
    assert frozen == asked(tmp_path / "plain", "text")
    assert all(text.startswith("Be brief.") for text, *_ in frozen.values())


def test_no_template_is_put_around_recorded_prompts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="system_instruction: the prompts of sample are used as recorded"):
        prepare(tmp_path / "pack", "meta_gpqa", system_instruction="Be brief.")
    with pytest.raises(UserError, match="apply_chat_template: the prompts of sample are used as recorded"):
        prepare(tmp_path / "pack", "meta_gpqa", apply_chat_template=True)


def right(run: Path, task: str) -> list[float]:
    (path,) = run.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line)["acc"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_letters_are_told_apart_by_the_next_token_and_texts_by_likelihood(tmp_path: Path) -> None:
    templates = whole_tasks(tmp_path / "templates", ["mmlu_abstract_algebra", "arc_challenge"])
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "choice_scoring": "next_token"}
    model = str(write_tokenizer(tmp_path / "model"))
    pack = prepare(tmp_path / "pack", "mmlu_abstract_algebra,arc_challenge", model_name=model, **keys)
    entries = read_manifest(pack).tasks
    assert entries["mmlu_abstract_algebra"].choice_scoring == "next_token"
    assert "divides by the length of a choice" in (entries["arc_challenge"].likelihood_reason or "")
    record(templates, tmp_path / "plain", ["mmlu_abstract_algebra"])
    record(pack, tmp_path / "token", ["mmlu_abstract_algebra"])
    verdicts = right(tmp_path / "token", "mmlu_abstract_algebra")
    assert verdicts == right(tmp_path / "plain", "mmlu_abstract_algebra")
    assert 0 < sum(verdicts) < len(verdicts)


def test_a_task_that_is_added_between_two_calls_is_found(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where the folder is named by a relative path, and another one had that name before."""
    made = record_run(tmp_path_factory)
    keys = {"model_name": "tiny", "backend": "server", "base_url": "http://localhost:1/v1"}
    config = {**config_of(made, **keys), "template_dir": "tasks"}
    for name in ("one", "two"):
        place = tmp_path / name
        (place / "tasks").mkdir(parents=True)
        (place / "eval_config.yaml").write_text(json.dumps(config), encoding="utf-8")
        missing = cli("prepare", cwd=place)
        assert "no code for the task" in missing.stderr
        shutil.copytree(made / "tasks", place / "tasks", dirs_exist_ok=True)
        done = cli("prepare", cwd=place)
        assert done.returncode == 0, done.stderr
