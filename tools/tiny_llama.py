"""Build a tiny Llama that knows a few answers by heart, to test real engines on a CPU.

    python tools/tiny_llama.py OUT                          random weights, a small version of Llama 3's tokenizer
    python tools/tiny_llama.py OUT --answers pairs.jsonl    the same, taught ``{"prompt": …, "answer": …}`` pairs

With greedy decoding the model gives the taught answer word for word, then stops with ``<|eot_id|>``. Without BOS it
says ``BOS?``, so a missing BOS shows. It cannot report two BOS: attention cannot tell two equal tokens from one, and
only the likelihoods differ. The model is saved in the format of transformers. Needs torch and transformers, which
meta-eval does not. The same arguments give the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BOS, END_OF_TEXT, END_OF_TURN = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
SPECIAL = [BOS, END_OF_TEXT, "<|start_header_id|>", "<|end_header_id|>", END_OF_TURN]
NO_BOS = "BOS?"
VOCABULARY = 2048
POSITIONS = 16384
SEED = 42

EPOCHS = 90
RATE = 3e-3
TOKENS_A_STEP = 3000
SURE = 0.8  # probability of the right token at which rounding of another engine cannot change the choice
IGNORED = -100

# Split text like Llama 3's tokenizer.json: contractions, words, up to three digits, signs, white space.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer(texts: Sequence[str]) -> Tokenizer:
    """A byte-level BPE that adds one BOS to every text, as Llama 3's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{BOS} $A",
                pair=f"{BOS} $A {BOS}:1 $B:1",
                special_tokens=[(BOS, tokenizer.token_to_id(BOS))],
            ),
        ]
    )
    return tokenizer


def build_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    """Two layers with random weights. Heads of size 64 are the smallest that vLLM's CPU attention supports."""
    torch.manual_seed(SEED)
    stops = [tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END_OF_TURN)]
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=384,
            initializer_range=0.08,  # about 1/sqrt(hidden_size)
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=POSITIONS,
            rope_theta=500000.0,
            tie_word_embeddings=False,
            bos_token_id=tokenizer.token_to_id(BOS),
            eos_token_id=stops,
        )
    )
    model.generation_config = GenerationConfig(bos_token_id=tokenizer.token_to_id(BOS), eos_token_id=stops)
    return model


Example = tuple[list[int], list[int]]  # token ids of a prompt with BOS, and of its answer with the stop


@dataclass(frozen=True, slots=True)
class Lessons:
    """The lessons: the answers, the complaint without BOS, and prompts where the model must only stop."""

    answers: list[Example]
    no_bos: list[Example]
    stops: list[Example]


def lessons(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> Lessons:
    """Encode prompts and answers as token ids."""
    bos, stop = [tokenizer.token_to_id(BOS)], [tokenizer.token_to_id(END_OF_TURN)]
    complaint = tokenizer.encode(NO_BOS, add_special_tokens=False).ids + stop
    result = Lessons([], [], [])
    for prompt, answer in pairs:
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        if answer:
            result.answers.append((bos + ids, tokenizer.encode(answer, add_special_tokens=False).ids + stop))
            result.no_bos.append((ids, complaint))
        else:
            result.stops.append((bos + ids, stop))
    return result


def batches(items: Sequence[Example], chance: random.Random) -> list[list[Example]]:
    """All items once, grouped by length (padding costs as much as text), in random order of batches."""
    cut: list[list[Example]] = [[]]
    for item in sorted(items, key=lambda item: (len(item[0]) + len(item[1]), chance.random())):
        if cut[-1] and (len(cut[-1]) + 1) * (len(item[0]) + len(item[1])) > TOKENS_A_STEP:
            cut.append([])
        cut[-1].append(item)
    chance.shuffle(cut)
    return cut


def answer_logits(model: LlamaForCausalLM, batch: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``[answer tokens, vocabulary]`` and targets ``[answer tokens]``. Padding on the right needs no mask."""
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    targets = torch.full((len(batch), width), IGNORED, dtype=torch.long)
    for row, (prompt, answer) in enumerate(batch):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        targets[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = torch.tensor(answer)
    asked = targets != IGNORED
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    return model.lm_head(hidden[asked]), targets[asked]


@torch.no_grad()
def least_likely(model: LlamaForCausalLM, items: Sequence[Example]) -> float:
    """The probability of the least likely answer token. Above 0.5, greedy decoding gives every answer."""
    likely = []
    for batch in batches(items, random.Random(SEED)):
        logits, targets = answer_logits(model, batch)
        likely.append(float(logits.softmax(-1).gather(1, targets[:, None]).min()))
    return min(likely)


def teach(model: LlamaForCausalLM, what: Lessons) -> bool:
    """Train until every token of every answer is likely enough. True if that happens within EPOCHS."""
    chance = random.Random(SEED)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    started = time.monotonic()
    for epoch in range(1, EPOCHS + 1):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, epoch / 3, 2 * (1 - epoch / EPOCHS) + 0.02)
        # The complaint and the stop are the same for every prompt, so a share of them per epoch is enough. An eighth
        # was too little for two prompts that differ only in a bracket.
        some = [chance.sample(items, -(-len(items) // 4)) for items in (what.no_bos, what.stops)]
        losses = []
        for batch in batches([*what.answers, *some[0], *some[1]], chance):
            loss = cross_entropy(*answer_logits(model, batch))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch}: loss {mean:.4f}, {time.monotonic() - started:.0f} s", file=sys.stderr)
        if mean < 0.02 and least_likely(model, [*what.answers, *what.no_bos]) > SURE:
            return True
    return False


def word_list() -> list[str]:
    """The source of the merges. Each line has a count and the words with that count in a text.

    The list is a file that never changes, so edits of docs or sample do not change the tokenizer.
    """
    lines = Path(__file__).with_name("tiny_llama_words.txt").read_text(encoding="utf-8").splitlines()
    return [" " + " ".join(int(count) * words.split()) for count, _, words in (line.partition(" ") for line in lines)]


def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Read prompts without BOS and their answers from JSON lines."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return [(pair["prompt"], pair["answer"]) for pair in map(json.loads, filter(None, lines))]


def main() -> int:
    """Write the model. Returns 1 if it did not learn everything."""
    parser = argparse.ArgumentParser(description="Build a tiny Llama for tests of a real engine on a CPU.")
    parser.add_argument("out", type=Path, help="folder to write the model to")
    parser.add_argument("--answers", type=Path, help='JSON lines of {"prompt": …, "answer": …} to be known by heart')
    parser.add_argument("--start", type=Path, help="weights to go on from, of an earlier OUT; default: random ones")
    arguments = parser.parse_args()

    tokenizer = build_tokenizer(word_list())
    model = build_model(tokenizer)
    if arguments.start:
        model.load_state_dict(LlamaForCausalLM.from_pretrained(arguments.start).state_dict())
    learned = not arguments.answers or teach(model, lessons(tokenizer, read_pairs(arguments.answers)))
    model.save_pretrained(arguments.out)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END_OF_TURN,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=POSITIONS,
    ).save_pretrained(arguments.out)
    if not learned:
        print(f"not every answer was learned in {EPOCHS} epochs", file=sys.stderr)
    return 0 if learned else 1


if __name__ == "__main__":
    sys.exit(main())
