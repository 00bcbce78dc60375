"""Forms of reasoning that models write in front of an answer, as a strategy for tests."""

from __future__ import annotations

from hypothesis import strategies as st

# Templates of a text with reasoning and answer.
BLOCKS = (
    "<think>\n{reasoning}\n</think>\n\n{answer}",
    "<think>{reasoning}</think>{answer}",
    "<think> {reasoning} </think> {answer}",
    "  <think>\n{reasoning}\n</think>\n{answer}",
    "<THINK>\n{reasoning}\n</THINK>\n\n{answer}",
    "<thinking>\n{reasoning}\n</thinking>\n\n{answer}",
    "<thought>{reasoning}</thought>\n{answer}",
    "<reasoning>\n{reasoning}\n</reasoning>\n<answer>\n{answer}\n</answer>",
    "<think>{reasoning}</think>\n<answer>{answer}</answer>\n",
    "[THINK]{reasoning}[/THINK]{answer}",
    "◁think▷{reasoning}◁/think▷{answer}",
    "<seed:think>{reasoning}</seed:think>{answer}",
    "<think>\n{reasoning}\n</think>\n<think>\nSo it is.\n</think>\n{answer}",
    "<think>\nThey wrote </think> and\n{reasoning}\n</think>\n\n{answer}",
    "<think>\n```python\n{reasoning}\n</think>\n\n{answer}",
    "<|channel|>analysis<|message|>{reasoning}<|end|>"
    "<|start|>assistant<|channel|>final<|message|>{answer}<|return|>",
    "analysisWe see: {reasoning}assistantfinal{answer}",
    # the chat template has written the opening tag
    "So: {reasoning}\n</think>\n\n{answer}",
    "So: {reasoning}.</think>{answer}",
)
# Without "{" and "[", with which JSON begins, and without tags.
REASONING = st.text("abc XYZ.,:?\n\"'*-_1é語😀", min_size=1, max_size=40).map(
    lambda text: f"Hm, {text.strip()} so"
)
