"""What is kept on disk between runs: replies of models, vectors of texts, items of stages."""
