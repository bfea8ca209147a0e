"""Answers the requests of `meta-eval export` on hardware of your own: fill in generate() and logprobs().

python answer_requests.py requests.jsonl answers.jsonl [SHARD SHARDS]    (the same again goes on where it stopped)
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path


def generate(request):
    """The text (greedy, without stop sequence and end token), why it ended ("stop" or "length"), and its tokens."""
    raise NotImplementedError("give request['prompt_token_ids'], or one BOS and request['prompt'], to your model")


def logprobs(request):
    """Of each of request["continuations"], the sum of the log-probabilities of its tokens behind the prompt."""
    raise NotImplementedError


def tokens(request):
    """Of an export with --force, the lists of docs/reference/files.md for the tokens of continuation_token_ids[0]."""
    raise NotImplementedError


def main(requests, answers, shard=0, shards=1):
    done = set()
    with Path(answers).open("a+b") as out, Path(requests).open(encoding="utf-8") as asked:
        out.seek(0)
        for line in out:
            with suppress(ValueError):  # a crash cut this line off: its request is asked again
                done.add(json.loads(line)["id"])
        out.write(b"\n")  # ends a line that was cut off; an empty line is no answer
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
