#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/csv_table.h"
#include "format/dataset_source.h"

namespace dure {

// Which columns of a table are what.
struct CsvColumns {
  std::size_t label = 0;
  std::vector<std::size_t> samples;
};

// The number of each class whose label is a text.
using CsvClasses = std::map<std::string, double, std::less<>>;

// The rows of the table: float32 samples; labels that are numbers, or, with classes, texts.
Result<std::unique_ptr<SourceSplit>> makeCsvSplit(CsvTable table, CsvColumns columns,
                                                  CsvClasses classes);

}  // namespace dure
