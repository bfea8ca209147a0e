"""Answer the requests of `meta-eval export` with your own program: fill in generate() and logprobs().

python answer_requests.py requests.jsonl answers.jsonl [SHARD SHARDS]    (rerun the same command to resume)
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path


def generate(request):
    """Return the text (greedy, without stop sequence and end token), the finish reason ("stop" or "length"), and its
    number of tokens.
    """
    raise NotImplementedError("give request['prompt_token_ids'], or one BOS and request['prompt'], to your model")


def logprobs(request):
    """For each of request["continuations"], return the sum of the log-probabilities of its tokens after the prompt."""
    raise NotImplementedError


def tokens(request):
    """For exports with --force: the lists of docs/reference/files.md for the tokens in continuation_token_ids[0]."""
    raise NotImplementedError


def main(requests, answers, shard=0, shards=1):
    done = set()
    with Path(answers).open("a+b") as out, Path(requests).open(encoding="utf-8") as asked:
        out.seek(0)
        for line in out:
            with suppress(ValueError):  # a crash cut this line off, so the request is sent again
                done.add(json.loads(line)["id"])
        out.write(b"\n")  # ends a cut-off line; empty lines are ignored
        model = json.loads(next(asked))["model"]
        for number, request in enumerate(map(json.loads, asked)):
            if number % int(shards) != int(shard) or request["id"] in done:
                continue
            answer = {"id": request["id"], "prompt_sha256": request["prompt_sha256"], "model": model}
            answer |= {"request_sha256": request["request_sha256"], "engine": "my accelerator", "started": time.time()}
            if request["kind"] == "generate":
                answer["text"], answer["finish_reason"], answer["completion_tokens"] = generate(request)
            elif request["kind"] == "force":
                answer["tokens"] = tokens(request)
            else:
                answer["choices"] = [{"logprob": logprob} for logprob in logprobs(request)]
            out.write(json.dumps(answer | {"ended": time.time()}).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
