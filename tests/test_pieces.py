"""The pieces by themselves: dure copy, a trainer for each file, dure average, by the words of docs/pieces.md."""
import json
import os

import h5py
import numpy

import harness
import native

TRAINER = harness.BUILD / "dure-trainer"


def write_reviews(path, rows=600, words=50, length=12, seed=5):
    """Rows of words; those of class 1 have more of the higher ones."""
    random = numpy.random.default_rng(seed)

    def split(count):
        y = random.integers(0, 2, count).astype(numpy.uint8)
        low = random.integers(4, words // 2, (count, length))
        x = numpy.where(random.random((count, length)) < 0.3, low + (words // 2 - 4) * y[:, None], low)
        return x.astype(numpy.int32), y

    x_train, y_train = split(rows)
    x_test, y_test = split(200)
    numpy.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return x_test, y_test


class Pieces(harness.Case):
    def train(self, *arguments, code=0):
        done = self.start(*arguments, program=TRAINER).wait(120)
        self.assertEqual(done.code, code, done.out + done.err)
        return done

    def test_copy_train_average(self):
        x_test, y_test = write_reviews(self.dir / "reviews.npz")
        self.dure("copy", "reviews.npz", "--n_container", "3", "--savedir", "data", "--split", code=0)
        os.mkdir(self.dir / "models")
        for i in range(3):
            done = self.train("--data", f"data/{i}.npz", "--epoch", "10", "--batch", "20", "--savemodel",
                              "models/model.h5", "--lr", "0.01")
            self.assertIn(f"models/{i}-model.h5: the model text", done.out)
        self.assertEqual(sorted(os.listdir(self.dir / "models")), [f"{i}-model.h5" for i in range(3)])
        self.dure("average", "--dir", "models", "--savefile", "final.h5", code=0)
        with h5py.File(self.dir / "final.h5") as final:
            names = []
            final["model_weights"].visititems(lambda name, item: names.append(name)
                                              if isinstance(item, h5py.Dataset) else None)
            for name in names:
                models = [h5py.File(self.dir / f"models/{i}-model.h5")[f"model_weights/{name}"][()] for i in range(3)]
                numpy.testing.assert_array_equal(
                    final[f"model_weights/{name}"][()],
                    numpy.mean(models, axis=0, dtype=numpy.float64).astype(numpy.float32))
        predicted = native.predict_with_tfjs(self.dir, "final.h5", x_test)
        right = (predicted.argmax(1) if predicted.shape[1] > 1 else predicted[:, 0] > 0.5) == y_test
        self.assertGreater(right.mean(), 0.8)

    def test_models_of_the_same_data_begin_alike_and_differ(self):
        write_reviews(self.dir / "reviews.npz")
        self.dure("copy", "reviews.npz", "--n_container", "2", "--savedir", "data", code=0)

        def weights(number, output, *more):
            self.train("--data", f"data/{number}.npz", "--batch", "20", "--savemodel", output, *more)
            with h5py.File(self.dir / output) as model:
                return model["model_weights/dense/dense/kernel:0"][()]

        ours, theirs = weights(0, "0-a.h5"), weights(1, "1-a.h5")
        self.assertFalse(numpy.array_equal(ours, theirs))
        numpy.testing.assert_array_equal(weights(0, "0-b.h5", "--seed", "1"), theirs)
        # At a rate at which nothing is learnt, what is left is how they began.
        numpy.testing.assert_allclose(weights(0, "0-c.h5", "--lr", "1e-9"), weights(1, "1-c.h5", "--lr", "1e-9"), atol=1e-6)

    def test_models_by_data(self):
        native.write_images(self.dir / "images.npz", rows=64, test=16, size=10)
        self.assertIn("the model convnet", self.train("--data", "images.npz", "--savemodel", "i.pt").out)
        self.write("table.csv", "a,b,label\n" + "".join(f"{i},{i % 3}.5,{i % 2}\n" for i in range(40)))
        self.assertIn("the model mlp", self.train("--data", "table.csv", "--savemodel=t.safetensors").out)
        self.assertIn("the model linear",
                      self.train("--data", "table.csv", "--savemodel", "l.h5", "--model", "linear").out)
        self.assertIn("--savemodel", self.train("--help").out)

    def test_by_the_words_of_the_seed(self):
        write_reviews(self.dir / "0.npz", rows=60)
        self.train("--data", "0.npz", "--epoch", "3", "--batch", "100", "--savemodel", "0-model.h5")
        with h5py.File(self.dir / "0-model.h5") as model:
            self.assertIn("model_config", model.attrs)
        # A rank of something else is still a worker by itself.
        done = self.start("--data", "0.npz", "--savemodel", "again.h5", program=TRAINER,
                          env={"DURE_RANK": "1", "DURE_WORLD_SIZE": "4", "RANK": "1", "WORLD_SIZE": "4"}).wait(120)
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue((self.dir / "0-again.h5").exists())

    def test_mistakes(self):
        write_reviews(self.dir / "0.npz", rows=60)
        for words, *arguments in (("--data", "--savemodel", "m.h5"), ("--savemodel", "--data", "0.npz"),
                                  ("did you mean --epoch", "--data", "0.npz", "--savemodel", "m.h5", "--epoh", "3"),
                                  ("--epoch", "--data", "0.npz", "--savemodel", "m.h5", "--epoch", "many"),
                                  ("--batch", "--data", "0.npz", "--savemodel", "m.h5", "--batch", "0"),
                                  ("absent.npz", "--data", "absent.npz", "--savemodel", "m.h5"),
                                  (".safetensors", "--data", "0.npz", "--savemodel", "m.bin"),
                                  ("transformer", "--data", "0.npz", "--savemodel", "m.h5", "--model", "transformer")):
            with self.subTest(words):
                done = self.train(*arguments, code=2)
                self.assertIn(words, done.err)
                self.assertEqual(len(done.err.splitlines()), 1, done.err)
        self.assertEqual([name for name in os.listdir(self.dir) if "m.h5" in name], [])


if __name__ == "__main__":
    harness.main()
