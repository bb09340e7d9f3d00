#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <torch/torch.h>

#include "base/result.h"
#include "format/batch_rows.h"
#include "format/dataset.h"
#include "spec/job.h"
#include "train/architecture.h"
#include "train/model_about.h"

namespace dure::train {

struct Batch {
  at::Tensor samples;  // {N, sample…}: numbers, or words
  at::Tensor labels;   // {N}: classes, or numbers
  std::int64_t size() const { return labels.defined() ? labels.size(0) : 0; }
};

// A data set as the model wants it: opened, shaped, normalised. Const members may be called from
// several threads at once.
class TrainingData {
 public:
  // The model says whether whole numbers are words: a built-in one by its name, a Keras file by its
  // first layer, a TorchScript file by train.model.vocabulary.
  static Result<TrainingData> open(const spec::Train& train);

  const DataShape& shape() const { return shape_; }
  const format::Dataset& dataset() const { return dataset_; }
  std::int64_t trainRows() const { return dataset_.train->size(); }
  std::int64_t testRows() const { return dataset_.test ? dataset_.test->size() : 0; }

  Result<Batch> read(const format::Split& split, std::span<const std::int64_t> rows) const;

  // What is done to samples, for whoever feeds the model later.
  ModelAbout about() const;

 private:
  Status checkWords(const spec::Model& model);
  Status findWordIndex(const std::string& path);

  format::Dataset dataset_;
  DataShape shape_;
  format::Scaling scaling_;
  std::string word_lines_;
};

}  // namespace dure::train
