"""Labels of a node: text with one label on each line, and invalid labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.rules.nodeconfig import LabelError, read, written_labels

WORDS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="="), max_size=20)


@given(st.dictionaries(WORDS.filter(bool), WORDS, max_size=5))
def test_labels_are_read_as_they_are_written(labels):
    assert read(written_labels(labels)) == labels


def test_labels_are_written_in_the_order_of_their_names():
    assert (
        written_labels({"b": "2", "a": "1=x"})
        == written_labels(read("b=2\n\n  a=1=x"))
        == "a=1=x\nb=2"
    )


@pytest.mark.parametrize(
    "text", ["a", "=1", "a=1\na=2", "a=\0", "a" * 256 + "=1", "a=" + "x" * 32_768]
)
def test_an_invalid_label_is_refused(text):
    with pytest.raises(LabelError):
        read(text)
