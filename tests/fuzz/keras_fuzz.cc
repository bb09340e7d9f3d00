// Any text is refused as the architecture of a Keras model, or is one that is written as a text
// that means the same. HDF5 files are left out: libhdf5 1.10 itself reads beyond its buffers in
// files that are damaged on purpose (H5HG_read, in a text of variable length), which is why they
// are read in a process of their own. What that process hands over is safetensors and a text as
// here.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "format/json_text.h"
#include "format/keras_config.h"
#include "format/keras_parse.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  if (file.text().starts_with("\x89HDF")) return 0;
  const auto model = dure::format::parseKeras(file);
  if (!model) return 0;
  const auto written = dure::format::parseJson("again", dure::format::kerasConfig(*model).dump());
  require(static_cast<bool>(written), "an architecture is written as JSON");
  const auto again = dure::format::parseKerasConfig("again", *written);
  require(static_cast<bool>(again), "an architecture that was written is read");
  require(again->name == model->name, "a model keeps its name");
  require(again->layers.size() == model->layers.size(), "a model keeps its layers");
  for (std::size_t i = 0; i < model->layers.size(); ++i) {
    require(again->layers[i].type == model->layers[i].type, "a layer keeps its type");
    require(again->layers[i].name == model->layers[i].name, "a layer keeps its name");
    require(again->layers[i].config == model->layers[i].config, "a layer keeps its config");
  }
  return 0;
}
