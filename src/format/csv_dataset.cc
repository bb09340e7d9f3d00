#include "format/csv_dataset.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "format/csv_split.h"
#include "format/csv_table.h"
#include "format/inflate.h"

namespace dure::format {
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

// The names of the classes, sorted.
Result<std::vector<std::string>> findClasses(const CsvTable& table, std::size_t label) {
  std::set<std::string> names;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    auto read = table.readRow(row, [&](std::size_t column, const CsvField& field) -> Status {
      if (column == label) names.insert(field.text());
      if (names.size() <= kMaxClasses) return {};
      return table.wrong(row, label,
                         fmt::format("more than {} different texts are no classes", kMaxClasses));
    });
    if (!read) return std::move(read).error();
  }
  return std::vector<std::string>(names.begin(), names.end());
}

// A table with what is known of it.
struct Checked {
  CsvTable table;
  CsvColumns columns;
  CsvContent content;
};

Result<Checked> checkTable(const FileBytes& file, const DatasetOptions& options) {
  auto table = CsvTable::open(file);
  if (!table) return std::move(table).error();
  auto columns = chooseColumns(*table, options);
  if (!columns) return std::move(columns).error();
  const auto content = checkCells(*table, *columns);
  if (!content) return content.error();
  return Checked{*std::move(table), *std::move(columns), *content};
}

constexpr const char* kEndings[] = {".csv", ".csv.gz", ".tsv", ".tsv.gz"};

// The file of a split in a directory: NAME.csv and the like, or NAME itself.
std::string findFile(const std::string& directory, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::string path = fmt::format("{}/{}", directory, name);
    for (const char* ending : kEndings) {
      if (fileExists(path + ending)) return path + ending;
    }
    if (isCsvName(path) && fileExists(path)) return path;
  }
  return "";
}

Result<FileBytes> openFile(const std::string& path) {
  auto file = mapFile(path);
  if (!file || !isGzip(*file)) return file;
  return inflateGzip(*file);
}

}  // namespace

bool isCsvName(const std::string& path) {
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return path.ends_with(ending); });
}

bool looksLikeCsv(const std::string& directory) {
  const auto files = listDirectory(directory);
  return std::any_of(files.begin(), files.end(), isCsvName);
}

Result<Source> openCsvFiles(const FileBytes& train, const FileBytes* test,
                            const DatasetOptions& options) {
  auto learned = checkTable(train, options);
  if (!learned) return std::move(learned).error();
  Source source;
  if (!learned->content.number_labels) {
    auto names = findClasses(learned->table, learned->columns.label);
    if (!names) return std::move(names).error();
    source.class_names = *std::move(names);
  }
  CsvClasses classes;
  for (const std::string& name : source.class_names) classes.emplace(name, classes.size());
  if (test != nullptr) {
    auto tested = checkTable(*test, options);
    if (!tested) return std::move(tested).error();
    const auto& header = learned->table.header();
    const auto& test_header = tested->table.header();
    if (!header.empty() && !test_header.empty() && header != test_header) {
      return Error(Code::kInvalid,
                   fmt::format("{}: the columns are not those of {}: {} instead of {}", test->name,
                               train.name, join(test_header, ", "), join(header, ", ")));
    }
    auto made = makeCsvSplit(std::move(tested->table), std::move(tested->columns), tested->content,
                             classes);
    if (!made) return std::move(made).error();
    source.test = *std::move(made);
  }
  auto made = makeCsvSplit(std::move(learned->table), std::move(learned->columns), learned->content,
                           classes);
  if (!made) return std::move(made).error();
  source.train = *std::move(made);
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
  const auto train = openFile(train_path);
  if (!train) return train.error();
  if (test_path.empty()) return openCsvFiles(*train, nullptr, options);
  const auto test = openFile(test_path);
  if (!test) return test.error();
  return openCsvFiles(*train, &*test, options);
}

}  // namespace dure::format
