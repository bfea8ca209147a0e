"""GSM8K and MGSM: which number an output gives, and whether it is the gold."""

# ruff: noqa: RUF001 (letters, digits and marks of other scripts are what this is about)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marks import each
from rows import make_row
from template_modules import template_module

numbers = template_module("gsm8k/utils.py")

SPOKEN = [None, *numbers.ANSWER_WORDS]


# What a number is


@each(
    ("text", "spoken", "value"),
    [
        ("18", None, "18"),
        ("18.", None, "18"),
        ("018", None, "18"),
        ("18.0", None, "18"),
        ("18.50", None, "18.5"),
        (".5", None, "0.5"),
        ("1/2", None, "0.5"),
        ("1/3", None, "1/3"),
        ("-7", None, "-7"),
        ("\u22127", None, "-7"),
        ("it is \u20137 now", None, "-7"),
        ("-$7", None, "-7"),
        ("$-7", None, "-7"),
        ("-0", None, "0"),
        ("$18", None, "18"),
        (r"\$18", None, "18"),
        ("18 €", None, "18"),
        ("£18.20", None, "18.2"),
        ("₹1,00,000", None, "100000"),
        ("18%", None, "18"),
        ("18km", None, "18"),
        ("1,234", None, "1234"),
        ("1,234,567.89", None, "1234567.89"),
        ("1.234.567,89", None, "1234567.89"),
        ("1.234,5", None, "1234.5"),
        ("1'234", None, "1234"),
        ("1{,}234", None, "1234"),
        (r"1\,234", None, "1234"),
        ("1\u202f234", None, "1234"),
        ("12,5", None, "12.5"),
        ("0,125", None, "0.125"),
        # One point before three digits: a decimal mark here, thousands there.
        ("1.234", None, "1.234"),
        ("1.234", "en", "1.234"),
        ("1.234", "zh", "1.234"),
        ("1.234", "de", "1234"),
        ("1.234", "es", "1234"),
        ("0.125", "de", "0.125"),
        ("1,234", "de", "1234"),
        ("12 300", "fr", "12300"),
        ("12 300", "en", "300"),  # two numbers
        ("12 30", "fr", "30"),
        ("१२", "en", "12"),
        ("১২০", "bn", "120"),
        ("๖๐๐", "th", "600"),
        ("౧౦౮", "te", "108"),
        ("２６", "ja", "26"),
        ("１，２３４", "ja", "1234"),
        ("１．５", "zh", "1.5"),
        ("１８，因为3", "zh", "3"),  # a comma between words
        ("১,২০,০০০", "bn", "120000"),
        ("௧௨", None, "12"),
        ("١٬٢٣٤", None, "1234"),
        ("١٢٫٥", None, "12.5"),
        # The minus of a subtraction or a range is none.
        ("10-7", None, "7"),
        ("pages 10\u201317", None, "17"),
        ("(3)-2", None, "2"),
        ("答えは-5", "ja", "-5"),
        # Marks that make no number: the last that is one counts.
        ("7 of version 1.2.3", None, "7"),
        ("no number", None, None),
        ("", None, None),
        ("9" * 5000, None, None),
        ("4 then " + "9" * 5000, None, "4"),
        ("1/0", None, "1"),
    ],
)
def test_the_last_number_of_a_text_has_this_value(text: str, spoken: str | None, value: str | None) -> None:
    assert numbers.numbers.last(text, spoken) == value


# Where the answer stands


@each(
    ("output", "value"),
    [
        ("3 * 6 = 18. The final answer is 18", "18"),
        ("The final answer is 18.", "18"),
        ("The final answer is $1,234.50.", "1234.5"),
        ("The final answer is -3", "-3"),
        ("The final answer is 18 apples in 3 bags.", "183"),  # all digits, as one number
        ("The final answer is 7/3", "73"),
        ("The final answer is 2 1/4", "214"),
        ("The final answer is 4:15 pm", "415"),
        ("The final answer is 8, 5, and 3.", "853"),
        ("The final answer is $30 and $70.", "30"),  # between dollar signs is a formula
        ("The final answer is $30.", "30"),
        ("The final answer is 0.5", "12"),  # normalised to a fraction before
        ("The final answer is 2.5", "2.5"),
        ("The final answer is 2.5 to 3.5", None),  # no number
        ("The final answer is 5 a.m.", "5"),
        ("The final answer is $.75", "0.75"),
        ("The final answer is -$3.", "-3"),
        ("The final answer is 9-3", "93"),
        ("The final answer is 18\nThat took 3 steps.", "18"),
        ("The final answer is 5. No: The final answer is 6.", "6"),
        ("The final answer is\n18", "18"),
        ("So the final answer is 18", "18"),
        ("THE FINAL ANSWER IS 18", "18"),
        ("My final answer is 18.", "18"),
        ("The final answer is: 18", "18"),
        ("The final answer is\u00a018", "18"),
        ("The final answer is ১৮", "18"),
        ("The final answer is **18**.", "18"),
        ("The final answer is x = 18.", "18"),
        ("The final answer is 20 - 2 = 18", "18"),
        (r"The final answer is \boxed{18}", "18"),
        ("The final answer is unknown", None),
        ("The answer is 18.", None),
        ("The final answer is", None),
        ("18", None),
    ],
)
def test_gsm8k_takes_the_number_behind_the_words_that_it_asks_for(output: str, value: str | None) -> None:
    assert numbers.final_answer(output) == value


