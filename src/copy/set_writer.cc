#include "copy/set_writer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "copy/parallel.h"
#include "format/crc32.h"
#include "format/npz_writer.h"

namespace dure::copy {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20u;
constexpr std::size_t kPendingRows = std::size_t{2} << 20u;  // of all shards together

using Writers = std::vector<format::NpzWriter>;

// Rows that one file gets one after the other.
struct Block {
  std::size_t shard = 0;
  std::size_t number = 0;  // among those of the shard
  std::int64_t first = 0;  // the place of the first row in the shard
  std::vector<std::int64_t> rows;
};

// Hands out the rows of a split, a block of one shard at a time, in an order that follows from the
// assignment alone. Threads take turns.
class Blocks {
 public:
  Blocks(const Assignment& assignment, std::int64_t rows, std::size_t shards,
         std::size_t sample_bytes)
      : assignment_(assignment),
        rows_(rows),
        block_(std::clamp<std::size_t>(kBlockBytes / std::max<std::size_t>(sample_bytes, 1), 1,
                                       std::max<std::size_t>(kPendingRows / shards, 1))),
        pending_(shards) {
    for (std::size_t shard = 0; shard < shards; ++shard) {
      pending_[shard].shard = shard;
      shufflers_.emplace_back(Shuffler(assignment_.seed ^ (shard << 32u)).below(~std::uint64_t{0}));
    }
  }

  // Nothing when all were given.
  std::optional<Block> next() {
    const std::lock_guard lock(mutex_);
    for (; row_ < rows_; ++row_) {
      const std::size_t shard =
          assignment_.shard_of.empty() ? 0 : assignment_.shard_of[static_cast<std::size_t>(row_)];
      pending_[shard].rows.push_back(row_);
      if (pending_[shard].rows.size() < block_) continue;
      ++row_;
      return take(shard);
    }
    for (; rest_ < pending_.size(); ++rest_) {
      if (!pending_[rest_].rows.empty()) return take(rest_);
    }
    return std::nullopt;
  }

 private:
  Block take(std::size_t shard) {
    Block& pending = pending_[shard];
    if (!assignment_.shard_of.empty()) shufflers_[shard].shuffle(std::span(pending.rows));
    Block block = std::move(pending);
    pending = {.shard = shard,
               .number = block.number + 1,
               .first = block.first + static_cast<std::int64_t>(block.rows.size()),
               .rows = {}};
    return block;
  }

  const Assignment& assignment_;
  const std::int64_t rows_;
  const std::size_t block_;
  std::mutex mutex_;
  std::vector<Block> pending_;       // guarded by mutex_
  std::vector<Shuffler> shufflers_;  // guarded by mutex_
  std::int64_t row_ = 0;             // guarded by mutex_
  std::size_t rest_ = 0;             // guarded by mutex_
};

std::vector<std::int64_t> withRows(std::int64_t rows, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> whole{rows};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return whole;
}

template <typename T>
void putNumber(double number, std::byte* at) {
  const T value = static_cast<T>(number);
  std::memcpy(at, &value, sizeof value);
}

// A label as its file had it. Halves stay as they are in float32, which holds them all.
void putLabel(format::DType type, double label, std::byte* at) {
  using format::DType;
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return putNumber<std::uint8_t>(label, at);
    case DType::kI8:
      return putNumber<std::int8_t>(label, at);
    case DType::kU16:
      return putNumber<std::uint16_t>(label, at);
    case DType::kI16:
      return putNumber<std::int16_t>(label, at);
    case DType::kU32:
      return putNumber<std::uint32_t>(label, at);
    case DType::kI32:
      return putNumber<std::int32_t>(label, at);
    case DType::kU64:
      return putNumber<std::uint64_t>(label, at);
    case DType::kI64:
      return putNumber<std::int64_t>(label, at);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return putNumber<float>(label, at);
    case DType::kF64:
      return putNumber<double>(label, at);
  }
}

format::DType writtenType(format::DType label) {
  using format::DType;
  return label == DType::kF16 || label == DType::kBF16 ? DType::kF32 : label;
}

// The checksums of a file's blocks, which are made in any order.
class BlockSums {
 public:
  void set(std::size_t number, std::uint32_t sum, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (number >= sums_.size()) sums_.resize(number + 1);
    sums_[number] = {sum, bytes};
  }
  // Of all of them in their order, when no thread sets one any more.
  std::uint32_t joined() const {
    std::uint32_t joined = 0;
    for (const auto& [sum, bytes] : sums_) joined = format::joinCrc32(joined, sum, bytes);
    return joined;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> sums_;  // guarded by mutex_
};

// One split into every file, in several threads.
class SplitWriter {
 public:
  // `to_all`: every file gets all rows; else as they are assigned.
  SplitWriter(const format::Split& split, const Assignment& assignment, Writers& writers,
              bool to_all, const Progress& progress)
      : split_(split),
        arrays_(split.arrays()),
        assignment_(assignment),
        writers_(writers),
        to_all_(to_all),
        progress_(progress) {}

  Status write(const std::string& samples, const std::string& labels,
               const std::vector<std::int64_t>& sizes) {
    auto wrote = writeArray(arrays_.samples.empty() ? samples : arrays_.samples,
                            split_.sampleType(), arrays_.sample_shape, sizes, split_.sampleBytes(),
                            [this](std::span<const std::int64_t> rows, std::byte* out) {
                              return split_.readSamples(rows, out);
                            });
    if (!wrote) return wrote;
    const format::DType type = writtenType(arrays_.label_type);
    const std::size_t width = format::sizeOf(type);
    return writeArray(arrays_.labels.empty() ? labels : arrays_.labels, type, arrays_.label_shape,
                      sizes, width,
                      [&](std::span<const std::int64_t> rows, std::byte* out) -> Status {
                        std::vector<double> numbers(rows.size());
                        if (auto read = split_.readLabels(rows, numbers.data()); !read) return read;
                        for (const double number : numbers) {
                          putLabel(type, number, out);
                          out += width;
                        }
                        return {};
                      });
  }

