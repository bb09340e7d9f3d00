#include "average/averager.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include <fmt/core.h>

#include "average/facts.h"
#include "average/match.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/staging_folder.h"
#include "base/text.h"
#include "format/crc32.h"
#include "format/npz_writer.h"

namespace dure::average {
namespace {

namespace fs = std::filesystem;
using format::TensorPlace;

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;
constexpr std::uint64_t kReleaseAfter = std::uint64_t{64} << 20u;
constexpr unsigned kMostThreads = 4;

std::string kindOfFile(const std::string& path) { return fs::path(path).extension().string(); }

// A part of a tensor that one thread works on.
struct Piece {
  std::size_t tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

class Averager {
 public:
  Averager(const AverageOptions& options, const AverageProgress& progress)
      : options_(options), rule_(options.rule), progress_(progress) {}

  Result<AverageReport> run() {
    if (auto checked = checkCall(); !checked) return std::move(checked).error();
    for (const std::string& path : options_.models) {
      if (auto opened = open(path); !opened) return std::move(opened).error();
    }
    if (auto weighed = weigh(); !weighed) return std::move(weighed).error();
    plans_ = planTensors(models_[0].content.tensors);
    if (auto planned = planFacts(); !planned) return std::move(planned).error();
    if (auto checked = checkWholeNumbers(); !checked) return std::move(checked).error();
    const fs::path output = options_.output;
    auto staging = StagingFolder::make(output.parent_path().string(), "dure-average");
    if (!staging) return std::move(staging).error();
    const std::string name = output.filename().string();
    if (auto wrote = write(staging->path(name)); !wrote) {
      return withFinalName(wrote.error(), staging->path(name));
    }
    if (auto kept = staging->keep(name); !kept) return std::move(kept).error();
    if (auto synced = syncDirectory(output.parent_path().string()); !synced) {
      return std::move(synced).error();
    }
    report_.weights = rule_.weights;
    return report_;
  }

 private:
  const std::vector<TensorPlace>& tensors(std::size_t model) const {
    return models_[model].content.tensors;
  }

  Error withFinalName(const Error& error, const std::string& staged) const {
    std::string text = error.message();
    for (std::size_t at = text.find(staged); at != std::string::npos; at = text.find(staged)) {
      text.replace(at, staged.size(), options_.output);
    }
    return Error(error.code(), text);
  }

  Status checkCall() const {
    const std::string kind = kindOfFile(options_.output);
    std::error_code error;
    if (fs::is_directory(options_.output, error)) {
      return Error(Code::kInvalid, options_.output + ": is a directory; name a file");
    }
    for (const std::string& path : options_.models) {
      if (kindOfFile(path) != kind) {
        return Error(Code::kInvalid,
                     fmt::format("{}: the average of such files ends in '{}', not in '{}' as {}",
                                 path, kindOfFile(path), kind, options_.output));
      }
      if (fs::equivalent(path, options_.output, error) && !error) {
        return Error(Code::kInvalid, fmt::format("{}: is one of the models; give the average "
                                                 "another name",
                                                 options_.output));
      }
    }
    const std::size_t count = options_.models.size();
    if (rule_.method == Method::kTrimmed && count <= 2 * static_cast<std::size_t>(rule_.trim)) {
      return Error(Code::kInvalid, fmt::format("{} models are too few to leave {} out at each end",
                                               count, rule_.trim));
    }
    if (!rule_.weights.empty() && rule_.weights.size() != count) {
      return Error(Code::kInvalid,
                   fmt::format("{} weights were given for {} models", rule_.weights.size(), count));
    }
    return {};
  }

  Status open(const std::string& path) {
    auto file = format::mapFile(path);
    if (!file) return std::move(file).error();
    auto content = format::findTensors(*file);
    if (!content) return std::move(content).error();
    if (content->tensors.empty())
      return Error(Code::kInvalid, path + ": there are no weights in it");
    if (!content->checksummed.empty()) {
      auto sound = format::verifyZip(*file, [this](std::uint64_t bytes) { return release(bytes); });
      if (!sound) return sound;
    }
    files_.push_back(*std::move(file));
    models_.push_back({.path = path, .content = *std::move(content)});
    return models_.size() == 1 ? Status() : match(models_[0], models_.back());
  }

