"""dure copy: data files for workers, judged by numpy."""
import fcntl
import json
import os
import resource
import signal
import struct
import subprocess
import zipfile

import numpy

import harness
import native
from harness import DURE

SHARED = harness.ROOT.parent / "shared" / "data"


def rows_of(x, y):
    """The rows as things that can be sorted and compared, in whichever order they are."""
    return sorted((row.tobytes(), float(label)) for row, label in zip(x, y))


def first_block(path):
    """Where the file's first bytes lie on the disk: FS_IOC_FIEMAP with room for one extent."""
    with open(path) as file:
        reply = fcntl.ioctl(file, 0xC020660B, struct.pack("=QQIIII", 0, 1 << 62, 0, 0, 1, 0) + bytes(56))
    return struct.unpack_from("=Q", reply, 40)[0]


class Case(harness.Case):
    def copy(self, *arguments, code=0, **options):
        return self.dure("copy", *arguments, code=code, **options)

    def load(self, number, folder="out"):
        with numpy.load(self.dir / folder / f"{number}.npz") as data:
            return dict(data)

    def names(self, folder="out"):
        return sorted(os.listdir(self.dir / folder))

    def assert_same_arrays(self, got, expected):
        self.assertEqual(sorted(got), sorted(expected))
        for name, array in expected.items():
            self.assertEqual(got[name].dtype, array.dtype, name)
            self.assertEqual(got[name].shape, array.shape, name)
            numpy.testing.assert_array_equal(got[name], array, name)


class Copies(Case):
    def test_whole_copies_by_the_words_of_the_seed(self):
        arrays = native.write_images(self.dir / "data.npz")
        done = self.copy("data.npz", "--n_container", "5", "--savedir", "out")
        self.assertIn("0.npz … 4.npz", done.out)
        self.assertEqual(self.names(), [f"{i}.npz" for i in range(5)])
        original = (self.dir / "data.npz").read_bytes()
        for i in range(5):
            self.assertEqual((self.dir / "out" / f"{i}.npz").read_bytes(), original)
            self.assert_same_arrays(self.load(i), arrays)
        # Once more changes nothing, and says so.
        before = [os.stat(self.dir / "out" / name).st_mtime_ns for name in self.names()]
        self.assertIn("5 were there already", self.copy("data.npz", "--workers", "5", "--to", "out").out)
        self.assertEqual([os.stat(self.dir / "out" / name).st_mtime_ns for name in self.names()], before)

    def test_copies_share_storage_unless_they_must_not(self):
        native.write_images(self.dir / "data.npz")
        done = self.copy("data.npz", "--workers", "3", "--to", "shared")
        paths = [self.dir / "shared" / f"{i}.npz" for i in range(3)]
        if "hard links" in done.out:
            self.assertEqual({os.stat(path).st_ino for path in paths}, {os.stat(self.dir / "data.npz").st_ino})
        else:
            self.assertIn("reflinks", done.out)
            self.assertEqual({first_block(path) for path in paths}, {first_block(self.dir / "data.npz")})
            self.assertEqual(len({os.stat(path).st_ino for path in paths}), 3)
        self.copy("data.npz", "--workers", "3", "--to", "apart", "--independent")
        self.assert_apart("apart")

    def test_independent_copies_take_the_place_of_links(self):
        native.write_images(self.dir / "data.npz")
        (self.dir / "out").mkdir()
        os.link(self.dir / "data.npz", self.dir / "out/0.npz")
        os.link(self.dir / "data.npz", self.dir / "out/1.npz")
        os.symlink(self.dir / "data.npz", self.dir / "out/2.npz")
        done = self.copy("data.npz", "--workers", "3", "--to", "out", "--independent")
        self.assertNotIn("already", done.out)
        self.assert_apart("out")
        # Now they are, so that nothing is left to do.
        done = self.copy("data.npz", "--workers", "3", "--to", "out", "--independent")
        self.assertIn("3 were there already", done.out)

    def assert_apart(self, folder):
        for i in range(3):
            path = self.dir / folder / f"{i}.npz"
            self.assertFalse(path.is_symlink())
            self.assertEqual(os.stat(path).st_nlink, 1)
            self.assertEqual(path.read_bytes(), (self.dir / "data.npz").read_bytes())

    def test_every_format_that_training_reads(self):
        random = numpy.random.default_rng(1)
        x = random.integers(0, 256, (40, 6, 5), dtype=numpy.uint8)
        y = random.integers(0, 3, 40).astype(numpy.uint8)
        # idx
        for split, rows in (("train", slice(0, 30)), ("t10k", slice(30, 40))):
            for kind, array in (("images-idx3", x[rows]), ("labels-idx1", y[rows])):
                head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
                self.write(f"idx/{split}-{kind}-ubyte", head + array.tobytes())
        self.copy("idx", "--workers", "2", "--to", "from-idx")
        self.assert_same_arrays(self.load(1, "from-idx"), {
            "x_train": x[:30], "y_train": y[:30], "x_test": x[30:], "y_test": y[30:]})
        # npy files
        (self.dir / "npy").mkdir()
        for name, array in (("x_train", x.astype(numpy.float32)), ("y_train", y.astype(numpy.int16)[:, None])):
            numpy.save(self.dir / "npy" / f"{name}.npy", array)
        self.copy("npy", "--workers", "1", "--to", "from-npy")
        self.assert_same_arrays(self.load(0, "from-npy"), {
            "x_train": x.astype(numpy.float32), "y_train": y.astype(numpy.int16)[:, None]})
        # csv, with names of classes
        self.write("table.csv", "a,b,label\n1,2.5,cat\n3,4,dog\n5,6.25,cat\n")
        self.copy("table.csv", "--workers", "2", "--to", "from-csv")
        self.assert_same_arrays(self.load(0, "from-csv"), {
            "x_train": numpy.array([[1, 2.5], [3, 4], [5, 6.25]], numpy.float32),
            "y_train": numpy.array([0, 1, 0]), "class_names": numpy.array(["cat", "dog"])})
        # csv, with numbers to predict
        self.write("numbers.csv", "a,price\n1,2.5\n3,4.25\n")
        self.copy("numbers.csv", "--workers", "1", "--to", "from-numbers", "--labels", "price")
        self.assertEqual(self.load(0, "from-numbers")["y_train"].dtype, numpy.float64)

    @native.needs_data(SHARED / "fashion_mnist_arrow_small", "an Arrow sample")
    def test_arrow(self):
        self.copy(SHARED / "fashion_mnist_arrow_small", "--workers", "2", "--to", "out")
        data = self.load(0)
        self.assertEqual(data["x_train"].shape, (2000, 28, 28))
        self.assertEqual(data["x_test"].shape, (500, 28, 28))
        self.assertEqual(data["x_train"].dtype, numpy.uint8)

    def test_the_word_index_goes_along(self):
        (self.dir / "imdb").mkdir()
        native.write_images(self.dir / "imdb/imdb.npz")
        self.write("imdb/word_index.json", json.dumps({"good": 1}))
        self.assertIn("word_index.json", self.copy("imdb/imdb.npz", "--workers", "2", "--to", "out").out)
        self.assertEqual(json.loads((self.dir / "out/word_index.json").read_text()), {"good": 1})

    @native.needs_data(SHARED / "imdb", "IMDB")
    def test_imdb(self):
        self.copy(SHARED / "imdb/imdb.npz", "--workers", "5", "--to", "out")
        self.assertEqual(self.names(), [f"{i}.npz" for i in range(5)] + ["word_index.json"])
        self.assertEqual(self.load(4)["x_train"].shape, (25000, 256))


