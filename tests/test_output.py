"""What ranks print arrives whole, once and in order, however much and whatever it is."""
import json
import os
import resource
import subprocess
import time

import numpy

import harness

# Lines of 128 bytes that say their rank and number, as fast as they can be written.
PRINTING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  static char buffer[1 << 16];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  char line[129];
  memset(line, 'x', 127);
  strcpy(line + 127, "\n");
  memcpy(line, "00 0000000000 ", 14);
  line[1] = getenv("DURE_RANK")[0];
  for (long number = 0, lines = atol(argv[1]); number < lines; ++number) {
    long rest = number;
    for (int digit = 12; digit > 2; --digit, rest /= 10) line[digit] = (char)('0' + rest % 10);
    fwrite(line, 1, 128, stdout);
  }
  return fflush(stdout) != 0;
}
"""
MIB = 1 << 20


def expected_lines(rank, first, end):
    """What the program above prints between these numbers, as rows of bytes."""
    numbers = numpy.arange(first, end)
    rows = numpy.full((end - first, 128), ord("x"), numpy.uint8)
    rows[:, 127] = ord("\n")
    rows[:, :14] = numpy.frombuffer(f"{rank:02d} 0000000000 ".encode(), numpy.uint8)
    for digit in range(12, 2, -1):
        rows[:, digit] = ord("0") + numbers % 10
        numbers = numbers // 10
    return rows


class Output(harness.Case):
    def run_job(self, script, workers=1):
        job = self.job(f"name: out\nworkers: {workers}\nrestarts: 0\n"
                       "program: {command: [/usr/bin/python3, program.py]}\n", script)
        return self.dure("run", job, code=0)

    def printing_job(self, workers, lines):
        self.write("printing.c", PRINTING)
        harness.run_text(["gcc", "-O2", "-o", "printing", "printing.c"], cwd=self.dir)
        return self.job(f"name: out\nworkers: {workers}\nprogram: {{command: [./printing, '{lines}']}}\n"
                        "restarts: 0\n")

    def test_a_gigabyte(self):
        ranks, lines = 4, 2 * MIB  # 256 MiB each
        job, before = self.printing_job(ranks, lines), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.dure("run", job, timeout=240, code=0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        total, block = ranks * lines * 128, 1 << 16
        for rank in range(ranks):
            path = self.run_dir("out") / f"logs/1/rank-{rank}.log"
            self.assertEqual(path.stat().st_size, lines * 128)
            log = numpy.memmap(path, numpy.uint8, "r").reshape(lines, 128)
            for first in range(0, lines, block):
                end = min(first + block, lines)
                self.assertTrue((log[first:end] == expected_lines(rank, first, end)).all(), path)
        # The same lines were shown, each whole and with its rank in front.
        shown = numpy.memmap(self.started[-1]._out, numpy.uint8, "r").reshape(ranks * lines, 132)
        following = [0] * ranks
        for first in range(0, ranks * lines, block):
            part = shown[first:first + block]
            for rank in range(ranks):
                mine = part[part[:, 1] == ord("0") + rank]
                self.assertTrue((mine[:, [0, 2, 3]] == list(b"[] ")).all())
                end = following[rank] + len(mine)
                self.assertTrue((mine[:, 4:] == expected_lines(rank, following[rank], end)).all())
                following[rank] = end
        self.assertEqual(following, [lines] * ranks)
        # Of the processors' time: others may use the machine at the same moment.
        busy = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        harness.report(f"{total / 1e9:.2f} GB of output in {done.seconds:.1f} s: {total / 1e6 / done.seconds:.0f} MB/s; "
                       f"{total / 1e6 / busy:.0f} MB per second of one processor (goal: 50)")
        self.assertGreater(total / 1e6 / busy, 50)

    def test_nothing_is_lost_when_the_gang_is_stopped_at_the_last_line(self):
        # Rank 1 fails in the moment in which rank 0 has printed everything; what is on its way
        # when the request to stop comes must still arrive.
        self.printing_job(2, 1)
        command = ("if [ $DURE_RANK = 1 ]; then while [ ! -e full ]; do :; done; exit 1; fi; "
                   "./printing 400000; : > full; sleep 0.$DELAY")
        for turn in range(25):
            (self.dir / "full").unlink(missing_ok=True)
            job = self.job(f"name: last\nworkers: 2\nrestarts: 0\nenv: {{DELAY: '{turn % 5:03}'}}\n"
                           f"program: {{command: [bash, -c, '{command}']}}\n")
            self.dure("run", job, code=1)
            self.assertEqual(len(self.log(f"last.{turn + 1}", 0)), 400000 * 128, f"turn {turn}")

    def test_lines_of_both_streams_are_not_torn(self):
        script = """
