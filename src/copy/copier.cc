#include "copy/copier.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "base/files.h"
#include "base/staging_folder.h"
#include "copy/parallel.h"
#include "copy/set_writer.h"
#include "copy/shards.h"
#include "format/npz_writer.h"

namespace dure::copy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWordIndex = "word_index.json";
constexpr std::size_t kMostWordIndex = std::size_t{1} << 30u;
constexpr std::uint64_t kReleaseEvery = std::uint64_t{24} << 20u;
constexpr std::int64_t kLabelsAtOnce = 65536;

bool isZip(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto file = format::mapFile(path);
  return file && file->text().starts_with("PK");
}

bool isSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

// Whether the file has this one name, and the name is no link to it.
bool standsAlone(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1;
}

class Copier {
 public:
  Copier(const CopyOptions& options, const CopyProgress& progress)
      : options_(options), progress_(progress) {
    for (int i = 0; i < options.files; ++i) report_.names.push_back(fmt::format("{}.npz", i));
  }

  Result<CopyReport> run() {
    if (!fileExists(options_.data.path)) {
      return Error(Code::kNotFound, options_.data.path + ": there is no such file or directory");
    }
    const bool plain = !options_.split && isZip(options_.data.path) &&
                       (options_.data.format.empty() || options_.data.format == "npz");
    // Before anything is made: a mistake in the call leaves no folder behind.
    if (!plain) {
      auto opened = format::openDataset(options_.data);
      if (!opened) return std::move(opened).error();
      dataset_.emplace(*std::move(opened));
      if (auto assigned = assignAll(); !assigned) return std::move(assigned).error();
    }
    if (auto free = checkNames(plain); !free) return std::move(free).error();
    auto staging = StagingFolder::make(options_.folder, "dure-copy");
    if (!staging) return std::move(staging).error();
    auto staged = plain ? stageCopies(*staging, options_.data.path, true) : stageSets(*staging);
    if (!staged) return withFinalNames(staged.error(), *staging);
    if (auto indexed = stageWordIndex(*staging); !indexed) return std::move(indexed).error();
    if (auto kept = keepAll(*staging); !kept) return std::move(kept).error();
    return report_;
  }

 private:
  // Each further piece of work on `bytes` bytes, in whichever thread.
  Status advance(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    unreleased_ += bytes;
    if (unreleased_ >= kReleaseEvery) {
      unreleased_ = 0;
      format::releaseMappedPages();
    }
    return progress_(std::min(done_, total_), total_);
  }

