#include "format/csv_split.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::format {
namespace {

constexpr std::size_t kMaxShown = 40;

// The field for a message: a start of it, if it is long.
std::string shown(const CsvField& field) {
  const std::string text = toValidUtf8(field.text());
  return "'" + (text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "…") + "'";
}

// What a cell of the samples is, or why it cannot be one.
Result<float> sampleOf(const CsvField& field) {
  const auto number = field.number();
  if (!number) return Error(Code::kInvalid, shown(field) + " is not a number");
  if (!std::isfinite(*number))
    return Error(Code::kInvalid, shown(field) + " is not a finite number");
  if (std::abs(*number) > std::numeric_limits<float>::max())
    return Error(Code::kInvalid, shown(field) + " is beyond what float32 holds");
  return static_cast<float>(*number);
}

std::vector<bool> samplesAmong(const CsvTable& table, const CsvColumns& columns) {
  std::vector<bool> is_sample(table.columns());
  for (const std::size_t column : columns.samples) is_sample[column] = true;
  return is_sample;
}

class CsvSplit : public SourceSplit {
 public:
  // With class numbers, labels are texts.
  CsvSplit(CsvTable table, CsvColumns columns, const CsvContent& content, CsvClasses classes)
      : table_(std::move(table)),
        columns_(std::move(columns)),
        content_(content),
        classes_(std::move(classes)),
        is_sample_(samplesAmong(table_, columns_)) {}

  Status begin() {
    return setSamples(DType::kF32, {static_cast<std::int64_t>(columns_.samples.size())});
  }

  std::int64_t size() const override { return table_.rows(); }
  std::string name() const override { return table_.name(); }
  std::string rowName(std::int64_t row) const override {
    return fmt::format("line {}", table_.line(row));
  }
  bool integerLabels() const override { return !classes_.empty(); }
  bool decimalLabels() const override { return content_.decimal_labels; }

  Status readSamples(std::span<const std::int64_t> rows, std::byte* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    for (const std::int64_t row : rows) {
      auto read = table_.readRow(row, [&](std::size_t column, const CsvField& field) -> Status {
        if (!is_sample_[column]) return {};
        const auto value = sampleOf(field);
        if (!value) return table_.wrong(row, column, value.error().message());
        std::memcpy(out, &*value, sizeof(float));
        out += sizeof(float);
        return {};
      });
      if (!read) return read;
    }
    return {};
  }

  Status readLabels(std::span<const std::int64_t> rows, double* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    for (const std::int64_t row : rows) {
      auto read = table_.readRow(row, [&](std::size_t column, const CsvField& field) -> Status {
        if (column != columns_.label) return {};
        return readLabel(row, field, *out);
      });
      if (!read) return read;
      ++out;
    }
    return {};
  }

 private:
  Status readLabel(std::int64_t row, const CsvField& field, double& out) const {
    if (classes_.empty()) {
      const auto number = field.number();
      if (!number) return table_.wrong(row, columns_.label, shown(field) + " is not a number");
      out = *number;
      return {};
    }
    const auto found = field.doubled ? classes_.find(field.text()) : classes_.find(field.raw);
    if (found == classes_.end()) {
      return table_.wrong(row, columns_.label, shown(field) + " is no class of the training data");
    }
    out = found->second;
    return {};
  }

  const CsvTable table_;
  const CsvColumns columns_;
  const CsvContent content_;
  const CsvClasses classes_;
  const std::vector<bool> is_sample_;
};

}  // namespace

Result<CsvContent> checkCells(const CsvTable& table, const CsvColumns& columns) {
  CsvContent content;
  const std::vector<bool> is_sample = samplesAmong(table, columns);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    auto read = table.readRow(row, [&](std::size_t column, const CsvField& field) -> Status {
      if (is_sample[column]) {
        if (const auto value = sampleOf(field); !value)
          return table.wrong(row, column, value.error().message());
      }
      if (column != columns.label) return {};
      if (field.raw.empty()) return table.wrong(row, column, "the label is missing");
      const bool number = field.number().has_value();
      content.number_labels = content.number_labels && number;
      content.decimal_labels = content.decimal_labels || (number && field.decimal());
      return {};
    });
    if (!read) return std::move(read).error();
  }
  return content;
}

Result<std::unique_ptr<SourceSplit>> makeCsvSplit(CsvTable table, CsvColumns columns,
                                                  const CsvContent& content, CsvClasses classes) {
  auto split =
      std::make_unique<CsvSplit>(std::move(table), std::move(columns), content, std::move(classes));
  if (auto begun = split->begin(); !begun) return std::move(begun).error().during(split->name());
  return std::unique_ptr<SourceSplit>(std::move(split));
}

}  // namespace dure::format
