"""Answers given to lighteval's own pipeline, in an environment that has lighteval and nothing of meta-eval.

    python lighteval_replay.py EXPORT ANSWERS OUTPUT [PREFIX]

ANSWERS is JSON: by task, in the order of its docs, a text or a list of [logprob, is_greedy]. OUTPUT is: by task and metric
the values of the docs in that order, as the metric made them, and lighteval's averages; the files that lighteval wrote; and
with PREFIX what it raises where the engine puts that before each prompt.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.abstract_model import LightevalModel, ModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
from lighteval.tasks.registry import Registry
from lighteval.tasks.requests import Doc
from lighteval.utils.cache_management import SampleCache

# lighteval loads all its own tasks at each start, of which some ask the network when they are loaded.
Registry._load_from_files = staticmethod(lambda *_: {})  # type: ignore[method-assign]
Registry._load_from_subdirs = staticmethod(lambda *_: {})  # type: ignore[method-assign]


class Replay(LightevalModel):
    """Answers what was recorded, and says that it was asked what the doc says."""

    def __init__(self, config: ModelConfig, answers: dict[str, list[Any]]) -> None:
        self.config, self._answers, self._cache = config, answers, SampleCache(config)
        self.prefix = ""

    tokenizer = None  # type: ignore[assignment]
    add_special_tokens = False  # type: ignore[assignment]
    max_length = 1 << 20  # type: ignore[assignment]

    def _of(self, doc: Doc) -> Any:
        return self._answers[doc.task_name.partition("|")[0]][int(doc.id)]

    def greedy_until(self, docs: list[Doc]) -> list[ModelResponse]:
        return [ModelResponse(input=self.prefix + doc.query, text=[self._of(doc)]) for doc in docs]

    def loglikelihood(self, docs: list[Doc]) -> list[ModelResponse]:
        result = []
        for doc in docs:
            logprobs, greedy = zip(*self._of(doc), strict=True)
            result.append(
                ModelResponse(
                    input=self.prefix + doc.query, logprobs=list(logprobs), argmax_logits_eq_gold=list(greedy)
                )
            )
        return result

    def loglikelihood_rolling(self, docs: list[Doc]) -> list[ModelResponse]:
        raise NotImplementedError


def evaluated(export: Path, said: dict[str, list[Any]], scratch: str, prefix: str) -> Pipeline:
    model = Replay(ModelConfig(model_name="replay", cache_dir=scratch), said)
    model.prefix = prefix
    pipeline = Pipeline(
        tasks=str(export / "tasks.txt"),
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.CUSTOM, custom_tasks_directory=str(export / "meta_eval_tasks.py")
        ),
        evaluation_tracker=EvaluationTracker(output_dir=scratch, save_details=True),
        model=model,
    )
    pipeline.evaluate()
    return pipeline


def main(export: Path, answers: Path, output: Path, prefix: str = "") -> None:
    said = json.loads(answers.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        pipeline = evaluated(export, said, scratch, "")
        pipeline.save_and_push_results()
        logged = pipeline.evaluation_tracker.metrics_logger
        result: dict[str, Any] = {}
        for full_name, metrics in logged.metrics_values.items():
            order = [int(doc.id) for doc in pipeline.documents_dict[full_name]]
            result[full_name.partition("|")[0]] = {
                metric: {
                    "items": [
                        getattr(value, "item", value)
                        for _, value in sorted(zip(order, values, strict=True), key=lambda pair: pair[0])
                    ],
                    "average": logged.metric_aggregated[full_name][metric],
                }
                for metric, values in metrics.items()
            }
        files = sorted(path.name for path in Path(scratch).rglob("*") if path.is_file())
        raised = None
        if prefix:
            try:
                evaluated(export, said, scratch, prefix)
            except ValueError as error:
                raised = str(error)
    output.write_text(json.dumps({"tasks": result, "files": files, "raised": raised}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