  Status weigh() {
    if (options_.by_samples) {
      rule_.weights.clear();
      for (const NamedModel& model : models_) {
        const auto text = model.content.texts.find("samples");
        double samples = 0;
        if (text == model.content.texts.end()) {
          return Error(Code::kInvalid,
                       model.path +
                           ": does not say how many samples it was trained on; give the "
                           "weights as numbers: --weights 1,2,3");
        }
        const char* const end = text->second.data() + text->second.size();
        const auto [parsed, error] = std::from_chars(text->second.data(), end, samples);
        if (error != std::errc() || parsed != end || !std::isfinite(samples) || samples < 0) {
          return Error(Code::kInvalid, fmt::format("{}: its number of samples, '{}', is no number",
                                                   model.path, text->second));
        }
        rule_.weights.push_back(samples);
      }
    }
    if (rule_.weights.empty()) return {};
    const bool some = std::any_of(rule_.weights.begin(), rule_.weights.end(),
                                  [](double weight) { return weight > 0; });
    if (!some) return Error(Code::kInvalid, "all weights are 0");
    // Equal weights give the mean, bit for bit, whatever they are.
    if (std::adjacent_find(rule_.weights.begin(), rule_.weights.end(), std::not_equal_to<>()) ==
        rule_.weights.end()) {
      rule_.weights.clear();
    }
    return {};
  }

  Result<format::Array> wholeTensor(std::size_t model, std::size_t tensor) const {
    const TensorPlace& place = tensors(model)[tensor];
    if (place.packed) return format::readPacked(files_[model], place);
    return format::Array{.dtype = place.dtype,
                         .shape = place.shape,
                         .data = files_[model].bytes.data() + place.offset,
                         .owner = files_[model].owner,
                         .swapped = place.swapped};
  }

  // Whole numbers are few, and are compared before anything is written.
  Status checkWholeNumbers() {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (format::isFloat(tensors(0)[i].dtype)) continue;
      const auto first = wholeTensor(0, i);
      if (!first) return first.error();
      for (std::size_t model = 1; model < models_.size(); ++model) {
        const auto other = wholeTensor(model, i);
        if (!other) return other.error();
        if (equalNumbers(*first, *other)) continue;
        if (auto told = tellDifference(i, model); !told) return told;
        break;
      }
    }
    return {};
  }

  static bool equalNumbers(const format::Array& a, const format::Array& b) {
    if (a.swapped == b.swapped) {
      return a.bytes() == 0 || std::memcmp(a.data, b.data, a.bytes()) == 0;
    }
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      if (format::numberAt(a, i) != format::numberAt(b, i)) return false;
    }
    return true;
  }

  Status tellDifference(std::size_t tensor, std::size_t model) {
    const std::string& name = tensors(0)[tensor].name;
    differing_.push_back(tensor);
    switch (plans_[tensor].treatment) {
      case Treatment::kCounter:
        report_.notes.push_back(name + ": counts differ; the largest is kept");
        return {};
      case Treatment::kState:
        report_.notes.push_back(
            fmt::format("{}: states of a random generator differ; that of {} "
                        "is kept",
                        name, models_[0].path));
        return {};
      default:
        return Error(Code::kInvalid,
                     fmt::format("{}: {} holds whole numbers that differ from those of {}, and the "
                                 "mean of such is none",
                                 models_[model].path, name, models_[0].path));
    }
  }

  Status release(std::uint64_t bytes) {
    if (unreleased_.fetch_add(bytes) + bytes >= kReleaseAfter) {
      unreleased_ = 0;
      format::releaseMappedPages();
    }
    return {};
  }

