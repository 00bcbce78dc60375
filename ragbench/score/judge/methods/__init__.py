"""Methods by which language models apply rubrics, one file each, and their prompts."""