import sys, threading
def chatter(stream, word):
    for number in range(20000):
        stream.write(f'{word} {number} ' + word * 20)
        stream.write('\\n')
        if number % 7 == 0: stream.flush()
    stream.flush()
threads = [threading.Thread(target=chatter, args=a) for a in ((sys.stdout, 'out'), (sys.stderr, 'err'))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        self.run_job(script, 2)
        for rank in range(2):
            following = {"out": 0, "err": 0}
            for line in self.log("out", rank).decode().splitlines():
                word, number, rest = line.split(" ")
                self.assertEqual((int(number), rest), (following[word], word * 20))
                following[word] += 1
            self.assertEqual(following, {"out": 20000, "err": 20000})

    def test_a_line_of_three_megabytes(self):
        done = self.run_job("print('begin'); print('y' * 3_000_000); print('end')")
        log = self.log("out", 0)
        self.assertEqual(log.count(b"y"), 3_000_000)
        self.assertEqual(log.replace(b"y", b""), b"begin\n\nend\n")
        self.assertEqual(done.out.count("y"), 3_000_000)

    def test_bytes_that_are_not_text(self):
        self.run_job("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 3 + b'\\n\\xff\\xfe\\n')")
        written = bytes(range(256)) * 3 + b"\n\xff\xfe\n"
        self.assertEqual(self.log("out", 0), written)
        lines = self.dure("logs", "out", "--json", code=0).out.splitlines()
        self.assertTrue(all(json.loads(line)["rank"] == 0 for line in lines))

    def test_a_last_line_without_an_end(self):
        done = self.run_job("import os\nos.write(1, b'one\\ntwo')")
        self.assertEqual(self.log("out", 0), b"one\ntwo\n")
        self.assertEqual(done.out, "[0] one\n[0] two\n")

    def test_what_a_failing_program_printed_last_is_not_lost(self):
        script = "import os, sys\nos.write(1, b'x' * 500000 + b'\\nlast words')\nos._exit(3)"
        job = self.job("name: out\nprogram: {command: [/usr/bin/python3, program.py]}\nrestarts: 0\n",
                       script)
        done = self.dure("run", job, code=1)
        self.assertTrue(self.log("out", 0).endswith(b"x\nlast words\n"))
        self.assertRegex(done.err, r"exited with 3 in generation 1, after [\d.]+ m?s\n$")

    def test_a_reader_that_goes_away_does_not_stop_the_run(self):
        job = self.printing_job(1, 200000)
        reading, writing = os.pipe()
        process = subprocess.Popen([harness.DURE, "run", job], stdout=writing,
                                   stderr=subprocess.DEVNULL, env=self.env, cwd=self.dir)
        os.close(writing)
        os.read(reading, 100)
        os.close(reading)
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(len(self.log("out", 0)), 200000 * 128)

    def test_many_short_lines_are_shown_as_they_come(self):
        script = """
import time
for number in range(20):
    print('tick', number, time.time(), flush=True)
    time.sleep(0.02)
"""
        running = self.start("run", self.job(
            "name: out\nprogram: {command: [/usr/bin/python3, program.py]}\n", script))
        worst = 0.0
        seen = 0
        while seen < 20:
            lines = running.out.splitlines()
            for line in lines[seen:]:
                worst = max(worst, time.time() - float(line.split()[3]))
            seen = len(lines)
            time.sleep(0.002)
        self.assertEqual(running.wait(10).code, 0)
        self.assertLess(worst, 0.5)


harness.main()
