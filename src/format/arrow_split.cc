#include "format/arrow_split.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "format/arrow_cells.h"
#include "format/inflate.h"

namespace dure::format {
namespace {

// What the images of a data set may unpack to, however small its files are.
constexpr std::size_t kMostUnpacked = std::size_t{64} << 20u;

// The wanted column, or the first of the usual ones that is there.
Result<std::size_t> findColumn(const ArrowSchema& schema, const std::string& wanted,
                               const std::vector<std::string>& usual, const char* what) {
  const std::vector<std::string> names = wanted.empty() ? usual : std::vector{wanted};
  std::vector<std::string> there;
  for (const ArrowField& field : schema.fields) there.push_back(field.name);
  for (const std::string& name : names) {
    const auto found = std::find(there.begin(), there.end(), name);
    if (found != there.end()) return static_cast<std::size_t>(found - there.begin());
  }
  return Error(Code::kNotFound, fmt::format("no column of {} named {}; there is {}", what,
                                            join(names, ", "), join(there, ", ")));
}

Result<std::size_t> sampleColumn(const ArrowSchema& schema, const DatasetOptions& options) {
  return findColumn(schema, options.samples,
                    {"image", "img", "pixel_values", "input_ids", "x", "features", "data"},
                    "samples");
}

// The chosen columns of one batch.
struct Chunk {
  std::int64_t first_row = 0;          // of the split
  std::int64_t first_row_in_file = 0;  // for messages, as are the next two
  std::size_t file = 0;
  std::size_t offset = 0;
  ArrowColumn samples;
  ArrowColumn labels;
};

class ArrowSplit : public SourceSplit {
 public:
  ArrowSplit(std::string name, ArrowField samples, ArrowField labels)
      : name_(std::move(name)),
        sample_field_(std::move(samples)),
        label_field_(std::move(labels)) {}

  void add(FileBytes file, std::vector<Chunk> chunks, std::int64_t size) {
    for (Chunk& chunk : chunks) chunk.file = files_.size();
    files_.push_back(std::move(file));
    std::move(chunks.begin(), chunks.end(), std::back_inserter(chunks_));
    size_ = size;
  }

  // Takes type and shape from the first row.
  Status begin() {
    if (chunks_.empty()) return {};
    auto type = cellType(sample_field_, chunks_[0].samples, 0);
    if (!type) return inColumn(std::move(type).error(), 0, sample_field_);
    type_ = *std::move(type);
    if (auto set = setSamples(type_.dtype, type_.shape); !set)
      return inColumn(std::move(set).error(), 0, sample_field_);
    return checkRatio();
  }

  std::int64_t size() const override { return size_; }
  std::string name() const override { return name_; }
  // The file of the row, its message, and its number there: a split may be of many files.
  std::string whereIs(std::int64_t row) const override {
    const Chunk& chunk = chunkOf(row);
    return fmt::format("{}: in the batch at offset {}: row {}", files_[chunk.file].name,
                       chunk.offset, row - chunk.first_row + chunk.first_row_in_file);
  }
  bool integerLabels() const override { return !isFloat(label_field_.dtype); }

  Status readSamples(std::span<const std::int64_t> rows, std::byte* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    for (const std::int64_t row : rows) {
      const Chunk& chunk = chunkOf(row);
      auto read = readCell(sample_field_, chunk.samples, row - chunk.first_row, type_, out);
      if (!read) return inColumn(std::move(read).error(), row, sample_field_);
      out += sampleBytes();
    }
    return {};
  }

  Status readLabels(std::span<const std::int64_t> rows, double* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    for (const std::int64_t row : rows) {
      const Chunk& chunk = chunkOf(row);
      auto label = readLabel(label_field_, chunk.labels, row - chunk.first_row);
      if (!label) return inColumn(std::move(label).error(), row, label_field_);
      *out++ = *label;
    }
    return {};
  }

 private:
  // Only the first row was looked at, and an image says of itself how large it is: whatever the
  // rows turn out to be, there is room for them.
  Status checkRatio() const {
    std::size_t bytes = 0;
    for (const FileBytes& file : files_) bytes += file.size();
    const std::size_t most = std::max(kMostUnpacked, bytes * kBestDeflateRatio);
    if (sampleBytes() <= most / static_cast<std::size_t>(size_)) return {};
    return Error(
        Code::kInvalid,
        fmt::format("{}: {} rows of {} bytes, as the first one has, are more than {} bytes "
                    "of Arrow can hold",
                    name_, size_, sampleBytes(), bytes));
  }

  Error inColumn(Error error, std::int64_t row, const ArrowField& field) const {
    return std::move(error).during(fmt::format("{}: '{}'", whereIs(row), field.name));
  }

  const Chunk& chunkOf(std::int64_t row) const {
    const auto after =
        std::upper_bound(chunks_.begin(), chunks_.end(), row,
                         [](std::int64_t at, const Chunk& chunk) { return at < chunk.first_row; });
    return *(after - 1);
  }

  const std::string name_;
  const ArrowField sample_field_;
  const ArrowField label_field_;
  std::vector<FileBytes> files_;  // what the chunks are views of
  std::vector<Chunk> chunks_;
  std::int64_t size_ = 0;
  CellType type_;
};

}  // namespace

Result<std::size_t> labelColumn(const ArrowSchema& schema, const DatasetOptions& options) {
  return findColumn(schema, options.labels, {"label", "labels", "y", "target", "targets"},
                    "labels");
}

Result<std::unique_ptr<SourceSplit>> makeArrowSplit(const std::string& name,
                                                    std::vector<ArrowFile> files,
                                                    const DatasetOptions& options) {
  std::unique_ptr<ArrowSplit> split;
  ArrowField sample_field;
  ArrowField label_field;
  std::int64_t rows = 0;
  for (ArrowFile& file : files) {
    const auto samples = sampleColumn(file.schema, options);
    if (!samples) return Error(samples.error()).during(file.file.name);
    const auto labels = labelColumn(file.schema, options);
    if (!labels) return Error(labels.error()).during(file.file.name);
    const ArrowField& sample_here = file.schema.fields[*samples];
    const ArrowField& label_here = file.schema.fields[*labels];
    if (!split) {
      sample_field = sample_here;
      label_field = label_here;
      if (!isLabelColumn(label_field)) {
        return Error(Code::kInvalid,
                     fmt::format("{}: column '{}' is {}; labels must be numbers", file.file.name,
                                 label_field.name, label_field.describe()));
      }
      split = std::make_unique<ArrowSplit>(name, sample_field, label_field);
    } else if (!sample_here.sameType(sample_field) || !label_here.sameType(label_field)) {
      return Error(Code::kInvalid,
                   file.file.name + ": the columns are of other types than in the files before it");
    }
    std::vector<Chunk> chunks;
    const std::int64_t before = rows;
    for (ArrowBatch& batch : file.batches) {
      chunks.push_back({.first_row = rows,
                        .first_row_in_file = rows - before,
                        .offset = batch.offset,
                        .samples = batch.columns[*samples],
                        .labels = batch.columns[*labels]});
      rows += batch.rows;
    }
    split->add(std::move(file.file), std::move(chunks), rows);
  }
  if (!split) return Error(Code::kInvalid, name + ": there are no Arrow files");
  if (auto begun = split->begin(); !begun) return std::move(begun).error();
  return std::unique_ptr<SourceSplit>(std::move(split));
}

}  // namespace dure::format
