// Data sets of .npz and .npy files: which array is what.

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "format/array_split.h"
#include "format/npy.h"
#include "format/npz.h"

namespace dure::format {
namespace {

// Where arrays are looked up by name.
class ArrayStore {
 public:
  virtual ~ArrayStore() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual Result<Array> read(const std::string& array) const = 0;
};

class NpzStore : public ArrayStore {
 public:
  NpzStore(std::string path, Npz npz) : path_(std::move(path)), npz_(std::move(npz)) {}
  std::string name() const override { return path_; }
  std::vector<std::string> names() const override { return npz_.names(); }
  Result<Array> read(const std::string& array) const override { return npz_.read(array); }

 private:
  const std::string path_;
  const Npz npz_;
};

class NpyDirectory : public ArrayStore {
 public:
  explicit NpyDirectory(std::string path) : path_(std::move(path)) {}
  std::string name() const override { return path_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const std::string& file : listDirectory(path_)) {
      if (file.ends_with(".npy")) names.push_back(file.substr(0, file.size() - 4));
    }
    return names;
  }
  Result<Array> read(const std::string& array) const override {
    const auto file = mapFile(path_ + "/" + array + ".npy");
    if (!file) return file.error();
    return readNpy(*file);
  }

 private:
  const std::string path_;
};

Result<std::unique_ptr<ArrayStore>> openNpz(const std::string& path) {
  auto file = mapFile(path);
  if (!file) return std::move(file).error();
  auto npz = Npz::open(*std::move(file));
  if (!npz) return std::move(npz).error();
  return std::unique_ptr<ArrayStore>(std::make_unique<NpzStore>(path, *std::move(npz)));
}

// x_train, train_x, …: every way to say the wanted one of the words for this split.
std::vector<std::string> nameCandidates(const std::string& split, const std::string& wanted,
                                        const std::vector<std::string>& usual) {
  std::vector<std::string> candidates;
  const auto add = [&](const std::string& word) {
    candidates.push_back(word + "_" + split);
    candidates.push_back(split + "_" + word);
  };
  if (!wanted.empty()) {
    add(wanted);
  } else {
    for (const std::string& word : usual) add(word);
  }
  return candidates;
}

std::string firstOf(const std::vector<std::string>& there,
                    const std::vector<std::string>& candidates) {
  for (const std::string& name : candidates) {
    if (std::find(there.begin(), there.end(), name) != there.end()) return name;
  }
  return "";
}

struct Names {
  std::string samples;
  std::string labels;
};

// A store that holds one split only has the words without a split's name: x and y, X and y, …
Names plainNames(const ArrayStore& store, const DatasetOptions& options) {
  static const std::vector<std::string> kSamples = {"x",    "X",        "images",   "samples",
                                                    "data", "features", "input_ids"};
  static const std::vector<std::string> kLabels = {"y",     "Y",       "labels",
                                                   "label", "targets", "target"};
  const auto there = store.names();
  return {
      .samples = firstOf(there, options.samples.empty() ? kSamples : std::vector{options.samples}),
      .labels = firstOf(there, options.labels.empty() ? kLabels : std::vector{options.labels})};
}

Names splitNames(const ArrayStore& store, const DatasetOptions& options,
                 const std::vector<std::string>& splits) {
  const auto there = store.names();
  for (const std::string& split : splits) {
    Names names{.samples = firstOf(there, nameCandidates(split, options.samples,
                                                         {"x", "X", "images", "samples", "data"})),
                .labels = firstOf(
                    there, nameCandidates(split, options.labels, {"y", "Y", "labels", "targets"}))};
    if (!names.samples.empty() || !names.labels.empty()) return names;
  }
  return {};
}

// Null if neither array is there.
Result<std::unique_ptr<SourceSplit>> readSplit(const ArrayStore& store, const Names& names) {
  if (names.samples.empty() && names.labels.empty()) return std::unique_ptr<SourceSplit>();
  if (names.samples.empty() || names.labels.empty()) {
    return Error(
        Code::kNotFound,
        fmt::format("{}: there is '{}' but no array of {} for it; there is {}", store.name(),
                    names.samples.empty() ? names.labels : names.samples,
                    names.samples.empty() ? "samples" : "labels", join(store.names(), ", ")));
  }
  auto samples = store.read(names.samples);
  if (!samples) return std::move(samples).error();
  auto labels = store.read(names.labels);
  if (!labels) return std::move(labels).error();
  const std::string where = store.name() + ": ";
  return makeArraySplit(where + names.samples, *std::move(samples), where + names.labels,
                        *std::move(labels), {.samples = names.samples, .labels = names.labels});
}

Result<Source> openStore(const ArrayStore& store, const DatasetOptions& options) {
  Names train_names = splitNames(store, options, trainNames(options));
  if (train_names.samples.empty() && train_names.labels.empty()) {
    train_names = plainNames(store, options);
  }
  Source source;
  auto train = readSplit(store, train_names);
  if (!train) return std::move(train).error();
  if (!*train) {
    return Error(Code::kNotFound,
                 fmt::format("{}: no arrays named x_train and y_train, or x and y; there is {}",
                             store.name(), join(store.names(), ", ")));
  }
  source.train = *std::move(train);
  auto test = readSplit(store, splitNames(store, options, testNames(options)));
  if (!test) return std::move(test).error();
  source.test = *std::move(test);
  return source;
}

// train.npz, or the file that the option names.
std::string splitFile(const std::string& directory, const std::vector<std::string>& splits) {
  for (const std::string& split : splits) {
    for (const char* ending : {".npz", ""}) {
      std::string path = fmt::format("{}/{}{}", directory, split, ending);
      if (path.ends_with(".npz") && fileExists(path)) return path;
    }
  }
  return "";
}

// A directory with a file per split; each holds x and y.
Result<Source> openFilePerSplit(const DatasetOptions& options, const std::string& train_file) {
  const auto open = [&](const std::string& path) -> Result<std::unique_ptr<SourceSplit>> {
    const auto store = openNpz(path);
    if (!store) return store.error();
    auto split = readSplit(**store, plainNames(**store, options));
    if (split && !*split) {
      return Error(Code::kNotFound, fmt::format("{}: no arrays named x and y; there is {}", path,
                                                join((*store)->names(), ", ")));
    }
    return split;
  };
  Source source;
  auto train = open(train_file);
  if (!train) return std::move(train).error();
  source.train = *std::move(train);
  const std::string test_file = splitFile(options.path, testNames(options));
  if (test_file.empty()) return source;
  auto test = open(test_file);
  if (!test) return std::move(test).error();
  source.test = *std::move(test);
  return source;
}

}  // namespace