@given(
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
    st.lists(
        st.sampled_from([" and ", " of ", ", ", " / ", ":", " (", ") ", "**", " apples, "]), min_size=4, max_size=4
    ),
)
def test_gsm8k_reads_all_digits_of_the_line_as_one_number(parts: list[int], between: list[str]) -> None:
    text = "".join(f"{number}{words}" for number, words in zip(parts, between, strict=False))
    digits = "".join(map(str, parts))
    assert numbers.final_answer(f"2 + 3 = 5. The final answer is {text}\nThat was step 4.") == str(int(digits))


@each(
    ("output", "spoken", "value"),
    [
        ("3 * 6 = 18\n\nAnswer: 18", "en", "18"),
        ("**Answer:** 18", "en", "18"),
        ("**Answer**: **18**", "en", "18"),
        ("Final Answer:\n\n18 apples", "en", "18"),
        ("Answer: 3 * 6 = 18", "en", "18"),
        ("Answer: 5\nWait.\nAnswer: 6", "en", "6"),
        ("Answer: 18\n\nThat took 3 steps.", "en", "18"),
        ("Answer: apples\n18", "en", None),
        ("Answer: ", "en", None),
        ("18", "en", None),
        ("Antwort: 1.200 Räder", "de", "1200"),
        ("Answer: 18", "de", None),  # not the word that the prompt asks for
        ("Respuesta: 18.", "es", "18"),
        ("Réponse : 4\u202f800", "fr", "4800"),
        ("Re\u0301ponse: 48", "fr", "48"),
        ("Ответ: 45 000", "ru", "45000"),
        ("Jibu: 13", "sw", "13"),
        ("答案：48支", "zh", "48"),
        ("答え：２６", "ja", "26"),
        ("คำตอบ: ๖๐๐", "th", "600"),
        ("উত্তর: ১২০", "bn", "120"),
        ("సమాధానం:\n108", "te", "108"),
        ("Antwort: 42", None, "42"),  # an unknown language: any word will do
        # Words between the answer word and its colon.
        ("চূড়ান্ত উত্তর: ১৮", "bn", "18"),
        ("Endgültige Antwort: 1.200", "de", "1200"),
        ("Antwort (in Euro): 18", "de", "18"),
        ("FINAL ANSWER: 18", "en", "18"),
        ("answer: 18", "en", "18"),
        ("Respuesta final: 18", "es", "18"),
        ("**Respuesta final:** 1.800", "es", "1800"),
        ("Réponse finale : 18", "fr", "18"),
        ("Réponse finale\u202f:\u00a04 800", "fr", "4800"),
        ("Réponse\u00a0: 1\u202f800", "fr", "1800"),
        ("最終的な答え：２６", "ja", "26"),
        ("答えは次の通り: 26", "ja", "26"),
        ("Окончательный ответ: 18", "ru", "18"),
        ("Jibu la mwisho: 1,800", "sw", "1800"),
        ("తుది సమాధానం: ౧౦౮", "te", "108"),
        ("คำตอบสุดท้าย: ๖๐๐", "th", "600"),
        ("最终答案：４８", "zh", "48"),
        ("答案是：48", "zh", "48"),
        # Other marks for the colon, and none.
        ("উত্তরঃ ১৮", "bn", "18"),
        ("উত্তর - ১৮", "bn", "18"),
        ("উত্তর-১৮", "bn", "18"),
        ("উত্তর: -১৮", "bn", "-18"),
        ("Die Antwort lautet 18.", "de", "18"),
        ("答えは 18 です", "ja", "18"),
        ("Ответ — 18", "ru", "18"),
        ("Jibu ni 18", "sw", "18"),
        ("答案是18", "zh", "18"),
        ("Answer: 18\nThe answer fits 3 times", "en", "18"),  # a colon counts more
        ("The answer is that.\n18", "en", None),  # another line
        ("Respuesta 1: 5", "es", "5"),
    ],
)
def test_mgsm_takes_the_number_on_the_line_of_the_answer_word(
    output: str, spoken: str | None, value: str | None
) -> None:
    assert numbers.labelled(output, spoken) == value


