#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/json_reader.h"
#include "serve/model.h"

namespace dure::serve {

// Makes samples for a model of what a request holds: nested numbers, texts, pictures. All rows get
// the same shape. Errors are Invalid, in one sentence for the caller.
class SampleReader {
 public:
  // Both outlive the reader.
  SampleReader(const ModelInfo& info, Samples& out) : info_(info), out_(out) {}

  // One sample: a list of numbers, a number, a text, {"b64": "…"}, or an object with one of these
  // under the name of the input.
  Status readInstance(JsonReader& json);
  // A list of them.
  Status readBatch(JsonReader& json);
  // Numbers that are there already, of `rows` samples of this shape.
  Status addNumbers(std::int64_t rows, std::span<const std::int64_t> shape,
                    std::vector<float> numbers);
  Status addText(std::string_view text);
  // A PNG or JPEG.
  Status addPicture(std::string_view bytes);
  // The bytes of a text, or of a picture, whichever the model takes.
  Status addBytes(std::string_view bytes);

 private:
  Status readObject(JsonReader& json);
  bool readNested(JsonReader& json, std::size_t level);
  bool note(std::size_t level, std::size_t count, bool leaf);
  Status finishNumbers(std::int64_t rows, std::span<const std::int64_t> shape);

  const ModelInfo& info_;
  Samples& out_;
  std::vector<std::int64_t> dims_;  // of the instance that is being read; -1: not known yet
  std::size_t leaf_ = 0;            // the level at which its numbers lie
  bool ragged_ = false;
  std::int64_t pixels_ = 0;  // of all pictures so far
};

}  // namespace dure::serve
