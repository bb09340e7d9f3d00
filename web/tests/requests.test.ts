import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { sentenceOf } from "../src/net/http";
import { explainRequest, numbersIn, predictRequest } from "../src/serve/api";
import { curlCommand, shellQuoted } from "../src/serve/curl";
import { fits, parseNumbers, shapeOf, zeros } from "../src/serve/tensor";

// What a shell makes of the words of a command.
const wordsOf = (command: string): string[] =>
  execFileSync("sh", ["-c", `curl() { for word; do printf '%s\\0' "$word"; done; }\n${command}`], {
    env: { TOKEN: "t0" },
  })
    .toString()
    .split("\0")
    .slice(0, -1);

test("a shell gives curl exactly what the page sends", () => {
  for (const text of ["plain", "it's", `"quoted" $HOME \`x\` \\ !`, "two\nlines", "좋다 🎬", "''", "-d @/etc/passwd"]) {
    const { path, body } = predictRequest("imdb", text);
    assert.deepEqual(wordsOf(curlCommand(`http://h/${path}`, body, false)), [
      "http://h/v1/models/imdb:predict",
      "-H",
      "Content-Type: application/json",
      "-d",
      JSON.stringify({ instances: [text] }),
    ]);
  }
  assert.equal(shellQuoted("a'b"), `'a'\\''b'`);
});

test("the command names the token's variable, never the token", () => {
  assert.ok(wordsOf(curlCommand("http://h/", "{}", true)).includes("Authorization: Bearer t0"));
});

test("names of models are escaped in addresses", () => {
  assert.equal(predictRequest("a b/c", 1).path, "v1/models/a%20b%2Fc:predict");
  assert.equal(explainRequest("ü", "x").path, "api/models/%C3%BC/explain");
});

test("errors are told in the server's own sentence", () => {
  assert.equal(sentenceOf('{"error":"wants 784 numbers, got 3"}'), "wants 784 numbers, got 3");
  assert.equal(sentenceOf('{"error":{"code":7}}'), '{"code":7}');
  assert.equal(sentenceOf("upstream timed out\n"), "upstream timed out");
  assert.equal(sentenceOf("<html>Bad gateway</html>"), "");
  assert.equal(sentenceOf("[]"), "");
});

test("numbers are read as JSON or as a list", () => {
  assert.deepEqual(parseNumbers("1, 2.5;-3e2\n4"), [1, 2.5, -300, 4]);
  assert.deepEqual(parseNumbers(" [[1,2],[3,4]] "), [[1, 2], [3, 4]]);
  for (const text of ["", "1, two", "[1,", '["1"]', "[[1],[2,3]]", "NaN", '{"a":1}']) {
    assert.equal(parseNumbers(text), undefined, text);
  }
  assert.deepEqual(shapeOf([[1, 2, 3], [4, 5, 6]]), [2, 3]);
  assert.deepEqual(zeros([2, -1]), [[0], [0]]);
  assert.ok(fits([3, 4], [-1, 4]));
  assert.ok(!fits([3], [3, 1]));
});

test("a prediction is one number, a row, or rows", () => {
  assert.deepEqual(numbersIn(0.5), [0.5]);
  assert.deepEqual(numbersIn([[0.1, 0.9]]), [0.1, 0.9]);
  assert.deepEqual(numbersIn(undefined), []);
});
