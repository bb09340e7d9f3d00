#include "train/synchronizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "group/test_ranks.h"

namespace dure::train {
namespace {

constexpr std::int64_t kWeights = 37;
constexpr double kRate = 0.1;

// Weights that each worker pulls towards a target of its own: the gradient of a squared distance.
class Pulled : public Network {
 public:
  Pulled() {
    parameters_ =
        std::make_unique<Parameters>(std::vector<Parameters::Spec>{{"weight", {kWeights}}});
    for (std::int64_t i = 0; i < kWeights; ++i) weights()[i] = static_cast<float>(firstOf(i));
  }
  static double firstOf(std::int64_t i) { return std::sin(static_cast<double>(i)); }
  static double targetOf(int rank, std::int64_t i) {
    return std::cos(static_cast<double>(i * (rank + 1)));
  }
  float* weights() { return parameters().all()[0].value.data_ptr<float>(); }
  void step(int rank) {
    for (std::int64_t i = 0; i < kWeights; ++i) {
      weights()[i] -= static_cast<float>(kRate * (weights()[i] - targetOf(rank, i)));
    }
  }

  at::Tensor forward(const at::Tensor& input, const StepRandom*) override { return input; }
  void beginStep(bool) override {}
  Status save(const std::string&, const ModelAbout&) override { return {}; }
};

spec::Train trainWith(const spec::Sync& sync) {
  spec::Train train;
  train.sync = sync;
  return train;
}

// One weight of two workers that do `every` local steps and then make an outer step of Nesterov's
// with what they went together: as the description of DiLoCo has it, in double precision.
double diloco(std::int64_t i, int steps, const spec::Sync& sync) {
  double shared = Pulled::firstOf(i);
  double momentum = 0;
  for (int done = 0; done < steps; done += sync.every) {
    double mean = 0;
    for (int rank = 0; rank < 2; ++rank) {
      double own = shared;
      for (int step = 0; step < sync.every; ++step)
        own -= kRate * (own - Pulled::targetOf(rank, i));
      mean += own / 2;
    }
    const double gradient = shared - mean;
    momentum = sync.momentum * momentum + gradient;
    shared -= sync.lr * (gradient + sync.momentum * momentum);
  }
  return shared;
}

TEST(Synchronizer, OuterStepsAreThoseOfDiloco) {
  for (const spec::Sync& sync :
       {spec::Sync{.mode = spec::SyncMode::kEvery, .every = 5},
        spec::Sync{.mode = spec::SyncMode::kEvery, .every = 5, .momentum = 0.9, .lr = 0.7},
        spec::Sync{.mode = spec::SyncMode::kEvery, .every = 4, .lr = 0.5}}) {
    for (const std::string hosts : {"aa", "ab"}) {
      group::runOnHosts(hosts, group::Compression::kNone, [&](group::TwoLevelGroup& group) {
        Pulled network;
        Synchronizer synchronizer(trainWith(sync), group, network);
        for (int done = 1; done <= 20; ++done) {
          network.step(group.rank());
          ASSERT_TRUE(synchronizer.afterStep(done, false));
        }
        // The end adds nothing: it was tested, and is in the last checkpoint, as it is now.
        ASSERT_TRUE(synchronizer.atEnd());
        for (std::int64_t i = 0; i < kWeights; ++i) {
          ASSERT_NEAR(network.weights()[i], diloco(i, 20, sync), 2e-6)
              << hosts << " " << sync.momentum << " " << i;
        }
      });
    }
  }
}

TEST(Synchronizer, OneShotAveragingAveragesAtTheEnd) {
  for (const std::string hosts : {"aa", "ab"}) {
    group::runOnHosts(hosts, group::Compression::kNone, [&](group::TwoLevelGroup& group) {
      Pulled network;
      const spec::Sync sync{.mode = spec::SyncMode::kEnd};
      Synchronizer synchronizer(trainWith(sync), group, network);
      for (int done = 1; done <= 20; ++done) {
        network.step(group.rank());
        ASSERT_TRUE(synchronizer.afterStep(done, done % 10 == 0));
      }
      ASSERT_TRUE(synchronizer.atEnd());
      // A single outer step of rate 1 is an average.
      const spec::Sync average{.mode = spec::SyncMode::kEvery, .every = 20};
      for (std::int64_t i = 0; i < kWeights; ++i) {
        ASSERT_NEAR(network.weights()[i], diloco(i, 20, average), 2e-6) << hosts << " " << i;
      }
    });
  }
}

// What travels in 16 bits is the gradients; the loss and the count of right answers are not.
TEST(Synchronizer, OnlyGradientsAreRounded) {
  for (const group::Compression compression :
       {group::Compression::kNone, group::Compression::kBFloat16}) {
    group::runOnHosts("ab", compression, [&](group::TwoLevelGroup& group) {
      Pulled network;
      spec::Train train = trainWith({.mode = spec::SyncMode::kStep});
      train.wire = compression == group::Compression::kNone ? spec::WireType::kFloat32
                                                            : spec::WireType::kBFloat16;
      Synchronizer synchronizer(train, group, network);
      EXPECT_EQ(synchronizer.sharesExtras(), compression == group::Compression::kNone);
      network.parameters().grads().fill_(1);
      network.parameters().extras()[0] = 1001;
      synchronizer.beforeBackward();
      ASSERT_TRUE(synchronizer.afterBackward());
      EXPECT_EQ(network.parameters().grads()[0].item<float>(), 2);
      EXPECT_EQ(network.parameters().extras()[0],
                compression == group::Compression::kNone ? 2002 : 1001);
    });
  }
}

}  // namespace
}  // namespace dure::train
