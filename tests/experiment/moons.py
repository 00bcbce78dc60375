"""A tiny data set: six documents about moons, five questions, one of them unanswerable."""

import json

CORPUS = {
    "d1": ("Io", "Io has hundreds of active volcanoes, the most of any moon."),
    "d2": ("Europa", "Europa hides an ocean of salt water beneath its ice."),
    "d3": ("Titan", "Titan has a thick atmosphere of nitrogen and lakes of methane."),
    "d4": ("Triton", "Triton orbits Neptune backwards and has geysers of nitrogen."),
    "d5": ("Ganymede", "Ganymede is the largest moon and has a magnetic field of its own."),
    "d6": ("Ice", "Ice and salt are found on many moons."),
}
QUERIES = {
    "q1": "Which moon has active volcanoes?",
    "q2": "Where is an ocean beneath the ice?",
    "q3": "Which moon has a thick atmosphere?",
    "q4": "What is the largest moon?",
    "q5": "How old is the moon of Pluto?",
}
QRELS = {
    "q1": {"d1": 3, "d5": 0},
    "q2": {"d2": 3, "d6": 1},
    "q3": {"d3": 3},
    "q4": {"d5": 3},
    "q5": {"d4": 0},
}
ANSWERS = {"q1": ["Io"], "q2": ["Europa"], "q3": ["Titan"], "q4": ["Ganymede"]}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
