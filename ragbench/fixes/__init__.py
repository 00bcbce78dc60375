"""Changes of a retriever, priced from stored rankings: questions rescued and lost, and the gain."""
