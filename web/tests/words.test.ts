import assert from "node:assert/strict";
import { test } from "node:test";
import { measured, moment, percent, points } from "../src/i18n/format";
import { firstLanguage } from "../src/i18n/language";
import { en as shared_en } from "../src/i18n/en";
import { ko as shared_ko } from "../src/i18n/ko";
import { latestOnly, steadily } from "../src/net/latest";
import type { Word } from "../src/serve/api";
import { outcomeOf } from "../src/serve/classes";
import { pauseFor } from "../src/serve/models";
import { en } from "../src/serve/text_en";
import { ko } from "../src/serve/text_ko";
import { piecesOf, strengthOf, topWords } from "../src/serve/words";

const word = (text: string, start: number, weight = 0.1): Word => ({
  text, start, end: start + [...text].length, known: true, weight,
});
const shown = (text: string, words: Word[]): string =>
  piecesOf(text, words).map((piece) => (piece.word ? `[${piece.text}]` : piece.text)).join("");

test("words are found by code points, behind letters of any size", () => {
  assert.equal(shown("🎬🎬 좋은 film!", [word("좋은", 3), word("film", 6)]), "🎬🎬 [좋은] [film]!");
});

test("the text is whole whatever the server says of its words", () => {
  const text = "one two";
  const odd = [word("two", 4), word("one", 0), word("ne t", 1), word("far", 90), { ...word("x", 2), end: 2 }, word("last", 5)];
  assert.equal(piecesOf(text, odd).map((piece) => piece.text).join(""), text);
  assert.equal(shown(text, odd), "[one] [two]");
  assert.deepEqual(piecesOf("", []), []);
});

test("the strongest word is strongest, noise is nothing", () => {
  assert.equal(strengthOf(0.3, 0.3), 4);
  assert.equal(strengthOf(-0.3, 0.3), 4);
  assert.equal(strengthOf(0.01, 0.3), 1);
  assert.equal(strengthOf(0.004, 0.3), 0);
  assert.equal(strengthOf(0, 0), 0);
});

test("the table has each word once", () => {
  const words = [word("Bad", 0, -0.1), word("bad", 9, -0.3), word("good", 20, 0.2), word("the", 30, 0.001)];
  assert.deepEqual(topWords(words, 8).map((each) => [each.text, each.weight]), [["bad", -0.3], ["good", 0.2]]);
  assert.equal(topWords(words, 1).length, 1);
});

test("outputs become classes", () => {
  const binary: [string, string] = ["negative", "positive"];
  const review = outcomeOf({ activation: "sigmoid", class_names: [] }, [0.2], binary);
  assert.deepEqual(review.ranked.map((each) => [each.name, each.index]), [["negative", 0], ["positive", 1]]);
  assert.equal(review.ranked[0]?.score, 0.8);
  const named = outcomeOf({ activation: "sigmoid", class_names: ["ham", "spam"] }, [0.9], binary);
  assert.equal(named.ranked[0]?.name, "spam");
  const said = outcomeOf({ activation: "softmax", class_names: ["Negative", "Positive"] }, [0.2, 0.8], ["부정", "긍정"]);
  assert.equal(said.ranked[0]?.name, "긍정");
  const unnamed = outcomeOf({ kind: "text", activation: "softmax", class_names: [] }, [0.2, 0.8], binary);
  assert.equal(unnamed.ranked[0]?.name, "positive");
  const picture = outcomeOf({ kind: "image", activation: "softmax", class_names: [] }, [0.2, 0.8], binary);
  assert.equal(picture.ranked[0]?.name, "");
  const many = outcomeOf({ activation: "softmax", class_names: ["a"] }, [0.1, 0.6, 0.3], binary);
  assert.deepEqual(many.ranked.map((each) => each.index), [1, 2, 0]);
  assert.equal(many.ranked[0]?.name, "");
  const value = outcomeOf({ activation: "none" }, [41.5], binary);
  assert.ok(value.single && !value.probabilities);
});

test("nothing uncertain is shown as certain", () => {
  assert.equal(percent(0.93123, "en"), "93.1%");
  assert.equal(percent(0.99999, "en"), "> 99.9%");
  assert.equal(percent(0.00001, "en"), "< 0.1%");
  assert.equal(percent(1, "en"), "100.0%");
  assert.equal(percent(0, "en"), "0.0%");
  assert.equal(points(-0.031, "en"), "−3.1");
  assert.equal(measured(1234.5678, "en"), "1,235");
  assert.equal(moment("soon", "en"), "soon");
});

test("the language is the chosen one, then the browser's", () => {
  assert.equal(firstLanguage(null, ["de-DE", "ko-KR", "en"]), "ko");
  assert.equal(firstLanguage("en", ["ko"]), "en");
  assert.equal(firstLanguage("xx", ["fr"]), "en");
  assert.equal(firstLanguage(null, []), "en");
});

test("Korean says everything that English says", () => {
  const left = (table: object): string[] =>
    Object.entries(table).filter(([, value]) => typeof value === "string" && !/[가-힣]/.test(value)).map(([name]) => name);
  assert.deepEqual(Object.keys(ko).sort(), Object.keys(en).sort());
  assert.deepEqual(Object.keys(shared_ko).sort(), Object.keys(shared_en).sort());
  assert.deepEqual(left(ko), []);
  assert.deepEqual(left(shared_ko), []);
  assert.equal(ko.example_names.length, en.example_names.length);
});

test("the server is asked often only while something is missing", () => {
  assert.equal(pauseFor(undefined, false), 2000);
  assert.equal(pauseFor([{ name: "a", state: "ready" }], false), 10000);
  assert.equal(pauseFor([{ name: "a", state: "ready" }, { name: "b", state: "waiting" }], false), 2000);
  assert.equal(pauseFor([{ name: "a", state: "ready" }], true), 2000);
});

const soon = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("only the newest text is asked about, and older answers are dropped", async () => {
  const began: string[] = [];
  const ended: string[] = [];
  const asker = latestOnly<string>(5, async (value, signal) => {
    began.push(value);
    await soon(30);
    if (!signal.aborted) ended.push(value);
  });
  asker.later("a");
  asker.later("ab");
  await soon(20);
  asker.now("abc");
  await soon(60);
  assert.deepEqual(began, ["ab", "abc"]);
  assert.deepEqual(ended, ["abc"]);
});

test("while somebody draws, one request is under way, and the last drawing is asked about", async () => {
  const asked: number[] = [];
  let under_way = 0;
  const asker = steadily<number>(1, async (value) => {
    assert.equal(++under_way, 1);
    asked.push(value);
    await soon(10);
    --under_way;
  });
  for (let value = 0; value < 20; ++value) {
    asker.push(value);
    await soon(2);
  }
  await soon(40);
  assert.ok(asked.length > 1 && asked.length < 12, `${asked.length} requests for 20 changes`);
  assert.equal(asked.at(-1), 19);
});
