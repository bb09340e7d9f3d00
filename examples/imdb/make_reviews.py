"""Puts a set of reviews where a pipeline wants it: reviews.npz and word_index.json.

  make_reviews.py --from imdb.npz --to DIR      a set that is there: x_train, y_train, x_test, y_test, word indices
  make_reviews.py --from make_reviews.py --to DIR      none: reviews are made up, the same ones each time
"""
import argparse
import json
import pathlib
import shutil

import numpy as np

LENGTH = 256
WORDS = 2000
FIRST_WORD = 4  # 0 pads, 1 begins a review, 2 is an unknown word, 3 is left free, as in Keras' IMDB


def make(count, rng):
    """Reviews of LENGTH words. Some words lean to good reviews and some to bad ones; most say nothing."""
    labels = rng.integers(0, 2, count)
    lean = np.zeros(WORDS)
    lean[FIRST_WORD:FIRST_WORD + 100] = 1.2
    lean[FIRST_WORD + 100:FIRST_WORD + 200] = -1.2
    common = 1.0 / np.arange(1, WORDS + 1) ** 0.8
    common[:FIRST_WORD] = 0
    samples = np.zeros((count, LENGTH), np.int32)
    for label in (0, 1):
        chance = common * np.exp(lean * (0.12 if label else -0.12))
        rows = np.flatnonzero(labels == label)
        samples[rows] = rng.choice(WORDS, (len(rows), LENGTH), p=chance / chance.sum())
    for row, length in enumerate(rng.integers(60, LENGTH + 1, count)):
        samples[row, :LENGTH - length] = 0
        samples[row, LENGTH - length] = 1
    return samples, labels.astype(np.int64)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=2000)
    arguments = parser.parse_args()
    source, to = pathlib.Path(arguments.source), pathlib.Path(arguments.to)
    to.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".npz":
        shutil.copyfile(source, to / "reviews.npz")
        index = source.with_name("word_index.json")
        if index.exists():
            shutil.copyfile(index, to / "word_index.json")
        return
    rng = np.random.default_rng(1)
    x_train, y_train = make(arguments.train, rng)
    x_test, y_test = make(arguments.test, rng)
    np.savez(to / "reviews.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    names = [f"good{i}" for i in range(100)] + [f"bad{i}" for i in range(100)]
    names += [f"word{i}" for i in range(WORDS - FIRST_WORD - len(names))]
    # As in Keras: the index of a word in a review is this plus 3.
    (to / "word_index.json").write_text(json.dumps({name: i + 1 for i, name in enumerate(names)}))


main()