  Status put(const std::byte* data, std::uint64_t size, std::uint64_t offset) const {
    while (size > 0) {
      const ssize_t wrote = pwrite(fd_.get(), data, std::min<std::uint64_t>(size, 8u << 20u),
                                   static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return systemError("write " + options_.output);
      data += wrote;
      size -= static_cast<std::uint64_t>(wrote);
      offset += static_cast<std::uint64_t>(wrote);
    }
    return {};
  }

  // The index of the first number that is not finite, and whose it is.
  Error notFinite(std::size_t tensor, std::int64_t element) const {
    for (std::size_t model = 0; model < models_.size(); ++model) {
      const auto array = wholeTensor(model, tensor);
      if (!array) return array.error();
      const double number = format::numberAt(*array, element);
      if (std::isfinite(number)) continue;
      return Error(Code::kInvalid, fmt::format("{}: {} is {} at index {}", models_[model].path,
                                               tensors(0)[tensor].name,
                                               std::isnan(number) ? "NaN" : "infinite", element));
    }
    return Error(Code::kInvalid, fmt::format("{}: {} is beyond what its type holds at index {}",
                                             options_.output, tensors(0)[tensor].name, element));
  }

  std::vector<Numbers> numbersFrom(std::size_t tensor, std::int64_t begin) const {
    std::vector<Numbers> numbers;
    for (std::size_t model = 0; model < models_.size(); ++model) {
      const TensorPlace& place = tensors(model)[tensor];
      const std::uint64_t skipped = static_cast<std::uint64_t>(begin) * format::sizeOf(place.dtype);
      numbers.push_back({files_[model].bytes.data() + place.offset + skipped, place.swapped});
    }
    return numbers;
  }

  Status average(const Piece& piece, std::vector<double>& sums, std::vector<std::byte>& bytes) {
    const TensorPlace& place = tensors(0)[piece.tensor];
    const std::uint64_t width = format::sizeOf(place.dtype);
    sums.resize(static_cast<std::size_t>(piece.count));
    bytes.resize(sums.size() * width);
    const auto numbers = numbersFrom(piece.tensor, piece.begin);
    const TensorPlan& plan = plans_[piece.tensor];
    const auto odd = plan.treatment == Treatment::kVariance
                         ? combineVariances(rule_, place.dtype, numbers,
                                            numbersFrom(plan.mean, piece.begin), sums)
                         : combine(rule_, place.dtype, numbers, sums);
    if (odd) return notFinite(piece.tensor, piece.begin + static_cast<std::int64_t>(*odd));
    format::DType type = place.dtype;
    fromDoubles(type, sums, place.swapped, bytes.data());
    auto wrote = put(bytes.data(), bytes.size(),
                     placeOf(place.offset) + static_cast<std::uint64_t>(piece.begin) * width);
    if (!wrote) return wrote;
    return release(bytes.size() * (models_.size() + 1));
  }

  bool isAveraged(std::size_t tensor) const {
    return format::isFloat(tensors(0)[tensor].dtype) && !tensors(0)[tensor].packed &&
           // All models have it in one piece; else it takes the way of those that are packed.
           std::all_of(models_.begin(), models_.end(), [&](const NamedModel& model) {
             return !model.content.tensors[tensor].packed;
           });
  }

  Status planFacts() {
    facts_ = averagedFacts(models_);
    if (facts_.empty() || isKeras()) return {};
    auto edit = format::editTexts(files_[0], facts_);
    if (!edit) return std::move(edit).error();
    edit_ = *std::move(edit);
    return {};
  }

  bool isKeras() const {
    const std::string kind = kindOfFile(options_.output);
    return kind == ".h5" || kind == ".hdf5";
  }

  // Where in the result a byte of the first model stands.
  std::uint64_t placeOf(std::uint64_t offset) const {
    return offset < edit_.end ? offset : offset - edit_.end + edit_.begin + edit_.bytes.size();
  }

  // Everything of the first model that is not overwritten by pieces.
  Status writeRest() {
    const auto* const edited = reinterpret_cast<const std::byte*>(edit_.bytes.data());
    if (auto wrote = put(edited, edit_.bytes.size(), edit_.begin); !wrote) return wrote;
    std::uint64_t at = 0;
    const auto copy = [&](std::uint64_t end) -> Status {
      constexpr std::uint64_t kAtOnce = 8u << 20u;
      while (at < end) {
        const std::uint64_t size = std::min(kAtOnce, end - at);
        auto wrote = put(files_[0].bytes.data() + at, size, placeOf(at));
        if (!wrote) return wrote;
        at += size;
        if (auto goes_on = release(size); !goes_on) return goes_on;
      }
      return {};
    };
    const auto copy_to = [&](std::uint64_t end) -> Status {
      if (at < edit_.begin) {
        if (auto copied = copy(std::min(end, edit_.begin)); !copied) return copied;
      }
      if (end > edit_.begin) at = std::max(at, edit_.end);
      return copy(end);
    };
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (!isAveraged(i)) continue;
      if (auto copied = copy_to(tensors(0)[i].offset); !copied) return copied;
      at = tensors(0)[i].offset + tensors(0)[i].bytes();
    }
    return copy_to(files_[0].size());
  }

