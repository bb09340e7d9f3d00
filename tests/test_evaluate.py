"""dure evaluate and dure predict: the figures of training, and predictions of every kind of file."""
import json

import numpy
from PIL import Image

import harness
import serving

MODELS = None


def setUpModule():
    global MODELS
    MODELS = serving.Models()


def tearDownModule():
    MODELS.remove()


class Evaluate(harness.Case):
    def evaluate(self, model, data, *more):
        return json.loads(self.dure("evaluate", MODELS.dir / model, MODELS.dir / data, "--json", *more, code=0).out)

    def lines(self, model, file, *more, **options):
        done = self.dure("predict", MODELS.dir / model, file, *more, code=0, **options)
        return [json.loads(line) for line in done.out.splitlines()]

    def test_evaluate_says_what_numpy_says(self):
        for model in ("images.h5", "images.safetensors", "images.pt"):
            result = self.evaluate(model, "images.npz")
            shares, labels = numpy.array(MODELS.expected["images"]), MODELS.images["y_test"]
            chosen = shares.argmax(1)
            self.assertEqual(result["samples"], 40)
            self.assertAlmostEqual(result["accuracy"], float((chosen == labels).mean()))
            self.assertAlmostEqual(result["loss"], float(-numpy.log(shares[numpy.arange(40), labels]).mean()), 4)
            confusion = numpy.zeros((4, 4), int)
            numpy.add.at(confusion, (labels, chosen), 1)
            self.assertEqual(result["confusion"], confusion.tolist())
        self.assertEqual(self.evaluate("images.h5", "images.npz", "--split", "train")["samples"], 256)

    def test_evaluate_agrees_with_training(self):
        import h5py
        result = self.evaluate("words.h5", "words.npz")
        with h5py.File(MODELS.dir / "words.h5") as file:
            attributes = dict(file.attrs)
            words = bytes(file["dure/words"][:]).decode().split("\n")
        self.assertAlmostEqual(float(attributes["accuracy"]), result["accuracy"], 5)
        self.assertAlmostEqual(float(attributes["loss"]), result["loss"], 4)
        self.assertEqual(attributes["samples"], "400")
        self.assertEqual(words[4:], serving.WORDS)
        self.assertGreater(result["accuracy"], 0.8)
        text = self.dure("evaluate", MODELS.dir / "words.h5", MODELS.dir / "words.npz", code=0).out
        self.assertIn("100 samples, accuracy", text)
        self.assertIn("rows: the class it is", text)

    def assert_same_predictions(self, ours, theirs):
        """Batches of other sizes are summed in another order."""
        ours, theirs = ([row["prediction"] for row in rows] for rows in (ours, theirs))
        numpy.testing.assert_allclose(ours, theirs, atol=1e-6)

    def test_predict_takes_texts_pictures_and_numbers(self):
        self.write("texts.txt", "a good film\n\nan awful film\r\n")
        texts = self.lines("words.h5", "texts.txt")
        self.assertEqual([line["class"] for line in texts], [1, 0])
        self.assertEqual([line["row"] for line in texts], [0, 1])
        expected = numpy.array(MODELS.expected["images"])
        images = MODELS.images["x_test"]
        rows = self.lines("images.h5", MODELS.dir / "images.npz")
        self.assertLess(float(numpy.abs(numpy.array([row["prediction"] for row in rows]) - expected).max()), 1e-4)
        (self.dir / "pictures").mkdir()
        for number in range(3):
            Image.fromarray(images[number]).save(self.dir / f"pictures/{number}.png")
        pictures = self.lines("images.h5", "pictures")
        self.assertEqual([line["file"] for line in pictures], [f"pictures/{number}.png" for number in range(3)])
        self.assert_same_predictions(pictures, rows[:3])
        numpy.savetxt(self.dir / "images.csv", images[:3].reshape(3, 64), fmt="%d", delimiter=",")
        self.assert_same_predictions(self.lines("images.h5", "images.csv"), rows[:3])
        numpy.save(self.dir / "words.npy", MODELS.words["x_test"][:5])
        self.assertEqual(len(self.lines("words.h5", "words.npy")), 5)
        table = self.dure("predict", MODELS.dir / "words.h5", "texts.txt", "--format", "csv", code=0).out.splitlines()
        self.assertEqual(table[0], "row,file,class,class_name,probability,output_0,output_1")
        self.assertEqual(table[1].split(",")[:3], ["0", "", "1"])

    def test_mistakes_are_told_in_one_sentence(self):
        self.write("broken.h5", b"\x89HDF\r\n\x1a\nnothing")
        self.write("empty.txt", "\n")
        cases = ((("evaluate", "none.h5", MODELS.dir / "images.npz"), "there is no model none.h5"),
                 (("evaluate", "broken.h5", MODELS.dir / "images.npz"), "broken.h5"),
                 (("evaluate", MODELS.dir / "words.h5", MODELS.dir / "images.npz"), "the model takes samples of shape [12]"),
                 (("evaluate", MODELS.dir / "images.h5", MODELS.dir / "images.npz", "--split", "x"), "must be train or test"),
                 (("predict", MODELS.dir / "images.h5", "none.png"), "there is no none.png"),
                 (("predict", MODELS.dir / "words.h5", "empty.txt"), "there is no sample in it"),
                 (("predict", MODELS.dir / "images.h5", "broken.h5", "--format", "xml"), "--format"))
        for arguments, why in cases:
            done = self.dure(*arguments, code=2)
            self.assertIn(why, done.err)
            self.assertEqual(done.err.strip().count("\n"), 1 if "--help" in done.err else 0, done.err)


if __name__ == "__main__":
    harness.main()
