#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/csv_table.h"
#include "format/dataset_source.h"

namespace dure::format {

// Which columns of a table are what.
struct CsvColumns {
  std::size_t label = 0;
  std::vector<std::size_t> samples;
};

// What the cells of a table are.
struct CsvContent {
  bool number_labels = true;    // else they are names of classes
  bool decimal_labels = false;  // one is written as 68.0
};

// Goes through all cells once. Invalid, naming line and column, where one of the samples is not a
// finite number, a label is missing, or a row has other columns.
Result<CsvContent> checkCells(const CsvTable& table, const CsvColumns& columns);

// The number of each class whose label is a text.
using CsvClasses = std::map<std::string, double, std::less<>>;

// The rows of the table: float32 samples; labels that are numbers, or, with classes, texts.
Result<std::unique_ptr<SourceSplit>> makeCsvSplit(CsvTable table, CsvColumns columns,
                                                  const CsvContent& content, CsvClasses classes);

}  // namespace dure::format
