// Makes the Arrow files in src/format/testdata with the package apache-arrow, from the PNG files that
// make_golden.py made:
//   npm install apache-arrow && node make_arrow.mjs DIRECTORY
// The unit tests read the files as they are committed; run this only to change them.
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import * as arrow from "apache-arrow";

const out = process.argv[2];
const png = (name) => new Uint8Array(fs.readFileSync(path.join(out, "png", `${name}.png`)));
const fields = (types) =>
  new arrow.Schema(Object.entries(types).map(([name, type]) => new arrow.Field(name, type, true)));

// A batch of rows; columns are given as lists of plain values.
function batch(schema, columns) {
  const children = schema.fields.map((field) => arrow.vectorFromArray(columns[field.name], field.type).data[0]);
  const length = children[0].length;
  const struct = arrow.makeData({type: new arrow.Struct(schema.fields), length, nullCount: 0, children});
  return new arrow.RecordBatch(schema, struct);
}

function write(name, batches, format = "stream", compressionType = undefined) {
  const Writer = format === "file" ? arrow.RecordBatchFileWriter : arrow.RecordBatchStreamWriter;
  const writer = new Writer({compressionType});
  for (const each of batches) writer.write(each);
  writer.finish();
  const file = path.join(out, "arrow", name);
  fs.mkdirSync(path.dirname(file), {recursive: true});
  fs.writeFileSync(file, writer.toUint8Array(true));
}

const list = (type) => new arrow.List(new arrow.Field("item", type, true));
const image = new arrow.Struct([
  new arrow.Field("bytes", new arrow.Binary(), true),
  new arrow.Field("path", new arrow.Utf8(), true),
]);
const row = (name) => ({bytes: png(name), path: `${name}.png`});

// A DatasetDict as Hugging Face's save_to_disk leaves it: two files in train, one in test.
const pictures = fields({image, when: new arrow.TimestampSecond(), label: new arrow.Int64()});
const pictureBatch = (names, labels) =>
  batch(pictures, {image: names.map(row), when: labels.map(() => 0), label: labels});
write("saved/train/data-00000-of-00002.arrow",
      [pictureBatch(["grey", "inverse"], [0n, 1n]), pictureBatch(["grey16"], [2n])]);
write("saved/train/data-00001-of-00002.arrow", [pictureBatch(["grey_alpha"], [1n])]);
write("saved/test/data-00000-of-00001.arrow", [pictureBatch(["bits"], [2n])]);
const info = {features: {image: {_type: "Image"}, label: {names: ["cat", "dog", "hen"], _type: "ClassLabel"}}};
for (const [split, count] of [["train", 2], ["test", 1]]) {
  const files = Array.from({length: count}, (_, i) => ({filename: `data-0000${i}-of-0000${count}.arrow`}));
  fs.writeFileSync(path.join(out, "arrow/saved", split, "state.json"), JSON.stringify({_data_files: files, _split: split}));
  fs.writeFileSync(path.join(out, "arrow/saved", split, "dataset_info.json"), JSON.stringify(info));
}
fs.writeFileSync(path.join(out, "arrow/saved/dataset_dict.json"), JSON.stringify({splits: ["train", "test"]}));

// What `datasets` adds to the schema, in a file of its own.
const added = new arrow.Schema(
  fields({img: new arrow.Binary(), label: new arrow.Uint8()}).fields,
  new Map([["huggingface", JSON.stringify({info})]]));
write("colours.arrow", [batch(added, {img: [png("colour"), png("colour_alpha"), png("palette")], label: [0, 1, 2]})]);

const vectors = fields({features: list(new arrow.Float32()), name: new arrow.Utf8(), label: new arrow.Int32()});
const vectorBatch = (features, label) =>
  batch(vectors, {features, name: label.map(String), label});
write("lists.arrow", [vectorBatch([[0, 1, 2], [3, 4, 5]], [0, 1]), vectorBatch([[6, 7, 8]], [1])]);
write("lists_file.arrow", [vectorBatch([[0, 1, 2], [3, 4, 5]], [0, 1]), vectorBatch([[6, 7, 8]], [1])], "file");
write("ragged.arrow", [vectorBatch([[0, 1, 2], [3, 4]], [0, 1])]);
write("null_sample.arrow", [vectorBatch([[0, 1, 2], null], [0, 1])]);
write("null_inside.arrow", [vectorBatch([[0, 1, 2], [3, null, 5]], [0, 1])]);
write("null_label.arrow", [vectorBatch([[0, 1, 2], [3, 4, 5]], [0, null])]);
write("empty.arrow", [vectorBatch([], [])]);

const nested = fields({x: list(list(new arrow.Uint8())), y: new arrow.Bool()});
write("nested.arrow", [batch(nested, {x: [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]], y: [true, false]})]);
const fixed = fields({
  x: new arrow.FixedSizeList(4, new arrow.Field("item", new arrow.Int16(), true)),
  y: new arrow.Float64(),
});
write("fixed.arrow", [batch(fixed, {x: [[0, 1, 2, 3], [4, 5, 6, 7]], y: [0.5, -1.25]})]);
const numbers = fields({x: new arrow.Float64(), y: new arrow.Uint16()});
write("numbers.arrow", [batch(numbers, {x: [0.5, 1.5, 2.5], y: [0, 1, 1]})]);
const large = fields({image: new arrow.LargeBinary(), label: new arrow.Int8()});
write("large.arrow", [batch(large, {image: [png("grey"), png("inverse")], label: [1, 0]})]);
write("sizes.arrow", [batch(large, {image: [png("grey"), png("smaller")], label: [1, 0]})]);
write("jpeg.arrow", [batch(large, {image: [new Uint8Array([0xff, 0xd8, 0xff, 0xe0])], label: [0]})]);

const longs = fields({x: new arrow.LargeList(new arrow.Field("item", new arrow.Int8(), true)), y: new arrow.Int8()});
write("large_list.arrow", [batch(longs, {x: [[1, 2], [3, 4]], y: [0, 1]})]);

const worded = fields({x: new arrow.Int8(), label: new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())});
write("dictionary.arrow", [batch(worded, {x: [1, 2], label: ["a", "b"]})]);

// The codec need not be right, but for the first bytes: only that the file says it is compressed.
const magic = [0x28, 0xb5, 0x2f, 0xfd];
arrow.compressionRegistry.set(arrow.CompressionType.ZSTD, {
  encode: (bytes) => new Uint8Array([...magic, ...zlib.deflateSync(bytes)]),
});
const many = Array.from({length: 500}, () => 1);
write("compressed.arrow", [batch(numbers, {x: many, y: many})], "stream", arrow.CompressionType.ZSTD);
