"""Vocabularies of tokenizers: read from what libraries write, and compared id by id."""

from firstdiff.vocab.comparison import VocabComparison, compare_vocabularies
from firstdiff.vocab.files import Vocabulary, load_vocabulary

__all__ = ["VocabComparison", "Vocabulary", "compare_vocabularies", "load_vocabulary"]
