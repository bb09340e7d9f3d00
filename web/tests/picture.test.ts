import assert from "node:assert/strict";
import { test } from "node:test";
import { inflateSync } from "node:zlib";
import { bytesOf, centred, contain, drawsCharacters, fromRgba, imageSizeOf, inverted, isLightGround, resample, type Picture } from "../src/serve/picture";
import { encodePng, stored } from "../src/serve/png";

const filled = (width: number, height: number, value: (x: number, y: number) => number): Picture => ({
  width,
  height,
  channels: 1,
  values: Float32Array.from({ length: width * height }, (_, at) => value(at % width, Math.floor(at / width))),
});
const sum = (values: Iterable<number>): number => [...values].reduce((total, each) => total + each, 0);
const near = (a: number, b: number, by: number): void => assert.ok(Math.abs(a - b) <= by, `${a} is not near ${b}`);

// Centre of mass, and the box around whatever is not dark.
function inkOf(picture: Picture) {
  let [mass, x_moment, y_moment, left, right, top, bottom] = [0, 0, 0, 99, 0, 99, 0];
  bytesOf(picture).forEach((value, at) => {
    const x = at % picture.width;
    const y = Math.floor(at / picture.width);
    mass += value;
    x_moment += value * (x + 0.5);
    y_moment += value * (y + 0.5);
    if (value >= 100) {
      [left, right] = [Math.min(left, x), Math.max(right, x + 1)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y + 1)];
    }
  });
  return { x: x_moment / mass, y: y_moment / mass, width: right - left, height: bottom - top };
}

test("the shape of the input says how large pictures are", () => {
  assert.deepEqual(imageSizeOf([28, 20]), { height: 28, width: 20, channels: 1 });
  assert.deepEqual(imageSizeOf([28, 20, 1]), { height: 28, width: 20, channels: 1 });
  assert.deepEqual(imageSizeOf([3, 32, 30]), { height: 32, width: 30, channels: 3 });
  assert.deepEqual(imageSizeOf([32, 30, 3]), { height: 32, width: 30, channels: 3 });
  assert.deepEqual(imageSizeOf([-1, 0]), { height: 28, width: 28, channels: 1 });
});

test("a drawing is centred as MNIST does it, wherever it was drawn", () => {
  for (const [left, top, across, down] of [[20, 30, 60, 140], [200, 10, 70, 40], [0, 0, 280, 280]] as const) {
    const drawn = filled(280, 280, (x, y) => (x >= left && x < left + across && y >= top && y < top + down ? 255 : 0));
    const ink = inkOf(centred(drawn, 28, 28));
    near(ink.x, 14, 0.2);
    near(ink.y, 14, 0.2);
    assert.equal(Math.max(ink.width, ink.height), 20);
  }
});

test("the centre is that of mass, not of the box", () => {
  // A tall stroke with a short foot to the right.
  const drawn = filled(280, 280, (x, y) => ((x < 30 && y < 200) || (x < 120 && y >= 180 && y < 200) ? 255 : 0));
  const ink = inkOf(centred(drawn, 28, 28));
  near(ink.x, 14, 0.3);
  near(ink.y, 14, 0.3);
});

test("an empty drawing is a dark picture", () => {
  assert.equal(sum(centred(filled(280, 280, () => 0), 28, 28).values), 0);
});

test("each pixel is the mean of what it covers", () => {
  const from = filled(4, 4, (x, y) => 10 * y + x);
  const all = { left: 0, top: 0, across: 4, down: 4 };
  assert.deepEqual([...resample(from, all, 2, 2, [0]).values], [5.5, 7.5, 25.5, 27.5]);
  assert.deepEqual([...resample(from, all, 4, 4, [0]).values], [...from.values]);
  // Half of it beyond the edge.
  assert.deepEqual([...resample(filled(2, 2, () => 100), { left: -2, top: 0, across: 4, down: 2 }, 2, 1, [7]).values], [7, 100]);
});

test("a wide picture keeps its proportions and its ground", () => {
  const wide = filled(60, 20, (x) => (x >= 20 && x < 40 ? 0 : 200));
  const small = contain(wide, 30, 30);
  assert.equal(bytesOf(small)[0], 200);
  assert.equal(bytesOf(small)[15 * 30 + 15], 0);
  assert.ok(isLightGround(wide));
  assert.ok(!isLightGround(inverted(wide)));
});

test("colours become grey by their brightness, transparency the ground", () => {
  const rgba = Uint8ClampedArray.from([255, 0, 0, 255, 0, 255, 0, 255, 9, 9, 9, 0]);
  assert.deepEqual([...bytesOf(fromRgba(rgba, 3, 1, 1))], [76, 150, 255]);
  assert.deepEqual([...bytesOf(fromRgba(rgba, 3, 1, 3))], [255, 0, 0, 0, 255, 0, 255, 255, 255]);
});

test("digits are centred, clothes are not", () => {
  assert.ok(drawsCharacters(["0", "1"], ""));
  assert.ok(drawsCharacters([], "mnist"));
  assert.ok(!drawsCharacters([], "fashion-mnist"));
  assert.ok(!drawsCharacters(["Bag"], "mnist"));
});

test("a PNG holds exactly its pixels", async () => {
  for (const channels of [1, 3] as const) {
    const pixels = Uint8Array.from({ length: 5 * 3 * channels }, (_, at) => (at * 37) % 256);
    const png = Buffer.from(await encodePng(pixels, 5, 3, channels));
    assert.equal(png.readUInt32BE(16), 5);
    assert.equal(png.readUInt32BE(20), 3);
    assert.deepEqual([...png.subarray(24, 29)], [8, channels === 1 ? 0 : 2, 0, 0, 0]);
    const length = png.readUInt32BE(33);
    const rows = inflateSync(png.subarray(41, 41 + length));
    const row = 5 * channels + 1;
    assert.deepEqual([0, 1, 2].flatMap((y) => [...rows.subarray(y * row + 1, (y + 1) * row)]), [...pixels]);
    assert.equal(png.subarray(-8, -4).toString(), "IEND");
  }
});

test("without a compressor the bytes are stored", () => {
  for (const size of [0, 1, 65535, 65536, 150528]) {
    const bytes = Uint8Array.from({ length: size }, (_, at) => at % 251);
    assert.ok(inflateSync(stored(bytes)).equals(bytes), `${size} bytes`);
  }
});
