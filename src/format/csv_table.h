#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

// A field as it lies in the file, without the quotes around it.
struct CsvField {
  std::string_view raw;
  bool doubled = false;  // quotes inside it are doubled

  std::string text() const;
  // None if it is anything but one number, spaces around it aside.
  std::optional<double> number() const;
  // A number with a point or an exponent: 68.0, 1e3.
  bool decimal() const { return raw.find_first_of(".eE") != std::string_view::npos; }
};

// Lines of fields with commas between them, as RFC 4180 has them: fields may stand in quotes, and
// then hold commas, line ends and doubled quotes. Semicolons or tabs may take the place of commas:
// what the first line has most of separates. Empty lines are skipped. Where the rows begin is
// kept, 8 bytes each; everything else stays in the file and is read when it is asked for. Constant
// after opening.
class CsvTable {
 public:
  static Result<CsvTable> open(FileBytes file);

  const std::string& name() const { return file_.name; }
  // The first row, if not all of it is numbers; else empty.
  const std::vector<std::string>& header() const { return header_; }
  std::size_t columns() const { return columns_; }
  std::int64_t rows() const { return static_cast<std::int64_t>(starts_.size()); }

  // Calls `take` for each column of the row. Invalid if the row has more or fewer than the first.
  using Take = std::function<Status(std::size_t column, const CsvField& field)>;
  Status readRow(std::int64_t row, const Take& take) const;

  // "train.csv:12: column 3 ('age'): WHAT".
  Error wrong(std::int64_t row, std::size_t column, const std::string& what) const;
  // Counted from 1, as editors do.
  std::int64_t line(std::int64_t row) const;

 private:
  explicit CsvTable(FileBytes file) : file_(std::move(file)) {}
  void findSeparator(std::size_t at);
  Status findRows();
  Status takeHeader();

  FileBytes file_;
  std::vector<std::uint64_t> starts_;
  std::vector<std::string> header_;
  std::size_t columns_ = 0;
  char separator_ = ',';
};

}  // namespace dure::format
