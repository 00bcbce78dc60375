"""How a language model is asked by a rubric: a file for each method, and the prompts."""
