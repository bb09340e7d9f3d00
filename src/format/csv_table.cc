#include "format/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/core.h>

namespace dure::format {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::int64_t lineAt(std::string_view text, std::size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + std::count(text.begin(), end, '\n');
}

// Reads the fields of one row, one by one.
class RowScanner {
 public:
  RowScanner(std::string_view text, std::size_t at, char separator)
      : text_(text), at_(at), separator_(separator) {}

  bool more() const { return more_; }
  // Behind the row's end, once there are no more.
  std::size_t position() const { return at_; }

  // Nothing if the field is broken; fault() says how.
  std::optional<CsvField> next() {
    CsvField field;
    if (at_ < text_.size() && text_[at_] == '"') {
      if (!quoted(field)) return std::nullopt;
    } else {
      const char ends[] = {separator_, '\n'};
      const std::size_t end = std::min(text_.find_first_of(ends, at_, sizeof ends), text_.size());
      field.raw = text_.substr(at_, end - at_);
      at_ = end;
      if (atLineEnd() && field.raw.ends_with('\r')) field.raw.remove_suffix(1);
    }
    more_ = at_ < text_.size() && text_[at_] == separator_;
    if (at_ < text_.size()) ++at_;
    return field;
  }

  const char* fault() const { return fault_; }

 private:
  bool atLineEnd() const { return at_ >= text_.size() || text_[at_] == '\n'; }

  bool quoted(CsvField& field) {
    const std::size_t begin = ++at_;
    while (true) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        fault_ = "a quote is never closed";
        return false;
      }
      at_ = quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') break;
      field.doubled = true;
      ++at_;
    }
    field.raw = text_.substr(begin, at_ - 1 - begin);
    if (text_.substr(at_).starts_with("\r\n")) ++at_;
    if (!atLineEnd() && text_[at_] != separator_) {
      fault_ = "there is more behind a closing quote";
      return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_;
  const char separator_;
  bool more_ = true;
  const char* fault_ = "";
};

}  // namespace

std::string CsvField::text() const {
  if (!doubled) return std::string(raw);
  std::string plain;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    plain += raw[i];
    if (raw[i] == '"') ++i;
  }
  return plain;
}

std::optional<double> CsvField::number() const {
  std::string_view digits = raw;
  const std::size_t first = digits.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  digits = digits.substr(first, digits.find_last_not_of(" \t") - first + 1);
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  // Too large or too small for a double is still a number: infinite, or zero.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(digits).c_str(), nullptr);
  if (error != std::errc()) return std::nullopt;
  return value;
}

Result<CsvTable> CsvTable::open(FileBytes file) {
  CsvTable table(std::move(file));
  if (auto found = table.findRows(); !found) return std::move(found).error();
  if (table.starts_.empty()) return Error(Code::kInvalid, table.name() + ": there are no rows");
  if (auto taken = table.takeHeader(); !taken) return std::move(taken).error();
  return table;
}

void CsvTable::findSeparator(std::size_t at) {
  const std::string_view text = file_.text();
  constexpr std::string_view kKnown = ",;\t";
  std::size_t found[kKnown.size()] = {};
  bool quoted = false;
  for (; at < text.size() && (quoted || text[at] != '\n'); ++at) {
    if (text[at] == '"') quoted = !quoted;
    const std::size_t kind = quoted ? std::string_view::npos : kKnown.find(text[at]);
    if (kind != std::string_view::npos) ++found[kind];
  }
  // Of equally many the last: commas may also stand in numbers and titles.
  for (std::size_t i = 0, most = 1; i < kKnown.size(); ++i) {
    if (found[i] < most) continue;
    most = found[i];
    separator_ = kKnown[i];
  }
}

Status CsvTable::findRows() {
  const std::string_view text = file_.text();
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.empty() || line == "\r") {
      at = end + 1;
      continue;
    }
    if (starts_.empty()) findSeparator(at);
    starts_.push_back(at);
    // Only a row with quotes can be longer than a line.
    if (line.find('"') == std::string_view::npos) {
      at = end + 1;
      continue;
    }
    RowScanner scanner(text, at, separator_);
    while (scanner.more()) {
      if (!scanner.next()) {
        return Error(Code::kInvalid,
                     fmt::format("{}:{}: {}", name(), lineAt(text, at), scanner.fault()));
      }
    }
    at = scanner.position();
  }
  return {};
}

Status CsvTable::takeHeader() {
  RowScanner scanner(file_.text(), starts_[0], separator_);
  bool numbers = true;
  std::vector<std::string> first;
  while (scanner.more()) {
    const auto field = scanner.next();
    if (!field) return wrong(0, first.size(), scanner.fault());
    numbers = numbers && field->number();
    first.push_back(field->text());
  }
  columns_ = first.size();
  if (numbers) return {};
  header_ = std::move(first);
  starts_.erase(starts_.begin());
  return {};
}

Status CsvTable::readRow(std::int64_t row, const Take& take) const {
  RowScanner scanner(file_.text(), starts_[static_cast<std::size_t>(row)], separator_);
  std::size_t column = 0;
  for (; scanner.more(); ++column) {
    const auto field = scanner.next();
    if (!field) return wrong(row, column, scanner.fault());
    // The rest is counted only, for the message below.
    if (column >= columns_) continue;
    if (auto taken = take(column, *field); !taken) return taken;
  }
  if (column == columns_) return {};
  return Error(Code::kInvalid, fmt::format("{}:{}: there are {} columns but the first row has {}",
                                           name(), line(row), column, columns_));
}

Error CsvTable::wrong(std::int64_t row, std::size_t column, const std::string& what) const {
  const std::string title = column < header_.size() ? " ('" + header_[column] + "')" : "";
  return Error(Code::kInvalid,
               fmt::format("{}:{}: column {}{}: {}", name(), line(row), column + 1, title, what));
}

std::int64_t CsvTable::line(std::int64_t row) const {
  return lineAt(file_.text(), starts_[static_cast<std::size_t>(row)]);
}

}  // namespace dure::format
