#include "format/dataset.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <optional>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "format/arrow_dataset.h"
#include "format/csv_dataset.h"
#include "format/dataset_source.h"
#include "format/idx.h"
#include "format/mapped_file.h"
#include "format/npz.h"

namespace dure::format {
namespace {

constexpr std::int64_t kRowsAtOnce = 4096;

Result<std::string> formatOfFile(const std::string& path) {
  const auto file = mapFile(path);
  if (!file) return file.error();
  const std::string_view text = file->text();
  if (isCsvName(path)) return std::string("csv");
  if (text.starts_with("PK")) return std::string("npz");
  if (text.starts_with("\x93NUMPY")) return std::string("npy");
  if (text.starts_with("ARROW1") || text.starts_with("\xff\xff\xff\xff")) {
    return std::string("arrow");
  }
  if (text.starts_with("\x1f\x8b") || text.starts_with(std::string_view("\0\0", 2))) {
    return std::string("idx");
  }
  return Error(
      Code::kInvalid,
      path + ": not a data file that is known (npz, arrow, csv); name its format if it is");
}

Result<std::string> formatOfDirectory(const std::string& path) {
  if (looksLikeArrow(path)) return std::string("arrow");
  if (looksLikeIdx(path)) return std::string("idx");
  if (looksLikeNumpy(path)) return std::string("npz");
  if (looksLikeCsv(path)) return std::string("csv");
  return Error(Code::kInvalid, path +
                                   ": no data files that are known in this directory (idx, npy, "
                                   "npz, arrow, csv)");
}

Result<Source> openSource(const std::string& format, const DatasetOptions& options) {
  if (format == "idx") return openIdx(options);
  if (format == "npz" || format == "npy") return openNumpy(options);
  if (format == "arrow") return openArrow(options);
  if (format == "csv") return openCsv(options);
  return Error(Code::kInvalid,
               fmt::format("{}: unknown format '{}'; there are idx, npz, npy, arrow and csv",
                           options.path, format));
}

struct LabelRange {
  double most = -1;
  std::int64_t most_row = 0;
  bool classes = true;     // whole numbers, none negative
  std::vector<bool> seen;  // which classes there are
};

// Why a label that is no class cannot be one; empty if it may be a number to predict.
std::string classProblem(double label, bool integers, std::int64_t wanted) {
  if (wanted == 0 || (wanted < 0 && !integers)) return "";
  const char* const remedy = "; data.classes: 0 makes labels numbers to predict";
  if (label < 0) return fmt::format("is negative, and classes are counted from 0{}", remedy);
  if (label != std::floor(label))
    return fmt::format("is no class, since it is not whole{}", remedy);
  return fmt::format("is too large for a class{}", remedy);
}

// `wanted` as in DatasetOptions.
Result<LabelRange> scanLabels(const SourceSplit& split, std::int64_t wanted) {
  LabelRange range;
  std::vector<std::int64_t> rows;
  std::vector<double> labels;
  for (std::int64_t first = 0; first < split.size(); first += kRowsAtOnce) {
    rows.resize(static_cast<std::size_t>(std::min(kRowsAtOnce, split.size() - first)));
    labels.resize(rows.size());
    std::iota(rows.begin(), rows.end(), first);
    if (auto read = split.readLabels(rows, labels.data()); !read) return std::move(read).error();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double label = labels[i];
      const auto wrong = [&](const std::string& what) {
        return Error(Code::kInvalid, fmt::format("{}: {}: label {} {}", split.name(),
                                                 split.rowName(rows[i]), label, what));
      };
      if (!std::isfinite(label)) return wrong("is not a number to learn");
      const bool fits =
          label >= 0 && label < static_cast<double>(kMostClasses) && label == std::floor(label);
      const std::string problem = fits ? "" : classProblem(label, split.integerLabels(), wanted);
      if (!problem.empty()) return wrong(problem);
      range.classes = range.classes && fits;
      if (fits) {
        const auto number = static_cast<std::size_t>(label);
        if (number >= range.seen.size()) range.seen.resize(number + 1);
        range.seen[number] = true;
      }
      if (label > range.most) {
        range.most = label;
        range.most_row = rows[i];
      }
    }
  }
  return range;
}

Status checkShapes(const SourceSplit& train, const SourceSplit& test) {
  if (train.sampleShape() == test.sampleShape() && train.sampleType() == test.sampleType()) {
    return {};
  }
  return Error(
      Code::kInvalid,
      fmt::format("{} has samples of shape ({}) in {} but {} of shape ({}) in {}", train.name(),
                  fmt::join(train.sampleShape(), ", "), dtypeName(train.sampleType()), test.name(),
                  fmt::join(test.sampleShape(), ", "), dtypeName(test.sampleType())));
}

// Whole numbers may be quantities, or somebody's numbers of things: then the highest says nothing
// of how many classes there are. Up to kFewClasses are believed.
Status checkPlausible(const SourceSplit& train, const LabelRange& range) {
  constexpr std::int64_t kFewClasses = 20;
  constexpr std::int64_t kMostlyEmpty = 10;
  const auto classes = static_cast<std::int64_t>(range.seen.size());
  if (classes <= kFewClasses) return {};
  const auto used = std::count(range.seen.begin(), range.seen.end(), true);
  if (classes > train.size() / 2) {
    return Error(Code::kInvalid,
                 fmt::format("{}: labels up to {} make {} classes, for {} samples; say "
                             "train.data.classes: 0 if they are numbers to predict, or "
                             "train.data.classes: {} if they are classes",
                             train.name(), classes - 1, classes, train.size(), classes));
  }
  if (used * kMostlyEmpty >= classes) return {};
  return Error(Code::kInvalid,
               fmt::format("{}: labels up to {} make {} classes, of which only {} have samples; "
                           "number them from 0 on, or say train.data.classes: {}, or "
                           "train.data.classes: 0 if they are numbers to predict",
                           train.name(), classes - 1, classes, used, classes));
}

// Classes or targets, and how many classes: as asked for, from the names, or else from the training
// labels.
Status countClasses(Source& source, std::int64_t wanted, Dataset& dataset) {
  if (wanted == 0 && !source.class_names.empty()) {
    return Error(Code::kInvalid, source.train->name() +
                                     ": the labels are names of classes, so data.classes: 0 is "
                                     "not possible");
  }
  const auto train = scanLabels(*source.train, wanted);
  if (!train) return train.error();
  LabelRange test;
  if (source.test) {
    const auto scanned = scanLabels(*source.test, wanted);
    if (!scanned) return scanned.error();
    test = *scanned;
  }
  const bool decimals =
      source.train->decimalLabels() || (source.test != nullptr && source.test->decimalLabels());
  const bool classes = wanted > 0 || (wanted < 0 && train->classes && test.classes && !decimals);
  source.train->setLabelsAreClasses(classes);
  if (source.test) source.test->setLabelsAreClasses(classes);
  if (!classes) return {};
  if (wanted < 0 && source.class_names.empty()) {
    if (auto plausible = checkPlausible(*source.train, *train); !plausible) return plausible;
  }
  dataset.classes = wanted > 0 ? wanted
                    : source.class_names.empty()
                        ? static_cast<std::int64_t>(train->most) + 1
                        : static_cast<std::int64_t>(source.class_names.size());
  const auto within = [&](const SourceSplit& split, const LabelRange& range) -> Status {
    if (range.most < static_cast<double>(dataset.classes)) return {};
    return Error(
        Code::kInvalid,
        fmt::format("{}: {}: label {} but there are {} classes, counted from 0; data.classes says "
                    "how many there are, or 0 for numbers to predict",
                    split.name(), split.rowName(range.most_row), range.most, dataset.classes));
  };
  if (auto fits = within(*source.train, *train); !fits) return fits;
  return source.test ? within(*source.test, test) : Status();
}

Result<Dataset> openByFormat(const DatasetOptions& options) {
  std::string format = options.format;
  if (!fileExists(options.path)) {
    return Error(Code::kNotFound, options.path + ": there is no such file or directory");
  }
  if (format.empty()) {
    auto found =
        isDirectory(options.path) ? formatOfDirectory(options.path) : formatOfFile(options.path);
    if (!found) return std::move(found).error();
    format = *std::move(found);
  }
  auto source = openSource(format, options);
  if (!source) return std::move(source).error();
  return makeDataset(*std::move(source), format, options);
}

}  // namespace

