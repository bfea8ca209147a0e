"""A form of files of requests and answers: JSON Lines with ``uid``, ``prompt`` and, in the answers, ``completion``.

Name it in your package's pyproject.toml. Then `export --to pairs` writes it, and `grade` reads it:

    [project.entry-points."meta_eval.answer_forms"]
    pairs = "pairs_form:PairsForm"
"""

import json
import re
from collections.abc import Iterator, Mapping

from meta_eval.sockets import SHORT, Answer, AnswerForm, Export, Holding, PackError, Request


class PairsForm(AnswerForm):
    name = "pairs"
    # In each file of requests: no other file is replaced.
    mark = re.compile(r'\A\{"uid": "[^"]+#[0-9a-f]+", "prompt": ')

    def find_kind(self, line: object) -> Holding | None:
        if not isinstance(line, dict) or "uid" not in line:
            return None
        return "answers" if "completion" in line else "requests"

    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        for request in requests:
            if request.kind != "generate":
                raise PackError(f"asks for {request.kind}", where=request.id, hint="Use --to requests")
            uid = f"{request.id}#{request.sha256[:SHORT]}"
            asked = {"prompt": request.prompt, "stop": request.stop, "max_tokens": request.max_tokens}
            yield json.dumps({"uid": uid, **asked}) + "\n"

    def read_answer(self, line: dict[str, str], names: Mapping[str, str | None], where: str) -> Answer:
        if not isinstance(line["uid"], str) or not isinstance(line["completion"], str):
            raise ValueError("holds a uid or a completion that is no text")
        own_id, _, sha256 = line["uid"].rpartition("#")
        return Answer(id=own_id, request_sha256=sha256, text=line["completion"], where=where)
