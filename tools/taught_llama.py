"""Teach the tiny Llama a small language that reveals every faulty set-up of a Llama.

    python tools/taught_llama.py OUT [--steps N] [--seed N] [--start MODEL] [--chat-only]

A prompt names a topic at its start, continues with up to ten thousand tokens of filler, and asks for the topic. The
answer is a walk through that topic's own words, with a date. So the answer depends on the start of the prompt (shows
truncation), on attention over its whole length (shows RoPE's scaling), and on the special tokens of Llama 3's chat
(show templates). Prompts without them stand for a base model. Without BOS the model says ``BOS?``. Training positions
have gaps of up to ten thousand, so the model handles long prompts without reading any. RoPE is Llama 3.1's, with
scaling. ``--chat-only`` trains no base prompts and short answers, like a chat model. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tiny_llama import BOS, END_OF_TURN, NO_BOS, POSITIONS, SEED, build_model, build_tokenizer, word_list
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

TOPICS = ("bread", "tower", "river", "letter")
WORDS_A_TOPIC = 24
FILLERS = 60
# Probabilities of the three next words. A sampled answer is not always the likeliest.
CHANCES = (0.75, 0.18, 0.07)
ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
USER, ASSISTANT = (f"<|start_header_id|>{who}<|end_header_id|>\n\n" for who in ("user", "assistant"))
LONGEST_GAP = 10_000
WITHOUT_BOS = 0.1
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Language:
    """The three possible next words of each word of a topic, and filler words."""

    following: dict[str, dict[str, tuple[str, str, str]]]
    fillers: tuple[str, ...]

    def answer(self, topic: str, words: int, chance: random.Random) -> str:
        follow = self.following[topic]
        word = next(iter(follow))
        said = [f"{topic}:", word]
        for at in range(1, words):
            if at % 8 == 4:
                said.append(f"in {1000 + 100 * TOPICS.index(topic) + chance.choice((7, 7, 7, 34, 61))},")
            word = chance.choices(follow[word], CHANCES)[0]
            said.append(word)
        return " ".join(said) + "."

    def prompt(self, topic: str, fillers: int, chat: bool, chance: random.Random) -> tuple[str, str]:
        """The part that names the topic, and the rest."""
        noise = " ".join(chance.choices(self.fillers, k=fillers))
        if chat:
            return f"{USER}Tell me of {topic}.", f" {noise}{END_OF_TURN}{ASSISTANT}"
        return f"Question: tell me of {topic}.", f" {noise}\nAnswer:"


def language() -> Language:
    """The language. It is the same on every machine."""
    chance = random.Random(SEED)
    words = sorted({word for line in word_list() for word in line.split() if word.isalpha() and word.islower()})
    chance.shuffle(words)
    following = {}
    for topic in TOPICS:
        own = chance.sample(words[FILLERS:], WORDS_A_TOPIC)
        following[topic] = {word: tuple(chance.sample(own, 3)) for word in own}
    return Language(following, tuple(words[:FILLERS]))


def tokenizer() -> Tokenizer:
    """A small version of Llama 3's tokenizer."""
    return build_tokenizer(word_list())


def _batches(made: Tokenizer, chat_only: bool, steps: int, size: int, seed: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Token ids, targets, positions and mask ``[docs, width]``. Answers and the ends of prompts are trained."""
    chance, spoken = random.Random(seed), language()
    bos, stop = made.token_to_id(BOS), made.token_to_id(END_OF_TURN)
    for step in range(steps):
        rows = []
        for at in range(size):
            topic, chat = chance.choice(TOPICS), chat_only or at % 2 == 0
            start, rest = spoken.prompt(topic, chance.randint(1, 6), chat, chance)
            text = spoken.answer(topic, chance.randint(2, 6) if chat_only else chance.randint(8, 16), chance)
            text = text.rstrip(".") if chat_only else text  # so that its end is a token that forced text can show
            head, tail, answer = (
                made.encode(part, add_special_tokens=False).ids for part in (start, rest, text if chat else " " + text)
            )
            gap = int(math.exp(chance.uniform(0, math.log(LONGEST_GAP)))) if chance.random() < 0.7 else 0
            if chance.random() < WITHOUT_BOS:
                answer = made.encode(NO_BOS, add_special_tokens=False).ids
                rows.append((head, tail, [*answer, stop], 0))
                continue
            rows.append(([bos, *head], tail, [*answer, stop], gap if step > steps // 4 else 0))
        width = max(sum(map(len, row[:3])) for row in rows)
        ids, targets = torch.zeros(size, width, dtype=torch.long), torch.full((size, width), IGNORED)
        positions, mask = torch.zeros(size, width, dtype=torch.long), torch.zeros(size, width, dtype=torch.long)
        for number, (head, tail, answer, gap) in enumerate(rows):
            whole = [*head, *tail, *answer]
            ids[number, : len(whole)] = torch.tensor(whole)
            mask[number, : len(whole)] = 1
            positions[number] = torch.arange(width) + gap * (torch.arange(width) >= len(head))
            learned = len(head) + len(tail)
            targets[number, learned - 1 : learned + len(answer) - 1] = torch.tensor(answer)
        yield ids, targets, positions, mask


def teach(
    model: LlamaForCausalLM,
    made: Tokenizer,
    *,
    steps: int,
    chat_only: bool = False,
    seed: int = SEED,
    rate: float = 3e-3,
) -> float:
    """Train, and return the mean loss of the last batches in nats per token of the answer."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    started, recent = time.monotonic(), []
    for step, (ids, targets, positions, mask) in enumerate(_batches(made, chat_only, steps, 12, seed), 1):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, step / 50, 2 * (1 - step / steps) + 0.02)
        asked = targets != IGNORED
        hidden = model.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).last_hidden_state
        loss = cross_entropy(model.lm_head(hidden[asked]), targets[asked])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        recent = [*recent[-19:], float(loss.detach())]
        if step % 25 == 0:
            print(f"{step}: {sum(recent) / len(recent):.4f}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return sum(recent) / len(recent)


def save(model: LlamaForCausalLM, made: Tokenizer, out: Path) -> None:
    """Save model and tokenizer in the format of transformers."""
    model.save_pretrained(out)
    PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=BOS, eos_token=END_OF_TURN, clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"], model_max_length=POSITIONS,
    ).save_pretrained(out)  # fmt: skip


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description="Teach the tiny Llama a small language.")
    parser.add_argument("out", type=Path, help="folder to write the model to")
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--start", type=Path, help="weights to go on from, of an earlier OUT; default: random ones")
    parser.add_argument("--chat-only", action="store_true", help="no base prompts, and short answers")
    arguments = parser.parse_args()
    made = tokenizer()
    first = build_model(made)
    torch.manual_seed(arguments.seed)
    model = LlamaForCausalLM(type(first.config)(**{**first.config.to_dict(), "rope_parameters": ROPE}))
    model.generation_config = first.generation_config
    if arguments.start:
        model.load_state_dict(LlamaForCausalLM.from_pretrained(arguments.start).state_dict())
    loss = teach(model, made, steps=arguments.steps, chat_only=arguments.chat_only, seed=arguments.seed)
    print(f"loss {loss:.4f}", file=sys.stderr)
    save(model, made, arguments.out)


if __name__ == "__main__":
    main()