bool looksLikeNumpy(const std::string& directory) {
  for (const std::string& file : listDirectory(directory)) {
    if (file.ends_with(".npy") || file.ends_with(".npz")) return true;
  }
  return false;
}

Result<Source> openNumpy(const DatasetOptions& options) {
  if (!isDirectory(options.path)) {
    if (options.path.ends_with(".npy")) {
      return Error(Code::kInvalid,
                   options.path +
                       ": one .npy file is no data set; give the directory with the "
                       "files of samples and labels");
    }
    const auto store = openNpz(options.path);
    if (!store) return store.error();
    return openStore(**store, options);
  }
  const std::string train_file = splitFile(options.path, trainNames(options));
  if (!train_file.empty()) return openFilePerSplit(options, train_file);
  const NpyDirectory directory(options.path);
  const auto files = listDirectory(options.path);
  std::vector<std::string> npz_files;
  std::copy_if(files.begin(), files.end(), std::back_inserter(npz_files),
               [](const std::string& file) { return file.ends_with(".npz"); });
  const bool zero = std::find(npz_files.begin(), npz_files.end(), "0.npz") != npz_files.end();
  if (directory.names().empty() && (zero || npz_files.size() == 1)) {
    const auto store = openNpz(options.path + "/" + (zero ? "0.npz" : npz_files[0]));
    if (!store) return store.error();
    return openStore(**store, options);
  }
  return openStore(directory, options);
}

}  // namespace dure::format