  std::vector<Piece> cutIntoPieces() const {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      if (!isAveraged(i)) continue;
      const std::int64_t elements = tensors(0)[i].elements();
      for (std::int64_t begin = 0; begin < elements; begin += kPieceElements) {
        pieces.push_back({i, begin, std::min(kPieceElements, elements - begin)});
      }
    }
    return pieces;
  }

  // In several threads: each piece has its own place in the result, so that nothing depends on
  // their order. The first piece that fails, in the order of the file, is what is told.
  Status averagePieces() {
    const std::vector<Piece> pieces = cutIntoPieces();
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> done{0};
    std::atomic<bool> ended{false};
    std::mutex mutex;
    std::size_t failed_piece = pieces.size();  // guarded by mutex
    Status failure;                            // guarded by mutex
    const auto work = [&](bool tells) {
      std::vector<double> sums;
      std::vector<std::byte> bytes;
      for (std::size_t i = next++; i < pieces.size() && !ended; i = next++) {
        Status averaged = average(pieces[i], sums, bytes);
        if (averaged && tells) averaged = progress_(++done, pieces.size());
        if (!tells) ++done;
        if (averaged) continue;
        ended = true;
        const std::lock_guard lock(mutex);
        if (i < failed_piece) {
          failed_piece = i;
          failure = std::move(averaged);
        }
      }
    };
    {
      std::vector<std::jthread> others;
      const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
      for (unsigned i = 1; i < threads && i < pieces.size(); ++i) others.emplace_back(work, false);
      work(true);
    }
    return failure;
  }

