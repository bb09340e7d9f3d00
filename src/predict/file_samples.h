#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "serve/model.h"

namespace dure::predict {

// One sample of a file: the line or the name that it is known by, and itself.
struct NamedSample {
  std::string name;  // of a picture; else empty
  serve::Samples sample;
};

// Hands every sample of a file to `take`, in their order, as the model wants it: texts, a line
// each, for a text model; pictures, one or a directory of them; the numbers of .npz, .npy and .csv
// files (labels are passed over), and of any data set that training reads. "-" is standard input,
// as lines of texts, or of numbers with commas. Stops at the first error.
Status readFileSamples(const std::string& path, const serve::ModelInfo& info,
                       const std::function<Status(NamedSample)>& take);

}  // namespace dure::predict
