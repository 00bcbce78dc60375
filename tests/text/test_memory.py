"""A memory of words: every value right, within its bounds."""

from ragbench.text.memory import Memory


def test_it_stays_within_its_bounds():
    asked = []

    def shout(word):
        asked.append(word)
        return word.upper()

    memory = Memory(shout, room=2, longest=3)
    assert [memory[word] for word in ("a", "b", "a", "long", "long", "c", "a")] == [
        *("A", "B", "A", "LONG", "LONG", "C", "A")
    ]
    assert asked == ["a", "b", "long", "long", "c", "a"]
    assert set(memory) == {"c", "a"}, "emptied when c found it full"