@pytest.mark.parametrize(
    ("subtask", "spoken"),
    [
        ("mgsm.de", "de"),
        ("de", "de"),
        ("mgsm_chat.zh", "zh"),
        ("mgsm.Bengali", "bn"),
        ("mgsm", None),
        ("mgsm_chat", None),
        (None, None),
    ],
)
def test_the_language_stands_in_the_name_of_the_subtask(subtask: str | None, spoken: str | None) -> None:
    assert numbers.language({"subtask_name": subtask}) == spoken


# Verdicts


def verdict(output: str, *golds: str, subtask: str | None = None, extract: str = "last_number") -> dict:
    doc = numbers.make_doc(make_row(gold=golds, subtask=subtask))
    return numbers.process_results(doc, getattr(numbers, extract)([[output]], [doc])[0])


def test_any_correct_response_makes_an_answer_right_whatever_its_spelling() -> None:
    assert verdict("It is 18.00", "18", "18.", "18.0")["exact_match"] == 1
    assert verdict("It is 1200", "$1,200.")["exact_match"] == 1
    assert verdict("It is 7", "6", "7")["exact_match"] == 1
    assert verdict("It is 8", "6", "7")["exact_match"] == 0


def test_a_verdict_brings_its_language_and_says_when_nothing_was_found() -> None:
    assert verdict("Antwort: keine", "5", subtask="mgsm.de", extract="after_answer_word") == {
        "exact_match": 0.0,
        "exact_match_macro": ("mgsm.de", 0.0),
        "unextracted": 1.0,
    }


def test_every_language_weighs_the_same_in_the_macro_average() -> None:
    german = [verdict(f"Antwort: {n}", "1", subtask="mgsm.de", extract="after_answer_word") for n in (1, 1, 1, 2)]
    bengali = [verdict("উত্তরঃ ১৮", "18", subtask="mgsm.bn", extract="after_answer_word")]
    assert numbers.macro_average([score["exact_match_macro"] for score in german + bengali]) == 0.875


def test_a_gold_that_is_no_number_is_refused_with_its_hash() -> None:
    with pytest.raises(ValueError, match="question hash .*is a number"):
        numbers.make_doc(make_row(gold=["many"]))


# Properties


@given(st.integers(-(10**15), 10**15), st.sampled_from(SPOKEN))
def test_a_whole_number_is_read_however_its_thousands_are_grouped(number: int, spoken: str | None) -> None:
    spellings = [str(number), f"{number:,}", f"{number:,}".replace(",", "\u202f"), f"{number}.0", f"${number}."]
    if spoken in numbers.numbers.DECIMAL_COMMA:
        spellings += [f"{number:,}".replace(",", "."), f"{number:,}".replace(",", " "), f"{number},00"]
    for spelling in spellings:
        assert numbers.numbers.last(f"so {spelling}", spoken) == str(number), spelling


@given(st.integers(0, 10**9), st.sampled_from([0x0660, 0x0966, 0x09E6, 0x0C66, 0x0E50, 0xFF10]))
def test_the_digits_of_every_script_are_digits(number: int, zero: int) -> None:
    assert numbers.numbers.last(str(number).translate({48 + n: zero + n for n in range(10)}), None) == str(number)


SPACES = ["", " ", "\u00a0", "\u202f"]
DIGITS = [0x0030, 0x0660, 0x0966, 0x09E6, 0x0C66, 0x0E50, 0xFF10]


@given(
    st.integers(0, 10**9),
    st.sampled_from(DIGITS),
    st.sampled_from(SPACES),
    st.sampled_from([":", "\uff1a"]),
    st.sampled_from(["{}", "**{}**", "*{}*", "{} final", "final {}"]),
    st.sampled_from([str, str.upper, str.lower, str.title]),
    st.sampled_from(list(numbers.ANSWER_WORDS)),
)
def test_a_label_is_read_in_every_case_and_dress(number, zero, space, colon, dress, case, spoken) -> None:
    own = str(number).translate({48 + n: zero + n for n in range(10)})
    label = dress.format(case(numbers.ANSWER_WORDS[spoken]))
    assert numbers.labelled(f"5 + 7 = 12\n{label}{space}{colon}{space}{own}", spoken) == str(number)


@given(st.integers(-(10**6), 10**6), st.text(max_size=40), st.sampled_from(list(numbers.ANSWER_WORDS)))
def test_what_stands_before_the_asked_for_words_does_not_count(number: int, before: str, spoken: str) -> None:
    assert numbers.final_answer(f"{before}\nThe final answer is {number}") == str(number)
    assert numbers.labelled(f"{before}\n{numbers.ANSWER_WORDS[spoken]}: {number}", spoken) == str(number)


@given(st.text(alphabet=st.one_of(st.sampled_from("0123456789.,-/$ '\u00a0\u0665\u09ea"), st.characters())))
def test_no_output_makes_a_filter_raise(output: str) -> None:
    for extract in ("after_final_answer", "after_answer_word", "last_number"):
        assert set(verdict(output, "5", subtask="mgsm.fr", extract=extract)) == {
            "exact_match",
            "exact_match_macro",
            "unextracted",
        }
