"""Words, sentences, stems and chunks of texts, for retrievers, judges and measures."""
