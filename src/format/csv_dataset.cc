#include "format/csv_dataset.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "format/csv_split.h"
#include "format/csv_table.h"

namespace dure {
namespace {

constexpr std::size_t kMaxClasses = 65536;

// The number of the column called `wanted`: by its title, or, in a file without titles, by its
// place counted from 1.
Result<std::size_t> columnNumber(const CsvTable& table, const std::string& wanted) {
  const auto& header = table.header();
  const auto found = std::find(header.begin(), header.end(), wanted);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  std::size_t place = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), place);
  const bool number = error == std::errc() && end == wanted.data() + wanted.size();
  if (header.empty() && number && place >= 1 && place <= table.columns()) return place - 1;
  return Error(Code::kNotFound,
               fmt::format("{}: there is no column '{}'{}", table.name(), wanted,
                           header.empty() ? "; the columns have no titles, only numbers from 1"
                                          : "; there is " + join(header, ", ")));
}

Result<std::size_t> findLabel(const CsvTable& table, const std::string& wanted) {
  if (!wanted.empty()) return columnNumber(table, wanted);
  for (const char* usual : {"label", "labels", "class", "target", "y"}) {
    const auto& header = table.header();
    const auto found = std::find(header.begin(), header.end(), usual);
    if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  }
  return table.columns() - 1;
}

Result<CsvColumns> chooseColumns(const CsvTable& table, const DatasetOptions& options) {
  CsvColumns columns;
  const auto label = findLabel(table, options.labels);
  if (!label) return label.error();
  columns.label = *label;
  if (!options.samples.empty()) {
    for (const std::string& title : split(options.samples, ',')) {
      const auto column = columnNumber(table, title);
      if (!column) return column.error();
      columns.samples.push_back(*column);
    }
    // Rows are read in the order of the file.
    std::sort(columns.samples.begin(), columns.samples.end());
    columns.samples.erase(std::unique(columns.samples.begin(), columns.samples.end()),
                          columns.samples.end());
  } else {
    for (std::size_t i = 0; i < table.columns(); ++i) {
      if (i != columns.label) columns.samples.push_back(i);
    }
  }
  if (columns.samples.empty()) {
    return Error(Code::kInvalid, table.name() + ": there is no column beside the labels");
  }
  return columns;
}

// Calls `take` with the label of each row, until it says false.
Status eachLabel(const CsvTable& table, std::size_t label,
                 const std::function<Result<bool>(std::int64_t row, const CsvField&)>& take) {
  bool more = true;
  for (std::int64_t row = 0; row < table.rows() && more; ++row) {
    auto read = table.readRow(row, [&](std::size_t column, const CsvField& field) -> Status {
      if (column != label) return {};
      auto taken = take(row, field);
      if (!taken) return std::move(taken).error();
      more = *taken;
      return {};
    });
    if (!read) return read;
  }
  return {};
}

// The classes, sorted, if one label is not a number; else none.
Result<std::vector<std::string>> findClasses(const CsvTable& table, std::size_t label) {
  bool numbers = true;
  auto looked = eachLabel(table, label, [&](std::int64_t, const CsvField& field) -> Result<bool> {
    numbers = field.number().has_value();
    return numbers;
  });
  if (!looked) return std::move(looked).error();
  std::set<std::string> names;
  if (numbers) return std::vector<std::string>();
  auto collected =
      eachLabel(table, label, [&](std::int64_t row, const CsvField& field) -> Result<bool> {
        names.insert(field.text());
        if (names.size() <= kMaxClasses) return true;
        return table.wrong(row, label,
                           fmt::format("more than {} different texts are no classes", kMaxClasses));
      });
  if (!collected) return std::move(collected).error();
  return std::vector<std::string>(names.begin(), names.end());
}

// The file of a split in a directory: NAME.csv, or NAME itself.
std::string findFile(const std::string& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const char* ending : {".csv", ""}) {
      std::string path = fmt::format("{}/{}{}", directory, name, ending);
      if (path.ends_with(".csv") && fileExists(path)) return path;
    }
  }
  return "";
}

}  // namespace

bool looksLikeCsv(const std::string& directory) {
  const auto files = listDirectory(directory);
  return std::any_of(files.begin(), files.end(),
                     [](const std::string& file) { return file.ends_with(".csv"); });
}

Result<Source> openCsvFiles(const FileBytes& train, const FileBytes* test,
                            const DatasetOptions& options) {
  auto table = CsvTable::open(train);
  if (!table) return std::move(table).error();
  auto columns = chooseColumns(*table, options);
  if (!columns) return std::move(columns).error();
  auto names = findClasses(*table, columns->label);
  if (!names) return std::move(names).error();
  CsvClasses classes;
  for (const std::string& name : *names) classes.emplace(name, classes.size());
  Source source;
  if (test != nullptr) {
    auto test_table = CsvTable::open(*test);
    if (!test_table) return std::move(test_table).error();
    auto test_columns = chooseColumns(*test_table, options);
    if (!test_columns) return std::move(test_columns).error();
    const bool titled = !table->header().empty() && !test_table->header().empty();
    if (titled && table->header() != test_table->header()) {
      return Error(
          Code::kInvalid,
          fmt::format("{}: the columns are not those of {}: {} instead of {}", test->name,
                      train.name, join(test_table->header(), ", "), join(table->header(), ", ")));
    }
    auto made = makeCsvSplit(*std::move(test_table), *std::move(test_columns), classes);
    if (!made) return std::move(made).error();
    source.test = *std::move(made);
  }
  auto made = makeCsvSplit(*std::move(table), *std::move(columns), classes);
  if (!made) return std::move(made).error();
  source.train = *std::move(made);
  source.class_names = *std::move(names);
  return source;
}

Result<Source> openCsv(const DatasetOptions& options) {
  std::string train_path = options.path;
  std::string test_path;
  if (isDirectory(options.path)) {
    train_path = findFile(options.path, trainNames(options));
    test_path = findFile(options.path, testNames(options));
    if (train_path.empty()) {
      return Error(Code::kNotFound,
                   fmt::format("{}: there is no {}.csv", options.path, trainNames(options)[0]));
    }
  }
  const auto train = mapFile(train_path);
  if (!train) return train.error();
  if (test_path.empty()) return openCsvFiles(*train, nullptr, options);
  const auto test = mapFile(test_path);
  if (!test) return test.error();
  return openCsvFiles(*train, &*test, options);
}

}  // namespace dure