  // Whole tensors: those that are packed, and counters.
  Status writeOthers(const std::string& path) {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const bool counter = plans_[i].treatment == Treatment::kCounter &&
                           std::find(differing_.begin(), differing_.end(), i) != differing_.end();
      if (isAveraged(i) || (!format::isFloat(tensors(0)[i].dtype) && !counter)) continue;
      const auto made = counter ? largest(i) : averageWhole(i);
      if (!made) return made.error();
      if (!tensors(0)[i].packed) {
        auto wrote = put(made->data, made->bytes(), placeOf(tensors(0)[i].offset));
        if (!wrote) return wrote;
      } else if (auto wrote = format::rewritePacked(path, {{tensors(0)[i].key, *made}}); !wrote) {
        return wrote;
      }
    }
    return {};
  }

  Result<format::Array> averageWhole(std::size_t tensor) const {
    const TensorPlace& place = tensors(0)[tensor];
    std::vector<format::Array> arrays;
    std::vector<format::Array> mean_arrays;
    std::vector<Numbers> numbers;
    std::vector<Numbers> means;
    const bool variance = plans_[tensor].treatment == Treatment::kVariance;
    for (std::size_t model = 0; model < models_.size(); ++model) {
      auto array = wholeTensor(model, tensor);
      if (!array) return array;
      arrays.push_back(*std::move(array));
      numbers.push_back({arrays.back().data, arrays.back().swapped});
      if (!variance) continue;
      auto mean = wholeTensor(model, plans_[tensor].mean);
      if (!mean) return mean;
      mean_arrays.push_back(*std::move(mean));
      means.push_back({mean_arrays.back().data, mean_arrays.back().swapped});
    }
    std::vector<double> sums(static_cast<std::size_t>(place.elements()));
    const auto odd = variance ? combineVariances(rule_, place.dtype, numbers, means, sums)
                              : combine(rule_, place.dtype, numbers, sums);
    if (odd) return notFinite(tensor, static_cast<std::int64_t>(*odd));
    format::Array made = format::makeArray(place.dtype, place.shape);
    fromDoubles(place.dtype, sums, place.swapped, format::writableData(made));
    return made;
  }

  // Of whole numbers, exactly: the one of the model where it is largest.
  Result<format::Array> largest(std::size_t tensor) const {
    const TensorPlace& place = tensors(0)[tensor];
    const std::size_t width = format::sizeOf(place.dtype);
    format::Array made = format::makeArray(place.dtype, place.shape);
    std::vector<double> most(static_cast<std::size_t>(place.elements()),
                             -std::numeric_limits<double>::infinity());
    for (std::size_t model = 0; model < models_.size(); ++model) {
      auto array = wholeTensor(model, tensor);
      if (!array) return array;
      for (std::size_t i = 0; i < most.size(); ++i) {
        const double number = format::numberAt(*array, static_cast<std::int64_t>(i));
        if (number <= most[i]) continue;
        most[i] = number;
        std::byte* const at = format::writableData(made) + i * width;
        std::memcpy(at, array->data + i * width, width);
        if (array->swapped != place.swapped) format::swapBytes(at, 1, width);
      }
    }
    return made;
  }

  // Zip files know a checksum of each part.
  Status writeChecksums(const std::string& path) const {
    if (models_[0].content.checksummed.empty()) return {};
    const auto made = format::mapFile(path);
    if (!made) return made.error();
    const auto content = format::findTensors(*made);
    if (!content) return content.error();
    for (const format::ChecksummedPart& part : content->checksummed) {
      const std::uint32_t sum = format::crc32Of(made->bytes.subspan(part.offset, part.size));
      for (const std::uint64_t at : part.checksums) {
        auto wrote = put(reinterpret_cast<const std::byte*>(&sum), sizeof sum, at);
        if (!wrote) return wrote;
      }
      format::releaseMappedPages();
    }
    return {};
  }

  Status write(const std::string& path) {
    fd_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd_) return systemError("write " + options_.output);
    if (auto wrote = writeRest(); !wrote) return wrote;
    if (auto averaged = averagePieces(); !averaged) return averaged;
    if (auto wrote = writeOthers(path); !wrote) return wrote;
    if (auto wrote = writeChecksums(path); !wrote) return wrote;
    if (isKeras() && !facts_.empty()) {
      if (auto wrote = format::rewriteKerasTexts(path, facts_); !wrote) return wrote;
    }
    if (fsync(fd_.get()) != 0) return systemError("write " + options_.output + ": sync");
    fd_.reset();
    return readBack(path);
  }

  // A result that is no model that matches the others must not take their place.
  Status readBack(const std::string& path) {
    const auto file = format::mapFile(path);
    if (!file) return file.error();
    auto content = format::findTensors(*file);
    if (!content) return std::move(content).error();
    NamedModel made{.path = options_.output, .content = *std::move(content)};
    report_.tensors = made.content.tensors.size();
    report_.bytes = file->size();
    return match(models_[0], made);
  }

  const AverageOptions& options_;
  Rule rule_;
  const AverageProgress& progress_;
  std::vector<format::FileBytes> files_;
  std::vector<NamedModel> models_;
  std::vector<TensorPlan> plans_;
  std::vector<std::size_t> differing_;  // tensors of whole numbers that are not equal
  format::TextChanges facts_;
  format::FileEdit edit_;  // of the first model's bytes, so that the result says these facts
  AverageReport report_;
  Fd fd_;
  std::atomic<std::uint64_t> unreleased_{0};
};

}  // namespace

Result<AverageReport> averageModels(const AverageOptions& options,
                                    const AverageProgress& progress) {
  try {
    return Averager(options, progress).run();
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, "there is not enough memory to average these models");
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, options.output + ": " + error.what());
  }
}

}  // namespace dure::average