  // People know the files by the names that they will have.
  Error withFinalNames(const Error& error, const StagingFolder& staging) const {
    std::string text = error.message();
    const std::string from = staging.path("");
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), options_.folder + "/");
    }
    return Error(error.code(), text);
  }

  std::string finalPath(const std::string& name) const { return options_.folder + "/" + name; }

  Status assignAll() {
    if (!options_.split) return {};
    const format::Split& train = *dataset_->train;
    if (train.size() < options_.files) {
      return Error(Code::kInvalid, fmt::format("{}: {} rows cannot make {} shards",
                                               options_.data.path, train.size(), options_.files));
    }
    assignment_.seed = options_.seed;
    if (options_.stratified && !train.labelsAreClasses()) {
      return Error(Code::kInvalid,
                   options_.data.path +
                       ": --stratified needs classes, and these labels are numbers to predict");
    }
    std::vector<std::int32_t> classes;
    if (train.labelsAreClasses()) {
      auto read = readClasses(train);
      if (!read) return std::move(read).error();
      classes = *std::move(read);
    }
    assignment_.shard_of = options_.stratified
                               ? assignStratified(classes, options_.files, options_.seed)
                               : assignRows(train.size(), options_.files, options_.seed);
    report_.rows.assign(static_cast<std::size_t>(options_.files), 0);
    for (const ShardNumber shard : assignment_.shard_of) ++report_.rows[shard];
    warnOfMissingClass(classes);
    return {};
  }

  Result<std::vector<std::int32_t>> readClasses(const format::Split& split) const {
    std::vector<std::int32_t> classes(static_cast<std::size_t>(split.size()));
    std::vector<std::int64_t> rows;
    std::vector<double> labels;
    for (std::int64_t first = 0; first < split.size(); first += kLabelsAtOnce) {
      rows.resize(static_cast<std::size_t>(std::min(kLabelsAtOnce, split.size() - first)));
      labels.resize(rows.size());
      std::iota(rows.begin(), rows.end(), first);
      if (auto read = split.readLabels(rows, labels.data()); !read) return std::move(read).error();
      std::transform(labels.begin(), labels.end(), classes.begin() + first,
                     [](double label) { return static_cast<std::int32_t>(label); });
    }
    return classes;
  }

  // Whoever trains on a shard counts its classes, and models of different counts do not match.
  void warnOfMissingClass(const std::vector<std::int32_t>& classes) {
    if (classes.empty()) return;
    const std::int32_t most = *std::max_element(classes.begin(), classes.end());
    std::vector<bool> has(static_cast<std::size_t>(options_.files));
    for (std::size_t row = 0; row < classes.size(); ++row) {
      if (classes[row] == most) has[assignment_.shard_of[row]] = true;
    }
    const auto without = std::find(has.begin(), has.end(), false);
    if (without == has.end()) return;
    report_.warnings.push_back(
        fmt::format("{}.npz has no row of class {}, the highest: say data.classes: {} when "
                    "training on shards{}",
                    without - has.begin(), most, most + 1,
                    options_.stratified ? "" : ", or copy with --stratified"));
  }

  // What is plainly something different is told before the work and not after it.
  Status checkNames(bool plain) const {
    if (options_.force) return {};
    std::error_code error;
    const std::uint64_t size = plain ? fs::file_size(options_.data.path, error) : 0;
    std::vector<std::string> differ;
    for (const std::string& name : report_.names) {
      const std::string path = finalPath(name);
      if (!fileExists(path)) continue;
      const bool same = plain ? fs::file_size(path, error) == size : isZip(path);
      if (!same) differ.push_back(name);
    }
    return differ.empty() ? Status() : taken(differ);
  }

  Error taken(const std::vector<std::string>& differ) const {
    const bool one = differ.size() == 1;
    return Error(Code::kExists,
                 fmt::format("{}: {} there already and differ{} from what would be written; "
                             "--force overwrites",
                             options_.folder,
                             one ? differ.front() + " is"
                                 : fmt::format("{} and {} more are", differ[0], differ.size() - 1),
                             one ? "s" : ""));
  }

  // Of a file that has the right bytes: whether it may also share them with others.
  bool mayStay(const std::string& path) const { return options_.share || standsAlone(path); }

  // `from` as 0.npz, 1.npz, …
  Status stageCopies(const StagingFolder& staging, const std::string& from, bool verify) {
    const auto file = format::mapFile(from);
    if (!file) return file.error();
    if (verify) {
      total_ += file->size() * static_cast<std::uint64_t>(options_.share ? 1 : options_.files + 1);
      auto sound = format::verifyZip(
          *file, [this](std::uint64_t bytes) { return advance(bytes); }, forEachInParallel);
      if (!sound) return sound;
    }
    report_.bytes = file->size() * report_.names.size();
    for (const std::string& name : report_.names) {
      const std::string path = staging.path(name);
      if (path == from) continue;
      if (isSameFile(finalPath(name), from) && mayStay(finalPath(name))) continue;
      const auto shared = shareFile(from, path, options_.share);
      if (!shared) return shared.error();
      report_.sharing = *shared;
      if (*shared != Sharing::kCopy) continue;
      if (auto sound = readBack(path); !sound) return sound;
    }
    return {};
  }

  Status readBack(const std::string& path) {
    const auto file = format::mapFile(path);
    if (!file) return file.error();
    return format::verifyZip(
        *file, [this](std::uint64_t bytes) { return advance(bytes); }, forEachInParallel);
  }

  Status stageSets(const StagingFolder& staging) {
    std::vector<std::string> paths;
    for (const std::string& name : report_.names) {
      paths.push_back(staging.path(name));
      if (!options_.split) break;
    }
    std::optional<format::FileBytes> source;
    if (isZip(options_.data.path)) {
      auto file = format::mapFile(options_.data.path);
      if (!file) return std::move(file).error();
      source = *std::move(file);
    }
    total_ = 2 * bytesToWrite(*dataset_, paths.size()) + (source ? source->size() : 0);
    const auto count = [this](std::uint64_t bytes) { return advance(bytes); };
    if (source) {
      if (auto sums = format::verifyZip(*source, count, forEachInParallel); !sums) return sums;
    }
    auto wrote = writeSets(*dataset_, paths, assignment_, source ? &*source : nullptr, count);
    if (!wrote) return wrote;
    for (const std::string& path : paths) {
      if (auto sound = readBack(path); !sound) return sound;
      std::error_code error;
      report_.bytes += fs::file_size(path, error);
    }
    return options_.split ? Status() : stageCopies(staging, paths.front(), false);
  }

  Status stageWordIndex(const StagingFolder& staging) {
    const fs::path data = options_.data.path;
    std::error_code error;
    const fs::path folder = fs::is_directory(data, error) ? data : data.parent_path();
    const std::string from = (folder / kWordIndex).string();
    if (!fileExists(from)) return {};
    report_.word_index = kWordIndex;
    if (isSameFile(from, finalPath(kWordIndex))) return {};
    const auto text = readFile(from, kMostWordIndex);
    if (!text) return text.error();
    return replaceFile(staging.path(kWordIndex), *text);
  }

  // Whether two files have the same bytes.
  Result<bool> sameBytes(const std::string& a, const std::string& b) {
    const auto first = format::mapFile(a);
    if (!first) return first.error();
    const auto second = format::mapFile(b);
    if (!second) return second.error();
    if (first->size() != second->size()) return false;
    constexpr std::size_t kPiece = std::size_t{4} << 20u;
    for (std::size_t at = 0; at < first->size(); at += kPiece) {
      const std::size_t size = std::min(kPiece, first->size() - at);
      if (std::memcmp(first->bytes.data() + at, second->bytes.data() + at, size) != 0) return false;
      if (auto goes_on = advance(2 * size); !goes_on) return std::move(goes_on).error();
    }
    return true;
  }

  // Everything is looked at before anything gets its name.
  Status keepAll(const StagingFolder& staging) {
    std::vector<std::string> names = report_.names;
    if (!report_.word_index.empty()) names.push_back(report_.word_index);
    std::vector<std::string> keep;
    std::vector<std::string> differ;
    for (const std::string& name : names) {
      const std::string path = finalPath(name);
      // Not staged: it is the very file that is copied.
      bool same = !fileExists(staging.path(name));
      if (!same && fileExists(path)) {
        same = isSameFile(path, staging.path(name));
        if (!same) {
          const auto compared = sameBytes(path, staging.path(name));
          if (!compared && compared.error().code() != Code::kInvalid) return compared.error();
          same = compared && *compared;
          if (!same) differ.push_back(name);
        }
        same = same && mayStay(path);
      }
      if (same) {
        report_.unchanged += name != report_.word_index;
      } else {
        keep.push_back(name);
      }
    }
    if (!differ.empty() && !options_.force) return taken(differ);
    for (const std::string& name : keep) {
      if (auto kept = staging.keep(name); !kept) return kept;
    }
    return syncDirectory(options_.folder);
  }

  const CopyOptions& options_;
  const CopyProgress& progress_;
  CopyReport report_;
  std::optional<format::Dataset> dataset_;
  Assignment assignment_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;        // guarded by mutex_
  std::uint64_t unreleased_ = 0;  // guarded by mutex_
  std::uint64_t total_ = 0;
};

}  // namespace

Result<CopyReport> copyData(const CopyOptions& options, const CopyProgress& progress) {
  try {
    return Copier(options, progress).run();
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, options.data.path + ": there is not enough memory to copy it");
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, options.data.path + ": " + error.what());
  }
}

}  // namespace dure::copy
