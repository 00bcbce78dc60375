"""Words, sentences, stems and pieces of texts, alike for retrievers, judges and measures."""
