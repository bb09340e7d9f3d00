#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/dataset.h"
#include "spec/job.h"

namespace dure::train {

// What stands behind `dure-trainer` when it trains on one data file, without a job file:
//   dure-trainer --data 0.npz --epoch 3 --batch 100 --savemodel 0-model.h5
struct TrainerCall {
  bool help = false;
  std::string data;
  std::string output;
  std::string model;  // empty: what the data asks for
  std::string epochs = "1";
  std::string batch = "100";
  std::string lr;
  std::string seed;
};

extern const char* const kTrainerHelp;

// Invalid, in one sentence, for anything that is not understood.
Result<TrainerCall> parseTrainerCall(const std::vector<std::string>& arguments);

// The model for such data: whole numbers in a row are words (text), what has height and width is an
// image (convnet), everything else a table (mlp).
std::string modelFor(const format::Split& split);

// Where the model goes. Data files that `dure copy` made are called by number: model.h5 becomes
// 0-model.h5 for 0.npz, unless it is called so already, and trainers of several files that are
// given one name do not overwrite each other's.
std::string outputFor(const TrainerCall& call);

// The job of one worker that the call describes. All begin with the same weights, so that their
// models can be averaged; the order of samples is by --seed, or by the number of the data. Opens
// the data to choose the model. Invalid or NotFound in one sentence.
Result<spec::Job> jobFor(const TrainerCall& call);

}  // namespace dure::train
