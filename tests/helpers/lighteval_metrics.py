"""Run lighteval's metrics of texts and choices on the cases of a file, in an environment with lighteval.

python lighteval_metrics.py CASES OUTPUT
"""

import json
import sys
from pathlib import Path
from typing import Any

from lighteval.metrics.metrics_sample import ROUGE, ExactMatches, F1_score, LoglikelihoodAcc
from lighteval.metrics.normalizations import LogProbCharNorm, LogProbPMINorm, LogProbTokenNorm, helm_normalizer
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

QUASI: dict[str, Any] = {"normalize_gold": helm_normalizer, "normalize_pred": helm_normalizer}
TEXTS = {
    "exact_match": ExactMatches(strip_strings=True),
    "quasi_exact_match": ExactMatches(**QUASI),
    "prefix_match": ExactMatches(strip_strings=True, type_exact_match="prefix"),
    "quasi_prefix_match": ExactMatches(type_exact_match="prefix", **QUASI),
    "f1": F1_score(**QUASI),
    **{name: ROUGE(name, aggregation_function=max) for name in ("rouge1", "rouge2", "rougeL")},
}
CHOICES = {
    "acc": LoglikelihoodAcc(),
    "acc_char": LoglikelihoodAcc(LogProbCharNorm()),
    "acc_token": LoglikelihoodAcc(LogProbTokenNorm()),
    "acc_mutual_info": LoglikelihoodAcc(LogProbPMINorm()),
}


def main(cases: Path, output: Path) -> None:
    tree = json.loads(cases.read_text(encoding="utf-8"))
    result: dict[str, list[dict[str, float]]] = {"texts": [], "choices": []}
    for case in tree["texts"]:
        doc = Doc(query="", choices=case["golds"], gold_index=list(range(len(case["golds"]))))
        answer = ModelResponse(text=[case["answer"]])
        result["texts"].append(
            {name: float(metric.compute(doc=doc, model_response=answer)) for name, metric in TEXTS.items()}
        )
    for case in tree["choices"]:
        doc = Doc(query="", choices=case["choices"], gold_index=case["gold"])
        tokens = [[0] * count for count in case["tokens"]]
        values = {}
        for name, metric in CHOICES.items():
            both = case["likelihoods"] + (case["alone"] if name == "acc_mutual_info" else [])
            values[name] = float(
                metric.compute(doc=doc, model_response=ModelResponse(logprobs=both, output_tokens=tokens))
            )
        result["choices"].append(values)
    output.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
