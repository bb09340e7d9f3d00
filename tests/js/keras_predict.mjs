// Loads a Keras .h5 file with h5wasm and tfjs, which know nothing of Dure, and predicts.
//   node keras_predict.mjs NODE_MODULES MODEL.h5 INPUT.json   prints the predictions as JSON
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, file, input] = process.argv.slice(2);
const tf = createRequire(`${modules}/`)("@tensorflow/tfjs");
const { default: h5wasm } = await import(`${modules}/h5wasm/dist/node/hdf5_hl.js`);
await h5wasm.ready;
const h5 = new h5wasm.File(file, "r");

const topology = JSON.parse(h5.attrs.model_config.value);
const specs = [];
const parts = [];
const root = h5.get("model_weights");
for (const layer of root.attrs.layer_names.value) {
  const group = root.get(layer);
  for (const name of group.attrs.weight_names.value) {
    const data = group.get(name);
    specs.push({ name: name.replace(/:0$/, ""), shape: data.shape, dtype: "float32" });
    parts.push(Buffer.from(new Float32Array(data.value).buffer));
  }
}
const bytes = Buffer.concat(parts);
const weightData = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const model = await tf.loadLayersModel({
  load: async () => ({ modelTopology: { model_config: topology }, weightSpecs: specs, weightData }),
});
const { shape, values, dtype } = JSON.parse(readFileSync(input, "utf8"));
const result = model.predict(tf.tensor(values, shape, dtype));
console.log(JSON.stringify(Array.from(result.dataSync())));