 private:
  // Samples and labels in the same order: blocks are cut by the size of samples for both.
  template <typename Read>
  Status writeArray(const std::string& name, format::DType type,
                    const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& sizes,
                    std::size_t row_bytes, Read read) {
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      auto begun = writers_[i].begin(name, type, withRows(sizes[i], shape));
      if (!begun) return begun;
    }
    const std::size_t shards = to_all_ ? 1 : writers_.size();
    Blocks blocks(assignment_, split_.size(), shards, split_.sampleBytes());
    std::vector<BlockSums> sums(shards);
    auto wrote = forEachInParallel(threadCount(), [&](std::size_t) -> Status {
      std::vector<std::byte> buffer;
      while (const auto block = blocks.next()) {
        buffer.resize(block->rows.size() * row_bytes);
        if (auto got = read(std::span(block->rows), buffer.data()); !got) return got;
        sums[block->shard].set(block->number, format::crc32Of(buffer), buffer.size());
        const auto at = static_cast<std::uint64_t>(block->first) * row_bytes;
        if (auto kept = put(block->shard, at, buffer); !kept) return kept;
      }
      return {};
    });
    if (!wrote) return wrote;
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      auto ended = writers_[i].endNumbers(sums[to_all_ ? 0 : i].joined());
      if (!ended) return ended;
    }
    return {};
  }

  Status put(std::size_t shard, std::uint64_t at, std::span<const std::byte> bytes) {
    const std::size_t first = to_all_ ? 0 : shard;
    const std::size_t last = to_all_ ? writers_.size() : shard + 1;
    for (std::size_t i = first; i < last; ++i) {
      if (auto wrote = writers_[i].writeAt(at, bytes); !wrote) return wrote;
      if (auto goes_on = progress_(bytes.size()); !goes_on) return goes_on;
    }
    return {};
  }

  const format::Split& split_;
  const format::SplitArrays arrays_;
  const Assignment& assignment_;
  Writers& writers_;
  const bool to_all_;
  const Progress& progress_;
};

// The members of a .npz file that are none of the data set's arrays.
Status writeOthers(const format::Dataset& dataset, const format::FileBytes& source,
                   Writers& writers) {
  std::vector<std::string> taken{"class_names.npy"};
  if (dataset.class_names.empty()) taken.clear();
  for (const format::Split* split : {dataset.train.get(), dataset.test.get()}) {
    if (split == nullptr) continue;
    const format::SplitArrays arrays = split->arrays();
    for (const std::string& name : {arrays.samples, arrays.labels}) {
      taken.push_back(name);
      taken.push_back(name + ".npy");
    }
  }
  const auto members = format::readZipDirectory(source);
  if (!members) return members.error();
  for (const format::ZipMember& member : *members) {
    if (std::find(taken.begin(), taken.end(), member.name) != taken.end()) continue;
    const auto packed = format::packedBytes(source, member);
    if (!packed) return packed.error();
    for (format::NpzWriter& writer : writers) {
      if (auto wrote = writer.addPacked(member, packed->bytes); !wrote) return wrote;
    }
  }
  return {};
}

}  // namespace

Status writeSets(const format::Dataset& dataset, const std::vector<std::string>& paths,
                 const Assignment& assignment, const format::FileBytes* source,
                 const Progress& progress) {
  Writers writers;
  for (const std::string& path : paths) {
    auto writer = format::NpzWriter::create(path);
    if (!writer) return std::move(writer).error();
    writers.push_back(*std::move(writer));
  }
  const std::int64_t rows = dataset.train->size();
  std::vector<std::int64_t> sizes(paths.size(), assignment.shard_of.empty() ? rows : 0);
  for (const ShardNumber shard : assignment.shard_of) ++sizes.at(shard);
  SplitWriter train(*dataset.train, assignment, writers, false, progress);
  if (auto wrote = train.write("x_train", "y_train", sizes); !wrote) return wrote;
  if (dataset.test) {
    const Assignment whole;
    const std::vector<std::int64_t> all(paths.size(), dataset.test->size());
    SplitWriter test(*dataset.test, whole, writers, true, progress);
    if (auto wrote = test.write("x_test", "y_test", all); !wrote) return wrote;
  }
  for (format::NpzWriter& writer : writers) {
    if (dataset.class_names.empty()) break;
    auto wrote = writer.addTexts("class_names", dataset.class_names);
    if (!wrote) return wrote;
  }
  if (source != nullptr) {
    if (auto wrote = writeOthers(dataset, *source, writers); !wrote) return wrote;
  }
  return forEachInParallel(writers.size(),
                           [&](std::size_t number) { return writers[number].finish(); });
}

std::uint64_t bytesToWrite(const format::Dataset& dataset, std::size_t files) {
  const auto bytes_of = [](const format::Split& split) {
    const std::size_t label = format::sizeOf(writtenType(split.arrays().label_type));
    return static_cast<std::uint64_t>(split.size()) * (split.sampleBytes() + label);
  };
  return bytes_of(*dataset.train) + (dataset.test ? bytes_of(*dataset.test) * files : 0);
}

}  // namespace dure::copy