class Shards(Case):
    def test_shards_are_disjoint_and_whole_together(self):
        arrays = native.write_images(self.dir / "data.npz", rows=1003)
        arrays["note"] = numpy.arange(3)
        numpy.savez(self.dir / "data.npz", **arrays)
        self.copy("data.npz", "--workers", "5", "--to", "out", "--split", "--seed", "7")
        shards = [self.load(i) for i in range(5)]
        self.assertEqual([len(shard["y_train"]) for shard in shards], [201, 201, 201, 200, 200])
        x = numpy.concatenate([shard["x_train"] for shard in shards])
        y = numpy.concatenate([shard["y_train"] for shard in shards])
        self.assertEqual(rows_of(x, y), rows_of(arrays["x_train"], arrays["y_train"]))
        self.assertFalse(numpy.array_equal(x, arrays["x_train"]))
        for shard in shards:
            self.assertEqual(shard["x_train"].dtype, numpy.uint8)
            self.assertEqual(shard["y_train"].dtype, numpy.int64)
            for name in ("x_test", "y_test", "note"):
                numpy.testing.assert_array_equal(shard[name], arrays[name])
        # The same seed, the same bytes; another seed, other shards.
        first = [(self.dir / f"out/{i}.npz").read_bytes() for i in range(5)]
        self.copy("data.npz", "--workers", "5", "--to", "again", "--split", "--seed", "7")
        self.assertEqual([(self.dir / f"again/{i}.npz").read_bytes() for i in range(5)], first)
        self.copy("data.npz", "--workers", "5", "--to", "other", "--split", "--seed", "8")
        self.assertNotEqual((self.dir / "other/0.npz").read_bytes(), first[0])

    def test_stratified_shards_have_the_proportions_of_the_whole(self):
        y = numpy.repeat(numpy.arange(4), [400, 100, 40, 11])
        x = numpy.arange(len(y), dtype=numpy.float32)[:, None].repeat(3, 1)
        numpy.savez(self.dir / "data.npz", x_train=x, y_train=y)
        self.copy("data.npz", "--workers", "5", "--to", "out", "--split", "--stratified")
        counts = numpy.array([numpy.bincount(self.load(i)["y_train"], minlength=4) for i in range(5)])
        self.assertTrue((counts.max(0) - counts.min(0) <= 1).all(), counts)
        self.assertEqual(sorted(numpy.concatenate([self.load(i)["x_train"][:, 0] for i in range(5)])),
                         list(range(len(y))))

    def test_a_shard_without_the_highest_class_is_told(self):
        y = numpy.zeros(50, numpy.int64)
        y[0] = 1
        numpy.savez(self.dir / "data.npz", x_train=numpy.ones((50, 2), numpy.float32), y_train=y)
        self.assertIn("no row of class 1", self.copy("data.npz", "--workers", "5", "--to", "out", "--split").err)

    def test_mistakes(self):
        native.write_images(self.dir / "data.npz", rows=8, test=2)
        self.assertIn("cannot make 9 shards",
                      self.copy("data.npz", "--workers", "9", "--to", "out", "--split", code=2).err)
        self.assertIn("add --split", self.copy("data.npz", "--workers", "2", "--to", "out", "--stratified",
                                               code=2).err)
        numpy.savez(self.dir / "numbers.npz", x_train=numpy.ones((9, 2)), y_train=numpy.linspace(0, 1, 9))
        self.assertIn("numbers to predict", self.copy("numbers.npz", "--workers", "2", "--to", "out", "--split",
                                                      "--stratified", code=2).err)
        self.copy("absent.npz", "--workers", "2", "--to", "out", code=2)
        self.copy("data.npz", "--workers", "0", "--to", "out", code=2)
        self.assertFalse((self.dir / "out").exists())