Result<Dataset> makeDataset(Source source, const std::string& format,
                            const DatasetOptions& options) {
  if (!source.test && !options.test.empty()) {
    return Error(Code::kNotFound,
                 fmt::format("{}: there is no split '{}'", options.path, options.test));
  }
  if (source.train->size() == 0) {
    return Error(Code::kInvalid, source.train->name() + ": there are no rows to learn from");
  }
  if (source.test && source.test->size() == 0) {
    return Error(Code::kInvalid,
                 source.test->name() +
                     ": there are no rows to evaluate on; remove it, or name another in data.test");
  }
  if (source.test) {
    if (auto same = checkShapes(*source.train, *source.test); !same) {
      return std::move(same).error();
    }
  }
  Dataset dataset{.format = format};
  if (auto counted = countClasses(source, options.classes, dataset); !counted)
    return std::move(counted).error();
  dataset.train = std::move(source.train);
  dataset.test = std::move(source.test);
  dataset.class_names = std::move(source.class_names);
  return dataset;
}

Status Split::setSamples(DType type, std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> all = shape;
  all.insert(all.begin(), std::max<std::int64_t>(size(), 1));
  const auto elements = checkedElements(shape);
  const auto bytes = checkedBytes(type, shape);
  if (!elements || !bytes || !checkedElements(all)) {
    return Error(Code::kInvalid, fmt::format("{} samples of shape ({}) are too many numbers",
                                             size(), fmt::join(shape, ", ")));
  }
  sample_shape_ = std::move(shape);
  sample_type_ = type;
  sample_elements_ = *elements;
  sample_bytes_ = *bytes;
  return {};
}

SplitArrays Split::arrays() const {
  return {.samples = "",
          .labels = "",
          .sample_shape = sample_shape_,
          .label_type = labels_are_classes_ ? DType::kI64 : DType::kF64,
          .label_shape = {}};
}

Result<Dataset> openDataset(const DatasetOptions& options) {
  try {
    return openByFormat(options);
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, options.path + ": there is not enough memory to open it");
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, options.path + ": " + error.what());
  }
}

}  // namespace dure::format
