#pragma once

#include "serve/serve_arguments.h"

namespace dure::predict {

// What dure-server does, each until it is done. They return the exit code, and say on standard
// error why it is not 0.
int serveModels(const serve::ServeArguments& arguments);
int evaluateModel(const serve::EvaluateArguments& arguments);
int predictFile(const serve::PredictArguments& arguments);

}  // namespace dure::predict
