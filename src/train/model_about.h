#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "format/batch_rows.h"

namespace dure::train {

// What goes into a file along with a model, for whoever feeds it later.
struct ModelAbout {
  std::vector<std::int64_t> sample;      // the shape of one
  bool words = false;                    // else numbers
  format::Scaling scaling;               // of numbers, before the first layer
  std::vector<std::string> class_names;  // empty: the data names none

  // As texts by name, for formats that hold such: {"input_scale": "0.0039", …}.
  std::map<std::string, std::string> metadata() const;
};

// The names as a list in JSON.
std::string classNamesText(const std::vector<std::string>& names);

}  // namespace dure::train