class Trouble(Case):
    def test_nothing_different_is_overwritten_unasked(self):
        native.write_images(self.dir / "data.npz")
        self.write("out/1.npz", b"mine")
        self.write("out/notes.txt", b"mine too")
        done = self.copy("data.npz", "--workers", "3", "--to", "out", code=2)
        self.assertIn("--force", done.err)
        self.assertEqual(len(done.err.splitlines()), 1)
        self.assertEqual(self.names(), ["1.npz", "notes.txt"])
        self.assertEqual((self.dir / "out/1.npz").read_bytes(), b"mine")
        self.copy("data.npz", "--workers", "3", "--to", "out", "--force")
        self.assertEqual(self.names(), ["0.npz", "1.npz", "2.npz", "notes.txt"])
        self.load(1)

    def test_damaged_input_is_refused_and_nothing_is_left(self):
        native.write_images(self.dir / "data.npz")
        sound = (self.dir / "data.npz").read_bytes()
        for split in ([], ["--split"]):
            for damage in (sound[:-300], sound[: len(sound) // 2], b"", b"PK\3\4",
                           sound[:5000] + bytes([sound[5000] ^ 4]) + sound[5001:]):
                self.write("bad.npz", damage)
                done = self.copy("bad.npz", "--workers", "2", "--to", "out", *split, code=2)
                self.assertIn("bad.npz", done.err)
                self.assertEqual(len(done.err.splitlines()), 1, done.err)
                self.assertEqual(list((self.dir / "out").glob("*")) if (self.dir / "out").exists() else [], [])

    def test_a_full_disk(self):
        native.write_images(self.dir / "data.npz", rows=5000)
        done = subprocess.run(
            [DURE, "copy", "data.npz", "--workers", "2", "--to", "out", "--split"], cwd=self.dir,
            capture_output=True, text=True, env=self.env,
            preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("out/", done.stderr)
        self.assertNotIn(".tmp", done.stderr)
        self.assertEqual(self.names(), [])

    def test_killed_at_any_moment(self):
        """Whatever lies under a final name is whole, and the next copy removes what a killed one left."""
        native.write_images(self.dir / "data.npz", rows=60_000, size=16)
        for delay in (0.005, 0.02, 0.05, 0.1, 0.2):
            process = subprocess.Popen([DURE, "copy", "data.npz", "--workers", "3", "--to", "out", "--split",
                                        "--force"], cwd=self.dir, stdout=subprocess.DEVNULL,
                                       env=self.env)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
            for path in (self.dir / "out").glob("*.npz"):
                with zipfile.ZipFile(path) as file:
                    self.assertIsNone(file.testzip())
        self.copy("data.npz", "--workers", "3", "--to", "out", "--split", "--force")
        self.assertEqual(self.names(), ["0.npz", "1.npz", "2.npz"])

    def test_interrupted(self):
        native.write_images(self.dir / "data.npz", rows=200_000, size=16)
        process = subprocess.Popen([DURE, "copy", "data.npz", "--workers", "3", "--to", "out", "--split"],
                                   cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.env)
        harness.wait_until(lambda: list((self.dir / "out").glob(".dure-copy*/*.npz"))
                           or process.poll() is not None, 20, "files in the making")
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(30), (130, 0))
        if process.returncode == 130:
            self.assertEqual(self.names(), [])


if __name__ == "__main__":
    harness.main()
