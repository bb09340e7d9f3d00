#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/word_index.h"

namespace dure::serve {

enum class InputKind { kText, kImage, kNumbers };

// What a model takes and gives, for whoever asks it.
struct ModelInfo {
  InputKind kind = InputKind::kNumbers;
  std::vector<std::int64_t> shape;  // of one sample; with `any_shape` whatever a request has
  bool any_shape = false;
  bool words = false;             // samples are numbers of words, int64, below `vocabulary`
  std::string dtype = "float32";  // of a sample, for people: "int32", "uint8", "float32"
  std::int64_t vocabulary = 0;
  WordIndex index;           // empty: the file has none, so that texts cannot be taken
  std::int64_t outputs = 0;  // 0: not known before the first request
  std::string activation = "none";
  std::vector<std::string> class_names;
  std::int64_t parameters = 0;
  std::map<std::string, std::string> trained;  // "data", "samples", "epochs", …; may be empty
};

// Samples as the data has them: scaling is the model's. Either numbers or words, as ModelInfo says.
struct Samples {
  std::int64_t rows = 0;
  std::vector<std::int64_t> shape;  // of one
  std::vector<float> numbers;
  std::vector<std::int64_t> words;
};

struct Predictions {
  std::int64_t rows = 0;
  std::vector<std::int64_t> shape;  // of one
  std::vector<float> values;
};

// A loaded model. It does not change, and may be used from several threads at once.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  // For all rows of `parts`, which are of one shape, in their order. Invalid if the model rejects
  // them.
  virtual Result<Predictions> run(std::span<const Samples* const> parts) const = 0;
};

// Opens the model at `path`; NotFound if there is none. Called from one thread at a time.
using ModelLoader = std::function<Result<std::shared_ptr<const Model>>(const std::string& path)>;

// Which class a row is put into: the largest output, or of a single probability 1 if it is above
// one half.
std::size_t classOf(std::span<const float> row);

}  // namespace dure::serve
