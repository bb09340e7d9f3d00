#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/batch_rows.h"

namespace dure::train {

// What goes into a file along with a model, for whoever feeds it later.
struct ModelAbout {
  std::vector<std::int64_t> sample;      // the shape of one
  bool words = false;                    // else numbers
  std::int64_t vocabulary = 0;           // of words: how many there are; 0: the file does not say
  format::Scaling scaling;               // of numbers, before the first layer
  std::vector<std::string> class_names;  // empty: the data names none
  std::string sample_type;               // of the data, as numpy says it: "uint8"; or empty
  // Which word each number stands for, a line each, from 0 on; empty: nobody knows.
  std::string word_lines;
  // How it was trained: "data", "samples", "epochs", "workers", "sync", "accuracy", "loss"; of an
  // average, "models": of how many. No date, so that the same training makes the same bytes.
  std::map<std::string, std::string> trained;

  // Of all that metadata() has.
  static constexpr std::array<const char*, 16> kMetadataNames{
      "input_shape", "input", "input_scale", "input_offset", "classes", "input_type",
      "words",       "data",  "samples",     "epochs",       "workers", "sync",
      "accuracy",    "loss",  "models",      "vocabulary"};

  // As texts by name, for formats that hold such: {"input_scale": "0.0039", …}.
  std::map<std::string, std::string> metadata() const;
  // The other way round, as far as the texts say; what they do not is left as it is.
  void readMetadata(const std::map<std::string, std::string>& texts);
};

// The names as a list in JSON.
std::string classNamesText(const std::vector<std::string>& names);
// Empty for any other text.
std::vector<std::string> classNamesOf(const std::string& text);

// The table of a word_index.json (word to index, from 1 on), as Keras' data sets count: three more
// than the index. Words from `vocabulary` on are left out. Invalid if it is no such file.
Result<std::string> readWordIndex(const std::string& path, std::int64_t vocabulary);

}  // namespace dure::train
