#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/array.h"

namespace dure::format {

// The arrays of a split as its files have them, for whoever writes them again.
struct SplitArrays {
  std::string samples;  // their names; empty: the files do not name arrays
  std::string labels;
  std::vector<std::int64_t> sample_shape;  // behind the number of rows
  DType label_type = DType::kI64;
  std::vector<std::int64_t> label_shape;
};

// One split of a data set: samples with a label each, read by number in any order. Const members
// may be called from several threads at once.
class Split {
 public:
  virtual ~Split() = default;

  virtual std::int64_t size() const = 0;
  // Of one sample: {28, 28}, {28, 28, 1}, {256}. All samples of a split have the same.
  const std::vector<std::int64_t>& sampleShape() const { return sample_shape_; }
  DType sampleType() const { return sample_type_; }
  // How many numbers a sample has, and the bytes that they take.
  std::int64_t sampleElements() const { return sample_elements_; }
  std::size_t sampleBytes() const { return sample_bytes_; }
  // Where a sample lies, for messages: "train.npz: x_train: row 7".
  virtual std::string whereIs(std::int64_t row) const = 0;
  virtual SplitArrays arrays() const;
  // Whole numbers are classes, others are targets of a regression.
  bool labelsAreClasses() const { return labels_are_classes_; }

  // The samples of these rows, one after the other, into `out` (rows.size() samples of
  // sampleShape() in sampleType()). A row that is damaged in the file gives an error that names
  // file and offset.
  virtual Status readSamples(std::span<const std::int64_t> rows, std::byte* out) const = 0;
  // Their labels: class numbers, or targets, as double holds both exactly enough.
  virtual Status readLabels(std::span<const std::int64_t> rows, double* out) const = 0;

 protected:
  // What all samples are, once, before any is read. Invalid if a split of size() such samples is
  // more than can be counted.
  Status setSamples(DType type, std::vector<std::int64_t> shape);

  bool labels_are_classes_ = true;

 private:
  std::vector<std::int64_t> sample_shape_;
  DType sample_type_ = DType::kU8;
  std::int64_t sample_elements_ = 0;
  std::size_t sample_bytes_ = 0;
};

struct DatasetOptions {
  std::string path;    // a file or a directory
  std::string format;  // "idx", "npz", "npy", "arrow", "csv"; empty: found out
  std::string train;   // the names of the splits (or their files); empty: the usual ones
  std::string test;
  std::string samples;  // the column or array with the samples; empty: the usual ones
  std::string labels;   // the same for the labels
  // How many classes there are; 0: none, the labels are targets of a regression; below 0: found
  // out.
  std::int64_t classes = -1;
};

// Beyond this a number is a quantity, or damage, but no class.
constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

struct Dataset {
  std::unique_ptr<Split> train;
  std::unique_ptr<Split> test;           // may be absent
  std::string format;                    // which it was
  std::vector<std::string> class_names;  // empty unless the files say
  std::int64_t classes = 0;              // 0 for a regression; else all labels are below it
};

// Opens what is at `path`. NotFound or Invalid, in one sentence that names the file and, where it
// is damaged, the offset. Reads no more than headers and labels.
Result<Dataset> openDataset(const DatasetOptions& options);

}  // namespace dure::format
