#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/dataset.h"

namespace dure::format {

// A split as the readers of formats make it, before its labels were looked at.
class SourceSplit : public Split {
 public:
  // Where it comes from, for messages: "train.npz", "train.csv".
  virtual std::string name() const = 0;
  // How messages call a row: "row 7"; files of lines count differently.
  virtual std::string rowName(std::int64_t row) const;
  std::string whereIs(std::int64_t row) const override;
  // The labels are of an integer type, or are names: they can only be classes.
  virtual bool integerLabels() const = 0;
  // The labels are written with decimals: even whole ones are numbers to predict, unless the job
  // says how many classes there are.
  virtual bool decimalLabels() const { return false; }

  void setLabelsAreClasses(bool classes) { labels_are_classes_ = classes; }

 protected:
  // Invalid, if a row is not there: for the first lines of readSamples and readLabels.
  Status checkRows(std::span<const std::int64_t> rows) const;
};

// What a format's reader found; openDataset makes a Dataset of it.
struct Source {
  std::unique_ptr<SourceSplit> train;
  std::unique_ptr<SourceSplit> test;  // may be absent
  std::vector<std::string> class_names;
};

// A data set of what a reader found: its splits fit each other, and its classes are counted.
// Invalid if they do not.
Result<Dataset> makeDataset(Source source, const std::string& format,
                            const DatasetOptions& options);

// The names a split may have: the wanted one, or else the usual ones.
std::vector<std::string> trainNames(const DatasetOptions& options);
std::vector<std::string> testNames(const DatasetOptions& options);

bool isDirectory(const std::string& path);

}  // namespace dure::format
